"""Implements the panes' port with the session and the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.screen import Screen

from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.sources import config_files, project_folder
from mahtab_tui.tui.commands.session import ask_to_undo, run_notebook
from mahtab_tui.tui.editor import EditorPane
from mahtab_tui.tui.find import FindRow
from mahtab_tui.tui.terminal_driver import TerminalDriver
from mahtab_tui.tui.theme import MAHTAB

if TYPE_CHECKING:
    from mahtab_tui.bus.conversation import Cell
    from mahtab_tui.session import Session
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.tui.layout import UiState
    from mahtab_tui.tui.namespace.rows import Preview
    from mahtab_tui.tui.screens.listing import ModelPicker
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.transcript.pane import TranscriptPane


class LiveSettings:
    """Shows the settings, and applies changes to them."""

    def __init__(
        self, app: TerminalApp[int], session: Session, choices: UiState, keymap: dict[str, str]
    ) -> None:
        self._app = app
        self._session = session
        self._ui_state = choices
        self.keymap = keymap
        """The user's own keys, by command id."""

    def apply(self) -> None:
        self._app.set_keymap(self.keymap)
        if isinstance(driver := self._app._driver, TerminalDriver):
            driver.pictures = self._session.settings.pictures

    def show(self) -> None:
        from mahtab_tui.tui.screens.settings import SettingsScreen

        def present() -> dict[str, str]:
            return {"model": self._session.model, "theme": self._app.theme}

        try:
            screen = SettingsScreen(
                self._session.settings,
                present,
                self.change,
                self._model_picker,
                self._app.notify,
            )
        except SettingsError as error:
            self._app.notify(str(error), "error")
        else:
            self._app.push_screen(screen)

    def change(self, key: str, value: Any) -> bool:
        """Change a setting for this session; returns whether it takes effect at once. Raises
        `ModelError`."""
        from mahtab_tui.session.models import change_setting

        at_once = change_setting(self._session, key, value)
        if key == "theme":
            self._app.theme = value or MAHTAB.name
        elif key == "model":
            self._ui_state.remember_model(self._session.model)
        elif key == "keymap":
            self.keymap = value
        self.apply()
        return at_once or key in ("theme", "keymap", "pictures")

    def add_rules(self, rules: tuple[str, ...]) -> None:
        """Add rules for code, to this session and to the user's configuration."""
        from mahtab_tui.settings.values import add_rules

        settings = self._session.settings
        try:
            file = config_files(project_folder())[1]
            add_rules(file, rules)
        except SettingsError as error:
            self._app.notify(
                f"The rule applies to this session only; it was not saved. {error}", "error"
            )
        else:
            self._session.notice(f"{file} now has: {'; '.join(rules)}")
        settings.change("approval_rules", (*settings.approval_rules, *rules))

    def choose_model(self, name: str) -> None:
        """Switch to a model; without a name, let the user choose one."""
        if name:
            self._use_model(name)
        else:
            self._app.push_screen(self._model_picker(self._session.model), self._use_model)

    def _use_model(self, name: str | None) -> None:
        if not name:
            return
        try:
            self._session.set_model(name)
        except ModelError as error:
            self._app.notify(str(error), "error")
        else:
            self._ui_state.remember_model(self._session.model)

    def _model_picker(self, present: str) -> ModelPicker:
        from mahtab_tui.tui.screens.listing import ModelPicker

        settings = self._session.settings
        set_for = {
            key: getattr(settings, key)
            for key in ("sub_model", "reflection_model", "suggestion_model")
        }
        return ModelPicker(
            present,
            [(spec, f"set as {key}") for key, spec in set_for.items() if spec],
            self._ui_state.models,
            settings.model_access(),
        )

    def report_unknown_settings(self) -> None:
        """Warn about unknown commands and themes in the configuration."""
        given = {f"keymap.{name}": keys for name, keys in self.keymap.items()}
        if (theme := self._session.settings.theme) and theme not in self._app.available_themes:
            given["theme"] = theme
        if given:
            from mahtab_tui.tui.screens.settings import check

            for key, value in given.items():
                try:
                    check(key, value)
                except SettingsError as error:
                    self._session.notice(
                        f"{self._session.settings.origin(key).text}: {error}", "warning"
                    )


