"""Opens the screens over the panes; no other module imports them.

A screen is imported when it is opened, because the first picture must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from mahtab_tui.settings.files import project_folder
from mahtab_tui.tui.commands.declarations import PaneCommand
from mahtab_tui.tui.messages import (
    AskToRewind,
    AskToRun,
    AskToUndo,
    OpenDisplayedValue,
    OpenFrames,
    OpenMenu,
    OpenOutput,
    OpenPictures,
    OpenScreen,
    OpenSearchNode,
    OpenStoredOutput,
    OpenText,
    OpenVariable,
)

if TYPE_CHECKING:
    from mahtab_tui.kernel.inspector_client import ObjectPath
    from mahtab_tui.session import Session
    from mahtab_tui.store.input_history import History, HistoryEntry
    from mahtab_tui.tui.jump_target import JumpTarget
    from mahtab_tui.tui.kernel_choices import KernelChoice
    from mahtab_tui.tui.live_settings import LiveSettings
    from mahtab_tui.tui.screens.check import CheckScreen
    from mahtab_tui.tui.terminal_app import TerminalApp


class Navigation:
    """Opens every screen and dialog. Call it on the main thread only."""

    def __init__(
        self, app: TerminalApp[int], session: Session, commands: Sequence[PaneCommand]
    ) -> None:
        """
        Args:
            commands: Those of the application, for its help and its palette.
        """
        self._app = app
        self._session = session
        self._commands = commands
        self._check_screen: CheckScreen | None = None

    def open(self, request: OpenScreen) -> None:
        """Open the screen that a widget has asked for."""
        match request:
            case OpenMenu():
                self._open_menu(request)
            case OpenVariable(name):
                self._inspect(name, private=self._session.private.is_private(name))
            case OpenDisplayedValue(key):
                # The value need not be a variable: the inspector reaches it by its key.
                self._inspect("table", path=(["shown", key],))
            case OpenOutput(cell):
                self._open_output(cell)
            case OpenStoredOutput(cell_number):
                self._open_stored_output(cell_number)
            case OpenText():
                self._open_text(request)
            case OpenPictures():
                self._open_pictures(request)
            case OpenFrames():
                self._open_frames(request)
            case OpenSearchNode():
                self._open_search_node(request)
            case AskToUndo(cell):
                self.ask_to_undo(cell)
            case AskToRewind(entry):
                self._ask_to_rewind(entry)
            case AskToRun():
                run = partial(self._session.submit, "python", request.code)
                self.confirm(request.question, run, yes=request.yes, no=request.no)

    def confirm(self, question: str, then: Callable[[], object], *, yes: str, no: str) -> None:
        """Ask a question, and call `then` if the answer is yes."""
        from mahtab_tui.tui.screens.dialog import confirm

        confirm(self._app, question, then, yes=yes, no=no)

    def prompt(self, title: str, value: str, then: Callable[[str], object]) -> None:
        """Ask for a line of text, and call `then` with it.

        Args:
            value: What the line contains first.
        """
        from mahtab_tui.tui.screens.dialog import Prompt, ask

        ask(self._app, Prompt(title, value), then)

    def jump(self, targets: Sequence[JumpTarget], then: Callable[[Widget | None], None]) -> None:
        """Show a letter at each target, and one that opens the points to go back to.

        Args:
            then: Gets the chosen target, or None.
        """
        from mahtab_tui.tui.screens.dialog import JumpScreen

        self._app.push_screen(JumpScreen(targets, self.open_rewind), then)

    def _open_menu(self, request: OpenMenu) -> None:
        """Show a menu; the chosen action runs on the widget that asked for it."""
        from mahtab_tui.tui.screens.dialog import ActionMenu, ask

        owner = request.owner
        menu = ActionMenu(request.title, request.commands, self._app._keymap)
        ask(self._app, menu, lambda action: owner.call_later(owner.run_action, action))

    # Objects, and the output of cells

    def _inspect(self, name: str, *, private: bool = False, path: ObjectPath | None = None) -> None:
        """Look inside an object.

        The arguments are those of `InspectorScreen`.
        """
        from mahtab_tui.tui.inspector.screen import InspectorScreen

        inspector = self._session.open_inspector()
        self._app.push_screen(InspectorScreen(name, inspector, private=private, path=path))

    def _open_text(self, request: OpenText) -> None:
        from mahtab_tui.tui.screens.output import TextScreen

        inspector = self._session.open_inspector()
        folder = self._kernel_folder
        screen = TextScreen(request.title, request.file, request.text, inspector, folder)
        self._app.push_screen(screen)

    def _open_output(self, cell: int) -> None:
        from mahtab_tui.tui.screens.output import CellOutputScreen

        inspector = self._session.open_inspector()
        screen = CellOutputScreen(cell, self._session, inspector, self._kernel_folder)
        self._app.push_screen(screen)

    def _open_stored_output(self, cell_number: int) -> None:
        from mahtab_tui.tui.screens.output import StoredOutputScreen

        notebook = self._session.notebook
        if notebook is None:
            return
        inspector = self._session.open_inspector()
        screen = StoredOutputScreen(cell_number, notebook, inspector, self._kernel_folder)
        self._app.push_screen(screen)

    def _open_pictures(self, request: OpenPictures) -> None:
        from mahtab_tui.tui.screens.output import PicturesScreen

        inspector = self._session.open_inspector()
        folder = self._kernel_folder
        screen = PicturesScreen(request.cell, request.pictures, inspector, folder)
        self._app.push_screen(screen)

    def _open_frames(self, request: OpenFrames) -> None:
        from mahtab_tui.tui.screens.frames import FramesScreen

        cell = request.cell
        assert cell.number is not None  # only a cell that ran has frames
        inspector = self._session.open_inspector()
        screen = FramesScreen(
            cell.number, cell.exception, cell.frames, request.index, request.codes, inspector
        )
        self._app.push_screen(screen)

    def _open_search_node(self, request: OpenSearchNode) -> None:
        from mahtab_tui.tui.search.call_screen import NodeScreen
        from mahtab_tui.tui.search.pane import CallSelection

        selection = CallSelection(request.tree, request.node)
        self._app.push_screen(NodeScreen(selection, self._session.searches))

    @property
    def _kernel_folder(self) -> Path:
        """The folder on this machine in which files of the session are saved."""
        return Path(self._session.kernel.info().local_folder)

    # The session

    def ask_to_undo(self, cell: int | None) -> None:
        """Show what an undo would do, and ask.

        Args:
            cell: The first to undo; None for what ran last.
        """
        from mahtab_tui.kernel.base import KernelError
        from mahtab_tui.tui.screens.undo import UndoScreen

        cells: Sequence[int] = ()
        if cell is not None:
            try:
                cells = self._session.undo.cells_from(cell)
            except KernelError as error:
                self._app.notify(str(error))
                return
        self._app.push_screen(UndoScreen(cells, self._session))

    def open_rewind(self) -> None:
        """List the points to which the session can go back."""
        from mahtab_tui.tui.screens.rewind import RewindScreen

        self._app.push_screen(RewindScreen(self._session))

    def _ask_to_rewind(self, entry: str) -> None:
        """Show what would go back to before a question or cell, and ask."""
        from mahtab_tui.kernel.base import KernelError
        from mahtab_tui.tui.screens.rewind_preview import RewindPreviewScreen

        try:
            point = self._session.rewinding.find(entry)
        except KernelError as error:
            self._app.notify(str(error))
            return
        self._app.push_screen(RewindPreviewScreen(point, self._session))

    def open_check(self) -> None:
        """Run the cells of the session again, and show what is the same."""
        from mahtab_tui.tui.screens.check import CheckScreen

        self._check_screen = CheckScreen(self._session)
        self._app.push_screen(self._check_screen)

    def stop_check(self) -> bool:
        """Stop the check that the screen on top runs. Return whether there is one."""
        screen = self._check_screen
        if screen is None or self._app.screen is not screen:
            return False
        screen.action_leave()
        return True

    def choose_session(self, then: Callable[[str], object]) -> None:
        """List the sessions.

        Args:
            then: Gets the id of the one to switch to.
        """
        from mahtab_tui.tui.screens.dialog import ask
        from mahtab_tui.tui.screens.sessions import sessions_screen

        ask(self._app, sessions_screen(self._session), then)

    def choose_kernel(self, recent: tuple[str, ...], then: Callable[[KernelChoice], None]) -> None:
        """List kernels to switch to.

        Args:
            recent: Addresses that were used before.
        """
        from mahtab_tui.tui.screens.dialog import ask
        from mahtab_tui.tui.screens.kernel_picker import KernelPicker

        ask(self._app, KernelPicker(self._session.kernel.info(), recent), then)

    def choose_model(self, live: LiveSettings) -> None:
        """List models to switch to."""
        from mahtab_tui.tui.screens.dialog import ask
        from mahtab_tui.tui.screens.model_picker import ModelPicker

        ask(self._app, ModelPicker(live, self._session.model), live.use_model)

    def open_skills(self) -> None:
        """List skills. Raises `SettingsError` if the project's folder was deleted."""
        from mahtab_tui.tui.screens.skills import SkillsScreen

        knowledge = self._session.knowledge
        screen = SkillsScreen(knowledge.skills, knowledge.loaded, project_folder())
        self._app.push_screen(screen)

    def open_instructions(self) -> None:
        """Show the instructions that the model gets with every question."""
        from mahtab_tui.tui.screens.instructions import InstructionsScreen

        self._app.push_screen(InstructionsScreen(self._session))

    def open_servers(self) -> None:
        """List the MCP servers."""
        from mahtab_tui.tui.screens.servers import ServersScreen

        self._app.push_screen(ServersScreen(self._session))

    def open_usage(self) -> None:
        """Show what the session has used and cost."""
        from mahtab_tui.tui.screens.reports import UsageScreen

        self._app.push_screen(UsageScreen(self._session))

    def open_context(self) -> None:
        """Show what fills the model's window."""
        from mahtab_tui.tui.screens.reports import ContextScreen

        self._app.push_screen(ContextScreen(self._session))

    # The application

    def open_help(self, topic: str, keymap: Mapping[str, str]) -> None:
        """Show the keys and the manual. Raises `TopicNotFound`.

        Args:
            topic: The page to show first; empty for the keys.
            keymap: The user's own keys, by the id of their command.
        """
        from mahtab_tui.manual import page
        from mahtab_tui.tui.screens.help import KEYS, HelpScreen, help_rows

        rows = help_rows(self._commands, keymap)
        self._app.push_screen(HelpScreen(rows, page(topic or KEYS).topic))

    def open_palette(self) -> None:
        """List all commands, and run the chosen one."""
        from mahtab_tui.tui.screens.command_palette import CommandPalette
        from mahtab_tui.tui.screens.dialog import ask

        app = self._app
        palette = CommandPalette(self._commands)
        ask(app, palette, lambda action: app.call_later(app.run_action, action))

    def choose_theme(self) -> None:
        """List the themes; the screen previews each."""
        from mahtab_tui.tui.screens.choice import ChooseTheme

        themes = sorted(self._app.available_themes)
        self._app.push_screen(ChooseTheme(themes, self._app.theme))

    def open_settings(self, live: LiveSettings) -> None:
        """List all settings. Raises `SettingsError` if the project's folder was deleted."""
        from mahtab_tui.tui.screens.settings import SettingsScreen

        self._app.push_screen(SettingsScreen(live))

    def search_history(self, history: History, then: Callable[[HistoryEntry | None], None]) -> None:
        """Search the inputs of all sessions.

        Args:
            then: Gets the chosen one, or None.
        """
        from mahtab_tui.tui.screens.history_search import HistorySearch

        self._app.push_screen(HistorySearch(history), then)
