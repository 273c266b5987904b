"""What a person can do to a call of a search: in the tree, and where it is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.binding import BindingType
from textual.widget import Widget

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.search.control import Control
from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.commands.calls import NODE_COMMANDS
from mahtab_tui.tui.commands.pane_command import PaneCommand, bindings

NODE_MENU = tuple(command for command in NODE_COMMANDS if command.menu)
"""The rows of a call's menu."""


class Chosen(NamedTuple):
    """A call, and the search that it is of."""

    tree: Tree
    node: SearchNode


class NodeActions(Widget):
    """A widget or a screen with actions on the call that is chosen there.

    The second base class: of several, a widget has the style classes of the first one alone, and a screen without them cannot be clicked.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(NODE_COMMANDS)]

    control: Control

    @property
    def chosen(self) -> Chosen | None:
        """What the actions are about."""
        raise NotImplementedError

    def choose(self, node: SearchNode) -> None:
        """Go to another call of the same search."""
        raise NotImplementedError

    def open_menu(self, commands: Sequence[PaneCommand]) -> None:
        """Show what can be done with the call that is chosen."""
        from mahtab_tui.tui.screens.action_menu import open_menu

        if (chosen := self.chosen) is not None:
            open_menu(self, chosen.node.query, commands)

    def action_stop_node(self) -> None:
        if (chosen := self._at_hand) is None:
            return
        if chosen.node.finished and not chosen.node.alive:
            self._say("It has ended already.")
        else:
            self.control.stop(chosen.tree.id, chosen.node.id)

    def action_retry_node(self) -> None:
        if (chosen := self._at_hand) is not None:
            self.control.retry(chosen.tree.id, chosen.node.id)

    def action_edit_node(self) -> None:
        from mahtab_tui.tui.screens.edit_query import EditQuery

        if (chosen := self._at_hand) is None:
            return
        tree, node = chosen

        shown = plain(node.query)

        def edited(query: str | None) -> None:
            if query:  # one that was left as it is runs whole, also where only its ends are shown
                self.control.retry(tree.id, node.id, None if query == shown else query)

        self.app.push_screen(EditQuery(shown), edited)

    def action_copy_answer(self) -> None:
        if (chosen := self.chosen) is None:
            return
        if not chosen.node.finished:
            self._say("It has no answer yet.")
            return
        copy(self.app, plain(chosen.node.answer))

    def action_go_to_parent(self) -> None:
        if (chosen := self.chosen) is not None and chosen.node.parent is not None:
            self.choose(chosen.node.parent)

    @property
    def _at_hand(self) -> Chosen | None:
        """What is chosen, if something can be done to it; else the person is told why not."""
        chosen = self.chosen
        if chosen is not None and chosen.tree.closed:
            self._say("What ran this search has ended: it can only be looked at.")
            return None
        return chosen

    def _say(self, text: str) -> None:
        self.app.notify(text, markup=False, timeout=3)