class SessionPort:
    """Implements `tui.port.PanePort`."""

    def __init__(self, app: App[int], session: Session) -> None:
        self._app = app
        self._session = session

    @property
    def _panes(self) -> Screen[object]:
        return self._app.screen_stack[0]

    @property
    def _transcript(self) -> TranscriptPane:
        from mahtab_tui.tui.transcript.pane import TranscriptPane

        return self._panes.query_one(TranscriptPane)

    @property
    def _editor(self) -> EditorPane:
        return self._panes.query_one(EditorPane)

    def enter(self, mode: Mode, text: str) -> None:
        if not self._is_masked(mode, text):
            self._session.submit(mode, text)
            self._transcript.action_scroll_end()

    def edit(self, mode: Mode, text: str) -> None:
        if not self._is_masked(mode, text):
            self._restore_input(mode, text)

    def _is_masked(self, mode: Mode, text: str) -> bool:
        """Return whether code contains a masked secret; if so, put it into the editor for the user
        to fill in."""
        from mahtab_tui.bus.masking import MASK

        masked = mode == "python" and MASK in text
        if masked:
            self._app.notify(
                "A secret in this cell was masked: type it again.",
                severity="warning",
            )
            self._restore_input(mode, text)
        return masked

    def _restore_input(self, mode: Mode, text: str) -> None:
        editor = self._editor
        editor.end_replacing()
        editor.mode, editor.text = mode, text
        editor.focus()

    def replace(self, mode: Mode, text: str, entry: str) -> None:
        self._editor.begin_replacing(entry, mode, text)
        self._editor.focus()

    def run_notebook_cell(self, number: int, code: str) -> None:
        run_notebook(self._app, self._session, lambda notebook: notebook.run(number, code))

    def run_up_to(self, number: int | None) -> None:
        run_notebook(self._app, self._session, lambda notebook: notebook.run_up_to(number))

    def mention(self, what: str) -> None:
        self._editor.mention(what)
        self._editor.focus()

    def hide(self, entry: str, hidden: bool) -> None:
        self._session.hide(entry, hidden)

    def undo(self, cell: int) -> None:
        ask_to_undo(self._app, self._session, cell)

    def pin(self, entry: str, pinned: bool) -> None:
        self._session.pin(entry, pinned)

    def open_output(self, cell: int) -> None:
        self._open_pager(
            f"Output of cell {cell}", f"cell-{cell}.txt", lambda: self._session.output(cell)
        )

    def open_stored_output(self, number: int) -> None:
        if (notebook := self._session.notebook) is not None:
            title = f"Stored output of cell {number} of the notebook"
            self._open_pager(
                title, f"notebook-cell-{number}.txt", lambda: notebook.stored_output(number)
            )

    def _open_pager(self, title: str, file: str, fetch: Callable[[], str | None]) -> None:
        from mahtab_tui.tui.screens.output import PagerScreen

        self._app.push_screen(
            PagerScreen(title, file, fetch, self._session.open_inspector(), self._folder)
        )

    def open_pictures(self, cell: int, pictures: Sequence[tuple[str, str]]) -> None:
        from mahtab_tui.tui.screens.output import DisplayedPicture, PicturesScreen

        self._app.push_screen(
            PicturesScreen(
                cell,
                [DisplayedPicture(*each) for each in pictures],
                self._session.open_inspector(),
                self._folder,
            )
        )

    def open_value(self, key: str) -> None:
        from mahtab_tui.tui.inspector.screen import InspectorScreen

        self._app.push_screen(
            InspectorScreen(
                "table", self._session.open_inspector(), self.run, path=(["shown", key],)
            )
        )

    def open_frames(self, cell: Cell, at: int) -> None:
        from mahtab_tui.kernel.values import TracebackFrame
        from mahtab_tui.tui.screens.output import FramesScreen

        assert cell.number is not None
        code_of = self._transcript.viewport.transcript.codes.get
        frames = FramesScreen(
            cell.number,
            cell.exception,
            [TracebackFrame(*frame) for frame in cell.frames],
            at,
            code_of,
            self._session.open_inspector(),
            self._folder,
            self,
        )
        self._app.push_screen(frames)

    def find(self) -> None:
        self._panes.query_one("#transcript-find", FindRow).open()

    def rebuild(self, name: str, why: str) -> None:
        code = self._session.code_for_variable(name)
        if not code:
            self._app.notify(f"{why} No cell of this session made it.", severity="warning")
        elif not self._editor.is_empty:
            self._app.notify(
                f"{why} Clear the input first; then Enter here puts the cells that made it there.",
                severity="warning",
            )
        else:
            self.edit("python", code)
            self._app.notify(
                f"{why} The input has the cells that made it: read them, then run them.",
            )

    def inspect_variable(self, name: str) -> None:
        from mahtab_tui.tui.inspector.screen import InspectorScreen

        self._app.push_screen(
            InspectorScreen(
                name,
                self._session.open_inspector(),
                self.run,
                private=self._session.private.is_private(name),
            )
        )

    def preview(self, name: str, height: int, width: int) -> Preview:
        from mahtab_tui.tui.namespace.actions import load_preview

        return load_preview(self._session.open_inspector(), name, height, width)

    def mark_private(self, name: str, private: bool) -> None:
        self._session.kernel_control.mark_private(name, private)

    def run(self, code: str) -> None:
        self._session.submit("python", code)

    @property
    def _folder(self) -> Path:
        """The folder that relative paths refer to."""
        return Path(self._session.kernel.info().local_folder)
