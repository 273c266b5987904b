"""How changes of the namespace are written in a line of text."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.bus.differences import changed_fields
from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.bus.values import Change, Variable

MAX_CHANGES = 20
"""Changes of variables that are written; more are counted."""
MAX_SUMMARY_CHARS = 60
"""Characters of a variable's summary, and of what has changed of it."""


def format_changes(changes: Sequence[Change], omitted_count: int = 0, cell_label: str = "") -> str:
    """Format ``[In 7: +x int 5, ~rows list 3 items, −old]``.

    Args:
        changes: what a cell has changed; without any, only the label is left.
        omitted_count: further changes, which are only counted.
        cell_label: the cell, as the user sees it (In 7); empty to leave it out.
    """
    if not changes:
        return f"[{cell_label}]" if cell_label else ""
    descriptions: list[str] = []
    for change in changes[:MAX_CHANGES]:
        words = [change.sign + shorten_line(change.name)]
        if change.variable is not None:
            words += _describe_variable(change.variable, change)
        descriptions.append(" ".join(filter(None, words)))
    omitted_count += len(changes) - len(descriptions)
    if omitted_count:
        descriptions.append(f"and {omitted_count:,} more")
    prefix = f"{cell_label}: " if cell_label else ""
    return f"[{prefix}{', '.join(descriptions)}]"


def _describe_variable(variable: Variable, change: Change) -> list[str]:
    """Return a variable's type and summary, or only the fields of an object that have changed."""
    before = change.before
    if before is not None and before.type == variable.type:
        fields = changed_fields(before.summary, variable.summary)
        if fields:
            return [f"{shorten_line(variable.type)}({shorten_line(fields, MAX_SUMMARY_CHARS)})"]
    words = [shorten_line(variable.type), shorten_line(variable.summary, MAX_SUMMARY_CHARS)]
    return [*words, shorten_line(change.columns, MAX_SUMMARY_CHARS)]
