"""The records of what the user is asked: whether code may run, whether its changes stay, and its
input."""

from __future__ import annotations

from typing import Literal, NamedTuple

from mahtab_tui.bus.marks import Word
from mahtab_tui.bus.records.record import Record
from mahtab_tui.bus.values import Change, FileRestoration, NotRestored


class Decision(NamedTuple):
    """The user's decision about a code block.

    With ``all``, everything from now on runs without asking.
    """

    action: Literal["run", "skip", "all", "stop", "refuse", "keep", "undo"]
    code: str | None = None
    """The code to run, which the user may have edited; None for the code that was asked about."""
    reason: str = ""
    """Why it was skipped, refused or undone, for the model."""


class Approval(Record, tag="approval"):
    """Code that waits for approval, or the decision about it. Text: the code, edited or not.

    Code that runs without a question has no such record, unless it is refused.
    """

    request: Word = ""
    """Names the question, so that the answer finds it."""
    turn: int | None = None
    """The number of the question for which the model runs the code. `turn`, `step`, `block`, `party`,
    `guest` and `call` mean the same as in `CellRecord`."""
    step: int | None = None
    block: int | None = None
    blocks: int | None = None
    """How many code blocks the answer has."""
    state: Word = ""
    """First "waiting", then "run", "edited", "skipped" or "stopped"; "refused" for code that must
    not run."""
    reason: str = ""
    """What the user gave as the reason to skip it, or why it must not run."""
    why: str | None = None
    """Why it waits, although the approval mode does not ask about all code."""
    party: Word | None = None
    guest: int | None = None
    call: Word | None = None
    is_code: bool | None = None
    """False if the text describes an action of an agent in words."""
    answers: tuple[str, ...] | None = None
    """The agent's words for approving and for refusing, in this order; None for the usual words."""


class Review(Record, tag="review"):
    """Changes that wait until the user keeps or undoes them, or the decision about them."""

    request: Word = ""
    cells: tuple[int, ...] = ()
    """The model's cell, and those since, which an undo also covers."""
    state: Word = ""
    """First "waiting", then "kept", "undone", or "stopped": the changes stay, and the turn ends."""
    reason: str = ""
    party: Word | None = None
    changes: tuple[Change, ...] = ()
    not_restored: tuple[NotRestored, ...] = ()
    files: tuple[FileRestoration, ...] = ()
    """What an undo would do to files."""


class Input(Record, tag="input"):
    """Code requests a line of input. Text: the prompt."""

    request: Word
    cell: int | None = None
    password: bool = False
    state: Word
    """First "waiting", then "answered" or "cancelled"."""
