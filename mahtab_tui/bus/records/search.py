"""Records of recursive searches: a tree is a fold of them. `turn` is the number of a node's turn,
from 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Flag, Record, Word

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
