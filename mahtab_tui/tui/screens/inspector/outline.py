"""A tree of any width as lines, and searching them. It holds only the lines that were on the
screen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import Child, ObjectPath

ITEMS = 100
"""Children of a page."""
MOST = 1_000_000_000
"""Children of a branch at most: a range may have more than a screen can scroll over."""
_KEPT = 50
"""Pages that a branch keeps."""
MOST_LINES = 20_000
"""Lines that one search reads at most."""


class Branch:
    """An object whose children are shown."""

    def __init__(
        self, path: ObjectPath, depth: int, count: int, above: TreeLine | None = None
    ) -> None:
        """above: the line below which the children are shown; None for the root."""
        self.path = path
        self.depth = depth
        self.above = above
        self.count = min(count, MOST)
        self.open: dict[int, Branch] = {}
        """The unfolded children, by position."""
        self.asked: set[int] = set()
        """Pages that are being fetched."""
        self._pages: OrderedDict[int, Sequence[Child]] = OrderedDict()

    @property
    def lines(self) -> int:
        """How many lines it takes, unfolded children included."""
        return self.count + sum(branch.lines for branch in self.open.values())

    def take(self, page: int, count: int, children: Sequence[Child]) -> None:
        self.count = min(count, MOST)
        self._pages[page] = children
        # Drop what was unfolded and is gone now, or has become empty.
        self.open = {
            at: branch
            for at, branch in self.open.items()
            if at < count and ((child := self.child(at)) is None or child.count)
        }
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)

    def child(self, position: int) -> Child | None:
        """A child; None if its page is not here."""
        page = self._pages.get(position // ITEMS)
        place = position % ITEMS
        return page[place] if page is not None and place < len(page) else None

    def replace(self, position: int, child: Child) -> None:
        page = list(self._pages.get(position // ITEMS, ()))
        if position % ITEMS < len(page):
            page[position % ITEMS] = child
            self._pages[position // ITEMS] = page

    def forget(self) -> None:
        """Drop all pages, which are out of date; keep what is expanded."""
        self._pages.clear()
        for branch in self.open.values():
            branch.forget()

    def bare(self) -> Branch:
        """Copy the lines without their pages, for another thread."""
        copy = Branch(self.path, self.depth, self.count)
        copy.open = {at: branch.bare() for at, branch in self.open.items()}
        return copy

    def unfold(self, position: int, child: Child) -> None:
        self.open[position] = Branch(
            self.path_of(child), self.depth + 1, child.count, TreeLine(self, position)
        )

    def path_of(self, child: Child) -> ObjectPath:
        """The path to a child. The kernel holds an object that was made on demand under a path of
        its own."""
        return (child.step,) if child.step[0] == "held" else (*self.path, child.step)


class TreeLine(NamedTuple):
    """One line: a child of a branch."""

    branch: Branch
    position: int

    @property
    def child(self) -> Child | None:
        return self.branch.child(self.position)

    @property
    def unfolded(self) -> bool:
        return self.position in self.branch.open


def line_at(branch: Branch, number: int) -> TreeLine | None:
    """Find a line by its number, from 0."""
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


def lines(branch: Branch, first: int, last: int) -> Iterator[TreeLine]:
    """Yield the lines from `first` up to, without, `last`."""
    for number in range(first, last):
        line = line_at(branch, number)
        if line is None:
            return
        yield line


def line_of(line: TreeLine) -> int:
    """The number of a line, from 0."""
    branch, position = line
    number = position + sum(inner.lines for at, inner in branch.open.items() if at < position)
    return number if branch.above is None else line_of(branch.above) + 1 + number


Fetch = Callable[[Branch, int], tuple[int, tuple[Child, ...]]]
"""Returns how many children a branch has, and one page of them; raises `KernelError`."""


def find_line(root: Branch, words: str, start: int, step: int, fetch: Fetch) -> int:
    """Find the first line whose name, type or value has the words: from `start` on, in the
    direction of `step`, and around the end.

    Waits. Raises `KernelError` with a sentence if no line has them. root: a copy of the tree, which
    this fills.
    """
    wanted, lines = words.lower(), root.lines
    for offset in range(min(lines, MOST_LINES)):
        number = (start + offset * step) % lines
        line = line_at(root, number)
        if line is None:
            break
        if line.child is None:
            line.branch.take(line.position // ITEMS, *fetch(line.branch, line.position // ITEMS))
        child = line.child
        if child is not None and wanted in f"{child.label} {child.type} {child.summary}".lower():
            return number
    raise KernelError(
        f"Nothing found in {min(lines, MOST_LINES):,} lines. Collapsed parts are not searched."
    )
