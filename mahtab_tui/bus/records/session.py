"""The records of a session as a whole: its kernel, its queue, and what the user does to its
conversation."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from mahtab_tui.bus.marks import NULL, Flag, Name, Word
from mahtab_tui.bus.records.record import Record


class Notice(Record, tag="notice"):
    """A message for the user."""

    level: Word = "info"
    """ "info", "warning" or "error"."""


class KernelRecord(Record, tag="kernel"):
    """The state of the kernel. Text: a sentence, or nothing."""

    state: Word | None = None
    """A `kernel.values.KernelState` value."""
    python: str | None = None
    executable: str | None = None
    cwd: str | None = None
    pid: int | None = None
    cell: Annotated[int | None, NULL] = None
    since: float | None = None
    """When the cell started on an earlier screen, in seconds since the epoch."""
    host: str | None = None
    """The machine, or the command that connects to the kernel; None for this machine."""
    address: str | None = None
    """The address as ``--kernel`` takes it, without a token; None for this machine."""
    next_try: float | None = None
    """While the kernel is not connected: the next attempt, in seconds since the epoch."""


class QueueItem(NamedTuple):
    """A queued input."""

    id: int
    code: str
    mode: Word
    party: Word = ""
    joins: bool = False
    """Whether the running question gets it at its next step."""
    held: bool = False
    """Whether it waits for the user, because a cell before it has failed."""


class Queue(Record, tag="queue", in_store=False):
    """All queued inputs."""

    items: tuple[QueueItem, ...] = ()


class SessionRecord(Record, tag="session", in_store=False):
    """The session's data for the header."""

    name: Name
    model: Word
    approval: Word
    """One of "ask", "review" and "auto"; "plan" while the model only plans."""


class Hide(Record, tag="hide", in_prompt=True):
    """The user hid an entry from the model, or showed it again."""

    entry: Word
    hidden: bool = False


class Private(Record, tag="private", in_prompt=True):
    """The user made a variable private, so that no model gets its value, or public again."""

    name: Name
    private: bool = False
    cells: tuple[int, ...] = ()
    """The cells that have used it, whose outputs models no longer get."""


class Replace(Record, tag="replace", in_prompt=True):
    """An entry and everything after it was removed from the conversation, or came back into it.

    Text: a sentence.
    """

    entry: Word
    restored: Flag = False
    """Whether what the last record of this entry has removed comes back."""


class Branch(Record, tag="branch"):
    """A session is a copy of another one, up to an entry. Text: a sentence for the user."""

    origin: Word
    copy: Word
    cell: int
    """The cell before which it branches off; 0 before a question."""


class SkillRecord(Record, tag="skill"):
    """A skill was loaded for the rest of the session, or unloaded."""

    name: Name
    loaded: bool
    chars: int
    """Characters that it adds to each prompt."""
    budget: int
    """Characters that all skills may add together."""
