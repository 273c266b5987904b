"""The tree's widget: a window over its lines, fed by the bus."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region
from textual.reactive import var
from textual.strip import Strip
from textual.timer import Timer

from mahtab_tui.bus.records import Record
from mahtab_tui.search.control import Control
from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.search.trees import Trees
from mahtab_tui.tui.node_actions import NODE_MENU, Chosen, NodeActions
from mahtab_tui.tui.panes.search_tree.drawing import Drawing
from mahtab_tui.tui.panes.search_tree.empty import empty_lines
from mahtab_tui.tui.panes.search_tree.field import Field
from mahtab_tui.tui.panes.search_tree.looks import look_of
from mahtab_tui.tui.panes.search_tree.outline import Line
from mahtab_tui.tui.panes.search_tree.searching import CallFinder
from mahtab_tui.tui.panes.search_tree.view import View
from mahtab_tui.tui.rows.lines_view import MARGIN, LinesView
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.redrawn import Redrawn
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.rows.spinner import FRAME_RATE
from mahtab_tui.tui.terminal_app import RIGHT_BUTTON
from mahtab_tui.tui.widgets.find_row import FindRow

MANY = 200
"""Lines from which they are laid out at the rate of the frames only."""
HEAD = 1
"""Lines of the title."""


class RecursionPane(LinesView, Redrawn, NodeActions, can_focus=True):
    """Every search as a tree, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "fold", "Fold", show=False),
        Binding("right", "unfold", "Unfold", show=False),
        Binding("ctrl+f", "find", "Find", show=False),
    ]

    searched: var[bool] = var(False)
    """Whether there is a search to show: watched by who gives the pane its room."""

    def __init__(self, control: Control, clock: Callable[[], float] = time.time, *, id: str | None = None) -> None:
        """`clock` gives the time on which the records' times are; a recording has its own."""
        super().__init__(id=id)
        self.control = control
        self.trees = Trees()
        self._clock = clock
        self._view = View(self.trees)
        self.finder = CallFinder(self.trees, self._reveal, self.focus)
        self._drawing: Drawing | None = None
        self._looks: list[tuple[object, ...]] = []
        """Of the lines that are seen, as they were drawn."""
        self._ticking: Timer | None = None

    # What others call

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought. Main thread only."""
        if not self.trees.fold(records):
            return
        self.searched = bool(len(self.trees))
        if not self.size:
            return
        self._tick_if_needed()
        # Many lines are laid out as often as they move, not as often as something comes.
        if self._ticking is None or len(self._view.lines) < MANY:
            self._arrange_if_needed()
        self._draw_changed()

    def end(self) -> None:
        """There will be no more records: what has not finished is cut off."""
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
        """Draw the lines that look otherwise than they are drawn."""
        top, marked = self.scroll_offset.y, self._marked
        looks = [look_of(line, marked) for line in self._view.lines[top : top + self._page]]
        for y, look in enumerate(looks):
            if y >= len(self._looks) or look != self._looks[y]:
                self.refresh_line(top + y + HEAD)
        for y in range(len(looks), len(self._looks)):
            self.refresh_line(top + y + HEAD)
        self._looks = looks

    # Lines and cursor

    @property
    def _width(self) -> int:
        return max(10, self.scrollable_content_region.width - 2 * MARGIN)

    @property
    def _page(self) -> int:
        return max(1, self.size.height - HEAD)

    @property
    def chosen(self) -> Chosen | None:
        line = self._view.line
        return None if line is None else Chosen(line.tree, line.node)

    def choose(self, node: SearchNode) -> None:
        if (chosen := self.chosen) is not None:
            self._view.choose_node(chosen.tree.id, node.id)
            self._show_cursor()

    def _reveal(self, tree: Tree, node: SearchNode) -> None:
        self._view.reveal(tree, node, self._width)
        self.hold(HEAD + max(1, len(self._view.lines)))
        self._show_cursor()

    def _arrange(self) -> None:
        """There are other lines than before. Where the pane has the focus, the cursor stays at its place on the screen too."""
        before = self._view.place
        self._view.arrange(self._width)
        self.hold(HEAD + max(1, len(self._view.lines)))
        if self._view.following:
            self._show_cursor()
        elif self.has_focus and (moved := self._view.place - before):
            self.scroll_to(y=self.scroll_y + moved, animate=False, force=True)

    def _show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self._view.place, 1, HEAD + 1), animate=False, force=True)
        self.refresh()

    # Layout and time

    def on_mount(self) -> None:
        self._look_anew()

    def look_anew(self, palette: Palette) -> None:
        self._drawing = Drawing(self._width, palette)
        self._arrange()
        self.refresh()
        self._tick_if_needed()

    def _tick_if_needed(self) -> None:
        needed = any(not tree.finished for tree in self.trees)
        if needed and self._ticking is None:
            self._ticking = self.set_interval(1 / FRAME_RATE, self._tick)
        elif not needed and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def _tick(self) -> None:
        """Time went on: draw the lines that show it."""
        self._arrange_if_needed()
        self._draw_changed()
        top = self.scroll_offset.y
        for place in range(top, min(top + self._page, len(self._view.lines))):
            line = self._view.lines[place]
            if line.kind in ("root", "node", "left") and not line.node.finished:
                self.refresh_line(place + HEAD)

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        if self._drawing is None:
            return Strip.blank(width, base)
        if y < HEAD:
            return self.strip(self._title(self._drawing), width, base)
        place = self.scroll_offset.y + y - HEAD
        if not self._view.lines:
            lines = empty_lines(self._width, self._drawing.palette)
            return self.strip(lines[place] if place < len(lines) else [], width, base)
        if place >= len(self._view.lines):
            return Strip.blank(width, base)
        if self.has_focus and place == self._view.place:
            base += self._drawing.palette.panel
        return self.strip(self._drawing.spans(self._view.lines[place], self._clock(), self._marked), width, base)

    @property
    def _marked(self) -> SearchNode | None:
        """The node whose place is shown in the bar."""
        line = self._view.line
        return line.node if line is not None and line.kind == "node" and self.has_focus else None

    def _title(self, drawing: Drawing) -> list[Span]:
        palette = drawing.palette
        spans: list[Span] = [("RECURSION", palette.person + BOLD if self.has_focus else palette.muted)]
        if len(self.trees) > 1:
            spans.append((f"  {len(self.trees)} searches", palette.muted))
        if self._view.following:
            spans.append(("  ·  follows the newest", palette.moon))
        room = self._width - sum(len(text) for text, _ in spans)
        if self._view.lines and room > len(drawing.heads):
            spans.append((drawing.heads.rjust(room), palette.muted))
        return spans

    # What the person does

    def on_click(self, event: Click) -> None:
        place = self.scroll_offset.y + event.y - HEAD
        if event.y < HEAD or not 0 <= place < len(self._view.lines) or self._drawing is None:
            return
        line = self._view.lines[place]
        column = event.x - MARGIN - len(line.prefix)
        if line.kind == "field" and line.batch is not None:
            node = Field(line.batch, self._drawing.field_width(line)).node(line.row, column)
            if node is not None:
                self._view.choose(line)
                self._open(Chosen(line.tree, node))
        elif line.kind == "bar":
            cells = max(1, self._width - 2)
            self._open(Chosen(line.tree, line.node), at=max(0, min(cells - 1, column - 2)) * line.tree.coverage.chars // cells)
        elif line.kind == "answer":
            self._open(Chosen(line.tree, line.node))
        elif line.can_be_chosen:
            self._view.choose(line)
            if event.button == RIGHT_BUTTON and line.kind != "batch":
                self.open_menu(NODE_MENU)
            elif line.kind == "batch" or (line.open is not None and column < 2):
                self._set_open(line, not line.open)
            else:
                self._open(Chosen(line.tree, line.node))
        self.refresh()

    def action_menu(self) -> None:
        """Show what can be done with the call; fold or unfold many calls."""
        line = self._view.line
        if line is not None and line.kind == "batch":
            self._set_open(line, not line.open)
        else:
            self.open_menu(NODE_MENU)

    def action_open_node(self) -> None:
        if (chosen := self.chosen) is not None:
            self._open(chosen)

    def _open(self, chosen: Chosen, at: int | None = None) -> None:
        """Show a call on a screen of its own."""
        from mahtab_tui.tui.screens.node import NodeScreen

        self.app.push_screen(NodeScreen(chosen, self.control, self._clock, at=at))

    def action_fold(self) -> None:
        """Fold the line; where it is folded, go to the one that it stands under."""
        line = self._view.line
        if line is not None and line.open:
            self._set_open(line, False)
        else:
            self._view.go_above()
            self._show_cursor()

    def action_unfold(self) -> None:
        """Unfold the line; where it is unfolded, go to the first one below."""
        line = self._view.line
        if line is not None and line.open is False:
            self._set_open(line, True)
        elif line is not None and line.open:
            self.action_move(1)

    def _set_open(self, line: Line, open: bool) -> None:
        self._view.set_open(line, open)
        self._arrange()
        self.refresh()

    def action_find(self) -> None:
        """Search the calls, in a row that whoever shows the pane has put below it."""
        for row in self.screen.query("#recursion-find").results(FindRow):
            row.open()

    def action_follow(self) -> None:
        self._view.follow(not self._view.following)
        self._show_cursor()

    def action_move(self, step: int) -> None:
        self._view.step(step)
        self._show_cursor()

    def action_move_page(self, direction: int) -> None:
        self._view.go_near(self._view.place + direction * max(1, self._page - 1))
        self._show_cursor()

    def action_move_to(self, place: int) -> None:
        self._view.go_near(0 if place == 0 else len(self._view.lines))
        self._show_cursor()
