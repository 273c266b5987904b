"""The lines of a tree of objects, whose children are fetched from the kernel a page at a time.

An object may have a billion children, of which a screen shows a few. So lines are not kept in a list:
a branch knows how many children it has, and which of them are expanded, and from this the line with a
number is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import ChildObject, ChildPage, ObjectPath

PAGE_CHILDREN = 100
"""Children are fetched in pages of this many."""
MAX_CHILDREN = 1_000_000_000
"""A branch shows at most this many children: a range may have more than a screen can scroll
over."""
MAX_SEARCHED_LINES = 20_000
"""A search looks at this many lines at most, because it may have to fetch all of them."""


class TreeBranch:
    """An object whose children are lines of the tree."""

    def __init__(
        self, path: ObjectPath, depth: int, count: int, parent_line: TreeLine | None = None
    ) -> None:
        """
        Args:
            path: Where the object is in the namespace.
            depth: How many branches contain it.
            count: The number of its children, as far as it is known.
            parent_line: The line of the object itself; None for the root, which has none.
        """
        self.path = path
        self.depth = depth
        self.parent_line = parent_line
        self.count = min(count, MAX_CHILDREN)
        self.expanded: dict[int, TreeBranch] = {}
        """The expanded children, by position."""
        self.requested_pages: set[int] = set()
        """The numbers of the pages that are being fetched."""
        self._pages: dict[int, list[ChildObject]] = {}
        """The fetched pages, by their numbers from 0."""

    @property
    def line_count(self) -> int:
        """The children, and all lines below those that are expanded."""
        return self.count + sum(branch.line_count for branch in self.expanded.values())

    def set_page(self, page_number: int, page: ChildPage) -> None:
        """Take over a page that was fetched, and the number of children that there are now."""
        self.count = min(page.count, MAX_CHILDREN)
        self._pages[page_number] = list(page.children)

        # Drop expanded children that are gone, or are empty now. A child that is not loaded may
        # still be there.
        for position in list(self.expanded):
            child = self.child(position)
            is_empty = child is not None and not child.count
            if position >= page.count or is_empty:
                del self.expanded[position]

    def child(self, position: int) -> ChildObject | None:
        """Return a child; None if its page was not fetched."""
        page = self._pages.get(position // PAGE_CHILDREN, ())
        index = position % PAGE_CHILDREN
        return page[index] if index < len(page) else None

    def replace(self, position: int, child: ChildObject) -> None:
        """Put a child that was read again in its place, unless its page has been discarded."""
        if self.child(position) is not None:
            self._pages[position // PAGE_CHILDREN][position % PAGE_CHILDREN] = child

    def forget(self) -> None:
        """Discard all pages; keep what is expanded."""
        self._pages.clear()
        for branch in self.expanded.values():
            branch.forget()

    def without_pages(self) -> TreeBranch:
        """Return a copy that a search may fill with pages, on another thread.

        The pages of the tree itself belong to the main thread.
        """
        copy = TreeBranch(self.path, self.depth, self.count)
        for position, branch in self.expanded.items():
            copy.expanded[position] = branch.without_pages()
        return copy

    def expand(self, position: int, child: ChildObject) -> None:
        """Expand a child. Its own children are not fetched yet."""
        parent_line = TreeLine(self, position)
        self.expanded[position] = TreeBranch(
            self.child_path(child), self.depth + 1, child.count, parent_line
        )

    def child_path(self, child: ChildObject) -> ObjectPath:
        """Return where a child is in the namespace."""
        if child.step[0] == "computed":
            # Computed values have paths of their own.
            return (child.step,)
        return (*self.path, child.step)


class TreeLine(NamedTuple):
    """A line of the tree: a child of a branch, by its position."""

    branch: TreeBranch
    position: int

    @property
    def child(self) -> ChildObject | None:
        """The object; None if it was not fetched."""
        return self.branch.child(self.position)

    @property
    def is_expanded(self) -> bool:
        return self.position in self.branch.expanded


def line_at(branch: TreeBranch, number: int) -> TreeLine | None:
    """Find a line by its number among all visible lines of a branch; None if there is none."""
    # The lines of the expanded children above the one that is looked at.
    inner_line_count = 0
    for position in sorted(branch.expanded):
        child_branch = branch.expanded[position]
        first_inner_line = position + 1 + inner_line_count
        if number < first_inner_line:
            break
        if number < first_inner_line + child_branch.line_count:
            return line_at(child_branch, number - first_inner_line)
        inner_line_count += child_branch.line_count
    position = number - inner_line_count
    if 0 <= position < branch.count:
        return TreeLine(branch, position)
    return None


def line_number(line: TreeLine) -> int:
    """Return the number of a line among all visible lines."""
    branch = line.branch
    number = line.position
    for position, child_branch in branch.expanded.items():
        if position < line.position:
            number += child_branch.line_count
    if branch.parent_line is None:
        return number
    return line_number(branch.parent_line) + 1 + number


FetchPage = Callable[[TreeBranch, int], ChildPage]
"""Returns the page of a branch with a number, from 0; raises `KernelError`."""


def find_line(root: TreeBranch, query: str, start: int, step: int, fetch: FetchPage) -> int:
    """Return the number of the next line that contains a text. Wraps around at the end.

    Called on a thread, because it fetches the pages that it needs.

    Args:
        root: A copy of the tree, which gets these pages.
        query: The text, in any case.
        start: The number of the first line to look at.
        step: 1, or -1 to search backwards.
        fetch: Fetches a page.

    Raises:
        KernelError: Nothing is found.
    """
    lower_query = query.lower()
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
        if child is None:
            continue
        line_text = f"{child.label} {child.type} {child.summary}"
        if lower_query in line_text.lower():
            return number
    raise KernelError(
        f"Nothing found in {searched_count:,} lines. Collapsed parts are not searched."
    )
