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
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.worker.cells.capture import shorten

Emit = Callable[[Record], None]

State = Literal["waiting", "thinking", "running", "done", "partial", "error", "stopped"]
"""Partial: the best answer that there was when a limit was reached."""

_END_STATES: tuple[State, ...] = ("done", "partial", "error", "stopped")
FINISHED = frozenset(_END_STATES)
STATES: tuple[State, ...] = (*_END_STATES, "running", "thinking", "waiting")

_TurnRecord = SearchTurn | SearchChatStream | SearchChat | SearchReplIn | SearchReplOut | Usage
"""Records of one turn of a node."""

MAX_TREES = 50
MAX_TEXT_CHARS = 40_000
"""Most characters of a turn's words, code or output; of longer texts, both ends are kept."""
MAX_FINISHED_CHARS = 16_000_000
"""Characters of finished nodes that are kept; then the oldest are shortened."""
_SHORTENED_CHARS = 600
"""Characters of each text of such a node."""
_MAX_ANSWER_CHARS = 40_000
_LAST_LINE_CHARS = 600
"""End of a turn's text in which its last line is looked for."""


def merge_spans(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Merge spans that overlap or touch; drop empty ones."""
    merged: list[TextSpan] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged[-1]
            merged[-1] = (last_start, max(last_end, end))
        elif start < end:
            merged.append((start, end))
    return merged


class Events:
    """Sends the events of one search, numbered in order."""

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


def shortened(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return both ends of a text that is longer than a limit."""
    return shorten(text, max_chars // 2)


@dataclass(slots=True, eq=False)
class Turn:
    """One answer of the model, and what its code did. Times are in seconds."""

    number: int
    begun: float = 0.0
    whole: bool = False
    """Whether the answer has come to its end, so that pieces of it are ignored."""
    cut: bool = False
    """Whether text after its code was dropped."""
    code: str | None = None
    output: str | None = None
    status: str = ""
    """How the code ended: a `sandbox.base.TurnStatus`."""
    chars: int = 0
    duration: float | None = None
    used: UsageStats = field(default_factory=UsageStats)
    version: int = 0
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0

    @property
    def words(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def append(self, piece: str) -> None:
        if self._length < MAX_TEXT_CHARS:
            self._pieces.append(piece)
            self._length += len(piece)

    def forget(self) -> None:
        self._pieces = []
        self._length = 0

    def set_words(self, words: str) -> None:
        self._pieces = [shortened(words)]
        self._length = len(words)
        self.whole = True

    @property
    def size(self) -> int:
        return len(self.words) + len(self.code or "") + len(self.output or "")

    def shorten(self, max_chars: int) -> None:
        self.set_words(shortened(self.words, max_chars))
        if self.code is not None:
            self.code = shortened(self.code, max_chars)
        if self.output is not None:
            self.output = shortened(self.output, max_chars)
        self.version += 1


@dataclass(slots=True, eq=False, repr=False)
class FanOut:
    """Sub-calls that one step of a node's code makes together."""

    id: str
    of: int = 0
    """How many parts there are, started or not."""
    slots: dict[int, SearchNode] = field(default_factory=dict)
    """Its nodes by their number, from 0."""
    counts: Counter[State] = field(default_factory=Counter)
    request: str = ""
    """Id of the question whether it may run."""
    asks: bool = False
    """Whether the user has not answered that question."""
    refused: bool = False
    calls: int = 0
    """Estimated, like tokens and dollars, if there was a question."""
    tokens: int = 0
    usd: float | None = None

    def count(self, state: State) -> int:
        """Count its parts in a state; those that have not started are waiting."""
        if state != "waiting":
            return self.counts[state]
        unstarted = max(0, self.of - len(self.slots))
        return self.counts[state] + unstarted


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
    used: UsageStats = field(default_factory=UsageStats)
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
        """Return how many seconds it has taken. now: in seconds since the epoch."""
        return max(0.0, now - self.begun) if self.duration is None else self.duration

    def turn_label(self, number: int, form: str) -> str:
        """Return a turn's number as text. form: formats the number and the limit of turns."""
        if not self.turn_limit or not number:
            return ""
        return form.format(number, self.turn_limit) if number <= self.turn_limit else "last call"

    @property
    def last_line(self) -> str:
        if not self.turns:
            return ""
        turn = self.turns[-1]
        text = turn.code if self.state == "running" and turn.code else turn.words
        for line in reversed(text[-_LAST_LINE_CHARS:].splitlines()):
            line = line.strip()
            if line and not line.startswith("```"):
                return line
        return ""


class SearchControl(Protocol):
    """Methods may be called from any thread and return at once. Unknown ids are ignored."""

    def stop(self, tree: str, node: str) -> None: ...

    def make_variable(self, answer: str) -> None: ...

    def text(self, tree: str, start: int, end: int) -> str | None:
        """Return a part of the root's text, or None if it is no longer in memory."""

    def answer(self, request: str, run: bool) -> None:
        """Answer the question before a large fan-out."""


class Tree:
    """One search. Any part of a stream gives a tree: events that are repeated, unknown or
    inconsistent are skipped."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.nodes: dict[str, SearchNode] = {}
        self.roots: list[SearchNode] = []
        """The search itself first, then further ones over its text, and nodes whose parent is unknown."""
        self.used = UsageStats()
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
        finished_count = sum(self.counts[state] for state in FINISHED)
        return bool(self.roots) and finished_count == self.counts.total()

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
                last_sign = max((turn.begun for turn in node.turns), default=node.begun)
                self._end(node, "stopped", last_sign - node.begun)
        for _, batch in self.questions.values():
            batch.asks = False
            self.structure += 1
        self.questions.clear()

    def _begin(self, record: SearchBegin) -> None:
        if record.node in self.nodes:
            return
        parent = None if record.parent is None else self.nodes.get(record.parent)
        node = SearchNode(
            id=record.node,
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
        self.nodes[record.node] = node
        siblings = self.roots if parent is None else parent.children
        siblings.append(node)

        if parent is not None and record.batch is not None:
            batch = _get_batch(parent, record.batch)
            node.batch = batch
            batch.of = max(batch.of, record.of)
            previous = batch.slots.get(node.index)
            if previous is not None:
                batch.counts[previous.state] -= 1
            batch.slots[node.index] = node
            batch.counts[node.state] += 1

        self.counts[node.state] += 1
        for ancestor in _ancestors(node):
            ancestor.alive += 1
        self.structure += 1
        self.depth = max(self.depth, node.depth)

    def _set_state(self, node: SearchNode, state: State) -> None:
        if node.state == state or node.finished:
            return
        if node.batch is not None and node.batch.slots.get(node.index) is node:
            node.batch.counts[node.state] -= 1
            node.batch.counts[state] += 1
        self.counts[node.state] -= 1
        self.counts[state] += 1
        node.state = state

    def _end(self, node: SearchNode, state: State, duration: float) -> None:
        self._set_state(node, state)
        node.duration = max(0.0, duration)
        node.back_off = None
        for ancestor in _ancestors(node):
            ancestor.alive -= 1
        self.structure += 1
        self._retain_texts(node)

    def _retain_texts(self, node: SearchNode) -> None:
        """Keep the texts of a finished node, and shorten the oldest if there are too many."""
        turn_chars = sum(turn.size for turn in node.turns)
        node_chars = len(node.query) + len(node.answer) + turn_chars
        self._finished.append((node, node_chars))
        self._chars += node_chars
        while self._chars > MAX_FINISHED_CHARS and len(self._finished) > 1:
            oldest, oldest_chars = self._finished.popleft()
            oldest.query = shortened(oldest.query, _SHORTENED_CHARS)
            oldest.answer = shortened(oldest.answer, _SHORTENED_CHARS)
            for turn in oldest.turns:
                turn.shorten(_SHORTENED_CHARS)
            self._chars -= oldest_chars

    def _fold(self, node: SearchNode, record: SearchRecord | Usage) -> None:
        match record:
            case SearchFanOut():
                self._fan_out(node, record)
            case Usage():
                self._add_usage(node, record)
            case SearchChat() | SearchReplIn() | SearchReplOut():
                self._fold_turn(node, record)
            case SearchTurn() | SearchChatStream() if not node.finished:
                self._fold_turn(node, record)
            case SearchBackOff() if not node.finished:
                node.back_off = record.time + record.seconds
                self._set_state(node, "waiting")
            case SearchFinal() if not node.finished:
                node.answer = shortened(record.text, _MAX_ANSWER_CHARS)
                node.rests_on = record.spans
                duration = record.duration
                if duration is None:
                    duration = record.time - node.begun
                end_state: State = "done"
                for state in FINISHED:
                    if state == record.state:
                        end_state = state
                self._end(node, end_state, duration)

    def _add_usage(self, node: SearchNode, record: Usage) -> None:
        """Count a model call for its turn, its node, the nodes above, and the search."""
        totals = [self.used, node.used]
        totals += [ancestor.used for ancestor in _ancestors(node)]
        if record.turn is not None:
            totals.append(self._get_turn(node, record).used)
        for total in totals:
            total.add(record)

    def _fold_turn(self, node: SearchNode, record: _TurnRecord) -> None:
        turn = self._get_turn(node, record)
        match record:
            case SearchTurn():
                node.turn_limit = record.turns or node.turn_limit
                self._set_state(node, "thinking")
                node.back_off = None
            case SearchChatStream() if not turn.whole:
                if record.fresh:
                    turn.forget()
                turn.append(record.text)
                self._set_state(node, "thinking")
                node.back_off = None
            case SearchChat():
                turn.set_words(record.text)
                turn.cut = record.cut
            case SearchReplIn():
                turn.code = shortened(record.text)
                self._set_state(node, "running")
            case SearchReplOut():
                turn.output = shortened(record.text)
                turn.status = record.status
                turn.chars = record.chars or len(record.text)
                turn.duration = record.duration
                self._set_state(node, "thinking")

    def _fan_out(self, node: SearchNode, record: SearchFanOut) -> None:
        batch = _get_batch(node, record.batch)
        self.questions.pop(batch.request, None)
        batch.request = record.request
        other_question = self.questions.pop(batch.request, None)
        if other_question is not None:
            _, other_batch = other_question
            other_batch.asks = False

        batch.calls = record.calls or 0
        batch.tokens = record.tokens or 0
        batch.usd = record.usd
        batch.asks = record.state == "waiting" and bool(batch.request)
        batch.refused = record.state == "refused"
        if batch.asks:
            self.questions[batch.request] = (node, batch)
        self.structure += 1

    def _get_turn(self, node: SearchNode, record: _TurnRecord) -> Turn:
        """Return the turn of a record, by default the newest; make it if it is new."""
        number = record.turn
        if number is None:
            number = node.turns[-1].number if node.turns else 1
        turn = next((turn for turn in reversed(node.turns) if turn.number == number), None)
        if turn is None:
            turn = Turn(number, record.time)
            node.turns.append(turn)
        turn.version += 1
        return turn


def _get_batch(node: SearchNode, number: object) -> FanOut:
    return node.batches.setdefault(str(number), FanOut(str(number)))


def _ancestors(node: SearchNode) -> Iterator[SearchNode]:
    while node.parent is not None:
        node = node.parent
        yield node


class SearchProgress(NamedTuple):
    """How far the running searches are."""

    begun: float
    """When the first began, in seconds since the epoch."""
    calls: int
    """Model calls so far."""
    finished: int
    """Parts of the roots' fan-outs that have finished."""
    parts: int


class Trees:
    """The newest searches of a session."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._forgotten_structure = 0

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        return reversed(self._trees.values())

    def __getitem__(self, id: str) -> Tree:
        return self._trees[id]

    @property
    def structure(self) -> int:
        """Grows when a node of any tree starts, ends or asks for consent."""
        return self._forgotten_structure + sum(tree.structure for tree in self._trees.values())

    @property
    def progress(self) -> SearchProgress | None:
        """Progress of the searches that run; None if there is none."""
        running = [tree for tree in self._trees.values() if tree.roots and not tree.finished]
        if not running:
            return None
        roots = (root for tree in running for root in tree.roots)
        batches = [batch for root in roots for batch in root.batches.values()]
        return SearchProgress(
            begun=min(tree.roots[0].begun for tree in running),
            calls=sum(tree.used.calls for tree in running),
            finished=sum(batch.count(state) for batch in batches for state in FINISHED),
            parts=sum(batch.of for batch in batches),
        )

    def fold(self, records: Sequence[Record]) -> bool:
        """Fold records; returns whether any of them belongs to a search."""
        has_searches = False
        for record in records:
            if not isinstance(record, SearchRecord | Usage) or not record.tree:
                continue
            has_searches = True
            if record.tree not in self._trees and record.tag == SearchBegin.tag:
                self._trees[record.tree] = Tree(record.tree)
                self._forget_oldest()
            if record.tree in self._trees:
                self._trees[record.tree].fold(record)
        return has_searches

    def _forget_oldest(self) -> None:
        finished = [tree for tree in self._trees.values() if tree.finished]
        excess = max(0, len(self._trees) - MAX_TREES)
        for tree in finished[:excess]:
            self._forgotten_structure += tree.structure + 1
            del self._trees[tree.id]
