"""The base of the applications that play a recording: its keys, its pace, its head line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import ActiveBinding, Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static, TextArea

from mahtab_tui.search.control import NoControl
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.commands.on_screens import PACE_COMMANDS, PLAYER_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.drain import RATE
from mahtab_tui.tui.panes.search_tree import SearchTreePane
from mahtab_tui.tui.player import Player
from mahtab_tui.tui.terminal_app import TerminalApp

_ORDER = ("replay-pause", "replay-step", "replay-slower", "replay-faster", "replay-finish", "replay-take-over", "quit")
"""The keys at the bottom, after those of the pane that has the focus."""
_HELP = ("Replay", "Namespace", "Recursion")
"""The groups of keys that the help shows."""
_PLAYS = frozenset({"pause", "pace", "finish", "step", "take_over"})


class PlayerScreen(Screen[None]):
    """Shows its keys in one order, whatever has the focus."""

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        found = super().active_bindings.items()
        return dict(sorted(found, key=lambda item: _ORDER.index(id) if (id := item[1].binding.id) in _ORDER else -1))


class PlayerApp(TerminalApp[int]):
    """Plays records, at a pace that the user changes. It runs nothing."""

    TITLE = "mahtab"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(PLAYER_COMMANDS),
        *bindings(PACE_COMMANDS, Binding.Group("Speed", compact=True)),
        Binding("f1", "help", "Keys", show=False, priority=True, id="help"),
        Binding("f10", "dark_light", "Dark / light", show=False, priority=True, id="dark-light"),
        Binding("ctrl+q", "quit", "Leave", priority=True, id="quit"),
        Binding("q", "quit", "Leave", show=False),
    ]

    def __init__(self, player: Player, styles: Sequence[str], *, theme: str, keymap: dict[str, str] | None) -> None:
        """styles: the names of style sheets."""
        folder = resource_folder("styles")
        super().__init__(css_path=[folder / name for name in ("app.tcss", "dialogs.tcss", "node.tcss", "panes.tcss", *styles)], theme=theme)
        self.player = player
        self.head = Static(id="replay-head", markup=False)
        control = NoControl(self.say, "This is a recording and cannot be changed.")
        self.searches = SearchTreePane(control, lambda: self.player.now, id="recursion")
        self._keymap_given = keymap or {}

    def get_default_screen(self) -> Screen[None]:
        return PlayerScreen(id="_default")

    def on_mount(self) -> None:
        self.set_keymap(self._keymap_given)
        self.set_interval(RATE, self.look)

    def look(self) -> None:
        raise NotImplementedError

    @property
    def state(self) -> str:
        """Whether it plays, and how fast."""
        return "ended" if self.player.ended else "paused" if self.player.paused else f"{self.player.pace:g} x"

    def show_head(self, *parts: tuple[str, str]) -> None:
        """Show parts of the head line behind the program's name."""
        self.head.update(Content.assemble(("◐ ", "$moon"), ("mahtab", "bold $moon"), *parts))

    def say(self, text: str) -> None:
        self.notify(text, markup=False, timeout=4)

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of the player are others' while the user types or a dialog asks."""
        asks = getattr(self.screen, "asks", False)
        if (action in _PLAYS and (asks or isinstance(self.focused, Input | TextArea))) or (action == "help" and asks):
            return False
        return super().check_action(action, parameters)

    def action_help(self) -> None:
        from mahtab_tui.tui.screens.help import HelpScreen, help_rows

        self.push_screen(HelpScreen([row for row in help_rows((), self._keymap_given, first="Replay") if row[0] in _HELP]))

    def action_pause(self) -> None:
        self.player.paused = not self.player.paused

    def action_pace(self, step: int) -> None:
        self.player.change_pace(step)

    def action_finish(self) -> None:
        self.player.finish()
