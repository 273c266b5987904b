"""What is known of one call of a recursive search."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from mahtab_tui.sandbox.text import Span

State = Literal["waiting", "thinking", "running", "done", "partial", "error", "stopped"]
"""Thinking: the model answers. Running: its code does. Partial: the best answer that there was at the end of a budget."""

STATES: tuple[State, ...] = ("done", "partial", "error", "stopped", "running", "thinking", "waiting")
"""In the order in which they are told of."""
FINISHED: frozenset[State] = frozenset({"done", "partial", "error", "stopped"})

WORDS = 40_000
"""Characters of a turn's words, code or output that are kept; the ends of more."""


def shortened(text: str, limit: int = WORDS) -> str:
    """The two ends of a long text."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


@dataclass(slots=True)
class UsageSum:
    """Sums over calls of a model."""

    calls: int = 0
    tokens: int = 0
    """Read and written."""
    cost: float = 0.0
    """US dollars, of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is not known."""

    def add(self, tokens: int, cost: float | None) -> None:
        """Count one call."""
        self.calls += 1
        self.tokens += tokens
        self.cost += cost or 0.0
        self.unpriced += cost is None


@dataclass(frozen=True, slots=True)
class TreeBudgetLeft:
    """What is left of a tree's budgets; None where there is no limit."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(slots=True, eq=False)
class Turn:
    """One answer of the model, and what its code did."""

    number: int
    begun: float = 0.0
    """Seconds since the epoch."""
    left: TreeBudgetLeft = field(default_factory=TreeBudgetLeft)
    """What was left of the tree's budgets when it began."""
    whole: bool = False
    """The words are all that the model said."""
    cut: bool = False
    """Something that came after the code was dropped."""
    code: str | None = None
    output: str | None = None
    """None until the code has ended."""
    status: str = ""
    """How the code ended: a `sandbox.base.TurnStatus`."""
    chars: int = 0
    """How much was printed; `output` may be its ends only."""
    duration: float | None = None
    """Seconds that the code took."""
    used: UsageSum = field(default_factory=UsageSum)
    version: int = 0
    """Grows with every change."""
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0

    @property
    def words(self) -> str:
        """What the model said, as far as it has come."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def hear(self, piece: str) -> None:
        """A piece of an answer that comes."""
        if self._length < WORDS:
            self._pieces.append(piece)
            self._length += len(piece)

    def forget(self) -> None:
        """The answer that comes begins anew."""
        self._pieces, self._length = [], 0

    def say(self, words: str) -> None:
        """The whole answer has come."""
        self._pieces, self._length, self.whole = [shortened(words)], len(words), True

    @property
    def size(self) -> int:
        """Characters that it holds."""
        return len(self.words) + len(self.code or "") + len(self.output or "")

    def shorten(self, limit: int) -> None:
        """Keep so much of each of its texts only."""
        self.say(shortened(self.words, limit))
        self.code = None if self.code is None else shortened(self.code, limit)
        self.output = None if self.output is None else shortened(self.output, limit)
        self.version += 1


@dataclass(slots=True, eq=False, repr=False)
class FanOut:
    """The parts of one fan-out."""

    id: str
    of: int = 0
    """How many parts there are, begun or not."""
    slots: dict[int, SearchNode] = field(default_factory=dict)
    """By number of the part, the node that works on it now."""
    counts: Counter[State] = field(default_factory=Counter)
    """How many of the slots are in each state."""
    request: str = ""
    """The question before it; empty where there was none."""
    asks: bool = False
    """The question waits for its answer."""
    refused: bool = False
    calls: int = 0
    """Estimates, where there was a question."""
    tokens: int = 0
    usd: float | None = None
    version: int = 0
    """Grows with every change."""

    def count(self, state: State) -> int:
        """How many parts are in a state; those that have not begun wait."""
        return self.counts[state] + (max(0, self.of - len(self.slots)) if state == "waiting" else 0)


@dataclass(slots=True, eq=False, repr=False)
class SearchNode:
    """One call: of the search itself (``rlm``), or of a model alone (``llm``)."""

    id: str
    parent: SearchNode | None
    query: str
    kind: str
    depth: int
    begun: float
    """Seconds since the epoch."""
    model: str = ""
    spans: tuple[Span, ...] = ()
    """Where its text stands in the root's; none where it was made on the way."""
    chars: int = 0
    """Length of its text."""
    batch: FanOut | None = None
    index: int = 0
    """Number of the part in its batch, from 0."""
    replaces: SearchNode | None = None
    """The node that was run again as this one."""
    again: list[SearchNode] = field(default_factory=list)
    """The nodes as which it was run again."""
    state: State = "waiting"
    back_off: float | None = None
    """Until when the model is left alone, in seconds since the epoch."""
    turn_limit: int = 0
    turns: list[Turn] = field(default_factory=list)
    used: UsageSum = field(default_factory=UsageSum)
    """With its descendants."""
    alive: int = 0
    """Descendants that have not finished."""
    answer: str = ""
    """Or a sentence that says why there is none."""
    rests_on: tuple[Span, ...] = ()
    """Spans of the root's text."""
    late: bool = False
    """The answer came when its parent did not wait any more."""
    memo: str = ""
    """The node whose answer to the same question this is."""
    duration: float | None = None
    """Seconds from its beginning to its end; None until then."""
    cut: bool = False
    """The record of the search ended before it did."""
    children: list[SearchNode] = field(default_factory=list)
    """In their order, without those that were run again: these stand behind the first of them."""
    batches: dict[str, FanOut] = field(default_factory=dict)
    version: int = 0
    """Grows with every change of its own."""
    shape: int = 0
    """Grows when nodes come or end or are asked about, here or below."""

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def elapsed(self, now: float) -> float:
        """Seconds that it has taken so far, or took."""
        return max(0.0, now - self.begun) if self.duration is None else self.duration

    @property
    def last_line(self) -> str:
        """The last line that the model has said, or of the code that runs; empty before."""
        if not self.turns:
            return ""
        turn = self.turns[-1]
        text = turn.code if self.state == "running" and turn.code else turn.words
        lines = [line for line in text[-600:].splitlines() if line.strip() and not line.lstrip().startswith("```")]
        return lines[-1].strip() if lines else ""
