"""A view of an object's contents as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.events import Click

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import Child, ObjectPath
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import TREE_COMMANDS
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette

ITEMS = 100
MOST = 1_000_000_000
"""Children of a branch: a range may have more than a screen can scroll over."""
MOST_LINES = 20_000


class Branch:
    def __init__(
        self, path: ObjectPath, depth: int, count: int, above: TreeLine | None = None
    ) -> None:
        self.path = path
        self.depth = depth
        self.above = above
        self.count = min(count, MOST)
        self.open: dict[int, Branch] = {}
        self.asked: set[int] = set()
        self._pages: dict[int, list[Child]] = {}

    @property
    def lines(self) -> int:
        return self.count + sum(branch.lines for branch in self.open.values())

    def set_page(self, page: int, count: int, children: Sequence[Child]) -> None:
        self.count = min(count, MOST)
        self._pages[page] = list(children)
        # Drop expanded children that are gone, or are empty now.
        self.open = {
            at: branch
            for at, branch in self.open.items()
            if at < count and ((child := self.child(at)) is None or child.count)
        }

    def child(self, position: int) -> Child | None:
        page, index = self._pages.get(position // ITEMS, ()), position % ITEMS
        return page[index] if index < len(page) else None

    def replace(self, position: int, child: Child) -> None:
        if self.child(position) is not None:
            self._pages[position // ITEMS][position % ITEMS] = child

    def forget(self) -> None:
        """Discard all pages; keep what is expanded."""
        self._pages.clear()
        for branch in self.open.values():
            branch.forget()

    def without_pages(self) -> Branch:
        """Copy for use on another thread."""
        copy = Branch(self.path, self.depth, self.count)
        copy.open = {at: branch.without_pages() for at, branch in self.open.items()}
        return copy

    def unfold(self, position: int, child: Child) -> None:
        path, above = self.child_path(child), TreeLine(self, position)
        self.open[position] = Branch(path, self.depth + 1, child.count, above)

    def child_path(self, child: Child) -> ObjectPath:
        """Computed values have paths of their own."""
        return (child.step,) if child.step[0] == "computed" else (*self.path, child.step)


class TreeLine(NamedTuple):
    branch: Branch
    position: int

    @property
    def child(self) -> Child | None:
        return self.branch.child(self.position)

    @property
    def unfolded(self) -> bool:
        return self.position in self.branch.open


def line_at(branch: Branch, number: int) -> TreeLine | None:
    passed = 0
    for position in sorted(branch.open):
        inner = branch.open[position]
        own = position + 1 + passed
        if number < own:
            break
        if number < own + inner.lines:
            return line_at(inner, number - own)
        passed += inner.lines
    position = number - passed
    return TreeLine(branch, position) if 0 <= position < branch.count else None


def line_number(line: TreeLine) -> int:
    branch, position = line
    number = position + sum(inner.lines for at, inner in branch.open.items() if at < position)
    return number if branch.above is None else line_number(branch.above) + 1 + number


Fetch = Callable[[Branch, int], tuple[int, tuple[Child, ...]]]
"""Returns the number of children, and one page of them; raises `KernelError`."""


def find_line(root: Branch, words: str, start: int, step: int, fetch: Fetch) -> int:
    """Wrap around; wait. Raises `KernelError` if nothing is found. root: a copy of the tree, which
    this fills."""
    wanted, lines = words.lower(), root.lines
    for offset in range(min(lines, MOST_LINES)):
        number = (start + offset * step) % lines
        line = line_at(root, number)
        if line is None:
            break
        branch, page = line.branch, line.position // ITEMS
        if line.child is None:
            branch.set_page(page, *fetch(branch, page))
        child = line.child
        if child is not None and wanted in f"{child.label} {child.type} {child.summary}".lower():
            return number
    searched = f"{min(lines, MOST_LINES):,} lines"
    raise KernelError(f"Nothing found in {searched}. Collapsed parts are not searched.")


_LABEL, _TYPE = 44, 20


class TreeRows:
    def __init__(self, root: Branch) -> None:
        self.root = root
        self.loaded = False
        self.problem = ""
        self._label = 8
        self._type = 4

    def lay_out(self, width: int, palette: Palette) -> None:
        self._palette = palette

    def __len__(self) -> int:
        return max(1, self.root.lines)

    def __getitem__(self, index: int) -> Row:
        line = line_at(self.root, index)
        if line is None or (self.problem and not index):
            text = self.problem or ("There is nothing inside." if self.loaded else "")
            return Row([(text, self._palette.muted)])
        return Row(self._spans(line, line.child))

    def set_page(self, branch: Branch, page: int, count: int, children: tuple[Child, ...]) -> None:
        branch.set_page(page, count, children)
        self.loaded = True
        for child in children:
            label = cell_len(one_line(child.label)) + 2 * branch.depth + 2
            self._label = min(_LABEL, max(self._label, label))
            self._type = min(_TYPE, max(self._type, len(child.type)))

    def _spans(self, line: TreeLine, child: Child | None) -> list[Span]:
        palette, indent = self._palette, "  " * line.branch.depth
        if child is None:
            return [(f"{indent}·", palette.hairline)]
        cycle, is_property = child.state == "cycle", child.state == "property"
        mark = "▾ " if line.unfolded else "▸ " if child.count else "↺ " if cycle else "  "
        name_style, style = palette.text + BOLD, palette.text
        summary = plain(child.summary)
        if is_property or child.kind == "function":
            name_style = palette.muted
        if is_property:
            style = palette.model
        elif cycle:
            summary, style = "the object that contains it", palette.moon
        label = fit_text(one_line(child.label), max(4, self._label - len(indent) - 2))
        return [
            (indent, Style.null()),
            (mark, palette.moon if cycle else palette.muted),
            (f"{label}  ", name_style),
            (f"{fit_text(plain(child.type), self._type)}  ", palette.muted),
            (summary, style),
        ]


class TreeView(View, RowsView, can_focus=True):
    BINDINGS = bindings(TREE_COMMANDS, *CURSOR_KEYS)

    def __init__(self, subject: Subject, *, variables: bool = False) -> None:
        """variables: of a frame."""
        self._tree = TreeRows(Branch(subject.path, 0, 0))
        super().__init__(subject, source=self._tree)
        self.set_reactive(TreeView.cursor, 0)
        self._variables = variables
        self._words = ""

    def on_mount(self) -> None:
        self._fetch_page(self._tree.root, 0)

    def show(self, subject: Subject) -> None:
        self.subject = subject
        self._tree.problem, self._tree.loaded, self.cursor = "", False, 0
        self.reload()
        self.refresh_view()

    def reload(self) -> None:
        root = self._tree.root
        if root.path == self.subject.path:
            root.forget()
        else:
            self._tree.root = Branch(self.subject.path, 0, root.count)
        self._fetch_page(self._tree.root, 0)

    def fail(self, sentence: str) -> None:
        """Show an error: in the status line, or in place of the tree for variables, which have
        none."""
        if self._variables:
            self._tree.problem, self._tree.root = sentence, Branch(self.subject.path, 0, 0)
            self.refresh_view()
        else:
            super().fail(sentence)

    @property
    def _line(self) -> TreeLine | None:
        return line_at(self._tree.root, self.cursor)

    def _fetch(self) -> None:
        top = self.scroll_offset.y
        for number in range(top, top + self.size.height):
            if (line := line_at(self._tree.root, number)) is None:
                break
            page = line.position // ITEMS
            if line.child is None and page not in line.branch.asked:
                self._fetch_page(line.branch, page)

    def _fetch_page(self, branch: Branch, page: int) -> None:
        fetch = self._page_fetcher()
        branch.asked.add(page)

        def failed(sentence: str) -> None:
            branch.asked.discard(page)
            self.fail(sentence)

        def show(found: tuple[int, tuple[Child, ...]]) -> None:
            self._set_page(branch, page, *found)

        self.fetcher.ask(f"{id(branch)} {page}", partial(fetch, branch, page), show, failed)

    def _page_fetcher(self) -> Fetch:
        client = self.subject.client
        return lambda branch, page: client.children(branch.path, page * ITEMS, (page + 1) * ITEMS)

    def _set_page(self, branch: Branch, page: int, count: int, children: tuple[Child, ...]) -> None:
        branch.asked.discard(page)
        # Names are dict keys here; show them without quotes.
        if self._variables and branch is self._tree.root:
            children = tuple(replace(child, label=child.label.strip("'")) for child in children)
        self._tree.set_page(branch, page, count, children)
        self.refresh_view()

    def refresh_view(self) -> None:
        super().refresh_view()
        self.cursor = max(0, min(self.cursor, len(self._tree) - 1))
        self._fetch()
        self._show_status()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    def _show_status(self) -> None:
        if not self._tree.loaded:
            return
        count, total = self._tree.root.count, self._tree.root.lines
        at = min(self.cursor + 1, total)
        self.show_status((f"{at:,} of {total:,}  ·  {count:,} inside", "$muted"))

    @property
    def marked_row(self) -> int:
        return super().marked_row if self._line is not None and not self._tree.problem else -1

    def watch_cursor(self) -> None:
        self._show_status()

    def on_click(self, event: Click) -> None:
        if (number := self.row_at(event.y)) is None:
            return
        line = line_at(self._tree.root, number)
        if line is None or line.child is None:
            return
        self.go_to(number)
        if event.chain == 2:
            self.action_open_row()

    def action_search(self) -> None:
        def entered(words: str) -> None:
            self._words = words
            self._find(self.cursor, 1)

        self.ask("names, types and values", self._words, entered, "search:")

    def action_find(self, step: int) -> None:
        self._find(self.cursor + step, step)

    def _find(self, start: int, step: int) -> None:
        words, root = self._words, self._tree.root.without_pages()
        if words:
            find = partial(find_line, root, words, start, step, self._page_fetcher())
            self.fetcher.ask("search", find, self.go_to, super().fail)

    def action_unfold(self) -> None:
        line = self._line
        if line is None or line.child is None:
            return
        if line.unfolded:
            self.action_move(1)
        elif line.child.count:
            line.branch.unfold(line.position, line.child)
            self.refresh_view()

    def action_fold(self) -> None:
        line = self._line
        if line is None:
            return
        if line.unfolded:
            del line.branch.open[line.position]
            self.refresh_view()
        elif line.branch.above is not None:
            self.go_to(line_number(line.branch.above))

    def action_open_row(self) -> None:
        line = self._line
        if line is None or (child := line.child) is None:
            return
        if self._variables:  # variables have no screens of their own
            self.action_unfold()
        elif child.state == "property":
            self._ask_property(line, child)
        else:
            self.post_message(self.ObjectOpened(line.branch.child_path(child), child.label, self))

    def _ask_property(self, line: TreeLine, child: Child) -> None:
        branch, position = line
        self.show_status((f"{plain(child.label)} …", "$moon"))

        def show(found: Child) -> None:
            branch.replace(position, found)
            self.refresh_view()

        evaluate = partial(self.subject.client.evaluate, branch.path, child.label)
        self.fetcher.ask("property", evaluate, show, self.fail)
