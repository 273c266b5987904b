"""The records of the bus, one class for each tag. Import this as a module, because some classes
share their names with other things: ``records.Kernel(state="idle")``."""

from __future__ import annotations

import logging
import time
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform

from mahtab_tui.bus.entry_names import (
    answer_entry,
    cell_entry,
    question_entry,
    tool_entry,
    unrun_cell_entry,
)
from mahtab_tui.bus.marks import FLAG, NULL, Data, Flag, Name, Word
from mahtab_tui.bus.values import Change, NotRestored, StoredChange, TracebackFrame

INDEXED_INPUT_CHARS = 100_000
INDEXED_OUTPUT_CHARS = 4_000
"""Characters of an input and an output to index."""

KINDS: dict[tuple[str, str], type[Record]] = {}
"""The classes of records by tag and event."""
PICTURES = frozenset(("image/png", "image/jpeg"))
"""MIME types of pictures."""


class Decision(NamedTuple):
    """The user's decision about a code block. With ``all``, everything from now on runs without
    asking."""

    action: Literal["run", "skip", "all", "stop", "refuse", "keep", "undo"]
    code: str | None = None
    reason: str = ""
    """Why it was skipped, refused or undone, for the model."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """An event of a session. Subclasses become frozen dataclasses, and say with their keywords what
    happens to them."""

    tag: ClassVar[str]
    """The kind of record in JSON, in the store and in prompts."""
    event: ClassVar[str] = ""
    in_prompt: ClassVar[bool] = False
    """Whether the model gets it with the user's next question."""
    in_store: ClassVar[bool] = True
    indexed: ClassVar[int] = 0
    """Maximum characters of its text to index, from both ends."""

    text: str = ""
    time: float = field(default=0.0, kw_only=True)
    """Time of logging, in seconds since the epoch; set by `emit`."""

    def __init_subclass__(
        cls,
        *,
        tag: str = "",
        event: str = "",
        in_prompt: bool = False,
        in_store: bool = True,
        indexed: int = 0,
    ) -> None:
        # Generating equality and repr for forty classes would take 10 ms at startup.
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        if indexed:
            cls.indexed = indexed
        if tag:
            cls.tag = tag
            cls.event = event
            cls.in_prompt = in_prompt
            cls.in_store = in_store
            KINDS[tag, event] = cls

    @property
    def entry_name(self) -> str:
        """The entry of the conversation to which it belongs; empty if none."""
        return ""

    @property
    def attrs(self) -> dict[str, Any]:
        """Its fields as JSON values, without text and time."""
        return encode(self)

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields."""
        return replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        # Without the time, which `emit` sets.
        return hash((self.tag, self.text))

    def __repr__(self) -> str:
        arguments: list[str] = []
        for record_field in fields(self):
            value = getattr(self, record_field.name)
            if value != record_field.default:
                arguments.append(f"{record_field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"


def encode(record: Record) -> dict[str, Any]:
    """Return the fields of a record except text and time, as JSON values."""
    kind: Any = type(record)
    values: dict[str, Any] = {"event": kind.event} if kind.event else {}
    flag_names = _marked_fields(kind, FLAG)
    null_names = _marked_fields(kind, NULL)
    for name in _attribute_names(kind):
        value = getattr(record, name)
        if value is None and name not in null_names:
            continue
        if value is False and name in flag_names:
            continue
        values[name] = _as_json_value(value)
    return values


def _read_hints(kind: Any) -> Mapping[str, Any]:
    all_hints = typing.get_type_hints(kind, include_extras=True)
    names = getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    return {name: all_hints[name] for name in names}


hints: Callable[[Any], Mapping[str, Any]] = cache(_read_hints)
"""Returns the types of the fields of a record or a row, with their marks."""


@cache
def _attribute_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a record except text and time."""
    return tuple(field.name for field in fields(kind) if field.name not in ("text", "time"))


@cache
def _marked_fields(kind: type[Any], mark: str) -> frozenset[str]:
    """Return the fields of a record whose types have a mark."""
    return frozenset(
        name for name, hint in hints(kind).items() if mark in getattr(hint, "__metadata__", ())
    )


def _as_json_value(value: Any) -> Any:
    """Return named tuples as objects without their None, and other tuples as lists."""
    if isinstance(value, Change):
        value = StoredChange.from_change(value)
    if not isinstance(value, tuple):
        return value
    if isinstance(value, TracebackFrame) or not hasattr(value, "_asdict"):
        return [_as_json_value(item) for item in value]
    return {
        name: _as_json_value(item) for name, item in value._asdict().items() if item is not None
    }


