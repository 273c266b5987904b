"""Records of the session itself: its kernel, what waits, what the user has done to entries."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Name, Record, Word


class Notice(Record):
    """Text: a sentence or two for the user."""

    tag: ClassVar[str] = tags.NOTICE

    level: Word = "info"
    """"info", "warning" or "error"."""


class Kernel(Record):
    """The state of the kernel. Text: a sentence, where there is something to say."""

    tag: ClassVar[str] = tags.KERNEL

    state: Word | None = None
    """A `kernel.base.KernelState` value."""
    python: str | None = None
    """Its version."""
    executable: str | None = None
    cwd: str | None = None
    pid: int | None = None
    cell: Annotated[int | None, NULL] = None
    """The one that runs."""


class Input(Record):
    """Code reads a line. Text: the prompt."""

    tag: ClassVar[str] = tags.INPUT

    request: Word
    cell: int | None = None
    password: bool = False
    state: Word
    """"waiting", then "answered" or "cancelled"."""


class QueueItem(NamedTuple):
    """An input that waits."""

    id: int
    code: str
    mode: Word
    party: Word = ""
    """An agent's name; empty of the user."""


class Queue(Record):
    """The inputs that wait now."""

    tag: ClassVar[str] = tags.QUEUE

    items: tuple[QueueItem, ...] = ()


class Session(Record):
    """What the header shows of the session."""

    tag: ClassVar[str] = tags.SESSION

    name: Name
    model: Word
    """As it was chosen."""
    approval: Word
    """"ask" or "auto"."""


class Hide(Record):
    """The model is not told of an entry any more, or is again. Names of entries: see `bus.left_out`."""

    tag: ClassVar[str] = tags.HIDE

    entry: Word
    hidden: bool = False


class Replace(Record):
    """An entry and all that came after it have left the conversation for good. Text: a sentence."""

    tag: ClassVar[str] = tags.REPLACE

    entry: Word


class Pin(Record):
    """An entry stays at the top of the transcript, or no longer."""

    tag: ClassVar[str] = tags.PIN

    entry: Word
    pinned: bool = False


class Skill(Record):
    """A skill stays loaded in the session from now on, or does no longer."""

    tag: ClassVar[str] = tags.SKILL

    name: Name
    loaded: bool
    chars: int
    """Of its instructions."""
    budget: int
    """Characters of all that are loaded."""
