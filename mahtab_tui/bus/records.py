"""The records of the bus, one class for each tag.

`cell` is the number of a cell in the session. `guest` is the number of an agent's colour, from 0;
None for cells of the user and the model.

Import this as a module, since some classes have the names of other things:
``records.Kernel(state="idle")``."""

from __future__ import annotations

import logging
import time
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform

from mahtab_tui.bus import tags


class Decision(NamedTuple):
    """The user's decision about a code block.

    before it runs  ``run``, ``skip``, ``stop``; ``all``: run this one, and everything from now on
    without asking. not asked       ``refuse``: the code may not run.
    afterwards      ``keep``, ``undo``, ``stop``; ``all``: keep this, and run everything from now on
    without asking.
    """

    action: Literal["run", "skip", "all", "stop", "refuse", "keep", "undo"]
    code: str | None = None
    """Edited code to run instead."""
    reason: str = ""
    """Why it was skipped, refused or undone, for the model."""


WORD, NAME, FLAG, NULL, PICTURE = "word", "name", "flag", "null", "picture"
"""Marks of a field beside its type. `NULL`: the field is written even if it is None."""

Word = Annotated[str, WORD]
"""One of the program's own words, or an id. It is never masked, even if a secret reads the same."""
Name = Annotated[str, NAME]
"""An identifier. Only secrets longer than a short word are masked in it."""
Flag = Annotated[bool, FLAG]
"""Written only if true."""
Data = Annotated[str, PICTURE]
"""Data of the type in `mime`. A picture's data is base64 and is not masked."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """One event of a session: panes, prompt and store are made from records. Subclasses become
    frozen dataclasses."""

    tag: ClassVar[str]
    """A constant of `bus.tags`."""
    event: ClassVar[str] = ""
    """Distinguishes the kinds of records that share a tag."""
    in_prompt: ClassVar[bool] = False
    """Told to the model with the user's next question."""
    in_store: ClassVar[bool] = True
    """Kept on disk."""

    text: str = ""
    time: float = field(default=0.0, kw_only=True)
    """When it was logged, in seconds since the epoch; `emit` sets it."""

    def __init_subclass__(
        cls, *, tag: str = "", event: str = "", in_prompt: bool = False, in_store: bool = True
    ) -> None:
        # Equality and repr are inherited: compiling them for forty classes would take 10 ms at
        # startup.
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        if tag:
            cls.tag, cls.event, cls.in_prompt, cls.in_store = tag, event, in_prompt, in_store
            KINDS[tag, event] = cls

    @property
    def attrs(self) -> dict[str, Any]:
        """All fields but text and time as JSON values, for programs that handle any record
        (`rlm(on_event=…)`, `SessionState`)."""
        return encode(self)

    @classmethod
    def hints(cls) -> dict[str, Any]:
        """Return the type of each field, with its marks."""
        found = typing.get_type_hints(cls, include_extras=True)
        return {each.name: found[each.name] for each in fields(cls)}

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields."""
        return replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and type(other) is type(self)
            and vars(other) == vars(self)
        )

    def __hash__(self) -> int:
        return hash((self.tag, self.text, self.time))

    def __repr__(self) -> str:
        shown = (
            f"{each.name}={value!r}"
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default or each.default is MISSING
        )
        return f"{type(self).__name__}({', '.join(shown)})"


KINDS: dict[tuple[str, str], type[Record]] = {}
"""The classes of records by tag and event."""


def encode(record: Record) -> dict[str, Any]:
    """Return the fields of a record except text and time, as JSON values."""
    kind: Any = type(record)
    values: dict[str, Any] = {"event": kind.event} if kind.event else {}
    flags, nulls = _marked(kind, FLAG), _marked(kind, NULL)
    for name in _names(kind):
        value = getattr(record, name)
        omitted = (value is None and name not in nulls) or (value is False and name in flags)
        if not omitted:
            values[name] = _plain(value)
    return values


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name not in ("text", "time"))


@cache
def _marked(kind: type[Any], mark: str) -> frozenset[str]:
    return frozenset(
        name for name, hint in kind.hints().items() if mark in getattr(hint, "__metadata__", ())
    )


def _plain(value: Any) -> Any:
    """Convert a field's value to JSON."""
    if not isinstance(value, tuple):
        return value
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items() if each is not None}
    return [_plain(each) for each in value]


