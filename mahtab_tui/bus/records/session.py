"""Records of the session itself: its kernel, its queue, and what the user does with entries."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Name, Record, Word


class Notice(Record, tag=tags.NOTICE):
    """A message for the user. Text: a sentence or two."""

    level: Word = "info"
    """"info", "warning" or "error"."""


class Kernel(Record, tag=tags.KERNEL):
    """The state of the kernel. Text: a sentence, or nothing."""

    state: Word | None = None
    """A `kernel.base.KernelState` value."""
    python: str | None = None
    """The version of Python."""
    executable: str | None = None
    cwd: str | None = None
    pid: int | None = None
    cell: Annotated[int | None, NULL] = None
    """The running cell."""
    since: float | None = None
    """When that cell began, if it did so on an earlier screen, in seconds since the epoch."""
    place: str | None = None
    """The machine, or the command that leads to the kernel; None for here."""
    address: str | None = None
    """For ``--kernel``, without a token; None for here."""
    next_try: float | None = None
    """While the connection to the kernel is lost: when it is tried again, in seconds since the
    epoch."""


class Input(Record, tag=tags.INPUT):
    """Code asks for a line of input. Text: the prompt."""

    request: Word
    cell: int | None = None
    password: bool = False
    state: Word
    """"waiting", then "answered" or "cancelled"."""


class QueueItem(NamedTuple):
    """An input that waits for its turn."""

    id: int
    code: str
    mode: Word
    party: Word = ""
    """An agent's name; empty for the user."""


class Queue(Record, tag=tags.QUEUE, in_store=False):
    """All inputs that wait now."""

    items: tuple[QueueItem, ...] = ()


class Session(Record, tag=tags.SESSION, in_store=False):
    """The session's data in the header."""

    name: Name
    model: Word
    """As the user chose it."""
    approval: Word
    """"ask", "review" or "auto"; "plan" while the model only plans."""


class Plan(Record, tag=tags.PLAN):
    """The steps of a plan in a session of an earlier version. New sessions have the plan in the
    answer."""

    steps: tuple[str, ...] = ()
    state: Word = ""
    """"proposed" or, when the steps were carried out, "running", "stopped" or "done"."""


class Hide(Record, tag=tags.HIDE, in_prompt=True):
    """The user hides an entry from the model, or unhides it. `bus.left_out` names entries."""

    entry: Word
    hidden: bool = False


class Private(Record, tag=tags.PRIVATE, in_prompt=True):
    """The user marks a variable as private, so that no model is told what is in it, or takes the
    mark away."""

    name: Name
    private: bool = False
    cells: tuple[int, ...] = ()
    """The earlier cells whose code uses it."""


class Replace(Record, tag=tags.REPLACE, in_prompt=True):
    """An entry and all after it are removed from the conversation for good. Text: a sentence."""

    entry: Word


class Pin(Record, tag=tags.PIN):
    """The user pins an entry to the top of the transcript, or unpins it."""

    entry: Word
    pinned: bool = False


class Undo(Record, tag=tags.UNDO, in_prompt=True):
    """Cells were undone, or run again by a redo. Text: a sentence for the user and the model."""

    cells: tuple[int, ...]
    undone: bool


class Restore(Record, tag=tags.RESTORE, in_prompt=True):
    """Variables that were kept are back in a new kernel. Text: a sentence for the user and the
    model."""


class Branch(Record, tag=tags.BRANCH):
    """A session is a copy of another one, as that was before an entry. Text: a sentence for the
    user."""

    origin: Word
    """The id of the other session."""
    copy: Word
    """The id of the copy."""
    cell: int
    """Number of the question at which the copy begins; 0 if it begins before a question."""


class Skill(Record, tag=tags.SKILL):
    """A skill is loaded for the rest of the session, or unloaded."""

    name: Name
    loaded: bool
    chars: int
    """Length of its instructions."""
    budget: int
    """Length of all loaded instructions, in characters."""
