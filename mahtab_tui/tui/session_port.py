"""Live settings, and what the panes need of the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from textual.app import App

from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.sources import config_files, project_folder
from mahtab_tui.tui.commands.session import ask_to_undo, run_notebook
from mahtab_tui.tui.find import FindRow
from mahtab_tui.tui.terminal_driver import TerminalDriver
from mahtab_tui.tui.theme import MAHTAB

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from mahtab_tui.bus.conversation import Cell
    from mahtab_tui.session import Session
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.tui.main_screen import Panes, UiState
    from mahtab_tui.tui.screens.listing import ModelPicker
    from mahtab_tui.tui.terminal_app import TerminalApp


class LiveSettings:
    def __init__(self, app: TerminalApp[int], session: Session, choices: UiState) -> None:
        self._app = app
        self.session = session
        self._ui_state = choices
        self.keymap = session.settings.keymap

    def apply(self) -> None:
        self._app.set_keymap(self.keymap)
        if isinstance(driver := self._app._driver, TerminalDriver):
            driver.pictures = self.session.settings.pictures

    def show(self) -> None:
        from mahtab_tui.tui.screens.settings import SettingsScreen

        try:
            self._app.push_screen(SettingsScreen(self))
        except SettingsError as error:
            self._app.notify(str(error), "error")

    def change(self, key: str, value: Any) -> bool:
        """Change a setting for this session; returns whether it takes effect at once. Raises
        `ModelError`."""
        from mahtab_tui.session.components import change_setting

        at_once = change_setting(self.session, key, value)
        if key == "theme":
            self._app.theme = value or MAHTAB.name
        elif key == "model":
            self._ui_state.remember_model(self.session.model)
        elif key == "keymap":
            self.keymap = value
        self.apply()
        return at_once or key in ("theme", "keymap", "pictures")

    def add_rules(self, rules: tuple[str, ...]) -> None:
        from mahtab_tui.settings.values import add_rules

        settings = self.session.settings
        try:
            file = config_files(project_folder())[1]
            add_rules(file, rules)
        except SettingsError as error:
            problem = f"The rule applies to this session only; it was not saved. {error}"
            self._app.notify(problem, "error")
        else:
            self.session.notice(f"{file} now has: {'; '.join(rules)}")
        settings.change("approval_rules", (*settings.approval_rules, *rules))

    def choose_model(self, name: str) -> None:
        from mahtab_tui.tui.screens.dialog import ask

        if name:
            self._use_model(name)
        else:
            ask(self._app, self.model_picker(self.session.model), self._use_model)

    def _use_model(self, name: str) -> None:
        try:
            self.session.set_model(name)
        except ModelError as error:
            self._app.notify(str(error), "error")
        else:
            self._ui_state.remember_model(self.session.model)

    def model_picker(self, present: str) -> ModelPicker:
        from mahtab_tui.tui.screens.listing import ModelPicker

        settings = self.session.settings
        keys = ("sub_model", "reflection_model")
        others = [(spec, f"set as {key}") for key in keys if (spec := getattr(settings, key))]
        return ModelPicker(present, others, self._ui_state.models, settings.model_access())

    def report_unknown_settings(self) -> None:
        given = {f"keymap.{name}": keys for name, keys in self.keymap.items()}
        if (theme := self.session.settings.theme) and theme not in self._app.available_themes:
            given["theme"] = theme
        if given:
            from mahtab_tui.tui.screens.settings import check

            for key, value in given.items():
                try:
                    check(key, value)
                except SettingsError as error:
                    origin = self.session.settings.origin(key).text
                    self.session.notice(f"{origin}: {error}", "warning")


class SessionPort:
    def __init__(self, app: App[int], session: Session) -> None:
        self._app = app
        self.session = session

    @property
    def _panes(self) -> Panes:
        return cast("Panes", self._app.screen_stack[0])

    def enter(self, mode: Mode, text: str) -> None:
        if not self._is_masked(mode, text):
            self.session.submit(mode, text)
            self._panes.transcript.action_scroll_end()

    def edit(self, mode: Mode, text: str) -> None:
        if not self._is_masked(mode, text):
            self._restore_input(mode, text)

    def _is_masked(self, mode: Mode, text: str) -> bool:
        from mahtab_tui.bus.masking import MASK

        masked = mode == "python" and MASK in text
        if masked:
            self._app.notify("A secret in this cell was masked: type it again.", severity="warning")
            self._restore_input(mode, text)
        return masked

    def _restore_input(self, mode: Mode, text: str) -> None:
        editor = self._panes.editor
        editor.end_replacing()
        editor.mode, editor.text = mode, text
        editor.focus()

    def replace(self, mode: Mode, text: str, entry: str) -> None:
        self._panes.editor.begin_replacing(entry, mode, text)
        self._panes.editor.focus()

    def run_notebook_cell(self, number: int, code: str) -> None:
        run_notebook(self._app, self.session, lambda notebook: notebook.run(number, code))

    def mention(self, what: str) -> None:
        self._panes.editor.mention(what)
        self._panes.editor.focus()

    def hide(self, entry: str, hidden: bool) -> None:
        self.session.entries.hide(entry, hidden)

    def undo(self, cell: int) -> None:
        ask_to_undo(self._app, self.session, cell)

    def open_output(self, cell: int) -> None:
        title, file = f"Output of cell {cell}", f"cell-{cell}.txt"
        self.open_pager(title, file, lambda: self.session.output(cell))

    def open_stored_output(self, number: int) -> None:
        if (notebook := self.session.notebook) is not None:
            title = f"Stored output of cell {number} of the notebook"
            file = f"notebook-cell-{number}.txt"
            self.open_pager(title, file, lambda: notebook.stored_output(number))

    def open_pager(self, title: str, file: str, fetch: Callable[[], str | None]) -> None:
        from mahtab_tui.tui.screens.output import PagerScreen

        inspector = self.session.open_inspector()
        self._app.push_screen(PagerScreen(title, file, fetch, inspector, self._folder))

    def open_pictures(self, cell: int, pictures: Sequence[tuple[str, str]]) -> None:
        from mahtab_tui.tui.screens.output import PicturesScreen

        inspector = self.session.open_inspector()
        self._app.push_screen(PicturesScreen(cell, pictures, inspector, self._folder))

    def open_value(self, key: str) -> None:
        self._inspect("table", path=(["shown", key],))

    def inspect_variable(self, name: str) -> None:
        self._inspect(name, private=self.session.private.is_private(name))

    def _inspect(self, name: str, **options: Any) -> None:
        from mahtab_tui.tui.inspector.screen import InspectorScreen

        inspector = self.session.open_inspector()
        self._app.push_screen(InspectorScreen(name, inspector, self.run, **options))

    def open_frames(self, cell: Cell, at: int) -> None:
        from mahtab_tui.kernel.base import TracebackFrame
        from mahtab_tui.tui.screens.output import FramesScreen

        assert cell.number is not None
        frames = [TracebackFrame(*frame) for frame in cell.frames]
        code = self._panes.transcript.viewport.transcript.codes.get
        inspector = self.session.open_inspector()
        screen = FramesScreen(cell.number, cell.exception, frames, at, code, inspector)
        self._app.push_screen(screen)

    def find(self) -> None:
        self._panes.query_one("#transcript-find", FindRow).open()

    def rebuild(self, name: str, why: str) -> None:
        code = self.session.variable_history.code_for(name)
        severity: SeverityLevel = "warning"
        if not code:
            advice = "No cell of this session made it."
        elif not self._panes.editor.is_empty:
            advice = "Clear the input first; then Enter here puts the cells that made it there."
        else:
            self.edit("python", code)
            advice = "The input has the cells that made it: read them, then run them."
            severity = "information"
        self._app.notify(f"{why} {advice}", severity=severity)

    def mark_private(self, name: str, private: bool) -> None:
        self.session.kernel_control.mark_private(name, private)

    def run(self, code: str) -> None:
        self.session.submit("python", code)

    @property
    def _folder(self) -> Path:
        return Path(self.session.kernel.info().local_folder)
