"""Records of the session itself: its kernel, its queue, and what the user does with entries."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Name, Record, Word


class Notice(Record):
    """A message for the user. Text: a sentence or two."""

    tag: ClassVar[str] = tags.NOTICE

    level: Word = "info"
    """"info", "warning" or "error"."""


class Kernel(Record):
    """The state of the kernel. Text: a sentence, or nothing."""

    tag: ClassVar[str] = tags.KERNEL

    state: Word | None = None
    """A `kernel.base.KernelState` value."""
    python: str | None = None
    """The version of Python."""
    executable: str | None = None
    cwd: str | None = None
    pid: int | None = None
    cell: Annotated[int | None, NULL] = None
    """The running cell."""
    place: str | None = None
    """The machine, or the command that leads to the kernel; None for here."""
    next_try: float | None = None
    """While the connection to the kernel is lost: when it is tried again, in seconds since the epoch."""


class Input(Record):
    """Code asks for a line of input. Text: the prompt."""

    tag: ClassVar[str] = tags.INPUT

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


class Queue(Record):
    """All inputs that wait now."""

    tag: ClassVar[str] = tags.QUEUE

    items: tuple[QueueItem, ...] = ()


class Session(Record):
    """What the header shows of the session."""

    tag: ClassVar[str] = tags.SESSION

    name: Name
    model: Word
    """As the user chose it."""
    approval: Word
    """"ask", "review" or "auto"; "plan" while the model only plans."""


class Plan(Record):
    """A plan that the model has proposed, as it is now."""

    tag: ClassVar[str] = tags.PLAN

    steps: tuple[str, ...] = ()
    done: int = 0
    """How many of the steps are done, from the first."""
    state: Word = ""
    """"proposed", "running", "stopped" or "done"."""


class Hide(Record):
    """The user hides an entry from the model, or unhides it. `bus.left_out` names entries."""

    tag: ClassVar[str] = tags.HIDE

    entry: Word
    hidden: bool = False


class Private(Record):
    """The user marks a variable as private, so that no model is told what is in it, or takes the mark away."""

    tag: ClassVar[str] = tags.PRIVATE

    name: Name
    private: bool = False
    cells: tuple[int, ...] = ()
    """The earlier cells whose code uses it."""


class Replace(Record):
    """An entry and all after it are removed from the conversation for good. Text: a sentence."""

    tag: ClassVar[str] = tags.REPLACE

    entry: Word


class Pin(Record):
    """The user pins an entry to the top of the transcript, or unpins it."""

    tag: ClassVar[str] = tags.PIN

    entry: Word
    pinned: bool = False


class Undo(Record):
    """Cells were undone, or run again by a redo. Text: a sentence for the user and the model."""

    tag: ClassVar[str] = tags.UNDO

    cells: tuple[int, ...]
    undone: bool


class Restore(Record):
    """Variables that were kept are back in a new kernel. Text: a sentence for the user and the model."""

    tag: ClassVar[str] = tags.RESTORE


class Branch(Record):
    """A session has a branch: a session that begins as it was before a cell. In both sessions. Text: a sentence for the user."""

    tag: ClassVar[str] = tags.BRANCH

    origin: Word
    """The session's id."""
    copy: Word
    """The branch's id."""
    cell: int


class Skill(Record):
    """A skill is loaded for the rest of the session, or unloaded."""

    tag: ClassVar[str] = tags.SKILL

    name: Name
    loaded: bool
    chars: int
    """Length of its instructions."""
    budget: int
    """Length of all loaded instructions, in characters."""
