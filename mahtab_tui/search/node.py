"""One call of a search, as its events describe it, and what was read of its text."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus.records import Record, SearchChatStream, SearchRecord, SearchTouch, Usage
from mahtab_tui.sandbox.base import TextSpan

How = Literal["handed", "peek", "grep", "answer"]

HOWS: tuple[How, ...] = ("handed", "peek", "grep", "answer")

LIMIT = 4_096
"""Spans of one kind that are kept; of more, near ones are joined."""


class Intervals:
    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[TextSpan]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def size(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def add(self, spans: Sequence[TextSpan]) -> None:
        for start, end in spans:
            if start < end:
                first = bisect_left(self._ends, start)
                after = bisect_right(self._starts, end)
                if first < after:
                    start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
                self._starts[first:after] = [start]
                self._ends[first:after] = [end]
        if len(self) > self._limit:
            self._join_nearest()

    def _join_nearest(self) -> None:
        gaps = sorted(
            range(1, len(self)), key=lambda index: self._starts[index] - self._ends[index - 1]
        )
        chosen = sorted([0, *gaps[len(self) - self._limit // 2 :]])
        self._ends = [self._ends[index - 1] for index in chosen[1:]] + self._ends[-1:]
        self._starts = [self._starts[index] for index in chosen]


Emit = Callable[[Record], None]


class Events:
    def __init__(self, tree: str, emit: Emit) -> None:
        self.tree = tree
        self._emit = emit
        self._seq = 0

    def send(self, event: SearchRecord | Usage) -> None:
        self._emit(event.changed(tree=self.tree, seq=self._seq, time=time.time()))
        self._seq += 1

    def stream(self, node: str, turn: int, text: str | None) -> None:
        """Send a piece of an answer, without a number; None when the answer starts again."""
        piece = SearchChatStream(text or "", tree=self.tree, node=node, turn=turn)
        self._emit(piece.changed(fresh=text is None, time=time.time()))

    def touch(self, node: str, how: str, spans: Sequence[TextSpan]) -> None:
        if spans:
            merged = Intervals()
            merged.add(spans)
            self.send(SearchTouch(node=node, how=how, spans=tuple(merged)))


class CoverageCell(NamedTuple):
    how: How | None = None
    sparse: bool = False


class Coverage:
    def __init__(self, chars: int = 0) -> None:
        self.chars = chars
        self.version = 0
        self._kinds: dict[How, Intervals] = {how: Intervals() for how in HOWS}
        self._seen = Intervals(limit=len(HOWS) * LIMIT)

    def add(self, how: How, spans: Sequence[TextSpan]) -> None:
        inside = [(max(0, start), min(end, self.chars)) for start, end in spans]
        self._kinds[how].add(inside)
        if how != "handed":
            self._seen.add(inside)
        self.version += 1

    def spans(self, how: How) -> list[TextSpan]:
        return list(self._kinds[how])

    @property
    def seen(self) -> float:
        return self._seen.size / self.chars if self.chars else 0.0

    def cells(self, count: int) -> list[CoverageCell]:
        """Divide the text into the cells of a bar, each with the strongest thing done in it."""
        if not self.chars:
            return [CoverageCell()] * count
        cells = [CoverageCell()] * count
        handed, seen = (self._shares(spans, count) for spans in (self._kinds["handed"], self._seen))
        for how in HOWS:
            shares = handed if how == "handed" else seen
            for start, end in self._kinds[how]:
                for cell in range(start * count // self.chars, -(-end * count // self.chars)):
                    cells[cell] = CoverageCell(how, shares[cell] < 0.5)
        return cells

    def _shares(self, spans: Intervals, count: int) -> list[float]:
        covered = [0] * count
        for start, end in spans:
            first, last = start * count // self.chars, -(-end * count // self.chars)
            for cell in range(first, last):
                low, high = cell * self.chars, (cell + 1) * self.chars
                covered[cell] += min(end * count, high) - max(start * count, low)
        return [size / self.chars for size in covered]


State = Literal["waiting", "thinking", "running", "done", "partial", "error", "stopped"]
"""Partial: the best answer that there was when a limit was reached."""

STATES: tuple[State, ...] = (
    "done",
    "partial",
    "error",
    "stopped",
    "running",
    "thinking",
    "waiting",
)
FINISHED: frozenset[State] = frozenset({"done", "partial", "error", "stopped"})

STATE_LABELS = 40_000
"""Characters that are kept of a turn's words, code or output; of longer texts, both ends."""


