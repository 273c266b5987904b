"""Changes of names in words and lines, for the transcript, an undo, and a review."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.row import with_separators

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Change, NotRestored

WAS = 24
"""Characters of a name's previous summary."""
NAMES = 200
"""Maximum number of names that are listed; more are counted."""

_STYLES = {"+": "$good", "~": "$moon", "?": "$muted", "−": "$bad"}


def _joined(type: str, summary: str, kind: str | None) -> str:
    """Join type and summary: ``int 3``, or ``Order(id=7)`` for the fields of an object."""
    return (
        f"{type}{summary}"
        if kind == "data" and summary.startswith("(")
        else f"{type} {summary}".strip()
    )


def described(change: Change) -> str:
    """Describe a change by old and new type and summary: `DataFrame 100 × 4 → 98 × 5`, `int 3 → str
    'three'`."""
    kind, old_kind = plain(change.type or ""), plain(change.was_type or "")
    now, was = (with_separators(plain(text or "")) for text in (change.summary, change.was))
    after = _joined(kind, now, change.kind)
    if not old_kind:
        return after
    before = _joined(old_kind, was if len(was) <= WAS else was[: WAS - 1] + "…", change.kind)
    return f"{before} → {now if old_kind == kind else after}"


def change_lines(changes: Sequence[Change], not_restored: Sequence[NotRestored]) -> list[Content]:
    """Return a line for each change, and then for each thing that an undo leaves as it is."""
    lines = [_line(change) for change in changes[:NAMES]] or [Content("No variable changes.")]
    lines += _count_of_others(len(changes))
    if not_restored:
        lines += [Content(""), Content.styled("Cannot be undone:", "$bad")]
        lines += [
            Content(f"  {one_line(f'{each.name}: {each.reason}' if each.name else each.reason)}")
            for each in not_restored[:NAMES]
        ]
        lines += _count_of_others(len(not_restored))
    return lines


def _line(change: Change) -> Content:
    from mahtab_tui.kernel.values import CHANGE_SIGNS  # no part of the first picture

    sign = CHANGE_SIGNS.get(change.change, "~")
    return Content.assemble(
        (f"{sign} {one_line(change.name)}", _STYLES[sign]), f"  {one_line(described(change))}"
    )


def _count_of_others(count: int) -> list[Content]:
    return [Content.styled(f"and {count - NAMES:,} more", "$muted")] if count > NAMES else []
