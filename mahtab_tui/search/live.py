"""The calls of a tree while it runs, answers that are used again, and consent before many calls."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus.records import SearchFanOut, SearchMemo
from mahtab_tui.sandbox.base import CallRefusedError, Text, TextRun, TextSpan
from mahtab_tui.search.calls import Amount, Calls
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.log import Events
from mahtab_tui.search.node import shortened
from mahtab_tui.search.requests import Request

MOST = 10_000
"""Characters of the newest outputs, and of the newest answers, that are kept."""
_LONGEST = 4_000
_QUERY = 200


class Findings:
    """Results of a node: newest outputs of its code, answers of its sub-calls, and answers of its
    model that had no code."""

    def __init__(self) -> None:
        self._printed = _RecentTexts()
        self._written = _RecentTexts()
        self.answers = _RecentTexts()

    def __bool__(self) -> bool:
        return bool(self._printed or self._written or self.answers)

    def add_output(self, text: str) -> None:
        self._printed.add(text.strip())

    def add_words(self, text: str) -> None:
        self._written.add(text.strip())

    def add_answer(self, query: str, index: int, of: int, answer: str) -> None:
        part = f" (part {index + 1} of {of})" if of > 1 else ""
        self.answers.add(f"{shortened(query, _QUERY)}{part}: {answer.strip()}")

    @property
    def text(self) -> str:
        kinds = {
            "Answers on parts of the text": self.answers,
            "Printed by its code": self._printed,
            "Written by its model": self._written,
        }
        return "\n\n".join(f"{kind}:\n{texts.text}" for kind, texts in kinds.items() if texts)

    def as_answer(self, reason: str) -> str:
        """Return a text in place of an answer."""
        return f"The search ended before it had an answer. {reason} This is what it had found.\n\n{self.text}"


class _RecentTexts:
    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._chars = 0
        self._dropped = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        if not text:
            return
        self._texts.append(shortened(text, _LONGEST))
        self._chars += len(self._texts[-1])
        while self._chars > MOST:
            self._chars -= len(self._texts.popleft())
            self._dropped += 1

    @property
    def text(self) -> str:
        dropped = [f"… {self._dropped:,} earlier left out …"] if self._dropped else []
        return "\n".join([*dropped, *self._texts])


EndState = Literal["done", "partial", "error", "stopped"]
Kind = Literal["rlm", "llm"]

MEMO_BYTES = 16 * 2**20
"""Bytes that the ended nodes of one tree may hold."""
_NODE = 2_000


class NodeOutcome(NamedTuple):
    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    spans: Sequence[TextSpan] = ()
    """Spans of the root's text on which the answer rests."""
    why: str = ""
    """A sentence saying why it is partial."""

    @property
    def failed(self) -> bool:
        return self.state in ("error", "stopped")


class NodeSource(NamedTuple):
    """Holder of a node's text, so that no copy is held before and after it is read."""

    text: Text
    root_spans: tuple[TextSpan, ...] | None = None
    """Parts of it, to be joined by line breaks; None: all of it."""

    def release_text(self) -> Text:
        return self.text if self.root_spans is None else self.text.joined(self.root_spans)

    @property
    def _own_spans(self) -> Sequence[TextSpan]:
        return ((0, len(self.text.text)),) if self.root_spans is None else self.root_spans

    @property
    def runs(self) -> list[TextRun]:
        return self.text.joined_runs(self._own_spans)

    @property
    def chars(self) -> int:
        return sum(end - start + 1 for start, end in self._own_spans) - 1

    @property
    def spans(self) -> list[TextSpan]:
        return self.text.to_root(self._own_spans)


