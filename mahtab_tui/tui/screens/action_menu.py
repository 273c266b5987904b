"""A menu of the actions on an entry or a call, one letter each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key, Resize
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.commands.pane_command import PaneCommand
from mahtab_tui.tui.screens.dialog import Dialog, ask
from mahtab_tui.tui.textual_fixes.options import Options

_KEYS = 5
"""Columns of the key."""
_TITLES = 19
"""Columns of the title."""


class ActionMenu(Dialog[str | None]):
    """Returns the chosen action, or None.

    A letter acts at once. If the action runs code, asks a model or cannot be undone, the letter
    only selects it and Enter runs it. Letters without an action go to the editor.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    @dataclass
    class Typed(Message):
        """The user typed keys for the editor."""

        keys: Sequence[Key]

    def __init__(
        self, title: str, commands: Sequence[PaneCommand], keymap: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._title = title
        self.commands = commands
        self._keys = [keymap.get(command.id, command.keys).split(",") for command in commands]
        self._chosen = 0
        """The row at the cursor once the rows are drawn."""
        self._pending: list[Key] = []
        """The letter that selected an action which waits for Enter. If another letter follows, both
        are the beginning of a text."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog menu"):
            yield Static(Content(one_line(self._title)), classes="quiet", markup=False)
            yield Options(compact=True, markup=False)
            yield Static(
                "Enter runs what is chosen · Esc closes · ↵ waits for Enter",
                classes="quiet",
                markup=False,
            )

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        options = self.query_one(OptionList)
        width = max(1, options.scrollable_content_region.width)
        chosen = self._chosen if options.highlighted is None else options.highlighted
        options.set_options(
            Option(self._row(number).truncate(width, ellipsis=True))
            for number in range(len(self.commands))
        )
        options.highlighted = chosen

    def _row(self, number: int) -> Content:
        command = self.commands[number]
        key = f" {self._keys[number][0].replace('ctrl+', '^')}{' ↵' if command.confirm else ''}"
        return Content.assemble(
            (key.ljust(_KEYS), "$accent"),
            one_line(command.title).ljust(_TITLES),
            (one_line(command.help), "$muted"),
        )

    def on_key(self, event: Key) -> None:
        number = next((number for number, keys in enumerate(self._keys) if event.key in keys), None)
        if number is not None and not self._pending:
            event.stop()
            if self.commands[number].confirm:
                self._pending.append(Key(event.key, event.character))
                self._chosen = self.query_one(OptionList).highlighted = number
            else:
                self.dismiss(self.commands[number].action)
        elif event.is_printable:
            event.stop()
            self.dismiss(None)
            self.app.post_message(self.Typed([*self._pending, Key(event.key, event.character)]))
        else:
            self._pending.clear()

    @on(OptionList.OptionSelected)
    def _taken(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self.commands[event.option_index].action)


def open_menu(owner: Widget, title: str, commands: Sequence[PaneCommand]) -> None:
    """Show a menu of actions, and run the one that the user chooses on `owner`."""

    ask(
        owner.app,
        ActionMenu(title, commands, owner.app._keymap),
        lambda action: owner.call_later(owner.run_action, action),
    )
