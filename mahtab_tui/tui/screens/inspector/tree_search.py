"""Searches the lines of a tree, and fetches them on the way."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import Child
from mahtab_tui.tui.screens.inspector.outline import ITEMS, Branch, line_at

MOST_LINES = 20_000
"""Lines that one search reads at most."""

Fetch = Callable[[Branch, int], tuple[int, tuple[Child, ...]]]
"""Returns how many children a branch has, and one page of them; raises `KernelError`."""


def find_line(root: Branch, words: str, start: int, step: int, fetch: Fetch) -> int:
    """Find the first line whose name, type or value has the words: from `start` on, in the direction of `step`, and around the end.

    Waits. Raises `KernelError` with a sentence if no line has them. root: a copy of the tree, which this fills.
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
    raise KernelError(f"Nothing found in {min(lines, MOST_LINES):,} lines. Collapsed parts are not searched.")
