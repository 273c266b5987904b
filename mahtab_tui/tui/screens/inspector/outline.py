"""A tree of any width as lines, of which only those are held that were seen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mahtab_tui.kernel.looking import Child, Path

ITEMS = 100
"""Children of a page."""
MOST = 1_000_000_000
"""Children that can be scrolled through: a range may have more than a screen can count."""
_KEPT = 50
"""Pages that a branch keeps."""


class Branch:
    """An object whose children are shown."""

    def __init__(self, path: Path, depth: int, count: int) -> None:
        self.path = path
        self.depth = depth
        self.count = min(count, MOST)
        self.open: dict[int, Branch] = {}
        """Children that are unfolded, by their position."""
        self.asked: set[int] = set()
        """Pages that are on their way."""
        self._pages: OrderedDict[int, Sequence[Child]] = OrderedDict()

    @property
    def lines(self) -> int:
        """Lines that it takes, with all that is unfolded."""
        return self.count + sum(branch.lines for branch in self.open.values())

    def take(self, page: int, count: int, children: Sequence[Child]) -> None:
        """A page of children has come."""
        self.count = min(count, MOST)
        self._pages[page] = children
        # What is no longer there, or has nothing inside any more, is not unfolded.
        self.open = {at: branch for at, branch in self.open.items() if at < count and ((child := self.child(at)) is None or child.count)}
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)

    def child(self, position: int) -> Child | None:
        """A child, if its page is here."""
        page = self._pages.get(position // ITEMS)
        place = position % ITEMS
        return page[place] if page is not None and place < len(page) else None

    def replace(self, position: int, child: Child) -> None:
        """A child is known better now."""
        page = list(self._pages.get(position // ITEMS, ()))
        if position % ITEMS < len(page):
            page[position % ITEMS] = child
            self._pages[position // ITEMS] = page

    def forget(self) -> None:
        """What is held is old; what is unfolded stays so."""
        self._pages.clear()
        for branch in self.open.values():
            branch.forget()

    def bare(self) -> Branch:
        """The same lines without what is held of them, for another thread."""
        copy = Branch(self.path, self.depth, self.count)
        copy.open = {at: branch.bare() for at, branch in self.open.items()}
        return copy

    def unfold(self, position: int, child: Child) -> None:
        """Show a child's own children in their place."""
        path = (child.step,) if child.step[0] == "held" else (*self.path, child.step)
        self.open[position] = Branch(path, self.depth + 1, child.count)


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
    """A line by its number, from 0."""
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
    """The lines from first up to last."""
    for number in range(first, last):
        line = line_at(branch, number)
        if line is None:
            return
        yield line


def line_of(root: Branch, wanted: Branch, position: int) -> int:
    """The number of a line."""
    number = position + sum(inner.lines for at, inner in wanted.open.items() if at < position)
    if wanted is root:
        return number
    for at, inner in _with_parents(root, wanted):
        return line_of(root, inner, at) + 1 + number
    return number


def parent_of(root: Branch, wanted: Branch) -> TreeLine | None:
    """The line that a branch was unfolded from."""
    for at, inner in _with_parents(root, wanted):
        return TreeLine(inner, at)
    return None


def _with_parents(branch: Branch, wanted: Branch) -> Iterator[tuple[int, Branch]]:
    for at, inner in branch.open.items():
        if inner is wanted:
            yield at, branch
            return
        yield from _with_parents(inner, wanted)
