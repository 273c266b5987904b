"""The pane that shows every search as a live tree.

`search.trees` folds the records to trees of calls, `call_tree` knows which lines of these are visible
and which is chosen, and `call_lines` draws them with the words of `call_words`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.binding import BindingType
from textual.events import Click
from textual.reactive import var
from textual.widget import Widget

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.search.tree import SearchTree
from mahtab_tui.search.tree_nodes import SearchNode
from mahtab_tui.search.trees import SearchControl, Trees
from mahtab_tui.tui.commands.declarations import NODE_COMMANDS, PaneCommand, bindings
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.messages import OpenMenu, OpenSearchNode
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView
from mahtab_tui.tui.search.call_lines import CallLine
from mahtab_tui.tui.search.call_tree import CallTree
from mahtab_tui.tui.terminal_app import RIGHT_BUTTON

NODE_MENU = tuple(command for command in NODE_COMMANDS if command.menu)
_ARROW_WIDTH = 2
"""Columns in which a click expands or collapses the line."""
THROTTLED_LAYOUT_LINES = 200
"""At this many lines or more, the layout is updated only at the frame rate."""


class CallSelection(NamedTuple):
    """A call that the user has chosen."""

    tree: SearchTree
    node: SearchNode


class NodeActions(Widget):
    """Actions on the selected call.

    It must be the second base class, because Textual takes the default styles from the first one.
    """

    BINDINGS = bindings(NODE_COMMANDS)

    control: SearchControl

    @property
    def chosen(self) -> CallSelection | None:
        """The call on which the actions act; None if there is no call."""
        raise NotImplementedError

    def open_menu(self, commands: Sequence[PaneCommand]) -> None:
        selection = self.chosen
        if selection is not None:
            self.post_message(OpenMenu(self, selection.node.query, commands))

    def action_stop_node(self) -> None:
        selection = self.chosen
        if selection is None:
            return
        # A finished call may still have running calls below it.
        if selection.node.finished and not selection.node.running_descendants:
            self.app.notify("This call has already ended.")
        else:
            self.control.stop(selection.tree.id, selection.node.id)

    def action_copy_answer(self) -> None:
        if (answer := self._answer) is not None:
            copy(self.app, answer)

    def action_make_variable(self) -> None:
        if (answer := self._answer) is not None:
            self.control.make_variable(answer)

    @property
    def _answer(self) -> str | None:
        """The call's answer; None, with a notice to the user, while there is none."""
        selection = self.chosen
        if selection is None:
            return None
        if not selection.node.finished:
            self.app.notify("This call has no answer yet.")
            return None
        return plain(selection.node.answer)


class SearchTreePane(RowsView, NodeActions, can_focus=True):
    """The pane of all searches, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("left", "collapse"),
        ("right", "expand"),
    ]

    head = 1
    searched: var[bool] = var(False)
    """Whether there is a search to show."""

    def __init__(
        self,
        control: SearchControl,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = None,
    ) -> None:
        self.trees = Trees()
        self._view = CallTree(self.trees, clock)
        super().__init__(self._view, id=id)
        self.control = control

    def fold(self, records: Sequence[Record]) -> None:
        """Show what new records of the session say about searches."""
        if not self.trees.fold(records):
            return
        self.searched = bool(len(self.trees))
        if not self.size:
            return
        self._tick_if_needed()
        # With many lines, `automatic_refresh` updates the layout instead, unless it is not running.
        if self.auto_refresh is None or len(self._view.lines) < THROTTLED_LAYOUT_LINES:
            self._arrange_if_needed()
        self.refresh_changed()

    def end(self) -> None:
        """Mark unfinished searches as cut off."""
        for tree in self.trees:
            tree.close()
        self._arrange()
        self.refresh()
        self._tick_if_needed()

    def _arrange_if_needed(self) -> None:
        if self._view.outdated:
            self._arrange()
            self.refresh_line(self.scroll_offset.y)

    @property
    def chosen(self) -> CallSelection | None:
        line = self._view.line
        if line is None:
            return None
        return CallSelection(line.tree, line.node)

    def _arrange(self) -> None:
        """Lay the lines out again; with the focus, the cursor stays where it is on the screen."""
        if self._laid_out_for is None:
            return
        old_cursor = self._view.cursor
        self._view.arrange()
        self.set_row_count(self.head + len(self._view))
        moved_rows = self._view.cursor - old_cursor
        if self.has_focus and moved_rows:
            self.scroll_to(y=self.scroll_y + moved_rows, animate=False, force=True)

    def _show_cursor(self) -> None:
        self.show_row(self._view.cursor)

    def on_mount(self) -> None:
        self.refresh_view()

    def refresh_view(self) -> None:
        super().refresh_view()
        self._arrange()
        self._tick_if_needed()

    def watch_has_focus(self, has_focus: bool) -> None:
        self._view.focused = has_focus
        super().watch_has_focus(has_focus)

    def _tick_if_needed(self) -> None:
        self.tick_while(any(not tree.finished for tree in self.trees))

    def automatic_refresh(self) -> None:
        self._arrange_if_needed()
        self.refresh_changed()

    def head_row(self, y: int) -> Row:
        return self._view.title()

    @property
    def marked_row(self) -> int:
        if self._view.lines and self.has_focus:
            return self._view.cursor
        return -1

    def on_click(self, event: Click) -> None:
        row = self.row_at(event.y)
        if row is None:
            return
        line = self._view.lines[row]
        if line.kind == "answer":
            self._open(line)
        elif line.can_be_chosen:
            self._click_line(line, event)
        self.refresh()

    def _click_line(self, line: CallLine, event: Click) -> None:
        """Choose a line, and open it, expand or collapse it, or show its menu."""
        self._view.choose(line.key)
        if line.kind == "fan_out":
            self._set_open(line, not line.open)
            return
        if event.button == RIGHT_BUTTON:
            self.open_menu(NODE_MENU)
            return
        # The arrow stands right behind the prefix.
        column = event.x - self.margin - len(line.prefix)
        if line.open is not None and column < _ARROW_WIDTH:
            self._set_open(line, not line.open)
        else:
            self._open(line)

    def action_menu(self) -> None:
        line = self._view.line
        if line is not None and line.kind == "fan_out":
            self._set_open(line, not line.open)
        else:
            self.open_menu(NODE_MENU)

    def action_open_node(self) -> None:
        line = self._view.line
        if line is not None:
            self._open(line)

    def _open(self, line: CallLine) -> None:
        """Open the call to which a line belongs."""
        self.post_message(OpenSearchNode(line.tree, line.node))

    def action_collapse(self) -> None:
        line = self._view.line
        if line is not None and line.open:
            self._set_open(line, False)
        else:
            self._view.go_to_parent()
            self._show_cursor()

    def action_expand(self) -> None:
        line = self._view.line
        if line is not None and line.open is False:
            self._set_open(line, True)
        elif line is not None and line.open:
            self.action_move(1)

    def _set_open(self, line: CallLine, open: bool) -> None:
        self._view.set_open(line, open)
        self._arrange()
        self.refresh()

    def action_move(self, step: int) -> None:
        self._view.step(step)
        self._show_cursor()

    def action_move_page(self, direction: int) -> None:
        self.go_to(self._view.cursor + direction * max(1, self.page - 1))

    def go_to(self, row: int) -> None:
        self._view.go_near(row)
        self._show_cursor()
