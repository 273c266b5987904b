"""Texts about undos, and about the points to which a session can be rewound: for agents, and for the
user in `/points`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.values import NotRestored, describe_files
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.session.rewind_points import RewindPoint
from mahtab_tui.session.rewinding import RewindPreview
from mahtab_tui.session.undo_control import describe_restored_parts

MAX_POINTS = 50
"""Points that an agent is told of, the newest."""
MAX_NAMES = 20
"""Names of variables and files in a line; more are counted."""
_NOTHING = "Nothing would go back."
_NO_POINTS = "There is no point to go back to."


def describe_points(
    points: Sequence[RewindPoint],
    hidden: Collection[str],
    first_line: Callable[[int, str], str],
) -> str:
    """Return a line for each point. It leaves out the words of questions, because an agent may read it,
    and these belong to the user and the model.

    Args:
        points: The newest first.
        hidden: The names of entries that the user has hidden.
        first_line: Gets a cell's number and its code; returns how the code begins, or why it is withheld.
    """
    lines: list[str] = []
    for point in points[:MAX_POINTS]:
        text = ""
        if point.entry in hidden:
            text = ": hidden by the user"
        elif point.mode == "python":
            text = f": {first_line(point.cells[0], point.text)}"
        names = [f"{sign}{name}" for name, sign in point.variables.items()]
        facts = (
            join_names(names),
            describe_files(list(point.files.values())),
            count_entries(len(point.entries)),
        )
        changed = "; ".join(filter(None, facts))
        lines.append(f"{point.name} ({point.author}){text} [{changed}]")
    omitted_count = len(points) - MAX_POINTS
    if omitted_count > 0:
        lines.append(f"… {omitted_count:,} earlier")
    return "\n".join(lines) or _NO_POINTS


def describe_preview(preview: RewindPreview) -> str:
    """Say what a rewind would take back, and what not."""
    if preview.does_nothing:
        parts = [_NOTHING]
    else:
        parts = [f"Back to before {preview.point.name} would go: {name_parts(preview)}."]
    if preview.unrestorable:
        parts.append(f"What cannot go back: {_join_reasons(preview.unrestorable)}")
    if preview.restoration.files_unwatched:
        parts.append(f"Files are not watched: {preview.restoration.files_unwatched}.")
    return "\n".join(parts)


def describe_rewind(preview: RewindPreview, restoration: Restoration) -> str:
    """Say what a rewind has taken back, and what not.

    Args:
        preview: The preview of the rewind.
        restoration: What the rewind has restored of variables and files.
    """
    parts: list[str] = []
    target = preview.target
    if preview.entries:
        parts.append(f"Gone from the conversation: {count_entries(len(preview.entries))}.")
    if target.cell is not None:
        moment = f"before cell {target.cell} ran"
        parts.append(describe_restored_parts(target.scope, restoration, moment))
    # What was tried in vain is named with what was restored.
    unreachable = [
        item for item in preview.unrestorable if item not in preview.restoration.not_restored
    ]
    if unreachable:
        parts.append(f"What did not go back: {_join_reasons(unreachable)}")
    return "\n".join(parts)


def _join_reasons(items: Sequence[NotRestored]) -> str:
    reasons = [f"{item.name}: {item.reason}".removeprefix(": ") for item in items]
    return "; ".join(reasons)


def name_parts(preview: RewindPreview) -> str:
    """Name what a rewind takes back, in a line."""
    restoration = preview.restoration
    parts: list[str] = []
    if preview.entries:
        parts.append(f"{count_entries(len(preview.entries))} of the conversation")
    if preview.cells:
        noun = "cell" if len(preview.cells) == 1 else "cells"
        parts.append(f"{noun} {join_names([str(cell) for cell in preview.cells])}")
    if restoration.changes:
        names = [change.name for change in restoration.changes]
        parts.append(f"variables {join_names(names)}")
    if restoration.files:
        parts.append(f"files {join_names(describe_file_steps(restoration))}")
    return "; ".join(parts)


def describe_file_steps(restoration: Restoration) -> list[str]:
    """Return what is done to each file, such as ``remove out.txt``, on one line.

    Control characters in names are shown by symbols.
    """
    return [f"{file.action} {visible(file.path)}".replace("\n", "␊") for file in restoration.files]


def count_entries(count: int) -> str:
    """Return a number of entries in words."""
    return "1 entry" if count == 1 else f"{count:,} entries"


def join_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    text = ", ".join(names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        text += f" and {len(names) - MAX_NAMES:,} more"
    return text