Frame = tuple[str, int, str, int]
"""File, line, function and row, as `kernel.values.TracebackFrame` has them."""


class CellRecord(Record):
    """Data of a record about a cell."""

    cell: int | None = None
    party: Word | None = None
    """Who wrote the code: "you", the model's short name, or an agent's name."""
    turn: int | None = None
    """For the model's code: the numbers of the question, the answer (`step`), and the answer's code
    block, from 0."""
    step: int | None = None
    block: int | None = None
    guest: int | None = None
    call: Word | None = None
    """The id of an agent's call."""
    place: int | None = None
    """The notebook's cell that runs."""


class ReplIn(CellRecord):
    """A cell starts. Text: its code."""


class UserReplIn(ReplIn, tag=tags.USER_REPL_IN, in_prompt=True):
    """The user's code."""


class AssistantReplIn(ReplIn, tag=tags.ASSISTANT_REPL_IN, in_prompt=True):
    """Code of the model or an agent."""


class ReplOut(CellRecord):
    """A cell has ended. Text: its whole output; with `late`, output that came afterwards."""

    status: Word | None = None
    """A `kernel.values.Status` value; None for late output."""
    duration: float | None = None
    """Seconds."""
    kinds: tuple[tuple[Word, int], ...] | None = None
    """The kinds of output with their lengths in characters, in the order of the text; None: all was
    printed."""
    detail: str | None = None
    """An additional sentence about how the cell ended."""
    frames: tuple[Frame, ...] | None = None
    """The frames of a traceback."""
    private: tuple[Name, ...] | None = None
    """The private variables that the code uses, so that a model is not told the output; without
    those whose output the user has allowed."""
    rewritten: Flag = False
    """Some of the output was overwritten and is not in the text."""
    late: Flag = False
    """The output came after the cell had ended (a thread printed it), or before the first cell."""
    cut: Flag = False
    """The program was killed before the cell ended; this is the output until then."""


class UserReplOut(ReplOut, tag=tags.USER_REPL_OUT, in_prompt=True):
    """Output of the user's cell."""


class AssistantReplOut(ReplOut, tag=tags.ASSISTANT_REPL_OUT, in_prompt=True):
    """Output of a cell of the model or an agent."""


class ReplOutStream(Record):
    """A piece of output."""

    cell: int | None = None
    kind: Word = "stdout"
    """"stdout" for printed text, "value" for the last expression, "traceback", "display" for the
    text of a displayed value."""
    late: Flag = False

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.cell, self.kind, self.late


class UserReplOutStream(ReplOutStream, tag=tags.USER_REPL_OUT_STREAM, in_store=False):
    """A piece of output of the user's cell."""


class AssistantReplOutStream(ReplOutStream, tag=tags.ASSISTANT_REPL_OUT_STREAM, in_store=False):
    """A piece of output of a cell of the model or an agent."""


class Display(Record, tag=tags.DISPLAY):
    """A displayed value that is more than text. Text: the same as in the next piece of output, of
    kind "display"."""

    cell: int | None = None
    mime: Word
    data: Data
    """Base64 for pictures."""
    value: Word = ""
    """The key with which the kernel opens the value; empty if it cannot."""


class Change(NamedTuple):
    """The change of one name."""

    name: Name
    change: Word
    """"added", "rebound", "changed", "perhaps" (it may have been changed in place) or "deleted". Of
    names that an earlier kernel had: "restoring" (it comes back), "absent" (it does not; `summary`
    says why)."""
    type: Name | None = None
    summary: str | None = None
    kind: Word | None = None
    """"data", "module", "function" or "class"."""
    was_type: Name | None = None
    """The previous type, and the previous summary, if they differ."""
    was: str | None = None


class Namespace(Record, tag=tags.NAMESPACE):
    """The changes of a cell to the namespace."""

    cell: int | None = None
    """0 for the kernel's start."""
    party: Word | None = None
    fresh: bool = False
    """The namespace was cleared first."""
    changes: tuple[Change, ...] = ()
    guest: int | None = None
    restored: Flag = False
    """An undo or a redo brought it about; `cell` and `party` say who has made the names."""