class Stream(Record):
    """A piece of a text that arrives bit by bit."""

    @property
    def stream(self) -> tuple[object, ...]:
        """Identifies the text: all fields but the piece itself."""
        kind: Any = type(self)
        return self.tag, *(getattr(self, name) for name in _attribute_names(kind))


class CellRecord(Record):
    cell: int | None = None
    party: Word | None = None
    """The author: "you", the model's short name, or an agent's name."""
    turn: int | None = None
    """For code of the model: the number of the question, from 1."""
    step: int | None = None
    """The answer to that question to which the code belongs, from 0."""
    block: int | None = None
    """The code block of that answer, from 0."""
    guest: int | None = None
    """For code of a joined agent: the number of its colour, from 0."""
    call: Word | None = None
    """The tool call that runs the code, such as "2.0.1"; None if no tool does."""
    position: int | None = None
    """Of the cell in its notebook; None if it stands in none."""

    @property
    def entry_name(self) -> str:
        if self.cell is None:
            return ""
        return cell_entry(self.cell)


class ReplIn(CellRecord, indexed=INDEXED_INPUT_CHARS):
    """A cell starts. Text: its code."""


class UserReplIn(ReplIn, tag="user-repl-in", in_prompt=True):
    """The user's code."""


class AssistantReplIn(ReplIn, tag="assistant-repl-in", in_prompt=True):
    """Code of the model or an agent."""


class ReplOut(CellRecord, indexed=INDEXED_OUTPUT_CHARS):
    """A cell has ended. Text: its whole output; with `late`, output that came later.

    It is a `kernel.values.CellResult` as it is stored. The changes and displays of the cell are
    records of their own."""

    status: Word | None = None
    """A `bus.values.Status` value; None for late output."""
    duration: float | None = None  # seconds
    kinds: tuple[tuple[Word, int], ...] | None = None
    """Kinds of output with their lengths in characters, in order; None if all was printed."""
    detail: str | None = None
    """A sentence about how it ended, such as why the kernel died; None if there is none."""
    frames: tuple[TracebackFrame, ...] | None = None
    """Of the traceback, if the code has failed."""
    private: tuple[Name, ...] | None = None
    """Private variables that the code uses and the user has not allowed: models do not get the
    output."""
    rewritten: Flag = False
    """Whether the text replaces some of the output that was streamed before."""
    late: Flag = False
    """Whether it came after the cell had ended (from a thread), or before the first cell."""
    cut: Flag = False
    """Whether the program was killed before the cell ended."""


class UserReplOut(ReplOut, tag="user-repl-out", in_prompt=True):
    """Output of the user's cell."""


class AssistantReplOut(ReplOut, tag="assistant-repl-out", in_prompt=True):
    """Output of a cell of the model or an agent."""


class ReplOutStream(Stream):
    """A piece of output."""

    cell: int | None = None
    kind: Word = "stdout"
    """"stdout", "value" (of the last expression), "traceback", or "display" (a value's text)."""
    late: Flag = False


class UserReplOutStream(ReplOutStream, tag="user-repl-out-stream", in_store=False):
    """A piece of output of the user's cell."""


class AssistantReplOutStream(ReplOutStream, tag="assistant-repl-out-stream", in_store=False):
    """A piece of output of a cell of the model or an agent."""


OUTPUTS = (UserReplOut.tag, AssistantReplOut.tag)


class Display(Record, tag="display"):
    """A displayed value that is more than text, as the kernel reports it, without a cell, and as it
    is logged. Text: what is shown instead where the data cannot be shown; it is also the next piece
    of output, of kind "display"."""

    cell: int | None = None
    mime: Word
    data: Data
    """Base64 for a picture, else the text itself."""
    value: Word = ""
    """The key with which the kernel opens the value; empty if it cannot."""
    name: Word = ""
    """The name by which the cell updates it; empty if it cannot."""
    action: Word = "show"
    """What to do with it. "update": put it in the place of the one with its name. "clear": remove
    all output of the cell so far; the display itself is empty."""


class Namespace(Record, tag="namespace"):
    """Changes of the namespace by a cell."""

    cell: int | None = None
    """0 for the kernel's start."""
    party: Word | None = None
    fresh: bool = False
    """Whether these are all names, so that those of earlier records no longer count."""
    changes: tuple[Change, ...] = ()
    guest: int | None = None
    """The number of the colour of the joined agent that made the changes; None if none did."""
    restored: Flag = False
    """Whether an undo or redo caused it; `cell` and `party` name the author of the variables."""


