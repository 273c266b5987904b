"""How cells end, as the kernel reports it to its host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .capture import shorten
from .tracebacks import Traceback, TracebackRow

MAX_SENT_CHARS = 4_000_000
"""Characters to send of a value's or a traceback's head and of its tail."""

Piece = tuple[str, str]
"""The kind of an output ("stdout", "value" or "traceback"), and its text."""


class Outcome(NamedTuple):
    """How the code of a cell has ended, in JSON values.

    What it has printed is not known here, because that goes straight to the host, which joins both.
    """

    status: str
    """ok, error or interrupted."""
    pieces: list[Piece]
    """Kinds and texts that follow the output, in order."""
    changes: list[dict[str, Any]]
    frames: list[TracebackRow]
    """Frames of the traceback, the last piece."""


class ForkReport(NamedTuple):
    """What a cell has done in a fork that is gone."""

    outcome: Outcome
    values: dict[str, Any]
    """The variables that it has made or bound."""
    deleted: list[str]
    """Names of variables that it has deleted."""
    fork_only: list[str]
    """Names of variables whose new values could not be copied."""
    needs: str
    """Reason why the code needs more than the lock allows, as a clause; empty if it does not."""
    lost_settings: Sequence[str] = ()
    """Names of what the code has set outside the namespace, which stays in the fork."""
    copied: Sequence[str] = ()
    """Names of variables whose values shared objects with others in the fork, and now do not."""
    has_more_lost: bool = False
    """Whether there may be more names than `fork_only`."""


def make_outcome(
    status: str,
    pieces: Sequence[Piece],
    traceback: Traceback | None,
    changes: list[dict[str, Any]],
) -> Outcome:
    """Return the outcome of a cell, with long texts shortened.

    Args:
        status: As in `Outcome`.
        pieces: What was shown before the traceback.
        traceback: The traceback; None if there is none.
        changes: What the cell has changed.
    """
    all_pieces = [*pieces]
    if traceback is not None:
        all_pieces.append(("traceback", traceback.text))
    shortened_pieces = [(kind, shorten(text, MAX_SENT_CHARS)) for kind, text in all_pieces]
    return Outcome(status, shortened_pieces, changes, _sent_frames(traceback))


def failed_outcome(message: str) -> Outcome:
    """Return an outcome without a traceback.

    Args:
        message: Takes its place, and ends with a newline.
    """
    return Outcome("error", [("traceback", message)], [], [])


def interrupted_outcome(changes: list[dict[str, Any]]) -> Outcome:
    """Return the outcome of a cell whose interrupt was not raised in its own code."""
    return Outcome("interrupted", [("traceback", "KeyboardInterrupt\n")], changes, [])


def _sent_frames(traceback: Traceback | None) -> list[TracebackRow]:
    """Return the frames of a traceback, without their rows if its text is shortened."""
    if traceback is None:
        return []
    if len(traceback.text) <= MAX_SENT_CHARS:
        return traceback.frames
    return [frame._replace(row=0) for frame in traceback.frames]
