"""One call of a search, as its events describe it, and what was read of its text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from mahtab_tui.bus.records import Record, SearchChatStream, SearchRecord, Usage
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.worker.capture import shorten


def merge_spans(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Merge spans that overlap or touch; drop empty ones."""
    merged: list[TextSpan] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif start < end:
            merged.append((start, end))
    return merged


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


State = Literal["waiting", "thinking", "running", "done", "partial", "error", "stopped"]
"""Partial: the best answer that there was when a limit was reached."""

_ENDS: tuple[State, ...] = ("done", "partial", "error", "stopped")
FINISHED = frozenset(_ENDS)
STATES: tuple[State, ...] = (*_ENDS, "running", "thinking", "waiting")

LONGEST_TEXT = 40_000
"""Most characters of a turn's words, code or output; of longer texts, both ends are kept."""


def shortened(text: str, limit: int = LONGEST_TEXT) -> str:
    return shorten(text, limit // 2)


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
        if self._length < LONGEST_TEXT:
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
    state: State = "waiting"
    back_off: float | None = None
    """When the next try starts; None unless the service is busy."""
    turn_limit: int = 0
    turns: list[Turn] = field(default_factory=list)
    used: UsageSum = field(default_factory=UsageSum)
    alive: int = 0
    answer: str = ""
    rests_on: tuple[TextSpan, ...] = ()
    duration: float | None = None
    cut: bool = False
    """Whether the search's events ended before it did."""
    children: list[SearchNode] = field(default_factory=list)
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
