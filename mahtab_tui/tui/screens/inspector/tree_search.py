"""Searching the lines of a tree, which are fetched on the way."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import Child
from mahtab_tui.tui.screens.inspector.outline import ITEMS, Branch, line_at

MOST_LINES = 20_000
"""Lines that are looked at in one search."""

Fetch = Callable[[Branch, int], tuple[int, tuple[Child, ...]]]
"""Gives a page of a branch's children, and how many there are; raises `KernelError`."""


def find_line(root: Branch, words: str, start: int, step: int, fetch: Fetch) -> int:
    """The number of the first line from `start` on, in the direction of `step` and around the end, whose name, type or value has the words.

    Waits. Raises `KernelError` with a sentence where there is none. root: changed by this, so nobody else's.
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
    raise KernelError(f"Nothing found in {min(lines, MOST_LINES):,} lines. What is folded is not searched.")
