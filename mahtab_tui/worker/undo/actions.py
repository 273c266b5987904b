"""What an undo does, and what it leaves as it is."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple


class Unrestored(NamedTuple):
    """Something that an undo leaves as it is."""

    name: str
    """A variable, or a label of anything else; empty if the reason says it all."""
    reason: str
    """A clause, or a sentence if there is no name."""


NOTHING_RESTORED: dict[str, Any] = {"changes": [], "not_restored": [], "exact": True}
"""The report of an undo that leaves the namespace as it is."""


class Action(NamedTuple):
    """A step of an undo."""

    apply: Callable[[], object]
    revert: Callable[[], object]
    """Restores what was there before `apply`."""