class NotebookFile(Record, tag="notebook-file", in_prompt=True):
    """A notebook is opened; its cells follow. Text: a sentence for the user and the model."""

    file: Name
    digest: Word
    """Hash of the file's bytes; empty if there is no file yet."""
    first: int
    """Position of its first cell. Positions continue when a file is read again."""
    cells: int
    """How many cells it has."""
    rewritable: Flag = False
    """Whether the program may write the file."""


class NotebookCell(Record, tag="notebook-cell", in_prompt=True, indexed=INDEXED_INPUT_CHARS):
    """A cell stored in the notebook, which has not run. Text: its source."""

    position: int
    kind: Word
    """One of "code", "markdown" and "raw"."""

    @property
    def entry_name(self) -> str:
        return unrun_cell_entry(self.position)


class NotebookOutput(Record, tag="notebook-output", indexed=INDEXED_OUTPUT_CHARS):
    """A stored output of the preceding notebook cell. It may be outdated, so the model does not
    get it."""

    position: int
    kind: Word = "stdout"
    mime: Word = ""
    data: Data = ""


class NotebookWritten(Record, tag="notebook-written"):
    """The notebook was written."""

    digest: Word
    file: Name = ""
    """Absolute; empty in records of earlier versions, where it is the opened file."""


class UserChat(Record, tag="user-chat", in_prompt=True, indexed=INDEXED_INPUT_CHARS):
    """A question. Text: the user's words."""

    turn: int | None = None

    @property
    def entry_name(self) -> str:
        return question_entry(self.turn)


class UserAttachment(Record, tag="user-attachment"):
    """An attachment of a question. Text: what the model gets with the question."""

    turn: int | None = None
    label: str = ""
    """As written by the user, such as "@notes.txt:1-20"."""
    size: str = ""
    """In words, such as "20 lines"."""
    problem: str = ""
    """Why it could not be attached; empty if it was."""
    picture: Word | None = None
    """The id of a picture, whose first record also has the following fields."""
    mime: Word | None = None
    data: Data | None = None
    width: int | None = None
    height: int | None = None


class AnswerFigure(NamedTuple):
    """A number, ISO date or quoted value of an answer."""

    text: str
    found: bool
    """Whether it occurs in an output, an attachment, code that ran or the user's words, or follows
    from figures that do; else it was not computed."""
    cell: int | None = None
    basis: str | None = None
    """How it follows from others, such as "8 of 406" or "3 listed"; None if it does not."""
    near: str | None = None
    """The printed figure from which it differs by one digit, or by two swapped ones."""

    @property
    def doubt(self) -> str:
        """The text of a figure that was not computed, with the one that was printed instead."""
        if self.near:
            return f"{self.text} (printed: {self.near})"
        return self.text


class ModelRecord(Record):
    """An event of the model's work on an answer."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    """The model's short name."""


class AssistantChat(ModelRecord, tag="assistant-chat", in_prompt=True, indexed=INDEXED_INPUT_CHARS):
    """A complete answer. Its text may differ from what was streamed."""

    stopped: bool = False
    """Whether the user stopped the answer."""
    cut: Flag = False
    """Whether the program was killed before the answer ended."""
    figures: tuple[AnswerFigure, ...] | None = None
    """From `bus.figures`, without duplicates; None if they were not looked up."""

    @property
    def entry_name(self) -> str:
        return answer_entry(self.turn, self.step)


class AssistantChatStream(ModelRecord, Stream, tag="assistant-chat-stream", in_store=False):
    """A piece of an answer to draw, without tags and Python fence lines."""

    kind: Word = "chat"
    """ "chat" or "code"."""
    block: int | None = None
    fresh: Flag = False
    """Whether the answer starts over: earlier pieces must be dropped, and there is no text."""

    @property
    def entry_name(self) -> str:
        return answer_entry(self.turn, self.step)


class AssistantThought(ModelRecord, tag="assistant-thought"):
    """The model's complete thinking before an answer, if its service sends it. Models do not get
    it back."""


class AssistantThoughtStream(ModelRecord, Stream, tag="assistant-thought-stream", in_store=False):
    """A piece of the model's thinking to draw."""


