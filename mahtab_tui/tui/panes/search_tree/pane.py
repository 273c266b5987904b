"""The widget of the search tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.reactive import var
from textual.timer import Timer

from mahtab_tui.bus.records import Record
from mahtab_tui.search.control import SearchControl
from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.search.trees import Trees
from mahtab_tui.tui.calls.fan_out_grid import FanOutGrid
from mahtab_tui.tui.calls.outline import CallLine
from mahtab_tui.tui.node_actions import NODE_MENU, CallSelection, NodeActions
from mahtab_tui.tui.panes.search_tree.search_rows import SearchRows, look_of
from mahtab_tui.tui.panes.search_tree.tree_lines import TreeLines
from mahtab_tui.tui.patterns import Pattern
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.rows_view import CURSOR_KEYS, RowsView
from mahtab_tui.tui.rows.spinner import FRAME_RATE
from mahtab_tui.tui.terminal_app import RIGHT_BUTTON
from mahtab_tui.tui.widgets.find_row import FindRow

MANY = 200
"""With more lines, they are laid out at the frame rate only."""


class SearchTreePane(RowsView, NodeActions, can_focus=True):
    """Shows every search as a tree, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        Binding("left", "collapse", "Collapse", show=False),
        Binding("right", "expand", "Expand", show=False),
        Binding("ctrl+f", "find", "Find", show=False),
    ]

    head = 1
    searched: var[bool] = var(False)
    """Whether there is a search to show; the screen watches it."""

    def __init__(
        self,
        control: SearchControl,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = None,
    ) -> None:
        """clock: the clock of the records' times."""
        self.trees = Trees()
        self._view = TreeLines(self.trees)
        self._rows = SearchRows(self._view, clock)
        super().__init__(self._rows, id=id)
        self.control = control
        self._clock = clock
        self._found: SearchNode | None = None
        """The call that was found last."""
        self._looks: list[tuple[object, ...]] = []
        """The visible lines as they were drawn, from `look_of`."""
        self._ticking: Timer | None = None

    def fold(self, records: Sequence[Record]) -> None:
        """Add records. Main thread only."""
        if not self.trees.fold(records):
            return
        self.searched = bool(len(self.trees))
        if not self.size:
            return
        self._tick_if_needed()
        # Many lines are laid out at the frame rate, not with every record.
        if self._ticking is None or len(self._view.lines) < MANY:
            self._arrange_if_needed()
        self._draw_changed()

    def end(self) -> None:
        """Mark unfinished searches as cut off: there will be no more records."""
        for tree in self.trees:
            tree.close()
        self._arrange()
        self.refresh()
        self._tick_if_needed()

    def _arrange_if_needed(self) -> None:
        if self._view.outdated:
            self._arrange()
            self.refresh_line(self.scroll_offset.y)

    def _draw_changed(self) -> None:
        top, marked = self.scroll_offset.y, self._rows.marked
        looks = [look_of(line, marked) for line in self._view.lines[top : top + self.page]]
        for y, (before, now) in enumerate(zip_longest(self._looks, looks)):
            if before != now:
                self.refresh_line(top + y + self.head)
        self._looks = looks

    # Lines and cursor

    @property
    def chosen(self) -> CallSelection | None:
        line = self._view.line
        return None if line is None else CallSelection(line.tree, line.node)

    def choose(self, node: SearchNode) -> None:
        if (chosen := self.chosen) is not None:
            self._view.choose_node(chosen.tree.id, node.id)
            self._show_cursor()

    def _reveal(self, tree: Tree, node: SearchNode) -> None:
        self._view.reveal(tree, node, self._rows.width)
        self._count()
        self._show_cursor()

    def _arrange(self) -> None:
        """Lay the lines out again. If the pane has the focus, keep the cursor at its position on
        the screen."""
        if self._laid_out is None:
            return
        before = self._view.place
        self._view.arrange(self._rows.width)
        self._count()
        if self._view.following:
            self._show_cursor()
        elif self.has_focus and (moved := self._view.place - before):
            self.scroll_to(y=self.scroll_y + moved, animate=False, force=True)

    def _count(self) -> None:
        self.set_row_count(self.head + len(self._rows))

    def _show_cursor(self) -> None:
        self.show_row(self._view.place)

    # Layout and time

    def on_mount(self) -> None:
        self.look()

    def look(self) -> None:
        super().look()
        self._arrange()
        self._tick_if_needed()

    def watch_has_focus(self, has_focus: bool) -> None:
        self._rows.focused = has_focus
        super().watch_has_focus(has_focus)

    def _tick_if_needed(self) -> None:
        needed = any(not tree.finished for tree in self.trees)
        if needed and self._ticking is None:
            self._ticking = self.set_interval(1 / FRAME_RATE, self._tick)
        elif not needed and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def _tick(self) -> None:
        """Draw the lines that show the time."""
        self._arrange_if_needed()
        self._draw_changed()
        top = self.scroll_offset.y
        for place in range(top, min(top + self.page, len(self._view.lines))):
            line = self._view.lines[place]
            if line.kind in ("root", "node", "left") and not line.node.finished:
                self.refresh_line(place + self.head)

    # Drawing

    def head_row(self, y: int) -> Row:
        return self._rows.title(len(self.trees))

    @property
    def marked_row(self) -> int:
        return self._view.place if self._view.lines and self.has_focus else -1

    # Actions

    def on_click(self, event: Click) -> None:
        place = self.row_at(event.y)
        if place is None or not self._view.lines:
            return
        line = self._view.lines[place]
        column = event.x - self.margin - len(line.prefix)
        if line.kind == "field" and line.batch is not None:
            node = FanOutGrid(line.batch, self._rows.drawing.field_width(line)).node(
                line.row, column
            )
            if node is not None:
                self._view.choose(line)
                self._open(CallSelection(line.tree, node))
        elif line.kind == "bar":
            cells = self._rows.drawing.bar_width
            self._open(
                CallSelection(line.tree, line.node),
                at=max(0, min(cells - 1, column - 2)) * line.tree.coverage.chars // cells,
            )
        elif line.kind == "answer":
            self._open(CallSelection(line.tree, line.node))
        elif line.can_be_chosen:
            self._view.choose(line)
            if event.button == RIGHT_BUTTON and line.kind != "batch":
                self.open_menu(NODE_MENU)
            elif line.kind == "batch" or (line.open is not None and column < 2):
                self._set_open(line, not line.open)
            else:
                self._open(CallSelection(line.tree, line.node))
        self.refresh()

    def action_menu(self) -> None:
        """Open the menu of a call; expand or collapse a fan-out."""
        line = self._view.line
        if line is not None and line.kind == "batch":
            self._set_open(line, not line.open)
        else:
            self.open_menu(NODE_MENU)

    def action_open_node(self) -> None:
        if (chosen := self.chosen) is not None:
            self._open(chosen)

    def _open(self, chosen: CallSelection, at: int | None = None) -> None:
        from mahtab_tui.tui.screens.node import NodeScreen

        self.app.push_screen(NodeScreen(chosen, self.control, self._clock, at=at))

    def action_collapse(self) -> None:
        """Collapse the line, or go to its parent if it is collapsed."""
        line = self._view.line
        if line is not None and line.open:
            self._set_open(line, False)
        else:
            self._view.go_above()
            self._show_cursor()

    def action_expand(self) -> None:
        """Expand the line, or go to its first child if it is expanded."""
        line = self._view.line
        if line is not None and line.open is False:
            self._set_open(line, True)
        elif line is not None and line.open:
            self.action_move(1)

    def _set_open(self, line: CallLine, open: bool) -> None:
        self._view.set_open(line, open)
        self._arrange()
        self.refresh()

    def action_find(self) -> None:
        """Open the find row that the screen has mounted below the pane."""
        for row in self.screen.query("#recursion-find").results(FindRow):
            row.open()

    # Searching: the methods of `Findable`. Calls are found by query and answer, even collapsed
    # ones, in the order in which they started.

    def begin_find(self) -> str:
        self._found = None
        return ""

    def find(self, words: str, step: int, *, regex: bool) -> str:
        if not words:
            return ""
        nodes = [(tree, node) for tree in self.trees for node in list(tree.nodes.values())]
        texts = (text for _, node in nodes for text in (node.query, node.answer))
        matches = Pattern(words, regex=regex, any_case=True).spans_of_all(texts)
        found = [
            each
            for each, in_query, in_answer in zip(nodes, matches, matches, strict=True)
            if in_query or in_answer
        ]
        if not found:
            return "nothing found"
        at = next(
            (place + step for place, (_, node) in enumerate(found) if node is self._found), 0
        ) % len(found)
        tree, self._found = found[at]
        self._reveal(tree, self._found)
        return f"{at + 1:,} of {len(found):,}"

    def end_find(self) -> None:
        self.focus()

    # The cursor

    def action_follow(self) -> None:
        self._view.toggle_follow()
        self._show_cursor()

    def action_move(self, step: int) -> None:
        self._view.step(step)
        self._show_cursor()

    def action_move_page(self, direction: int) -> None:
        self.go_to(self._view.place + direction * max(1, self.page - 1))

    def go_to(self, row: int) -> None:
        self._view.go_near(row)
        self._show_cursor()
