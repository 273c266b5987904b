"""What is inside an object, as a tree that unfolds where the person wants it."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.looking import Child
from mahtab_tui.tui.commands.inspector import TREE_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.fitting import fitted
from mahtab_tui.tui.rows.palette import BOLD
from mahtab_tui.tui.screens.inspector.outline import ITEMS, Branch, TreeLine, line_at, line_of, lines, parent_of
from mahtab_tui.tui.screens.inspector.tree_search import find_line
from mahtab_tui.tui.screens.inspector.view import LineWanted, Place, ScrolledView, Walked

_LABEL = 44
"""Cells that labels may have."""


class TreeView(ScrolledView):
    """Each line is something inside the object: its name, its type, what it is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(TREE_COMMANDS),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
    ]

    def __init__(self, place: Place, *, attributes: bool = False) -> None:
        super().__init__(place)
        self._attributes = attributes
        self._root = Branch(place.path, 0, 0)
        self._cursor = 0
        self._label = 8
        self._type = 4
        self._come = False
        self._sought = ""

    def on_mount(self) -> None:
        self._fetch_page(self._root, 0)

    def look_again(self) -> None:
        if self._root.path == self.place.path:
            self._root.forget()
        else:  # another object
            self._root = Branch(self.place.path, 0, self._root.count)
        self._fetch_page(self._root, 0)

    # Fetching

    def _fetch(self) -> None:
        """Ask for the pages of the lines that are seen."""
        wanted: dict[tuple[int, int], Branch] = {}
        top = self.scroll_offset.y
        for line in lines(self._root, top, top + self.size.height):
            if line.child is None and line.position // ITEMS not in line.branch.asked:
                wanted[id(line.branch), line.position // ITEMS] = line.branch
        for (_, page), branch in wanted.items():
            self._fetch_page(branch, page)

    def _fetch_page(self, branch: Branch, page: int) -> None:
        place, attributes = self.place, self._attributes and branch is self._root
        branch.asked.add(page)

        def work() -> tuple[int, tuple[Child, ...]]:
            return place.look.children(branch.path, page * ITEMS, (page + 1) * ITEMS, attributes=attributes)

        def failed(sentence: str) -> None:
            branch.asked.discard(page)
            self.fail(sentence)

        self.fetcher.ask(f"{id(branch)} {page}", work, lambda found: self._came(branch, page, *found), failed)

    def _came(self, branch: Branch, page: int, count: int, children: tuple[Child, ...]) -> None:
        branch.asked.discard(page)
        branch.take(page, count, children)
        self._come = True
        for child in children:
            self._label = min(_LABEL, max(self._label, cell_len(one_line(child.label)) + 2 * branch.depth + 2))
            self._type = min(20, max(self._type, len(child.type)))
        self._measure()

    def _measure(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, max(1, self._root.lines))
        self._cursor = max(0, min(self._cursor, self._root.lines - 1))
        self._fetch()
        self._tell()
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._measure()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        number = self.scroll_offset.y + y
        line = line_at(self._root, number)
        if line is None:
            empty = self._come and number == 0
            text = " It has no attributes." if self._attributes else " There is nothing inside."
            return Strip([Segment(text if empty else "", base + self.palette.muted)]).crop_extend(0, width, base)
        ground = base + self.palette.panel if number == self._cursor and self.has_focus else base
        return Strip([Segment(text, ground + style) for text, style in self._parts(line)]).crop_extend(0, width, ground)

    def _parts(self, line: TreeLine) -> list[tuple[str, Style]]:
        palette, child = self.palette, line.child
        indent = " " + "  " * line.branch.depth
        if child is None:
            return [(f"{indent}·", palette.hairline)]
        mark = "▾ " if line.unfolded else "▸ " if child.count else "↺ " if child.state == "cycle" else "  "
        kind = child.state == "property"
        room = max(4, self._label - len(indent) - 1)
        value = "the object that it stands in" if child.state == "cycle" else plain(child.summary)
        return [
            (indent, Style()),
            (mark, palette.moon if child.state == "cycle" else palette.muted),
            (fitted(one_line(child.label), room), palette.muted if kind or child.kind == "function" else palette.text + BOLD),
            ("  ", Style()),
            (fitted(plain(child.type), self._type), palette.muted),
            ("  ", Style()),
            (value, palette.model if kind else palette.moon if child.state == "cycle" else palette.text),
        ]

    def _tell(self) -> None:
        if not self._come:
            return
        count = self._root.count
        what = "attributes" if self._attributes else "inside"
        if not count:
            self.say((f"nothing {what}" if what == "inside" else "no attributes", "$muted"))
            return
        self.say((f"{min(self._cursor + 1, self._root.lines):,} of {self._root.lines:,}  ·  {count:,} {what}", "$muted"))

    # What the person does

    def action_move(self, step: int) -> None:
        self._go(self._cursor + step)

    def action_page(self, direction: int) -> None:
        self._go(self._cursor + direction * max(1, self.size.height - 1))

    def action_go(self, place: int) -> None:
        self._go(0 if place == 0 else self._root.lines - 1)

    def _go(self, number: int) -> None:
        self._cursor = max(0, min(self._root.lines - 1, number))
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if not top <= self._cursor < top + height:
            self.scroll_to(y=self._cursor if self._cursor < top else self._cursor - height + 1, animate=False, force=True)
        self._fetch()
        self._tell()
        self.refresh()

    def on_click(self, event: Click) -> None:
        number = self.scroll_offset.y + event.y
        line = line_at(self._root, number)
        if line is None or line.child is None:
            return
        self._go(number)
        mark = 1 + 2 * line.branch.depth
        if mark <= event.x < mark + 2:
            self.action_fold() if line.unfolded else self.action_unfold()
        elif event.chain == 2:
            self.action_open_row()

    def action_search(self) -> None:
        """Ask for the words, and go to the first line from here on that has them."""

        def entered(words: str) -> None:
            self._sought = words
            self._find(self._cursor, 1)

        self.post_message(LineWanted("search names, types and values", self._sought, entered))

    def action_find(self, step: int) -> None:
        """Go to the next line that has the words (1), or to the one before (-1)."""
        self._find(self._cursor + step, step)

    def _find(self, start: int, step: int) -> None:
        place, words, root = self.place, self._sought, self._root.bare()
        if not words:
            return

        def fetch(branch: Branch, page: int) -> tuple[int, tuple[Child, ...]]:
            attributes = self._attributes and branch is root
            return place.look.children(branch.path, page * ITEMS, (page + 1) * ITEMS, attributes=attributes)

        self.fetcher.ask("search", lambda: find_line(root, words, start, step, fetch), self._go, self.tell_failure)

    def tell_failure(self, sentence: str) -> None:
        """A search has found nothing."""
        super().fail(sentence)

    def action_unfold(self) -> None:
        line = line_at(self._root, self._cursor)
        child = line.child if line is not None else None
        if line is None or child is None:
            return
        if line.unfolded:
            self._go(self._cursor + 1)
        elif child.count:
            line.branch.unfold(line.position, child)
            self._measure()

    def action_fold(self) -> None:
        line = line_at(self._root, self._cursor)
        if line is None:
            return
        if line.unfolded:
            del line.branch.open[line.position]
            self._measure()
        elif (above := parent_of(self._root, line.branch)) is not None:
            self._go(line_of(self._root, above.branch, above.position))

    def action_open_row(self) -> None:
        line = line_at(self._root, self._cursor)
        child = line.child if line is not None else None
        if line is None or child is None:
            return
        if child.state == "property":
            self._ask_property(line, child)
        else:
            # What was made on demand is reached by itself alone.
            way = (child.step,) if child.step[0] == "held" else (*line.branch.path, child.step)
            self.post_message(Walked(way, child.label, self))

    def _ask_property(self, line: TreeLine, child: Child) -> None:
        """Run the property's code, because the person wants it."""
        place, branch = self.place, line.branch
        self.say((f"{plain(child.label)} …", "$moon"))

        def came(found: Child) -> None:
            branch.replace(line.position, found)
            self._measure()

        self.fetcher.ask("property", partial(place.look.evaluate, branch.path, child.label), came, self.fail)
