"""Tells the user what of a run in a locked fork is lost, and which of its values are copies."""

from __future__ import annotations

from ..cells.outcomes import ForkReport

_MAX_QUOTED_NAMES = 20
"""Maximum names of a list that are shown to the user."""


def describe_locked_run(report: ForkReport, namespace: dict[str, object]) -> str:
    """Describe, in a line, what of a locked run is lost, and which of its values are copies; empty if
    nothing is.

    Args:
        report: What the cell has done.
        namespace: The user's namespace before the cell.
    """
    existing_names = [name for name in report.fork_only if name in namespace]
    new_names = [name for name in report.fork_only if name not in namespace]
    changed_names = [*existing_names, *report.lost_settings]

    clauses: list[str] = []
    if changed_names:
        names = _quote_names(changed_names, has_more=report.has_more_lost)
        clauses.append(f"changes to {names} were not kept")
    if new_names:
        names = _quote_names(new_names, has_more=report.has_more_lost)
        is_single = len(new_names) == 1 and not report.has_more_lost
        verb = "was" if is_single else "were"
        clauses.append(f"{names} {verb} not kept")
    if report.copied:
        names = _quote_names(list(report.copied))
        copies = "were kept as copies that share"
        if len(report.copied) == 1:
            copies = "was kept as a copy that shares"
        clauses.append(f"{names} {copies} nothing with other variables")
    if not clauses:
        return ""
    return f"ran apart: {'; '.join(clauses)}\n"


def _quote_names(names: list[str], *, has_more: bool = False) -> str:
    """Return the first names in backticks, and how many others there are.

    Args:
        names: The names.
        has_more: Whether there may be more names than these.
    """
    quoted_names = ", ".join(f"`{name}`" for name in names[:_MAX_QUOTED_NAMES])
    unquoted_count = len(names) - _MAX_QUOTED_NAMES
    if has_more:
        return f"{quoted_names} and many more"
    if unquoted_count > 0:
        return f"{quoted_names} and {unquoted_count:,} more"
    return quoted_names
