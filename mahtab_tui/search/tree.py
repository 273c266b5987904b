"""A search as a tree of calls, folded from its events for the screen and for programs.

Finished nodes keep their texts until there are too many of them; then the oldest are shortened.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

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
from mahtab_tui.search.tree_nodes import FINISHED, FanOut, SearchNode, State, Turn, shortened

_TurnRecord = SearchTurn | SearchChatStream | SearchChat | SearchReplIn | SearchReplOut | Usage
"""Records of one turn of a node."""

MAX_FINISHED_CHARS = 16_000_000
"""Characters of finished nodes that are kept; then the oldest are shortened."""
_SHORTENED_CHARS = 600
"""Characters of each text of such a node."""
_MAX_ANSWER_CHARS = 40_000
"""Characters of a node's answer."""
_END_STATES: dict[str, State] = {state: state for state in FINISHED}
"""The states of a node that has ended, by the words of records."""


class OpenQuestion(NamedTuple):
    """A question whether a node may make many sub-calls."""

    node: SearchNode
    fan_out: FanOut


class _FinishedNode(NamedTuple):
    """A node that has ended, with the characters of its texts."""

    node: SearchNode
    chars: int


class SearchTree:
    """The tree of one search.

    Events may be missing, as of a session that was joined late. Those that are repeated, unknown or
    inconsistent are skipped.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.nodes: dict[str, SearchNode] = {}
        self.roots: list[SearchNode] = []
        """The search itself first, then further ones over its text, and nodes whose parent is unknown."""
        self.usage = UsageStats()
        """What all calls have used."""
        self.counts: Counter[State] = Counter()
        """The number of nodes in each state."""
        self.depth = 0
        """The depth of the deepest node; 0 for the root's."""
        self.questions: dict[str, OpenQuestion] = {}
        """The questions that wait for the user, by their ids."""
        self.structure_version = 0
        """Grows when a node starts, ends or asks for consent."""
        self._last_seq = -1
        """The number of the last event."""
        self._finished: deque[_FinishedNode] = deque()
        """Nodes that have ended, the oldest first."""
        self._finished_chars = 0
        """Characters of their texts."""

    @property
    def root(self) -> SearchNode | None:
        """The search itself; None before its first event."""
        return self.roots[0] if self.roots else None

    @property
    def finished(self) -> bool:
        """Whether all nodes have ended."""
        finished_count = sum(self.counts[state] for state in FINISHED)
        return bool(self.roots) and finished_count == self.counts.total()

    def fold(self, record: Record) -> None:
        """Add the next event."""
        if not isinstance(record, SearchRecord | Usage):
            return
        if record.seq is not None:
            if record.seq <= self._last_seq:
                return
            self._last_seq = record.seq
        if isinstance(record, SearchBegin):
            self._begin(record)
            return
        node = self.nodes.get(record.node or "")
        if node is not None:
            self._fold_into(node, record)
            node.version += 1

    def close(self) -> None:
        """Note that no more events will come: nodes that have not finished were cut off."""
        for node in self.nodes.values():
            if not node.finished:
                node.is_cut_off = True
                last_sign = max((turn.started_at for turn in node.turns), default=node.started_at)
                self._end(node, "stopped", last_sign - node.started_at)
        for question in self.questions.values():
            question.fan_out.is_waiting = False
            self.structure_version += 1
        self.questions.clear()

    def _begin(self, record: SearchBegin) -> None:
        """Add a node."""
        if record.node in self.nodes:
            return
        parent = None if record.parent is None else self.nodes.get(record.parent)
        node = SearchNode(
            id=record.node,
            parent=parent,
            query=shortened(record.text),
            kind=record.kind,
            depth=0 if parent is None else parent.depth + 1,
            started_at=record.time,
            model=record.model,
            spans=record.spans,
            text_chars=record.chars,
            part_index=record.index,
        )
        self.nodes[record.node] = node
        siblings = self.roots if parent is None else parent.children
        siblings.append(node)
        if parent is not None and record.batch is not None:
            _join_fan_out(node, _get_fan_out(parent, record.batch), record.of)

        self.counts[node.state] += 1
        for ancestor in _ancestors(node):
            ancestor.running_descendants += 1
        self.structure_version += 1
        self.depth = max(self.depth, node.depth)

    def _set_state(self, node: SearchNode, state: State) -> None:
        """Set the state of a node that has not ended, and count it."""
        if node.state == state or node.finished:
            return
        if node.fan_out is not None and node.fan_out.nodes_by_part.get(node.part_index) is node:
            node.fan_out.counts[node.state] -= 1
            node.fan_out.counts[state] += 1
        self.counts[node.state] -= 1
        self.counts[state] += 1
        node.state = state

    def _end(self, node: SearchNode, state: State, duration: float) -> None:
        """Note that a node has ended.

        Args:
            node: The node.
            state: How it has ended.
            duration: How long it took, in seconds.
        """
        self._set_state(node, state)
        node.duration_s = max(0.0, duration)
        node.retry_at = None
        for ancestor in _ancestors(node):
            ancestor.running_descendants -= 1
        self.structure_version += 1
        self._retain_texts(node)

    def _retain_texts(self, node: SearchNode) -> None:
        """Keep the texts of a finished node, and shorten the oldest if there are too many."""
        turn_chars = sum(turn.size for turn in node.turns)
        node_chars = len(node.query) + len(node.answer) + turn_chars
        self._finished.append(_FinishedNode(node, node_chars))
        self._finished_chars += node_chars
        while self._finished_chars > MAX_FINISHED_CHARS and len(self._finished) > 1:
            oldest = self._finished.popleft()
            _shorten_texts(oldest.node)
            self._finished_chars -= oldest.chars

    def _fold_into(self, node: SearchNode, record: SearchRecord | Usage) -> None:
        """Add an event to its node.

        After a node's end, its texts, its usage and the answers to its questions may still come.
        """
        match record:
            case SearchFanOut():
                self._note_question(node, record)
            case Usage():
                self._add_usage(node, record)
            case SearchChat() | SearchReplIn() | SearchReplOut():
                self._fold_turn(node, record)
            case SearchTurn() | SearchChatStream() if not node.finished:
                self._fold_turn(node, record)
            case SearchBackOff() if not node.finished:
                node.retry_at = record.time + record.seconds
                self._set_state(node, "waiting")
            case SearchFinal() if not node.finished:
                self._finish(node, record)

    def _finish(self, node: SearchNode, record: SearchFinal) -> None:
        """Take the answer of a node, and note its end."""
        node.answer = shortened(record.text, _MAX_ANSWER_CHARS)
        node.evidence = record.spans
        duration = record.duration
        if duration is None:
            duration = record.time - node.started_at

        # A newer version may have written another word.
        self._end(node, _END_STATES.get(record.state, "done"), duration)

    def _add_usage(self, node: SearchNode, record: Usage) -> None:
        """Count a model call for its turn, its node, the nodes above, and the search."""
        totals = [self.usage, node.usage]
        totals += [ancestor.usage for ancestor in _ancestors(node)]
        if record.turn is not None:
            totals.append(self._get_turn(node, record).usage)
        for total in totals:
            total.add(record)

    def _fold_turn(self, node: SearchNode, record: _TurnRecord) -> None:
        """Add an event of a turn to it."""
        turn = self._get_turn(node, record)
        match record:
            case SearchTurn():
                node.turn_limit = record.turns or node.turn_limit
                self._set_state(node, "thinking")
                node.retry_at = None
            case SearchChatStream() if not turn.is_complete:
                if record.fresh:
                    turn.drop_answer()
                turn.append(record.text)
                self._set_state(node, "thinking")
                node.retry_at = None
            case SearchChat():
                turn.set_answer(record.text)
                turn.has_dropped_text = record.cut
            case SearchReplIn():
                turn.code = shortened(record.text)
                self._set_state(node, "running")
            case SearchReplOut():
                turn.output = shortened(record.text)
                turn.status = record.status
                turn.output_chars = record.chars or len(record.text)
                turn.duration_s = record.duration
                self._set_state(node, "thinking")

    def _note_question(self, node: SearchNode, record: SearchFanOut) -> None:
        """Note a question about a fan-out, or its answer."""
        fan_out = _get_fan_out(node, record.batch)
        self.questions.pop(fan_out.request_id, None)
        fan_out.request_id = record.request
        other_question = self.questions.pop(fan_out.request_id, None)
        if other_question is not None:
            other_question.fan_out.is_waiting = False

        fan_out.estimated_calls = record.calls or 0
        fan_out.estimated_usd = record.usd
        fan_out.is_waiting = record.state == "waiting" and bool(fan_out.request_id)
        if fan_out.is_waiting:
            self.questions[fan_out.request_id] = OpenQuestion(node, fan_out)
        self.structure_version += 1

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


