"""A search as a tree of calls, folded from its events."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from mahtab_tui.bus.records import (
    Record,
    SearchBackOff,
    SearchBegin,
    SearchChat,
    SearchChatStream,
    SearchFanOut,
    SearchFinal,
    SearchRecord,
    SearchReplIn,
    SearchReplOut,
    SearchTurn,
    Usage,
)
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


class SearchControl(Protocol):
    """Methods may be called from any thread and return at once. Unknown ids are ignored."""

    def stop(self, tree: str, node: str) -> None: ...

    def make_variable(self, answer: str) -> None: ...

    def text(self, tree: str, start: int, end: int) -> str | None:
        """Return a part of the root's text, or None if it is no longer in memory."""

    def answer(self, request: str, run: bool) -> None:
        """Answer the question before a large fan-out."""


LONGEST_TEXTS = 16_000_000
"""Characters of finished nodes that are kept; then the oldest are shortened."""
ENDS, ANSWER = 600, 40_000
"""Characters that are kept of each shortened text, and of an answer."""

_OfTurn = SearchTurn | SearchChatStream | SearchChat | SearchReplIn | SearchReplOut | Usage


class Tree:
    """One search. Any part of a stream gives a tree: events that are repeated, unknown or
    inconsistent are skipped."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.nodes: dict[str, SearchNode] = {}
        self.roots: list[SearchNode] = []
        """The search itself first, then further ones over its text, and nodes whose parent is unknown."""
        self.used = UsageSum()
        self.counts: Counter[State] = Counter()
        self.depth = 0
        self.questions: dict[str, tuple[SearchNode, FanOut]] = {}
        self.structure = 0
        """Grows when a node starts, ends or asks for consent."""
        self._seq = -1
        self._finished: deque[tuple[SearchNode, int]] = deque()
        self._chars = 0

    @property
    def root(self) -> SearchNode | None:
        return self.roots[0] if self.roots else None

    @property
    def finished(self) -> bool:
        ended = sum(self.counts[state] for state in FINISHED)
        return bool(self.roots) and ended == self.counts.total()

    def fold(self, record: Record) -> None:
        if not isinstance(record, SearchRecord | Usage):
            return
        if record.seq is not None:
            if record.seq <= self._seq:
                return
            self._seq = record.seq
        if isinstance(record, SearchBegin):
            self._begin(record)
        elif record.node is not None and (node := self.nodes.get(record.node)):
            self._fold(node, record)
            node.version += 1

    def close(self) -> None:
        """Note that no more events will come: nodes that have not finished were cut off."""
        for node in self.nodes.values():
            if not node.finished:
                node.cut = True
                last = max((turn.begun for turn in node.turns), default=node.begun)
                self._end(node, "stopped", last - node.begun)
        for _, batch in self.questions.values():
            batch.asks = False
            self.structure += 1
        self.questions.clear()

    def _begin(self, record: SearchBegin) -> None:
        name = record.node
        if name in self.nodes:
            return
        parent = None if record.parent is None else self.nodes.get(record.parent)
        node = SearchNode(
            id=name,
            parent=parent,
            query=shortened(record.text),
            kind=record.kind,
            depth=0 if parent is None else parent.depth + 1,
            begun=record.time,
            model=record.model,
            spans=record.spans,
            chars=record.chars,
            index=record.index,
        )
        self.nodes[name] = node
        (self.roots if parent is None else parent.children).append(node)
        if parent is not None and record.batch is not None:
            batch = node.batch = _get_batch(parent, record.batch)
            batch.of = max(batch.of, record.of)
            if (before := batch.slots.get(node.index)) is not None:
                batch.counts[before.state] -= 1
            batch.slots[node.index] = node
            batch.counts[node.state] += 1
        self.counts[node.state] += 1
        for above in _ancestors(node):
            above.alive += 1
        self.structure += 1
        self.depth = max(self.depth, node.depth)

    def _state(self, node: SearchNode, state: State) -> None:
        if node.state == state or node.finished:
            return
        if node.batch is not None and node.batch.slots.get(node.index) is node:
            node.batch.counts[node.state] -= 1
            node.batch.counts[state] += 1
        self.counts[node.state] -= 1
        self.counts[state] += 1
        node.state = state

    def _end(self, node: SearchNode, state: State, duration: float) -> None:
        self._state(node, state)
        node.duration = max(0.0, duration)
        node.back_off = None
        for above in _ancestors(node):
            above.alive -= 1
        self.structure += 1
        self._retain_texts(node)

    def _retain_texts(self, node: SearchNode) -> None:
        size = len(node.query) + len(node.answer) + sum(turn.size for turn in node.turns)
        self._finished.append((node, size))
        self._chars += size
        while self._chars > LONGEST_TEXTS and len(self._finished) > 1:
            oldest, size = self._finished.popleft()
            oldest.query = shortened(oldest.query, ENDS)
            oldest.answer = shortened(oldest.answer, ENDS)
            for turn in oldest.turns:
                turn.shorten(ENDS)
            self._chars -= size

    def _fold(self, node: SearchNode, record: SearchRecord | Usage) -> None:
        match record:
            case SearchFanOut():
                self._fan_out(node, record)
            case Usage():
                sums = [self.used, node.used, *(above.used for above in _ancestors(node))]
                if record.turn is not None:
                    sums.append(self._get_turn(node, record).used)
                for used in sums:
                    used.add(record.input_tokens + record.output_tokens, record.cost)
            case SearchChat() | SearchReplIn() | SearchReplOut():
                self._fold_turn(node, record)
            case SearchTurn() | SearchChatStream() if not node.finished:
                self._fold_turn(node, record)
            case SearchBackOff() if not node.finished:
                node.back_off = record.time + record.seconds
                self._state(node, "waiting")
            case SearchFinal() if not node.finished:
                node.answer = shortened(record.text, ANSWER)
                node.rests_on = record.spans
                elapsed = record.time - node.begun if record.duration is None else record.duration
                ended: State = next((state for state in FINISHED if state == record.state), "done")
                self._end(node, ended, elapsed)

    def _fold_turn(self, node: SearchNode, record: _OfTurn) -> None:
        turn = self._get_turn(node, record)
        match record:
            case SearchTurn():
                node.turn_limit = record.turns or node.turn_limit
                self._state(node, "thinking")
                node.back_off = None
            case SearchChatStream() if not turn.whole:
                if record.fresh:
                    turn.forget()
                turn.append(record.text)
                self._state(node, "thinking")
                node.back_off = None
            case SearchChat():
                turn.set_words(record.text)
                turn.cut = record.cut
            case SearchReplIn():
                turn.code = shortened(record.text)
                self._state(node, "running")
            case SearchReplOut():
                turn.output = shortened(record.text)
                turn.status = record.status
                turn.chars = record.chars or len(record.text)
                turn.duration = record.duration
                self._state(node, "thinking")

    def _fan_out(self, node: SearchNode, record: SearchFanOut) -> None:
        batch = _get_batch(node, record.batch)
        self.questions.pop(batch.request, None)
        batch.request = record.request
        if (asked := self.questions.pop(batch.request, None)) is not None:
            asked[1].asks = False
        batch.calls, batch.tokens, batch.usd = record.calls or 0, record.tokens or 0, record.usd
        batch.asks = record.state == "waiting" and bool(batch.request)
        batch.refused = record.state == "refused"
        if batch.asks:
            self.questions[batch.request] = (node, batch)
        self.structure += 1

    def _get_turn(self, node: SearchNode, record: _OfTurn) -> Turn:
        wanted = record.turn
        if wanted is None:
            wanted = node.turns[-1].number if node.turns else 1
        turn = next((turn for turn in reversed(node.turns) if turn.number == wanted), None)
        if turn is None:
            turn = Turn(wanted, record.time)
            node.turns.append(turn)
        turn.version += 1
        return turn


def _get_batch(node: SearchNode, number: object) -> FanOut:
    return node.batches.setdefault(str(number), FanOut(str(number)))


def _ancestors(node: SearchNode) -> Iterator[SearchNode]:
    while node.parent is not None:
        node = node.parent
        yield node


TREES = 50


class SearchProgress(NamedTuple):
    begun: float
    calls: int
    finished: int
    parts: int


class Trees:
    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._gone = 0

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        return reversed(self._trees.values())

    def __getitem__(self, id: str) -> Tree:
        return self._trees[id]

    @property
    def structure(self) -> int:
        """Grows when a node of any tree starts, ends or asks for consent."""
        return self._gone + sum(tree.structure for tree in self._trees.values())

    @property
    def progress(self) -> SearchProgress | None:
        running = [tree for tree in self._trees.values() if tree.roots and not tree.finished]
        if not running:
            return None
        roots = (root for tree in running for root in tree.roots)
        batches = [batch for root in roots for batch in root.batches.values()]
        return SearchProgress(
            min(tree.roots[0].begun for tree in running),
            sum(tree.used.calls for tree in running),
            sum(batch.count(state) for batch in batches for state in FINISHED),
            sum(batch.of for batch in batches),
        )

    def fold(self, records: Sequence[Record]) -> bool:
        found = False
        for record in records:
            if isinstance(record, SearchRecord | Usage) and record.tree:
                found = True
                if record.tree not in self._trees and record.tag == SearchBegin.tag:
                    self._trees[record.tree] = Tree(record.tree)
                    self._forget()
                if record.tree in self._trees:
                    self._trees[record.tree].fold(record)
        return found

    def _forget(self) -> None:
        for tree in [tree for tree in self._trees.values() if tree.finished][
            : max(0, len(self._trees) - TREES)
        ]:
            self._gone += tree.structure + 1
            del self._trees[tree.id]