class LiveFanOut:
    """Nodes that were started together, for whoever waits for their answers."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.waiting = True
        self.size = size
        self._nodes: list[LiveNode | None] = [None] * size
        """By index; of a node and its retries, the newest."""
        self._left = size
        self._done = asyncio.Event()

    def put(self, node: LiveNode) -> None:
        before = self._nodes[node.index]
        if before is not None and before.outcome is not None:
            self._left += 1
            self._done.clear()
        self._nodes[node.index] = node

    def ended(self, node: LiveNode) -> None:
        if self._nodes[node.index] is node:
            self._left -= 1
            if not self._left:
                self._done.set()

    def running(self) -> list[LiveNode]:
        return [node for node in self._nodes if node is not None and node.outcome is None]

    async def outcomes(self) -> list[NodeOutcome]:
        """Wait until all have ended, and return their outcomes in order."""
        try:
            while self._left:
                await self._done.wait()  # again if the last one was retried meanwhile
        finally:
            self.waiting = False
        return [
            node.outcome for node in self._nodes if node is not None and node.outcome is not None
        ]


@dataclass(eq=False)
class LiveNode:
    id: str
    parent: LiveNode | None
    depth: int
    kind: Kind
    query: str
    source: NodeSource
    model: Model
    batch: LiveFanOut
    index: int
    replaces: str = ""
    children: int = 0
    turn: int = 0
    batches: int = 0
    running: dict[LiveNode, None] = field(default_factory=dict)
    asking: set[asyncio.Future[bool]] = field(default_factory=set)
    found: Findings = field(default_factory=Findings)
    over: bool = False
    """Whether it is ending and cannot start more children."""
    task: asyncio.Task[NodeOutcome] | None = None
    outcome: NodeOutcome | None = None


class EndedNodes:
    """The ended nodes of one tree that can be run again; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._nodes: deque[tuple[LiveNode, int]] = deque()
        self._chars = 0

    def add(self, node: LiveNode, size: int) -> list[LiveNode]:
        """Add a node that holds `size` bytes. Returns the nodes that were forgotten for it."""
        self._nodes.append((node, size + _NODE))
        self._chars += size + _NODE
        forgotten = []
        while self._chars > MEMO_BYTES:
            oldest, chars = self._nodes.popleft()
            self._chars -= chars
            # Others of its fan-out may still know it.
            oldest.query, oldest.source = "", NodeSource(Text(""))
            forgotten.append(oldest)
        return forgotten


_Question = tuple[str, str, bytes, bytes]
"""Model, kind, and digests of query and text, so that no text is held."""
_PIECE = 1_000_000
"""Characters that are encoded at a time."""


class Memo:
    def __init__(self) -> None:
        self._outcomes: dict[
            tuple[_Question, int], tuple[str, asyncio.Future[NodeOutcome], list[TextRun]]
        ] = {}
        """By question and depth: a node waits only for nodes of its own depth, or for plain calls,
        so that no two wait for each other."""

    async def answer(
        self, node: LiveNode, work: Callable[[LiveNode], Awaitable[NodeOutcome]], events: Events
    ) -> NodeOutcome:
        """Return the answer of an equal node, also of one that still runs, or do the work. A retry
        does its own."""
        if node.parent is None:
            return await work(node)
        query = hashlib.blake2b(node.query.encode("utf-8", "surrogatepass")).digest()
        question = (node.model.name, node.kind, query, _digest(node.source))
        key = (question, -1 if node.kind == "llm" else node.depth)
        while not node.replaces and key in self._outcomes:
            name, future, runs = self._outcomes[key]
            outcome = await asyncio.shield(future)
            if outcome.state != "stopped":  # if the other one was stopped, this one goes on
                events.send(SearchMemo(node=node.id, of_node=name))
                # In an equal text from elsewhere, the answer rests on other places.
                return outcome if runs == node.source.runs else outcome._replace(spans=())
        future = asyncio.get_running_loop().create_future()
        self._outcomes[key] = entry = (node.id, future, node.source.runs)
        outcome = NodeOutcome("", "stopped")
        try:
            outcome = await work(node)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            outcome = NodeOutcome(str(error), "error")
            raise
        finally:
            # Another entry is of a node that was run again.
            if outcome.state != "done" and self._outcomes.get(key) is entry:
                del self._outcomes[key]
            future.set_result(outcome)
        return outcome


