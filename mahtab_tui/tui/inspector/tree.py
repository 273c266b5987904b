"""A view of an object's contents as a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.events import Click

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import ChildObject, ChildPage, ObjectPath
from mahtab_tui.tui.commands.declarations import TREE_COMMANDS, bindings
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette

PAGE_CHILDREN = 100
"""Children are fetched in pages."""
MAX_CHILDREN = 1_000_000_000
"""A branch shows at most this many children: a range may have more than a screen can scroll
over."""
MAX_SEARCHED_LINES = 20_000
MAX_LABEL_WIDTH = 44
MAX_TYPE_WIDTH = 20


class TreeBranch:
    """An object whose children are lines of the tree."""

    def __init__(
        self, path: ObjectPath, depth: int, count: int, parent_line: TreeLine | None = None
    ) -> None:
        """count: the number of children."""
        self.path = path
        self.depth = depth
        self.parent_line = parent_line
        self.count = min(count, MAX_CHILDREN)
        self.open: dict[int, TreeBranch] = {}
        """The expanded children, by position."""
        self.requested_pages: set[int] = set()
        self._pages: dict[int, list[ChildObject]] = {}

    @property
    def line_count(self) -> int:
        """The children, and all lines below those that are expanded."""
        return self.count + sum(branch.line_count for branch in self.open.values())

    def set_page(self, page_number: int, page: ChildPage) -> None:
        self.count = min(page.count, MAX_CHILDREN)
        self._pages[page_number] = list(page.children)
        # Drop expanded children that are gone, or are empty now. A child that is not loaded may
        # still be there.
        for position in list(self.open):
            child = self.child(position)
            is_empty = child is not None and not child.count
            if position >= page.count or is_empty:
                del self.open[position]

    def child(self, position: int) -> ChildObject | None:
        page = self._pages.get(position // PAGE_CHILDREN, ())
        index = position % PAGE_CHILDREN
        return page[index] if index < len(page) else None

    def replace(self, position: int, child: ChildObject) -> None:
        if self.child(position) is not None:
            self._pages[position // PAGE_CHILDREN][position % PAGE_CHILDREN] = child

    def forget(self) -> None:
        """Discard all pages; keep what is expanded."""
        self._pages.clear()
        for branch in self.open.values():
            branch.forget()

    def without_pages(self) -> TreeBranch:
        """Copy for use on another thread."""
        copy = TreeBranch(self.path, self.depth, self.count)
        for position, branch in self.open.items():
            copy.open[position] = branch.without_pages()
        return copy

    def unfold(self, position: int, child: ChildObject) -> None:
        parent_line = TreeLine(self, position)
        self.open[position] = TreeBranch(
            self.child_path(child), self.depth + 1, child.count, parent_line
        )

    def child_path(self, child: ChildObject) -> ObjectPath:
        if child.step[0] == "computed":
            # Computed values have paths of their own.
            return (child.step,)
        return (*self.path, child.step)


class TreeLine(NamedTuple):
    """A child of a branch, by its position."""

    branch: TreeBranch
    position: int

    @property
    def child(self) -> ChildObject | None:
        return self.branch.child(self.position)

    @property
    def is_open(self) -> bool:
        return self.position in self.branch.open


def line_at(branch: TreeBranch, number: int) -> TreeLine | None:
    """Find a line by its number among all visible lines of a branch; None if there is none."""
    inner_lines = 0  # lines of expanded children before the one that is looked at
    for position in sorted(branch.open):
        child_branch = branch.open[position]
        first_inner_line = position + 1 + inner_lines
        if number < first_inner_line:
            break
        if number < first_inner_line + child_branch.line_count:
            return line_at(child_branch, number - first_inner_line)
        inner_lines += child_branch.line_count
    position = number - inner_lines
    if 0 <= position < branch.count:
        return TreeLine(branch, position)
    return None


def line_number(line: TreeLine) -> int:
    """Return the number of a line among all visible lines."""
    branch = line.branch
    number = line.position
    for position, child_branch in branch.open.items():
        if position < line.position:
            number += child_branch.line_count
    if branch.parent_line is None:
        return number
    return line_number(branch.parent_line) + 1 + number


FetchPage = Callable[[TreeBranch, int], ChildPage]
"""Returns the page of a branch with a number, from 0; raises `KernelError`."""


def find_line(root: TreeBranch, query: str, start: int, step: int, fetch: FetchPage) -> int:
    """Return the number of the next line that contains a text, and wrap around; called on a thread.

    Args:
        root: A copy of the tree; this loads its pages.
        start: The number of the first line to look at.
        step: 1, or -1 to search backwards.

    Raises:
        KernelError: Nothing is found.
    """
    query = query.lower()
    line_count = root.line_count
    searched_count = min(line_count, MAX_SEARCHED_LINES)
    for offset in range(searched_count):
        number = (start + offset * step) % line_count
        line = line_at(root, number)
        if line is None:
            break
        branch = line.branch
        if line.child is None:
            page_number = line.position // PAGE_CHILDREN
            branch.set_page(page_number, fetch(branch, page_number))
        child = line.child
        if child is not None and query in f"{child.label} {child.type} {child.summary}".lower():
            return number
    raise KernelError(
        f"Nothing found in {searched_count:,} lines. Collapsed parts are not searched."
    )


class TreeRows:
    """The lines of a tree as rows."""

    def __init__(self, root: TreeBranch) -> None:
        self.root = root
        self.loaded = False
        self.problem = ""
        self._label_width = 8
        self._type_width = 4

    def lay_out(self, width: int, palette: Palette) -> None:
        self._palette = palette

    def __len__(self) -> int:
        return max(1, self.root.line_count)

    def __getitem__(self, index: int) -> Row:
        line = line_at(self.root, index)
        if line is None or (self.problem and not index):
            text = self.problem
            if not text and self.loaded:
                text = "There is nothing inside."
            return Row([(text, self._palette.muted)])
        return Row(self._spans(line, line.child))

    def set_page(self, branch: TreeBranch, page_number: int, page: ChildPage) -> None:
        branch.set_page(page_number, page)
        self.loaded = True
        for child in page.children:
            label_width = cell_len(one_line(child.label)) + 2 * branch.depth + 2
            self._label_width = min(MAX_LABEL_WIDTH, max(self._label_width, label_width))
            self._type_width = min(MAX_TYPE_WIDTH, max(self._type_width, len(child.type)))

    def _spans(self, line: TreeLine, child: ChildObject | None) -> list[Span]:
        """Draw a line: an arrow, a name, a type and a summary."""
        palette = self._palette
        indent = "  " * line.branch.depth
        if child is None:
            return [(f"{indent}·", palette.muted)]

        is_cycle = child.state == "cycle"
        is_property = child.state == "property"
        if line.is_open:
            mark = "▾ "
        elif child.count:
            mark = "▸ "
        elif is_cycle:
            mark = "↺ "
        else:
            mark = "  "
        label_style = palette.text + BOLD
        if is_property or child.kind == "function":
            label_style = palette.muted

        summary = plain(child.summary)
        summary_style = palette.text
        if is_property:
            summary_style = palette.model
        elif is_cycle:
            summary = "the object that contains it"
            summary_style = palette.highlight
        label = fit_text(one_line(child.label), max(4, self._label_width - len(indent) - 2))
        return [
            (indent, Style.null()),
            (mark, palette.highlight if is_cycle else palette.muted),
            (f"{label}  ", label_style),
            (f"{fit_text(plain(child.type), self._type_width)}  ", palette.muted),
            (summary, summary_style),
        ]


class TreeView(View, RowsView, can_focus=True):
    """Shows an object's contents as a tree that can be expanded."""

    BINDINGS = bindings(TREE_COMMANDS, *CURSOR_KEYS)

    def __init__(self, subject: Subject, *, variables: bool = False) -> None:
        """variables: whether the object is a dict of a frame's variables."""
        self._tree = TreeRows(TreeBranch(subject.path, 0, 0))
        super().__init__(subject, source=self._tree)
        self.set_reactive(TreeView.cursor, 0)
        self._shows_variables = variables
        self._query = ""

    def on_mount(self) -> None:
        self._fetch_page(self._tree.root, 0)

    def show(self, subject: Subject) -> None:
        self.subject = subject
        self._tree.problem = ""
        self._tree.loaded = False
        self.cursor = 0
        self.reload()
        self.refresh_view()

    def reload(self) -> None:
        root = self._tree.root
        if root.path == self.subject.path:
            root.forget()
        else:
            self._tree.root = TreeBranch(self.subject.path, 0, root.count)
        self._fetch_page(self._tree.root, 0)

    def fail(self, sentence: str) -> None:
        """Show an error: in the status line, or in place of the tree for variables, which have
        none."""
        if self._shows_variables:
            self._tree.problem = sentence
            self._tree.root = TreeBranch(self.subject.path, 0, 0)
            self.refresh_view()
        else:
            super().fail(sentence)

    @property
    def _line(self) -> TreeLine | None:
        return line_at(self._tree.root, self.cursor)

    def _fetch(self) -> None:
        top = self.scroll_offset.y
        for number in range(top, top + self.size.height):
            line = line_at(self._tree.root, number)
            if line is None:
                break
            page_number = line.position // PAGE_CHILDREN
            if line.child is None and page_number not in line.branch.requested_pages:
                self._fetch_page(line.branch, page_number)

    def _fetch_page(self, branch: TreeBranch, page_number: int) -> None:
        branch.requested_pages.add(page_number)

        def fail(sentence: str) -> None:
            branch.requested_pages.discard(page_number)
            self.fail(sentence)

        fetch = partial(self._page_fetcher(), branch, page_number)
        show = partial(self._set_page, branch, page_number)
        self.fetcher.run(f"{id(branch)} {page_number}", fetch, show, fail)

    def _page_fetcher(self) -> FetchPage:
        client = self.subject.client

        def fetch(branch: TreeBranch, page_number: int) -> ChildPage:
            start = page_number * PAGE_CHILDREN
            return client.children(branch.path, start, start + PAGE_CHILDREN)

        return fetch

    def _set_page(self, branch: TreeBranch, page_number: int, page: ChildPage) -> None:
        branch.requested_pages.discard(page_number)
        # Names are dict keys here; show them without quotes.
        if self._shows_variables and branch is self._tree.root:
            names = [replace(child, label=child.label.strip("'")) for child in page.children]
            page = replace(page, children=tuple(names))
        self._tree.set_page(branch, page_number, page)
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
        root = self._tree.root
        line_count = root.line_count
        number = min(self.cursor + 1, line_count)
        status = f"{number:,} of {line_count:,}  ·  {root.count:,} inside"
        self.show_status((status, "$muted"))

    @property
    def marked_row(self) -> int:
        if self._line is None or self._tree.problem:
            return -1
        return super().marked_row

    def watch_cursor(self) -> None:
        self._show_status()

    def on_click(self, event: Click) -> None:
        number = self.row_at(event.y)
        if number is None:
            return
        line = line_at(self._tree.root, number)
        if line is None or line.child is None:
            return
        self.go_to(number)
        if event.chain == 2:
            self.action_open_row()

    def action_search(self) -> None:
        def search(query: str) -> None:
            self._query = query
            self._find(self.cursor, 1)

        self.open_line("names, types and values", self._query, search, "search:")

    def action_find(self, step: int) -> None:
        self._find(self.cursor + step, step)

    def _find(self, start: int, step: int) -> None:
        if self._query:
            root = self._tree.root.without_pages()
            find = partial(find_line, root, self._query, start, step, self._page_fetcher())
            self.fetcher.run("search", find, self.go_to, super().fail)

    def action_unfold(self) -> None:
        line = self._line
        if line is None or line.child is None:
            return
        if line.is_open:
            self.action_move(1)
        elif line.child.count:
            line.branch.unfold(line.position, line.child)
            self.refresh_view()

    def action_fold(self) -> None:
        line = self._line
        if line is None:
            return
        if line.is_open:
            del line.branch.open[line.position]
            self.refresh_view()
        elif line.branch.parent_line is not None:
            self.go_to(line_number(line.branch.parent_line))

    def action_open_row(self) -> None:
        line = self._line
        child = line.child if line is not None else None
        if line is None or child is None:
            return
        if self._shows_variables:
            # Variables of a frame have no screens of their own.
            self.action_unfold()
        elif child.state == "property":
            self._ask_property(line, child)
        else:
            self.post_message(self.ObjectOpened(line.branch.child_path(child), child.label, self))

    def _ask_property(self, line: TreeLine, child: ChildObject) -> None:
        branch, position = line
        self.show_status((f"{plain(child.label)} …", "$highlight"))

        def show(evaluated: ChildObject) -> None:
            branch.replace(position, evaluated)
            self.refresh_view()

        evaluate = partial(self.subject.client.evaluate, branch.path, child.label)
        self.fetcher.run("property", evaluate, show, self.fail)
