"""A recursive search as a value that its events are folded into."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.search.attributes import count, number, numbers, spans_of
from mahtab_tui.search.coverage import HOWS, Coverage
from mahtab_tui.search.node import FINISHED, FanOut, SearchNode, State, TreeBudgetLeft, Turn, UsageSum, shortened

HELD = 16_000_000
"""Characters of the finished nodes that a tree keeps; of the oldest ones beyond, the ends."""
ENDS = 600
"""Characters that stay of each of their texts."""
ANSWER = 40_000
"""Characters that an answer has at most."""


class Tree:
    """One search. Folding an event costs as much as its node is deep, however many nodes there are.

    Any part of a stream gives a tree: what was seen before, what is unknown and what does not fit is left out.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.nodes: dict[str, SearchNode] = {}
        self.roots: list[SearchNode] = []
        """The search itself; behind it, what has no parent besides."""
        self.limits: Mapping[str, float] = {}
        """`max_calls`, `max_tokens`, `max_usd`, `max_seconds`, `max_depth`, as far as they are set."""
        self.cell: int | None = None
        self.coverage = Coverage()
        self.used = UsageSum()
        self.counts: Counter[State] = Counter()
        """How many nodes are in each state."""
        self.depth = 0
        """The deepest level that was reached, the root being 0."""
        self.questions: dict[str, tuple[SearchNode, FanOut]] = {}
        """Fan-outs that wait for an answer, by request."""
        self.newest: SearchNode | None = None
        """The node that began last."""
        self.structure = 0
        """Grows when nodes come, end or are asked about."""
        self.closed = False
        """There will be no more events: it can only be looked at."""
        self._seq = -1
        self._finished: deque[tuple[SearchNode, int]] = deque()
        self._held = 0
        self._folds: dict[str, Callable[[SearchNode, Record], None]] = {
            tags.RLM_CHAT_STREAM: self._piece,
            tags.RLM_CHAT: self._words,
            tags.RLM_REPL_IN: self._code,
            tags.RLM_REPL_OUT: self._output,
            tags.RLM_FINAL: self._final,
            tags.USAGE: self._usage,
        }
        self._events: dict[str, Callable[[SearchNode, Record], None]] = {
            "turn": self._turn,
            "back-off": self._back_off,
            "fan-out": self._fan_out,
            "touch": self._touch,
            "memo": self._memo,
        }

    @property
    def root(self) -> SearchNode | None:
        return self.roots[0] if self.roots else None

    @property
    def finished(self) -> bool:
        """Nothing of it waits or runs."""
        return bool(self.roots) and not sum(self.counts[state] for state in self.counts if state not in FINISHED)

    @property
    def has_budget(self) -> bool:
        """Whether anything that a search uses up is limited."""
        return any(name in self.limits for name in ("max_calls", "max_tokens", "max_usd", "max_seconds"))

    def left(self, now: float) -> TreeBudgetLeft:
        """What is left of its budgets, `now` being in seconds since the epoch."""
        root, limits = self.root, self.limits

        def rest(name: str, used: float) -> float | None:
            return max(0.0, limits[name] - used) if name in limits else None

        calls, tokens = rest("max_calls", self.used.calls), rest("max_tokens", self.used.tokens)
        return TreeBudgetLeft(
            calls=None if calls is None else int(calls),
            tokens=None if tokens is None else int(tokens),
            usd=rest("max_usd", self.used.cost),
            seconds=rest("max_seconds", root.elapsed(now) if root else 0.0),
        )

    def fold(self, record: Record) -> None:
        """Take in the next event."""
        attrs = record.attrs
        seq, name = attrs.get("seq"), attrs.get("node")
        if not isinstance(name, str) or (record.tag not in self._folds and record.tag != tags.RLM_CALL):
            return
        if type(seq) is int:
            if seq <= self._seq:
                return
            self._seq = seq
        if record.tag == tags.RLM_CALL and attrs.get("event") == "begin":
            self._begin(name, record)
        elif node := self.nodes.get(name):
            fold = self._events.get(str(attrs.get("event"))) if record.tag == tags.RLM_CALL else self._folds[record.tag]
            if fold is not None:
                fold(node, record)
                node.version += 1

    def close(self) -> None:
        """There will be no more events: what has not finished is cut off."""
        self.closed = True
        for node in self.nodes.values():
            if not node.finished:
                node.cut = True
                last = max((turn.begun for turn in node.turns), default=node.begun)
                self._end(node, "stopped", last - node.begun)
        for node, batch in self.questions.values():
            batch.asks = False
            self._reshape(node)
        self.questions.clear()

    # Nodes

    def _begin(self, name: str, record: Record) -> None:
        if name in self.nodes:
            return
        attrs = record.attrs
        parent = self.nodes.get(str(attrs.get("parent")))
        node = SearchNode(
            id=name,
            parent=parent,
            query=shortened(record.text),
            kind=str(attrs.get("kind") or "rlm"),
            depth=0 if parent is None else parent.depth + 1,
            begun=record.time,
            model=str(attrs.get("model") or ""),
            spans=spans_of(attrs.get("spans")),
            chars=count(attrs.get("chars")),
            index=count(attrs.get("index")),
        )
        self.nodes[name] = self.newest = node
        self._stand(node, self.nodes.get(str(attrs.get("replaces"))), attrs)
        self.counts["waiting"] += 1
        for above in _ancestors(node):
            above.alive += 1
        self._reshape(node)
        self.depth = max(self.depth, node.depth)
        if node is self.root:
            self.coverage.chars = node.chars
            limits = attrs.get("limits")
            self.limits = numbers(limits) if isinstance(limits, dict) else {}
            self.cell = attrs["cell"] if type(attrs.get("cell")) is int else None

    def _stand(self, node: SearchNode, replaced: SearchNode | None, attrs: Mapping[str, Any]) -> None:
        """Put a node where it belongs."""
        if replaced is not None and replaced.parent is node.parent:
            node.replaces = replaced
            replaced.again.append(node)
        else:
            (self.roots if node.parent is None else node.parent.children).append(node)
        name = attrs.get("batch")
        if name is None or node.parent is None:
            return
        batch = self._batch(node.parent, str(name))
        batch.of = max(batch.of, count(attrs.get("of")))
        node.batch = batch
        if (before := batch.slots.get(node.index)) is not None:
            batch.counts[before.state] -= 1
        batch.version += 1
        batch.slots[node.index] = node
        batch.counts[node.state] += 1

    def _batch(self, parent: SearchNode, name: str) -> FanOut:
        return parent.batches.setdefault(name, FanOut(name))

    def _state(self, node: SearchNode, state: State) -> None:
        if node.state == state or node.finished:
            return
        if node.batch is not None and node.batch.slots.get(node.index) is node:
            node.batch.counts[node.state] -= 1
            node.batch.counts[state] += 1
            node.batch.version += 1
        self.counts[node.state] -= 1
        self.counts[state] += 1
        node.state = state

    def _end(self, node: SearchNode, state: State, duration: float) -> None:
        self._state(node, state)
        node.duration = max(0.0, duration)
        node.back_off = None
        for above in _ancestors(node):
            above.alive -= 1
        self._reshape(node)
        self._hold(node)

    def _reshape(self, node: SearchNode) -> None:
        self.structure += 1
        for each in (node, *_ancestors(node)):
            each.shape += 1

    def _hold(self, node: SearchNode) -> None:
        """The texts of a finished node stay; those of the oldest ones are shortened when there are too many."""
        size = len(node.query) + len(node.answer) + sum(turn.size for turn in node.turns)
        self._finished.append((node, size))
        self._held += size
        while self._held > HELD and len(self._finished) > 1:
            oldest, size = self._finished.popleft()
            oldest.query, oldest.answer = shortened(oldest.query, ENDS), shortened(oldest.answer, ENDS)
            for turn in oldest.turns:
                turn.shorten(ENDS)
            self._held -= size

    # What happens to them

    def _turn(self, node: SearchNode, record: Record) -> None:
        if node.finished:
            return
        node.turn_limit = count(record.attrs.get("turns")) or node.turn_limit
        self._turn_of(node, record)
        self._state(node, "thinking")
        node.back_off = None

    def _back_off(self, node: SearchNode, record: Record) -> None:
        if not node.finished:
            node.back_off = record.time + (number(record.attrs.get("seconds")) or 0.0)
            self._state(node, "waiting")

    def _fan_out(self, node: SearchNode, record: Record) -> None:
        attrs = record.attrs
        batch = self._batch(node, str(attrs.get("batch")))
        self.questions.pop(batch.request, None)
        batch.request = str(attrs.get("request") or "")
        if (asked := self.questions.pop(batch.request, None)) is not None:
            asked[1].asks = False
        batch.calls, batch.tokens = count(attrs.get("calls")), count(attrs.get("tokens"))
        batch.usd = number(attrs.get("usd"))
        batch.version += 1
        batch.asks = attrs.get("state") == "waiting" and bool(batch.request)
        batch.refused = attrs.get("state") == "refused"
        if batch.asks:
            self.questions[batch.request] = (node, batch)
        self._reshape(node)

    def _touch(self, node: SearchNode, record: Record) -> None:
        how = next((how for how in HOWS if how == record.attrs.get("how")), None)
        if how == "answer" and node.kind == "llm" and node.parent is not None:
            how = "peek"  # A plain call has read all of its text, whatever of it its answer rests on.
        if how is not None:
            self.coverage.add(how, spans_of(record.attrs.get("spans")))

    def _memo(self, node: SearchNode, record: Record) -> None:
        node.memo = str(record.attrs.get("of_node") or "")

    def _piece(self, node: SearchNode, record: Record) -> None:
        if node.finished:
            return
        turn = self._turn_of(node, record)
        if not turn.whole:
            if record.attrs.get("fresh"):
                turn.forget()
            turn.hear(record.text)
            self._state(node, "thinking")
            node.back_off = None

    def _words(self, node: SearchNode, record: Record) -> None:
        turn = self._turn_of(node, record)
        turn.say(record.text)
        turn.cut = bool(record.attrs.get("cut"))

    def _code(self, node: SearchNode, record: Record) -> None:
        self._turn_of(node, record).code = shortened(record.text)
        self._state(node, "running")

    def _output(self, node: SearchNode, record: Record) -> None:
        turn = self._turn_of(node, record)
        turn.output = shortened(record.text)
        turn.status = str(record.attrs.get("status") or "")
        turn.chars = count(record.attrs.get("chars")) or len(record.text)
        turn.duration = number(record.attrs.get("duration"))
        self._state(node, "thinking")

    def _final(self, node: SearchNode, record: Record) -> None:
        if node.finished:
            return
        attrs = record.attrs
        node.answer = shortened(record.text, ANSWER)
        node.rests_on = spans_of(attrs.get("spans"))
        node.late = bool(attrs.get("late"))
        state = attrs.get("state")
        duration = number(attrs.get("duration"))
        ended: State = state if isinstance(state, str) and state in FINISHED else "done"
        self._end(node, ended, record.time - node.begun if duration is None else duration)

    def _usage(self, node: SearchNode, record: Record) -> None:
        attrs = record.attrs
        tokens = count(attrs.get("input_tokens")) + count(attrs.get("output_tokens"))
        cost = number(attrs.get("cost"))
        for used in (self.used, node.used, *(above.used for above in _ancestors(node))):
            used.add(tokens, cost)
        if type(attrs.get("turn")) is int:
            self._turn_of(node, record).used.add(tokens, cost)

    def _turn_of(self, node: SearchNode, record: Record) -> Turn:
        """The turn that an event speaks of; a new one where there is none with its number."""
        wanted = record.attrs.get("turn")
        if type(wanted) is not int:
            wanted = node.turns[-1].number if node.turns else 1
        turn = next((turn for turn in reversed(node.turns) if turn.number == wanted), None)
        if turn is None:
            turn = Turn(wanted, record.time, self.left(record.time))
            node.turns.append(turn)
        turn.version += 1
        return turn


def _ancestors(node: SearchNode) -> list[SearchNode]:
    found = []
    above = node.parent
    while above is not None:
        found.append(above)
        above = above.parent
    return found