def shortened(text: str, limit: int = STATE_LABELS) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


@dataclass(slots=True)
class UsageSum:
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def add(self, tokens: int, cost: float | None) -> None:
        self.calls += 1
        self.tokens += tokens
        self.cost += cost or 0.0
        self.unpriced += cost is None


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """Rest of a search's budget; None if there is no limit. The turns are those of one call."""

    turns: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(slots=True, eq=False)
class Turn:
    """One answer of the model, and what its code did. Times are in seconds."""

    number: int
    begun: float = 0.0
    left: BudgetLeft = field(default_factory=BudgetLeft)
    whole: bool = False
    cut: bool = False
    code: str | None = None
    output: str | None = None
    status: str = ""
    """How the code ended: a `sandbox.base.TurnStatus`."""
    chars: int = 0
    duration: float | None = None
    used: UsageSum = field(default_factory=UsageSum)
    version: int = 0
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0

    @property
    def words(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def append(self, piece: str) -> None:
        if self._length < STATE_LABELS:
            self._pieces.append(piece)
            self._length += len(piece)

    def forget(self) -> None:
        self._pieces, self._length = [], 0

    def set_words(self, words: str) -> None:
        self._pieces, self._length, self.whole = [shortened(words)], len(words), True

    @property
    def size(self) -> int:
        return len(self.words) + len(self.code or "") + len(self.output or "")

    def shorten(self, limit: int) -> None:
        self.set_words(shortened(self.words, limit))
        self.code = None if self.code is None else shortened(self.code, limit)
        self.output = None if self.output is None else shortened(self.output, limit)
        self.version += 1


@dataclass(slots=True, eq=False, repr=False)
class FanOut:
    id: str
    of: int = 0
    """How many parts there are, started or not."""
    slots: dict[int, SearchNode] = field(default_factory=dict)
    counts: Counter[State] = field(default_factory=Counter)
    request: str = ""
    asks: bool = False
    refused: bool = False
    calls: int = 0
    """Estimated, like tokens and dollars, if there was a question."""
    tokens: int = 0
    usd: float | None = None

    def count(self, state: State) -> int:
        return self.counts[state] + (max(0, self.of - len(self.slots)) if state == "waiting" else 0)


@dataclass(slots=True, eq=False, repr=False)
class SearchNode:
    """One call: a search (``rlm``), or a plain model call (``llm``). Times are in seconds since the
    epoch; `used` and `alive` count its descendants."""

    id: str
    parent: SearchNode | None
    query: str
    kind: str
    depth: int
    begun: float
    model: str = ""
    spans: tuple[TextSpan, ...] = ()
    """Places of its text in the root's text; empty if code made the text."""
    chars: int = 0
    batch: FanOut | None = None
    index: int = 0
    replaces: SearchNode | None = None
    again: list[SearchNode] = field(default_factory=list)
    state: State = "waiting"
    back_off: float | None = None
    """When the next try starts; None unless the service is busy."""
    turn_limit: int = 0
    turns: list[Turn] = field(default_factory=list)
    used: UsageSum = field(default_factory=UsageSum)
    alive: int = 0
    answer: str = ""
    rests_on: tuple[TextSpan, ...] = ()
    late: bool = False
    memo: str = ""
    duration: float | None = None
    cut: bool = False
    """Whether the search's events ended before it did."""
    children: list[SearchNode] = field(default_factory=list)
    """In order, without retries, which are in `again` of the first one."""
    batches: dict[str, FanOut] = field(default_factory=dict)
    version: int = 0

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    def elapsed(self, now: float) -> float:
        return max(0.0, now - self.begun) if self.duration is None else self.duration

    def turn_label(self, number: int, form: str) -> str:
        if not self.turn_limit or not number:
            return ""
        return form.format(number, self.turn_limit) if number <= self.turn_limit else "last call"

    @property
    def last_line(self) -> str:
        if not self.turns:
            return ""
        turn = self.turns[-1]
        text = turn.code if self.state == "running" and turn.code else turn.words
        lines = (line.strip() for line in reversed(text[-600:].splitlines()))
        return next((line for line in lines if line and not line.startswith("```")), "")