class NotebookFile(Record, tag=tags.NOTEBOOK_FILE, in_prompt=True):
    """A notebook is opened; its cells follow. Text: a sentence for the user and the model."""

    file: Name
    """Absolute."""
    digest: Word
    """Hash of the file's bytes; empty if there is no file yet."""
    first: int
    """The place of its first cell: places are counted on when a file is read again."""
    cells: int
    kept: Flag = False
    """The file is kept up to date."""


class NotebookCell(Record, tag=tags.NOTEBOOK_CELL, in_prompt=True):
    """A cell as it stands in the notebook: it has not run. Text: its source."""

    place: int
    """Its number in the session, from 1."""
    kind: Word
    """"code", "markdown" or "raw"."""


class NotebookOutput(Record, tag=tags.NOTEBOOK_OUTPUT):
    """An output as it stands in the notebook, after its cell. It is of an earlier run and may be
    wrong now, so the model is not told."""

    place: int
    kind: Word = "stdout"
    """As in `ReplOutStream`."""
    mime: Word = ""
    """Type of `data`; empty if the output is text only."""
    data: Data = ""


class NotebookWritten(Record, tag=tags.NOTEBOOK_WRITTEN):
    """The notebook was written."""

    digest: Word
    """Hash of the file's bytes now."""
    file: Name = ""
    """Absolute; empty in records of earlier versions: the file that was opened."""


class UserChat(Record, tag=tags.USER_CHAT, in_prompt=True):
    """A question. Text: the user's words."""

    turn: int | None = None


class UserAttachment(Record, tag=tags.USER_ATTACHMENT):
    """An attachment of a question. Text: what the model gets, with the question itself."""

    turn: int | None = None
    label: str = ""
    """As the user wrote it: "@notes.txt:1-20"."""
    size: str = ""
    """In words."""
    problem: str = ""
    """Why it is not attached, as a sentence."""
    picture: Word | None = None
    """The id of a picture. The first record of a picture has the following fields too."""
    mime: Word | None = None
    data: Data | None = None
    """Base64."""
    width: int | None = None
    """In pixels, as is the height."""
    height: int | None = None


class AnswerFigure(NamedTuple):
    """A number, date, time or quoted value of an answer."""

    text: str
    """As the answer has it, with quotation marks and units. It may stand there more than once."""
    found: bool
    """Whether it stands in an output, an attachment or the question; otherwise it was not
    computed."""
    cell: int | None = None
    """The cell whose output has it; None if it comes from elsewhere."""


class AssistantChat(Record, tag=tags.ASSISTANT_CHAT, in_prompt=True):
    """An answer is complete. Text: all of it, which the transport may have corrected since it was
    streamed."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    """The model's short name."""
    stopped: bool = False
    cut: Flag = False
    """The program was killed before the answer ended; this is the text until then."""
    figures: tuple[AnswerFigure, ...] | None = None
    """The different figures of the words, from `bus.figures`; None if nobody has looked them up."""


class AssistantChatStream(Record, tag=tags.ASSISTANT_CHAT_STREAM, in_store=False):
    """A piece of an answer to draw, without tags and fence lines of Python."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    kind: Word = "chat"
    """"chat" or "code"."""
    block: int | None = None
    """The number of the code block in the answer, from 0; for words, of the next block."""
    fresh: Flag = False
    """The answer starts again: drop its pieces so far. There is no text."""

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.turn, self.step, self.party, self.kind, self.block, self.fresh


class AssistantThought(Record, tag=tags.ASSISTANT_THOUGHT):
    """The model's thoughts before an answer, which its service sends apart from it. No model gets
    them. Text: all of it."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None


class AssistantThoughtStream(Record, tag=tags.ASSISTANT_THOUGHT_STREAM, in_store=False):
    """A piece of such a thought to draw."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.turn, self.step, self.party


class AssistantTool(Record, tag=tags.ASSISTANT_TOOL, in_prompt=True):
    """A tool call of the model. Text: the result, or why there is none."""

    call: Word | None = None
    """"2.0.1" is the second call of the answer 2.0."""
    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    name: Name = ""
    arguments: str = ""
    """JSON."""
    state: Word = ""
    """"running", then "ok", "error", "refused" or "stopped"."""
    duration: float | None = None
    """Seconds."""


class Agent(Record, tag=tags.AGENT):
    """The model's current activity."""

    state: Word = ""
    """"thinking", "reflecting", "summarising", "done", "stopped", "max-turns" or "failed"."""
    turn: int | None = None
    step: int | None = None
    party: Word | None = None


