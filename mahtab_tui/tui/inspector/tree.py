"""A view of an object's contents as a tree. `tree_model` finds its lines, and this draws them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rich.cells import cell_len
from rich.style import Style
from textual.events import Click

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.inspector_client import ChildObject, ChildPage
from mahtab_tui.tui.commands.declarations import TREE_COMMANDS, bindings
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.inspector.tree_model import (
    PAGE_CHILDREN,
    FetchPage,
    TreeBranch,
    TreeLine,
    find_line,
    line_at,
    line_number,
)
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette

INDENT = 2
"""Columns by which a line is indented further than the object that contains it."""
MIN_LABEL_WIDTH = 8
MAX_LABEL_WIDTH = 44
"""Columns of the labels with their indent and their arrow."""
MIN_TYPE_WIDTH = 4
MAX_TYPE_WIDTH = 20
"""Columns of the types."""


class TreeRows:
    """The lines of a tree as rows. Call `lay_out` before accessing them."""

    def __init__(self, root: TreeBranch) -> None:
        self.root = root
        """Its children are the lines of depth 0. It has no line itself."""
        self.is_loaded = False
        """Whether the first page has come."""
        self.problem = ""
        """A sentence that stands in place of the first line; empty if all is well."""
        self._label_width = MIN_LABEL_WIDTH
        """Widths only grow, so that nothing jumps while scrolling."""
        self._type_width = MIN_TYPE_WIDTH

    def lay_out(self, width: int, palette: Palette) -> None:
        self._palette = palette

    def __len__(self) -> int:
        return max(1, self.root.line_count)

    def __getitem__(self, index: int) -> Row:
        line = line_at(self.root, index)
        if line is None or (self.problem and index == 0):
            text = self.problem
            if not text and self.is_loaded:
                text = "There is nothing inside."
            return Row([(text, self._palette.muted)])
        return Row(self._spans(line, line.child))

    def set_page(self, branch: TreeBranch, page_number: int, page: ChildPage) -> None:
        """Take over a page that was fetched, and make its labels and types fit."""
        branch.set_page(page_number, page)
        self.is_loaded = True
        for child in page.children:
            label_width = cell_len(one_line(child.label)) + INDENT * (branch.depth + 1)
            self._label_width = min(MAX_LABEL_WIDTH, max(self._label_width, label_width))
            self._type_width = min(MAX_TYPE_WIDTH, max(self._type_width, len(child.type)))

    def _spans(self, line: TreeLine, child: ChildObject | None) -> list[Span]:
        """Draw a line: an arrow, a name, a type and a summary."""
        palette = self._palette
        indent = " " * INDENT * line.branch.depth
        if child is None:
            return [(f"{indent}·", palette.muted)]

        label_style = palette.text + BOLD
        if child.state == "property" or child.kind == "function":
            label_style = palette.muted
        # With its indent, a label is as wide as the others, so that the types stand in a column.
        label_width = max(4, self._label_width - len(indent) - INDENT)
        label = fit_text(one_line(child.label), label_width)
        return [
            (indent, Style.null()),
            self._mark(line, child),
            (f"{label}  ", label_style),
            (f"{fit_text(plain(child.type), self._type_width)}  ", palette.muted),
            self._summary(child),
        ]

    def _mark(self, line: TreeLine, child: ChildObject) -> Span:
        """Return what stands before the label."""
        is_cycle = child.state == "cycle"
        style = self._palette.highlight if is_cycle else self._palette.muted
        if line.is_expanded:
            return "▾ ", style
        if child.count:
            return "▸ ", style
        if is_cycle:
            return "↺ ", style
        return "  ", style

    def _summary(self, child: ChildObject) -> Span:
        palette = self._palette
        if child.state == "property":
            return plain(child.summary), palette.model
        if child.state == "cycle":
            return "the object that contains it", palette.highlight
        return plain(child.summary), palette.text


class TreeView(View, RowsView, can_focus=True):
    """Shows an object's contents as a tree that can be expanded."""

    BINDINGS = bindings(TREE_COMMANDS, *CURSOR_KEYS)

    def __init__(self, subject: Subject, *, variables: bool = False) -> None:
        """
        Args:
            subject: The object whose contents are shown.
            variables: Whether the object is a dict of a frame's variables.
        """
        self._tree = TreeRows(TreeBranch(subject.path, 0, 0))
        super().__init__(subject, source=self._tree)
        self.set_reactive(TreeView.cursor, 0)
        self._shows_variables = variables
        self._query = ""
        """The text that was searched for last."""

    def on_mount(self) -> None:
        self._fetch_page(self._tree.root, 0)

    def show(self, subject: Subject) -> None:
        """Show another object, from its first line on."""
        self.subject = subject
        self._tree.problem = ""
        self._tree.is_loaded = False
        self.cursor = 0
        self.reload()
        self.refresh_view()

    def reload(self) -> None:
        """Fetch the object again. What is expanded stays so if it is the same object."""
        root = self._tree.root
        if root.path == self.subject.path:
            root.forget()
        else:
            self._tree.root = TreeBranch(self.subject.path, 0, root.count)
        self._fetch_page(self._tree.root, 0)

    def fail(self, sentence: str) -> None:
        """Show an error in the status line.

        A tree of variables has no status line, so there it takes the place of the tree.
        """
        if self._shows_variables:
            self._tree.problem = sentence
            self._tree.root = TreeBranch(self.subject.path, 0, 0)
            self.refresh_view()
        else:
            super().fail(sentence)

    # Fetching

    def _fetch_visible(self) -> None:
        """Fetch the pages of the visible lines that lack them."""
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
        """Return what fetches a page, for use on another thread."""
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

    # Drawing

    def refresh_view(self) -> None:
        super().refresh_view()
        self.cursor = max(0, min(self.cursor, len(self._tree) - 1))
        self._fetch_visible()
        self._show_status()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch_visible()

    def watch_cursor(self) -> None:
        self._show_status()

    def _show_status(self) -> None:
        if not self._tree.is_loaded:
            return
        root = self._tree.root
        line_count = root.line_count
        number = min(self.cursor + 1, line_count)
        status = f"{number:,} of {line_count:,}  ·  {root.count:,} inside"
        self.show_status((status, "$muted"))

    @property
    def marked_row(self) -> int:
        # A sentence in place of the tree is no line to stand on.
        if self._line is None or self._tree.problem:
            return -1
        return super().marked_row

    # What the user does

    @property
    def _line(self) -> TreeLine | None:
        return line_at(self._tree.root, self.cursor)

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

    def action_open_row(self) -> None:
        """Open the object at the cursor, or evaluate it if it is a property."""
        line = self._line
        child = line.child if line is not None else None
        if line is None or child is None:
            return
        if self._shows_variables:
            # Variables of a frame have no screens of their own.
            self.action_unfold()
        elif child.state == "property":
            self._evaluate_property(line, child)
        else:
            self.post_message(self.ObjectOpened(line.branch.child_path(child), child.label, self))

    def _evaluate_property(self, line: TreeLine, child: ChildObject) -> None:
        """Evaluate a property, which runs code of the object, only because the user asked for it."""
        branch, position = line
        self.show_status((f"{plain(child.label)} …", "$highlight"))

        def show(evaluated: ChildObject) -> None:
            branch.replace(position, evaluated)
            self.refresh_view()

        evaluate = partial(self.subject.client.evaluate, branch.path, child.label)
        self.fetcher.run("property", evaluate, show, self.fail)

    def action_unfold(self) -> None:
        """Expand the object at the cursor; go into it if it is expanded already."""
        line = self._line
        if line is None or line.child is None:
            return
        if line.is_expanded:
            self.action_move(1)
        elif line.child.count:
            line.branch.expand(line.position, line.child)
            self.refresh_view()

    def action_fold(self) -> None:
        """Collapse the object at the cursor; go to the one that contains it if it is collapsed."""
        line = self._line
        if line is None:
            return
        if line.is_expanded:
            del line.branch.expanded[line.position]
            self.refresh_view()
        elif line.branch.parent_line is not None:
            self.go_to(line_number(line.branch.parent_line))

    def action_search(self) -> None:
        """Let the user type a text, and go to the next line that contains it."""

        def search(query: str) -> None:
            self._query = query
            self._find(self.cursor, 1)

        self.open_line("names, types and values", self._query, search, "search:")

    def action_find(self, step: int) -> None:
        """Go to the next (1) or previous (-1) line that contains the text searched for."""
        self._find(self.cursor + step, step)

    def _find(self, start: int, step: int) -> None:
        if self._query:
            root = self._tree.root.without_pages()
            find = partial(find_line, root, self._query, start, step, self._page_fetcher())
            self.fetcher.run("search", find, self.go_to, super().fail)