class AssistantReading(ModelRecord, tag="assistant-reading", in_store=False):
    """How much of the prompt the model has read, of services that report it."""

    share: float = 0.0
    """From 0 to 1."""


class AssistantTool(
    ModelRecord, tag="assistant-tool", in_prompt=True, indexed=INDEXED_OUTPUT_CHARS
):
    """A tool call by the model. Text: the result, or why there is none."""

    call: Word | None = None
    """For example, "2.0.1" is the second call of the answer 2.0."""
    name: Name = ""
    arguments: str = ""
    state: Word = ""
    """First "running", then "ok", "error", "refused" or "stopped"."""
    duration: float | None = None  # seconds

    @property
    def entry_name(self) -> str:
        return tool_entry(self.call)


class Agent(ModelRecord, tag="agent"):
    """The model's current activity."""

    state: Word = ""
    """One of "thinking", "reflecting", "summarising", "done", "stopped", "max-turns" and
    "failed"."""


class Approval(Record, tag="approval"):
    """Code that waits for approval, or the decision about it. Text: the code, edited or not. If
    nothing is asked, only refused code has one."""

    request: Word = ""
    """Names the question, so that the answer finds it."""
    turn: int | None = None
    """As in `CellRecord`, like the next two fields and `party`, `guest` and `call`."""
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


class Summary(Record, tag="summary", indexed=INDEXED_INPUT_CHARS):
    """A summary of the beginning of the conversation; empty if summarising failed."""

    turn: int | None = None


class Window(Record, tag="window", in_store=False):
    """How full the model's window is. A resumed session may have another window."""

    tokens: int = 0
    """Tokens of the last request as counted by the model, or an estimate for the next one."""
    size: int = 0
    """Tokens that the window holds."""
    estimated: Flag = False
    """Whether the tokens were not counted by the model."""


class Usage(Record, tag="usage"):
    """The usage of one model call."""

    tree: Word | None = None
    """Of a search's call: the fields of `SearchRecord`."""
    node: Word | None = None
    seq: int | None = None
    turn: int | None = None
    """The question, or the turn of a search's node."""
    model: Word = ""
    """The provider's name for the model; for an embedding model, with the provider ("openai:…")."""
    input_tokens: int = 0
    """All input tokens, including those read from or written to the cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: Annotated[float | None, NULL] = None
    """US dollars; None if the price is unknown."""
    source: Word | None = None
    """One of "agent", "reflection", "summary", "embedding" and "rlm"."""
    estimated: Flag = False


Spans = tuple[tuple[int, int], ...]
"""Parts of the root's text: start and end in characters, end exclusive."""


class SearchRecord(Record):
    """An event of a search."""

    tree: Word = ""
    """The id of the search; `search.tree.Events` sets it, and `seq`."""
    node: Word
    """ "1" is the root, "1.3" its third child."""
    seq: int | None = None
    """Number of the record in its search, in the order of the events."""


class SearchBegin(SearchRecord, tag="rlm-call", event="begin"):
    """A node starts. Text: the query."""

    parent: Annotated[Word | None, NULL] = None
    depth: int = 0
    kind: Word = "rlm"
    """ "rlm", or "llm" for a plain call."""
    batch: Word | int | None = None
    """The fan-out that starts it: calls that its parent makes together."""
    index: int = 0
    """Its place among those calls, from 0."""
    of: int = 0
    """How many calls these are."""
    spans: Spans = ()
    """What it reads of the root's text; empty if it reads another text."""
    chars: int = 0
    """Characters of the text that it reads."""
    model: Word = ""
    cell: int | None = None
    """Like the next field, only for the root."""
    source: Word | None = None


class SearchTurn(SearchRecord, tag="rlm-call", event="turn"):
    """A node asks its model."""

    turn: int | None = None
    turns: int = 0
    """How many turns the node may take; 0 if this record does not say."""


class SearchBackOff(SearchRecord, tag="rlm-call", event="back-off"):
    """A node waits because the service is busy."""

    seconds: float = 0.0


class SearchFanOut(SearchRecord, tag="rlm-call", event="fan-out"):
    """A request to approve a large number of calls that a node wants to make, or the decision."""

    request: Word = ""
    batch: Word | int | None = None
    """As in `SearchBegin`."""
    calls: int | None = None
    """How many calls the node wants to make, with those that they may make in turn."""
    tokens: int | None = None
    """An estimate for all of them."""
    usd: Annotated[float | None, NULL] = None
    """Maximum cost in US dollars; None if the price is unknown."""
    made: int | None = None
    """How many calls the search has made so far."""
    state: Word = ""
    """First "waiting", then "run" or "refused"."""