class Approval(Record, tag=tags.APPROVAL):
    """Code that waits for approval, or the decision. Text: the code, edited or not. Without
    approvals, only refused code has this record."""

    request: Word = ""
    """The id of the question to the user."""
    turn: int | None = None
    step: int | None = None
    block: int | None = None
    """The number of the block, from 0."""
    blocks: int | None = None
    """How many blocks the answer has."""
    state: Word = ""
    """"waiting", then "run", "edited", "skipped" or "stopped"; "refused" for code that must not
    run."""
    reason: str = ""
    """Why it was skipped."""
    why: str | None = None
    """Why it waits, although the approval mode does not ask about all code."""
    party: Word | None = None
    guest: int | None = None
    """The number of an agent's colour, from 0."""
    call: Word | None = None
    """The id of the agent's call."""
    is_code: bool | None = None
    """False if the text describes in words what an agent wants to do."""


class NotRestored(NamedTuple):
    """Something that an undo leaves as it is."""

    name: Name
    """The variable or file; empty if it is about more than one."""
    reason: str
    """A sentence."""


class Review(Record, tag=tags.REVIEW):
    """Changes of cells that wait until the user keeps or undoes them, or the decision."""

    request: Word = ""
    """The id of the question to the user."""
    cells: tuple[int, ...] = ()
    """The cell of the model, and those that have run since: an undo takes them back too."""
    state: Word = ""
    """"waiting", then "kept", "undone" or "stopped" (the changes stay, and the turn ends)."""
    reason: str = ""
    """Why it was undone."""
    party: Word | None = None
    changes: tuple[Change, ...] = ()
    """Changes that the cells have made."""
    not_restored: tuple[NotRestored, ...] = ()
    """Changes that an undo would leave as they are."""


class Summary(Record, tag=tags.SUMMARY):
    """A summary of the beginning of the conversation. Text: the summary; empty if summarizing
    failed."""

    turn: int | None = None
    """The last question that it covers."""


class Window(Record, tag=tags.WINDOW, in_store=False):
    """How full the window of the answering model is. A resumed session may have another one."""

    tokens: int = 0
    """Tokens of the last request, as the model counted them; or of the next one."""
    size: int = 0
    """The tokens that the model can read."""
    estimated: Flag = False
    """The model did not count them."""


class Usage(Record, tag=tags.USAGE):
    """The usage of one model call."""

    tree: Word | None = None
    """The search, its node, and the number of this event, as in `SearchRecord`."""
    node: Word | None = None
    seq: int | None = None
    turn: int | None = None
    """The question for which the call was made, or the turn of a search's node."""
    model: Word = ""
    """The provider's name for it; with the provider before it ("openai:…") if it is an embedding
    model."""
    input_tokens: int = 0
    """All input tokens, including those read from and written to the cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: Annotated[float | None, NULL] = None
    """US dollars; None if the price is not known."""
    source: Word | None = None
    """"agent", "reflection", "summary", "suggestion", "embedding" or "rlm"."""
    estimated: Flag = False
    """The call ended before the model reported its usage."""


Spans = tuple[tuple[int, int], ...]
"""Parts of the root's text: start and end in characters, end exclusive."""


class SearchRecord(Record):
    """An event of a search."""

    tree: Word = ""
    """The id of the search; `search.events.Events` sets it, and `seq`."""
    node: Word
    """"1" is the root, "1.3" its third child."""
    seq: int | None = None
    """The number of the event in its tree, from 0; None for streamed pieces."""


class SearchBegin(SearchRecord, tag=tags.RLM_CALL, event="begin"):
    """A node starts. Text: the query."""

    parent: Annotated[Word | None, NULL] = None
    depth: int = 0
    kind: Word = "rlm"
    """"rlm", or "llm" for a plain call."""
    batch: Word | int | None = None
    """The number of the batch among the parent's batches."""
    index: int = 0
    """Which call of the batch this is, from 0."""
    of: int = 0
    """How many calls the batch has."""
    spans: Spans = ()
    """The parts of the root's text that the node gets."""
    chars: int = 0
    model: Word = ""
    replaces: Annotated[Word | None, NULL] = None
    """The node of which this is a rerun."""
    limits: Mapping[str, float | None] | None = None
    """Root only, as are the next two fields: the limits of the search, as `search.limits.Limits`
    names them."""
    cell: int | None = None
    source: Word | None = None


