"""The actions on a call of a search, in the tree and on the call's own screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.widget import Widget

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.search.control import SearchControl
from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.commands.in_panes import NODE_COMMANDS
from mahtab_tui.tui.commands.pane_command import PaneCommand, bindings

NODE_MENU = tuple(command for command in NODE_COMMANDS if command.menu)
"""The rows of a call's menu."""


class CallSelection(NamedTuple):
    """A call, and the search that it belongs to."""

    tree: Tree
    node: SearchNode


class NodeActions(Widget):
    """A mixin for a widget or a screen with actions on its chosen call.

    It must be the second base class, because Textual takes the default styles from the first one.
    """

    BINDINGS = bindings(NODE_COMMANDS)

    control: SearchControl

    @property
    def chosen(self) -> CallSelection | None:
        """The call to act on; None if there is none."""
        raise NotImplementedError

    def choose(self, node: SearchNode) -> None:
        """Go to another call of the same search."""
        raise NotImplementedError

    def open_menu(self, commands: Sequence[PaneCommand]) -> None:
        """Show a menu of actions on the chosen call."""
        from mahtab_tui.tui.screens.action_menu import open_menu

        if (chosen := self.chosen) is not None:
            open_menu(self, chosen.node.query, commands)

    def action_stop_node(self) -> None:
        if (chosen := self._changeable) is None:
            return
        if chosen.node.finished and not chosen.node.alive:
            self._say("This call has already ended.")
        else:
            self.control.stop(chosen.tree.id, chosen.node.id)

    def action_retry_node(self) -> None:
        if (chosen := self._changeable) is not None:
            self.control.retry(chosen.tree.id, chosen.node.id)

    def action_edit_node(self) -> None:
        from mahtab_tui.tui.screens.edit_query import EditQuery

        if (chosen := self._changeable) is None:
            return
        tree, node = chosen

        shown = plain(node.query)

        def edited(query: str | None) -> None:
            if query:  # None: the query is unchanged, though the editor may show only its ends
                self.control.retry(tree.id, node.id, None if query == shown else query)

        self.app.push_screen(EditQuery(shown), edited)

    def action_copy_answer(self) -> None:
        if (answer := self._answer) is not None:
            copy(self.app, answer)

    def action_make_variable(self) -> None:
        if (answer := self._answer) is not None:
            self.control.make_variable(answer)

    @property
    def _answer(self) -> str | None:
        """The chosen call's answer; None, and a notification, if it has none yet."""
        if (chosen := self.chosen) is None:
            return None
        if not chosen.node.finished:
            self._say("This call has no answer yet.")
            return None
        return plain(chosen.node.answer)

    def action_go_to_parent(self) -> None:
        if (chosen := self.chosen) is not None and chosen.node.parent is not None:
            self.choose(chosen.node.parent)

    @property
    def _changeable(self) -> CallSelection | None:
        """The chosen call if it can be changed, else None and a notification that says why."""
        chosen = self.chosen
        if chosen is not None and chosen.tree.closed:
            self._say("The kernel of this search has ended; its calls cannot be changed.")
            return None
        return chosen

    def _say(self, text: str) -> None:
        self.app.notify(text, markup=False, timeout=3)