def _digest(source: NodeSource) -> bytes:
    """Copies of all parts of a fan-out might be too much."""
    digest = hashlib.blake2b(digest_size=16)
    text = source.text.text
    for number, (start, end) in enumerate(source.root_spans or ((0, len(text)),)):
        if number:
            digest.update(b"\n")
        for offset in range(start, end, _PIECE):
            digest.update(text[offset : min(end, offset + _PIECE)].encode("utf-8", "surrogatepass"))
    return digest.digest()


_CALLS_OF_AN_EXPLORATION = 3
"""Estimated calls of a node that explores its text."""
_CHARS_OF_A_CALL = 12_000
"""Characters that each of these calls is estimated to read."""


Consent = Callable[[str], Awaitable[bool]]


@dataclass(eq=False)
class FanOuts:
    """The fan-outs of one tree. Consent counts for the whole tree."""

    _events: Events
    _limits: Limits
    _calls: Calls
    _model: Model
    _consent: Consent
    _made: int = 0
    _free: int = 0
    """Sub-calls that need no further consent."""
    _refused: set[tuple[str, int]] = field(default_factory=set)
    """Nodes and turns in which the user refused: the rest of such a turn is refused unasked."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._free = self._limits.ask_above

    async def wait_for_consent(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], batch: int
    ) -> None:
        """Wait for consent if the tree has used up its free sub-calls. Consent covers these parts,
        and then as many sub-calls again as there have been. Raises `CallRefusedError`."""
        parts = len(sources)
        if self._take_free(parts):
            return
        asking = asyncio.ensure_future(self._ask(parent, request, sources, batch))
        parent.asking.add(asking)
        try:
            await asyncio.wait((asking,))
        finally:  # also if nobody waits for an answer any more
            asking.cancel()
            parent.asking.discard(asking)
        if asking.cancelled() or not asking.result():
            raise CallRefusedError(self._refusal(parts))

    def _take_free(self, parts: int) -> bool:
        if parts > self._free:
            return False
        self._free -= parts
        self._made += parts
        return True

    async def _ask(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], batch: int
    ) -> bool:
        async with self._asking:  # one question at a time: its answer may cover those that wait
            if self._take_free(len(sources)):
                return True
            turn = (parent.id, parent.turn)
            if turn in self._refused:
                return False
            calls, tokens, usd = self._estimate(parent, request, sources)
            asked = SearchFanOut(
                node=parent.id,
                request=f"{self._events.tree}-{parent.id}-{batch}",
                batch=batch,
                calls=calls,
                tokens=tokens,
                usd=usd if self._model.priced else None,
            )
            self._events.send(asked.changed(made=self._made, state="waiting"))
            run = False
            try:
                run = await self._consent(asked.request)
            finally:
                self._events.send(asked.changed(made=self._made, state="run" if run else "refused"))
            if run:
                self._made += len(sources)
                self._free = max(self._limits.ask_above, self._made)
            else:
                self._refused.add(turn)
            return run

    def _estimate(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource]
    ) -> Amount:
        read = [
            len(query) + source.chars
            for query, source in zip(request.queries, sources, strict=True)
            if request.plain or self._limits.is_plain(parent.depth + 1, source.chars)
        ]
        plain = self._calls.estimate(self._model, sum(read), len(read))
        explored = _CALLS_OF_AN_EXPLORATION * (len(sources) - len(read))
        return plain.plus(self._calls.estimate(self._model, explored * _CHARS_OF_A_CALL, explored))

    def _refusal(self, parts: int) -> str:
        what = f"{parts:,} parts at once were" if parts > 1 else "Another sub-call was"
        rest = (
            f"at most {self._free:,} more may be handed on in this search"
            if self._free
            else "no more sub-calls are allowed in this search"
        )
        return f"{what} not allowed. {self._made:,} sub-calls have been made, and {rest}. Filter by code first, or answer with what you have found."
