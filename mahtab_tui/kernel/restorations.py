"""What an undo or redo has restored, in words and as changes."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.bus.values import MAX_DESCRIBED_FILES, Change, ChangeKind
from mahtab_tui.kernel.values import Restoration

OUTSIDE = "Files, and everything else outside this kernel, stay as they are."
OUTSIDE_WATCHED = "Everything else outside this kernel stays as it is."
_OPPOSITES: dict[ChangeKind, ChangeKind] = {"added": "deleted", "deleted": "added"}


def inverted_changes(restoration: Restoration) -> tuple[Change, ...]:
    """Return the changes that an undo reverses."""
    return tuple(
        Change(
            change.name,
            _OPPOSITES.get(change.change, change.change),
            change.before,
            change.variable,
        )
        for change in restoration.changes
    )


def describe_restoration(restoration: Restoration, moment: str) -> str:
    """Return a sentence about the restored state, followed by what was not restored.

    Args:
        restoration: What an undo or a redo has restored.
        moment: The moment of the restored state, such as ``before cell 2 ran``.
    """
    if restoration.exact:
        text = f"The namespace is as it was {moment}."
    else:
        text = f"All but the following is as it was {moment}. {not_restored(restoration)}"
    return f"{text} {describe_restored_files(restoration)}".rstrip()


def describe_restored_files(restoration: Restoration) -> str:
    """Return which files an undo has restored, as a sentence; empty for none."""
    participles = {
        "restore": "restored",
        "create again": "created again",
        "remove": "removed",
        "rename back": "renamed back",
    }
    descriptions = [
        f"`{file.path}` {participles.get(file.action, file.action)}"
        for file in restoration.files[:MAX_DESCRIBED_FILES]
    ]
    omitted_count = len(restoration.files) - len(descriptions)
    if omitted_count > 0:
        descriptions.append(f"and {omitted_count:,} more")
    return f"Files: {', '.join(descriptions)}." if descriptions else ""


def not_restored(restoration: Restoration) -> str:
    """Return what an undo could not restore, with reasons; empty if it restored everything."""
    reasons = [
        f"{value.name}: {value.reason}".removeprefix(": ") for value in restoration.not_restored
    ]
    if not reasons:
        return ""
    listed_reasons = "; ".join(reason.removesuffix(".") for reason in reasons)
    return f"Not restored: {listed_reasons}."


def undo_question(cells: Sequence[int]) -> str:
    """Return the question whether to undo cells.

    Args:
        cells: Empty while they are not known.
    """
    if not cells:
        return "Undo what ran last?"
    if len(cells) == 1:
        return f"Undo cell {cells[0]}?"
    return f"Undo {len(cells):,} cells, from cell {cells[0]} to cell {cells[-1]}?"


def outside_note(restoration: Restoration) -> str:
    """Say what an undo leaves alone."""
    if restoration.files_unwatched:
        return f"{OUTSIDE} Files are not watched here: {restoration.files_unwatched}."
    return OUTSIDE_WATCHED