class SearchChatStream(SearchRecord, Stream, tag="rlm-chat-stream", in_store=False):
    """A piece of an answer by a node's model."""

    turn: int | None = None
    fresh: Flag = False
    """Whether the answer starts over: earlier pieces must be dropped."""


class SearchChat(SearchRecord, tag="rlm-chat"):
    """The complete answer of a node's model in a turn."""

    turn: int | None = None
    cut: bool = False
    """Whether words or code behind the first code block were left out."""


class SearchReplIn(SearchRecord, tag="rlm-repl-in"):
    """A node runs code. Text: the code."""

    turn: int | None = None


class SearchReplOut(SearchRecord, tag="rlm-repl-out"):
    """A node's code has ended. Text: the start and end of its output."""

    turn: int | None = None
    status: Word = ""
    duration: float | None = None  # seconds
    chars: int = 0
    """Characters of the whole output."""


class SearchFinal(SearchRecord, tag="rlm-final"):
    """A node has ended. Text: its answer, or why there is none."""

    state: Word = "done"
    """One of "done", "partial", "error" and "stopped"."""
    duration: float | None = None  # seconds
    spans: Spans = ()
    """Parts of the root's text that support the answer."""


class Notice(Record, tag="notice"):
    """A message for the user."""

    level: Word = "info"
    """ "info", "warning" or "error"."""


class Kernel(Record, tag="kernel"):
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
    """As for ``--kernel``, without a token; None for this machine."""
    next_try: float | None = None
    """While the kernel is not connected: the next attempt, in seconds since the epoch."""


class Input(Record, tag="input"):
    """Code requests a line of input. Text: the prompt."""

    request: Word
    cell: int | None = None
    password: bool = False
    state: Word
    """First "waiting", then "answered" or "cancelled"."""


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


class Session(Record, tag="session", in_store=False):
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
    """An entry and everything after it was removed from the conversation for good. Text: a
    sentence."""

    entry: Word


class Undo(Record, tag="user-undo", in_prompt=True):
    """Cells were undone, or redone. Text: a sentence for the user and the model."""

    cells: tuple[int, ...]
    undone: bool


class Restore(Record, tag="restore", in_prompt=True):
    """Saved variables were restored in a new kernel. Text: a sentence for the user and the
    model."""


class Branch(Record, tag="branch"):
    """A session is a copy of another one, up to an entry. Text: a sentence for the user."""

    origin: Word
    copy: Word
    cell: int
    """The cell before which it branches off; 0 before a question."""


class LastConversation(Record, tag="last-conversation", in_prompt=True):
    """What the user and the model said last in the session before this one."""


class Skill(Record, tag="skill"):
    """A skill was loaded for the rest of the session, or unloaded."""

    name: Name
    loaded: bool
    chars: int
    """Characters that it adds to each prompt."""
    budget: int
    """Characters that all skills may add together."""


def emit(log: logging.Logger, record: Record) -> None:
    """Log a record. Any thread may call it."""
    if not record.time:  # the only change ever made to a record
        object.__setattr__(record, "time", time.time())
    # Not by `log.info`, which `logging.disable` and a record factory of the process change.
    logged = logging.LogRecord(log.name, logging.INFO, "", 0, record.text, None, None)
    logged.__dict__["record"] = record
    log.handle(logged)


def warn(log: logging.Logger, text: str) -> None:
    """Log a warning for the user."""
    emit(log, Notice(text, level="warning"))


def get_record(logged: logging.LogRecord) -> Record:
    """Return the record passed to `emit`; a notice if something else logged it."""
    record = getattr(logged, "record", None)
    if isinstance(record, Record):
        return record
    if logged.levelno >= logging.ERROR:
        level = "error"
    elif logged.levelno >= logging.WARNING:
        level = "warning"
    else:
        level = "info"
    return Notice(logged.getMessage(), level=level, time=logged.created)


class RecordHandler(logging.Handler):
    """A handler that gets only some kinds of records from a `bus.logger.BusLogger`."""

    kinds: ClassVar[tuple[type[Record], ...]]
    """The kinds, with their subclasses."""

    def emit(self, record: logging.LogRecord) -> None:
        self.fold(get_record(record))

    def fold(self, record: Record) -> None:
        """Take the next record."""
        raise NotImplementedError
