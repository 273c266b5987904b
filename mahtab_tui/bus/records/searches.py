"""The records of searches, the calls of `rlm()`."""

from __future__ import annotations

from typing import Annotated

from mahtab_tui.bus.marks import NULL, Flag, Word
from mahtab_tui.bus.records.record import Record, Stream

Spans = tuple[tuple[int, int], ...]
"""Parts of the root's text: start and end in characters, end exclusive."""


class SearchRecord(Record):
    """An event of a search."""

    tree: Word = ""
    """The id of the search. `search.events.Events` sets it."""
    node: Word
    """`1` is the root, `1.3` its third child."""
    seq: int | None = None
    """Number of the record in its search, in the order of the events. `search.events.Events` sets
    it."""


class SearchBegin(SearchRecord, tag="rlm-call", event="begin"):
    """A node starts. Text: the query."""

    parent: Annotated[Word | None, NULL] = None
    """The node that calls it; None for the root."""
    depth: int = 0
    """How many nodes are above it; 0 for the root."""
    kind: Word = "rlm"
    """`rlm`, or `llm` for a plain call."""
    batch: Word | int | None = None
    """The number of the fan-out that starts it: the calls that its parent makes together."""
    index: int = 0
    """Its place among those calls, from 0."""
    of: int = 0
    """How many calls these are."""
    spans: Spans = ()
    """What it reads of the root's text; empty if it reads another text."""
    chars: int = 0
    """Characters of the text that it reads."""
    model: Word = ""
    """The name of the model that answers."""
    cell: int | None = None
    """The cell that called `rlm`; only for the root."""
    source: Word | None = None
    """What called `rlm`, such as `cell`; only for the root."""


class SearchTurn(SearchRecord, tag="rlm-call", event="turn"):
    """A node asks its model."""

    turn: int | None = None
    """The number of the node's turn, from 1; also in the records below."""
    turns: int = 0
    """Maximum number of turns of the node; 0 if this record does not say."""


class SearchBackOff(SearchRecord, tag="rlm-call", event="back-off"):
    """A node waits because the service is busy."""

    seconds: float = 0.0
    """How long it waits."""


class SearchFanOut(SearchRecord, tag="rlm-call", event="fan-out"):
    """A request to approve a large number of calls that a node wants to make, or the decision."""

    request: Word = ""
    """The id of the request; its decision has the same one."""
    batch: Word | int | None = None
    """The number of the fan-out, as in `SearchBegin`."""
    calls: int | None = None
    """How many calls the node wants to make, with those that they may make in turn."""
    tokens: int | None = None
    """Estimated tokens of all these calls."""
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
    """A `TurnStatus` of the sandbox, such as "ok", "error" or "timed out"."""
    duration: float | None = None
    """Seconds that the code ran."""
    chars: int = 0
    """Characters of the whole output."""


class SearchFinal(SearchRecord, tag="rlm-final"):
    """A node has ended. Text: its answer, or why there is none."""

    state: Word = "done"
    """One of "done", "partial", "error" and "stopped"."""
    duration: float | None = None
    """Seconds from the node's start to its end."""
    spans: Spans = ()
    """Parts of the root's text that support the answer."""
