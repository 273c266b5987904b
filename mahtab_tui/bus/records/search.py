"""Records of recursive searches: the events of which a tree is made. `turn` is the number of a node's turn, from 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Flag, Record, Word

Spans = tuple[tuple[int, int], ...]
"""Places in the root's text: first character, and the one behind the last."""


class SearchRecord(Record):
    """An event of a search."""

    tree: Word = ""
    """The id of the search; `search.events.Events` gives it, and `seq`."""
    node: Word
    """"1" is the root, "1.3" its third child."""
    seq: int | None = None
    """The number of the event in its tree, from 0; None of what is streamed."""


class SearchBegin(SearchRecord):
    """A node begins. Text: the query."""

    tag: ClassVar[str] = tags.RLM_CALL
    event: ClassVar[str] = "begin"

    parent: Annotated[Word | None, NULL] = None
    depth: int = 0
    kind: Word = "rlm"
    """"rlm", or "llm" of a plain call."""
    batch: Word | int | None = None
    """The parent's calls that were made at once: their number there, which of them this is, and how many they are."""
    index: int = 0
    of: int = 0
    spans: Spans = ()
    """The parts of the root's text that it is given."""
    chars: int = 0
    model: Word = ""
    replaces: Annotated[Word | None, NULL] = None
    """The node that it is run again for."""
    limits: Mapping[str, float | None] | None = None
    """Of the root: what the search may use, as `search.budget.Limits` names it; so are the next ones."""
    cell: int | None = None
    source: Word | None = None


class SearchTurn(SearchRecord):
    """A node's model is asked."""

    tag: ClassVar[str] = tags.RLM_CALL
    event: ClassVar[str] = "turn"

    turn: int | None = None
    turns: int = 0
    """The most that it may have."""


class SearchBackOff(SearchRecord):
    """A node waits, since the service is busy."""

    tag: ClassVar[str] = tags.RLM_CALL
    event: ClassVar[str] = "back-off"

    seconds: float = 0.0


class SearchFanOut(SearchRecord):
    """A node wants so many calls that the user is asked, or what was decided."""

    tag: ClassVar[str] = tags.RLM_CALL
    event: ClassVar[str] = "fan-out"

    request: Word = ""
    batch: Word | int | None = None
    calls: int | None = None
    tokens: int | None = None
    """They may come to this many, and to so many US dollars; None where the price is not known."""
    usd: Annotated[float | None, NULL] = None
    made: int | None = None
    """Calls of the search before them."""
    state: Word = ""
    """"waiting", then "run" or "refused"."""


class SearchTouch(SearchRecord):
    """A node has seen parts of the root's text, or handed them on."""

    tag: ClassVar[str] = tags.RLM_CALL
    event: ClassVar[str] = "touch"

    how: Word = ""
    """"peek", "grep", "handed" or "answer"."""
    spans: Spans = ()


class SearchMemo(SearchRecord):
    """A node takes the answer of another one to the same question."""

    tag: ClassVar[str] = tags.RLM_CALL
    event: ClassVar[str] = "memo"

    of_node: Word = ""


class SearchChatStream(SearchRecord):
    """A piece of what a node's model says."""

    tag: ClassVar[str] = tags.RLM_CHAT_STREAM

    turn: int | None = None
    fresh: Flag = False
    """The answer begins anew, and what came of it does not count."""

    @property
    def stream(self) -> tuple[object, ...]:
        """The same for all pieces that make one text."""
        return self.tag, self.tree, self.node, self.turn, self.fresh


class SearchChat(SearchRecord):
    """All that a node's model said in a turn."""

    tag: ClassVar[str] = tags.RLM_CHAT

    turn: int | None = None
    cut: bool = False
    """What came after its code was dropped."""


class SearchReplIn(SearchRecord):
    """A node's code runs. Text: the code."""

    tag: ClassVar[str] = tags.RLM_REPL_IN

    turn: int | None = None


class SearchReplOut(SearchRecord):
    """A node's code has ended. Text: the ends of what it printed."""

    tag: ClassVar[str] = tags.RLM_REPL_OUT

    turn: int | None = None
    status: Word = ""
    duration: float | None = None
    """Seconds."""
    chars: int = 0
    """All that was printed."""


class SearchFinal(SearchRecord):
    """A node has ended. Text: its answer, or a sentence."""

    tag: ClassVar[str] = tags.RLM_FINAL

    state: Word = "done"
    """"done", "partial", "error" or "stopped"."""
    duration: float | None = None
    """Seconds."""
    spans: Spans = ()
    """What of the root's text the answer rests on."""
    late: bool = False
    """Nobody waits for it any more."""