def _get_fan_out(node: SearchNode, number: object) -> FanOut:
    """Return a fan-out of a node, which is made if it is new."""
    return node.fan_outs.setdefault(str(number), FanOut(str(number)))


def _join_fan_out(node: SearchNode, fan_out: FanOut, part_count: int) -> None:
    """Add a node to the fan-out that has started it.

    Args:
        node: The node.
        fan_out: The fan-out.
        part_count: How many parts the fan-out has.
    """
    node.fan_out = fan_out
    fan_out.part_count = max(fan_out.part_count, part_count)
    previous = fan_out.nodes_by_part.get(node.part_index)
    if previous is not None:
        fan_out.counts[previous.state] -= 1
    fan_out.nodes_by_part[node.part_index] = node
    fan_out.counts[node.state] += 1


def _shorten_texts(node: SearchNode) -> None:
    """Keep only a little of a node's texts."""
    node.query = shortened(node.query, _SHORTENED_CHARS)
    node.answer = shortened(node.answer, _SHORTENED_CHARS)
    for turn in node.turns:
        turn.shorten(_SHORTENED_CHARS)


def _ancestors(node: SearchNode) -> Iterator[SearchNode]:
    """Yield the nodes above a node, the nearest first."""
    while node.parent is not None:
        node = node.parent
        yield node