class SearchTurn(SearchRecord, tag=tags.RLM_CALL, event="turn"):
    """A node's model is asked."""

    turn: int | None = None
    turns: int = 0
    """The maximum number of turns."""


class SearchBackOff(SearchRecord, tag=tags.RLM_CALL, event="back-off"):
    """A node waits because the service is busy."""

    seconds: float = 0.0


class SearchFanOut(SearchRecord, tag=tags.RLM_CALL, event="fan-out"):
    """A node wants so many calls that the user must approve them, or the decision."""

    request: Word = ""
    batch: Word | int | None = None
    calls: int | None = None
    tokens: int | None = None
    """The calls use at most this many."""
    usd: Annotated[float | None, NULL] = None
    """They cost at most so many US dollars; None if the price is not known."""
    made: int | None = None
    """Calls of the search so far."""
    state: Word = ""
    """"waiting", then "run" or "refused"."""


class SearchTouch(SearchRecord, tag=tags.RLM_CALL, event="touch"):
    """A node has read parts of the root's text, or passed them on."""

    how: Word = ""
    """"peek", "grep", "handed" or "answer"."""
    spans: Spans = ()


class SearchMemo(SearchRecord, tag=tags.RLM_CALL, event="memo"):
    """A node reuses another node's answer to the same query."""

    of_node: Word = ""


class SearchChatStream(SearchRecord, tag=tags.RLM_CHAT_STREAM, in_store=False):
    """A piece of an answer of a node's model."""

    turn: int | None = None
    fresh: Flag = False
    """The answer starts again: drop its pieces so far."""

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.tree, self.node, self.turn, self.fresh


class SearchChat(SearchRecord, tag=tags.RLM_CHAT):
    """The whole answer of a node's model in a turn."""

    turn: int | None = None
    cut: bool = False
    """Text after the code was dropped."""


class SearchReplIn(SearchRecord, tag=tags.RLM_REPL_IN):
    """A node runs code. Text: the code."""

    turn: int | None = None


class SearchReplOut(SearchRecord, tag=tags.RLM_REPL_OUT):
    """A node's code has ended. Text: the start and end of its output."""

    turn: int | None = None
    status: Word = ""
    duration: float | None = None
    """Seconds."""
    chars: int = 0
    """Length of the whole output."""


class SearchFinal(SearchRecord, tag=tags.RLM_FINAL):
    """A node has ended. Text: its answer, or why there is none."""

    state: Word = "done"
    """"done", "partial", "error" or "stopped"."""
    duration: float | None = None
    """Seconds."""
    spans: Spans = ()
    """The parts of the root's text on which the answer is based."""
    late: bool = False
    """Nothing waits for the answer any more."""


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
    """The user hides an entry from the model, or unhides it. `bus.prompt.HiddenEntries` names entries."""

    entry: Word
    hidden: bool = False


class Private(Record, tag=tags.PRIVATE, in_prompt=True):
    """The user marks a variable as private, so that no model gets its value, or takes the
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


Stream = (
    UserReplOutStream
    | AssistantReplOutStream
    | AssistantChatStream
    | AssistantThoughtStream
    | SearchChatStream
)
"""A piece of a text that comes bit by bit: `stream` identifies the text."""


def emit(log: logging.Logger, record: Record) -> None:
    """Log a record. Any thread may call it."""
    if not record.time:  # the only change ever made to a record
        object.__setattr__(record, "time", time.time())
    log.info(record.text, extra={"record": record})


def get_record(logged: logging.LogRecord) -> Record:
    """Return the record that `emit` was given; a notice if something else logged it."""
    record = getattr(logged, "record", None)
    if isinstance(record, Record):
        return record
    level = (
        "error"
        if logged.levelno >= logging.ERROR
        else "warning"
        if logged.levelno >= logging.WARNING
        else "info"
    )
    return Notice(logged.getMessage(), level=level, time=logged.created)
