"""Runs the nodes of one tree, from the root's call to the last late answer."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import SearchBegin, SearchChat, SearchFanOut, SearchFinal
from mahtab_tui.llm.base import explain_error
from mahtab_tui.llm.usage import Spending
from mahtab_tui.sandbox.base import (
    CallRefusedError,
    Sandbox,
    SandboxError,
    Sandboxes,
    Text,
    TextRun,
    TextSpan,
)
from mahtab_tui.search import prompts
from mahtab_tui.search.conversation import Message, Model
from mahtab_tui.search.limits import Amount, Budget, BudgetSpent, Calls, Deadline, Gate, Limits
from mahtab_tui.search.requests import Request, Tools
from mahtab_tui.search.tree import BudgetLeft, Events, shortened
from mahtab_tui.search.turns import Exploration, Kind, LiveFanOut, LiveNode, NodeOutcome, NodeSource

if TYPE_CHECKING:
    from mahtab_tui.search.api import SessionLog

_Question = tuple[str, str, bytes, bytes]
"""Model, kind, and digests of query and text, so that no text is held."""
_PIECE = 1_000_000
"""Characters that are encoded at a time."""


class Memo:
    """Answers equal nodes of a tree once."""

    def __init__(self) -> None:
        self._outcomes: dict[
            tuple[_Question, int], tuple[asyncio.Future[NodeOutcome], list[TextRun]]
        ] = {}
        """Outcomes by question and depth: a node waits only for nodes of its own depth, or for
        plain calls, so that no two wait for each other."""

    async def answer(
        self, node: LiveNode, work: Callable[[LiveNode], Awaitable[NodeOutcome]]
    ) -> NodeOutcome:
        """Return the answer of an equal node, even of a running one, or do the work."""
        if node.parent is None:
            return await work(node)
        query = hashlib.blake2b(node.query.encode("utf-8", "surrogatepass")).digest()
        question = (node.model.name, node.kind, query, _digest(node.source))
        key = (question, -1 if node.kind == "llm" else node.depth)
        while key in self._outcomes:
            future, runs = self._outcomes[key]
            outcome = await asyncio.shield(future)
            if outcome.state != "stopped":  # if the other one was stopped, this one goes on
                # In an equal text from elsewhere, the answer rests on other places.
                return outcome if runs == node.source.runs else outcome._replace(spans=())
        future = asyncio.get_running_loop().create_future()
        self._outcomes[key] = (future, node.source.runs)
        outcome = NodeOutcome("", "stopped")
        try:
            outcome = await work(node)
        except Exception as error:
            outcome = NodeOutcome(str(error), "error")
            raise
        finally:
            if outcome.state != "done":
                del self._outcomes[key]
            future.set_result(outcome)
        return outcome


def _digest(source: NodeSource) -> bytes:
    """Hash a text piece by piece: copies of all parts of a fan-out might be too much."""
    digest = hashlib.blake2b(digest_size=16)
    text = source.text.text
    for number, (start, end) in enumerate(source.own_spans):
        if number:
            digest.update(b"\n")
        for offset in range(start, end, _PIECE):
            digest.update(text[offset : min(end, offset + _PIECE)].encode("utf-8", "surrogatepass"))
    return digest.digest()


_CALLS_OF_AN_EXPLORATION = 3
_CHARS_OF_A_CALL = 12_000
"""Characters that each of these calls is estimated to read."""


Consent = Callable[[str], Awaitable[bool]]


@dataclass(eq=False)
class FanOuts:
    """The fan-outs of one tree. Consent counts for the whole tree."""

    _engine: Engine
    _made: int = 0
    _free: int = 0
    _refused: set[tuple[str, int]] = field(default_factory=set)
    """Nodes and turns in which the user refused: the rest of such a turn is refused unasked."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._free = self._engine.limits.ask_above

    async def wait_for_consent(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], batch: int
    ) -> None:
        """Wait for consent if the tree has used up its free sub-calls. It covers these parts, and
        as many sub-calls again as there were. Raises `CallRefusedError`."""
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
            what = f"{parts:,} parts at once were" if parts > 1 else "Another sub-call was"
            rest = (
                f"at most {self._free:,} more may be handed on in this search"
                if self._free
                else "no more sub-calls are allowed in this search"
            )
            raise CallRefusedError(
                f"{what} not allowed. {self._made:,} sub-calls have been made, and {rest}. Filter by code first, or answer with what you have found."
            )

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
            engine = self._engine
            calls, tokens, usd = self._estimate(parent, request, sources)
            asked = SearchFanOut(
                node=parent.id,
                request=f"{engine.events.tree}-{parent.id}-{batch}",
                batch=batch,
                calls=calls,
                tokens=tokens,
                usd=usd if engine.sub_model.priced else None,
                made=self._made,
            )
            engine.events.send(asked.changed(state="waiting"))
            run = False
            try:
                run = await engine.consent(asked.request)
            finally:
                state = "run" if run else "refused"
                engine.events.send(asked.changed(made=self._made, state=state))
            if run:
                self._made += len(sources)
                self._free = max(engine.limits.ask_above, self._made)
            else:
                self._refused.add(turn)
            return run

    def _estimate(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource]
    ) -> Amount:
        engine = self._engine
        read = [
            len(query) + source.chars
            for query, source in zip(request.queries, sources, strict=True)
            if request.plain or engine.limits.is_plain(parent.depth + 1, source.chars)
        ]
        explored = _CALLS_OF_AN_EXPLORATION * (len(sources) - len(read))
        estimate = partial(engine.calls.estimate, engine.sub_model)
        return estimate(sum(read), len(read)).plus(estimate(explored * _CHARS_OF_A_CALL, explored))


_NODES = 20_000
_MADE = 256 * 2**20
"""Bytes of texts made by code, for all nodes that have not ended."""
LONGEST_QUERY = 4_000

_UNWINDING = 0.3


@dataclass(eq=False)
class Engine:
    """Runs one tree, in one loop; `model` answers the root, `sub_model` all other nodes."""

    events: Events
    limits: Limits
    model: Model
    sub_model: Model
    spending: InitVar[Spending]
    sandboxes: Sandboxes
    consent: Consent
    tools: Tools | None = None
    by_code: bool = False
    log: SessionLog | None = None

    def __post_init__(self, spending: Spending) -> None:
        models = self.model.concurrency, self.sub_model.concurrency
        concurrency = self.limits.concurrency or max(models)
        budget = Budget(self.limits)
        self.calls = Calls(self.events, budget, Gate(concurrency), spending)
        self._fan_outs = FanOuts(self)
        # An exploring node has a process. A gate for each depth prevents deadlock: nodes wait only
        # for deeper ones.
        self._exploring: defaultdict[int, Gate] = defaultdict(lambda: Gate(concurrency))
        self._reading = Gate(concurrency)  # plain calls hold their text twice
        self._nodes: dict[str, LiveNode] = {}
        self._begun = 0
        self._attempts = 0
        self._made = 0
        self._memo = Memo()
        self._deadline = Deadline()
        self._text = Text("")
        self._background: set[asyncio.Task[None]] = set()

    async def run(self, query: str, text: Text, about: Mapping[str, Any]) -> NodeOutcome:
        """Run a new root; cancelling stops the tree. about: attributes for its first event."""
        self._text = text
        self._deadline = Deadline.after(self.limits.max_seconds, asyncio.get_running_loop().time())
        return await self.run_again(query, about)

    async def run_again(self, query: str, about: Mapping[str, Any]) -> NodeOutcome:
        """Run another root over the same text and limits."""
        source, batch = NodeSource(self._text), LiveFanOut(0, 1)
        root = self._root = self._start(None, query, source, self.model, batch, about=about)
        try:
            return (await _outcomes([root]))[0]
        except asyncio.CancelledError:
            await self._unwind(self.running())
            raise

    @property
    def models(self) -> frozenset[Model]:
        return frozenset((self.model, self.sub_model))

    @property
    def way(self) -> str:
        root = self._root
        if root.kind == "llm":
            return "The text was read at once, by one call."
        return f"The text was searched by code, in {root.turn} turn{'' if root.turn == 1 else 's'}."

    @property
    def size(self) -> int:
        return getsizeof(self._text.text)

    def stop(self, node_id: str) -> None:
        if (node := self._nodes.get(node_id)) is not None and node.task is not None:
            node.task.cancel()

    def text(self, start: int, end: int) -> str:
        return self._text.text[max(0, start) : max(0, end)]

    async def close(self) -> None:
        await self._unwind(self.running())
        while self._background:
            await asyncio.wait(self._background)

    def running(self) -> list[LiveNode]:
        return [node for node in self._nodes.values() if node.outcome is None]

    def _start(
        self,
        parent: LiveNode | None,
        query: str,
        source: NodeSource,
        model: Model,
        batch: LiveFanOut,
        index: int = 0,
        /,
        *,
        plain: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> LiveNode:
        """about: attributes for its first event."""
        if parent is None:
            self._attempts += 1
            node_id = str(self._attempts)
        else:
            parent.children += 1
            node_id = f"{parent.id}.{parent.children}"
        depth = 0 if parent is None else parent.depth + 1
        plain = plain or self.limits.is_plain(depth, source.chars)
        if plain and depth == 0 and self.limits.max_depth > 0:
            plain = not (self.by_code or prompts.is_looked_up(query, self._text))
        kind: Kind = "llm" if plain else "rlm"
        node = LiveNode(node_id, parent, depth, kind, query, source, model, batch, index)
        self._nodes[node_id] = node
        self.events.send(
            SearchBegin(
                shortened(query, LONGEST_QUERY),
                node=node_id,
                parent=parent.id if parent else None,
                depth=depth,
                kind=kind,
                batch=batch.number,
                index=index,
                of=batch.size,
                spans=tuple(source.spans),
                chars=source.chars,
                model=model.name,
                **(about or {}),
            )
        )
        if parent is not None:
            parent.running[node] = None
        node.task = asyncio.create_task(self._run_node(node))
        node.task.add_done_callback(partial(self._on_node_end, node, time.monotonic()))
        return node

    async def _run_node(self, node: LiveNode) -> NodeOutcome:
        try:
            return await self._memo.answer(node, self._work)
        except (BudgetSpent, SandboxError, CallRefusedError) as error:
            return NodeOutcome(str(error), "error")
        except Exception as error:  # a node's outermost frame, around a provider's code
            return NodeOutcome(str(explain_error(error)), "error")
        finally:
            node.over = True
            for asking in node.asking:
                asking.cancel()
            await self._unwind(list(node.running))

    def _on_node_end(self, node: LiveNode, began: float, task: asyncio.Task[NodeOutcome]) -> None:
        node.outcome = outcome = (
            NodeOutcome("The call was stopped.", "stopped") if task.cancelled() else task.result()
        )
        if node.parent is not None:
            node.parent.running.pop(node, None)
            if not outcome.failed:
                node.parent.found.add_answer(node.query, node.index, node.batch.size, outcome.text)
        self.events.send(
            SearchFinal(
                outcome.text,
                node=node.id,
                state=outcome.state,
                duration=time.monotonic() - began,
                spans=tuple(outcome.spans),
            )
        )
        del self._nodes[node.id]
        node.source = NodeSource(Text(""))  # others of its fan-out may still know it

    async def _work(self, node: LiveNode) -> NodeOutcome:
        deadline = self._deadline
        if node.parent is not None:  # only the root keeps time for a last call
            deadline = deadline._replace(end=deadline.work)
        if node.kind == "llm":
            async with self._reading:
                return await self._plain(node, deadline)
        gate = self._exploring[node.depth]
        await gate.enter()
        exploration = Exploration(self, node)
        try:
            return await exploration.run(deadline)
        finally:
            closing = asyncio.create_task(_close(exploration.sandbox, gate))
            self._background.add(closing)
            closing.add_done_callback(self._background.discard)

    def left(self, turns: int) -> BudgetLeft:
        end = self._deadline.work
        seconds = None if end is None else max(0.0, end - asyncio.get_running_loop().time())
        return replace(self.calls.budget.left(), turns=turns, seconds=seconds)

    async def _plain(self, node: LiveNode, deadline: Deadline) -> NodeOutcome:
        self._check_plain(node.source)
        text = node.source.release_text()
        system = prompts.with_instructions(prompts.plain_system(), text)
        message = prompts.plain_message(node.query, text.text)
        del text  # it may be a copy
        conversation = node.model.conversation(Message("system", system), Message("user", message))
        try:
            async with asyncio.timeout_at(deadline.end) as limit:
                reply = await self.calls.ask(node.id, 1, 1, conversation)
        except Exception as error:  # also a provider's own code
            so_far, expired = conversation.partial, limit.expired()
            if not so_far.strip() and not expired:
                raise
            why = "The time for the search is up." if expired else str(explain_error(error))
            if not so_far.strip():
                return NodeOutcome(why, "error")
            words = f"{so_far}\n\n[The answer broke off here. {why}]"
            return NodeOutcome(words, "partial", why=why)
        finally:
            conversation.ended = True
        self.events.send(SearchChat(reply.text, node=node.id, turn=1))
        spans = node.source.release_text().quoted(reply.text)
        if reply.cut:
            why = "The answer was longer than the model may write at once."
            return NodeOutcome(reply.text, "partial", spans, why)
        return NodeOutcome(reply.text, "done", spans)

    async def ask(self, parent: LiveNode, request: Request, text: Text) -> list[NodeOutcome]:
        if self._begun + len(request.parts) > _NODES:
            raise CallRefusedError(
                f"A search may make at most {_NODES:,} sub-calls, and {self._begun:,} have been made."
            )
        made = sum(getsizeof(part.text) for part in request.parts if isinstance(part, Text))
        made += sum(map(getsizeof, {id(query): query for query in request.queries}.values()))
        if self._made + made > _MADE:
            raise CallRefusedError(
                f"The texts that code makes may take at most {_MADE // 2**20} MiB at a time in the whole search."
                " Hand on parts of `context` as they are, or less text."
            )
        sources = [
            NodeSource(part) if isinstance(part, Text) else self._source(text, part)
            for part in request.parts
        ]
        try:  # check first: nodes that are bound to fail would hold their texts
            shortest = min((source.chars for source in sources), default=0)
            budget = self.calls.budget
            budget.free(budget.hold(self.calls.estimate(self.sub_model, shortest)))
            if request.plain and not request.many:
                self._check_plain(sources[0])
        except (BudgetSpent, CallRefusedError) as error:
            return [NodeOutcome(str(error), "error")] * len(sources)
        self._made += made
        try:
            return await self._fan_out(parent, request, sources)
        finally:
            self._made -= made

    async def _unwind(self, nodes: list[LiveNode]) -> None:
        tasks = [node.task for node in nodes if node.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_UNWINDING)

    def _check_plain(self, source: NodeSource) -> None:
        if source.chars > self.limits.plain:
            raise CallRefusedError(
                f"A text of {source.chars:,} characters is too long for one call, which may read {self.limits.plain:,}. Make smaller parts."
            )

    async def _fan_out(
        self, parent: LiveNode, request: Request, sources: list[NodeSource]
    ) -> list[NodeOutcome]:
        parent.batches += 1
        batch = LiveFanOut(parent.batches, len(sources))
        if not parent.over:
            await self._fan_outs.wait_for_consent(parent, request, sources, batch.number)
        if parent.over:
            raise CallRefusedError("The call that asked has ended.")
        self._begun += len(sources)
        nodes = [
            self._start(parent, query, source, self.sub_model, batch, index, plain=request.plain)
            for index, (query, source) in enumerate(zip(request.queries, sources, strict=True))
        ]
        try:
            return await _outcomes(nodes)
        except asyncio.CancelledError:  # the code that asked has been stopped
            for node in nodes:
                self.stop(node.id)
            raise

    def _source(self, text: Text, spans: tuple[TextSpan, ...]) -> NodeSource:
        in_root = [text.to_root([span]) for span in spans]
        for found, (start, end) in zip(in_root, spans, strict=True):
            if len(found) != 1 or found[0][1] - found[0][0] != end - start:
                return NodeSource(text, spans)
        return NodeSource(self._text, tuple(found for (found,) in in_root))


async def _outcomes(nodes: list[LiveNode]) -> list[NodeOutcome]:
    if tasks := [node.task for node in nodes if node.task is not None]:
        await asyncio.wait(tasks)
    return [node.outcome for node in nodes if node.outcome is not None]


async def _close(starting: asyncio.Future[Sandbox] | None, gate: Gate) -> None:
    try:
        if starting is not None:
            starting.cancel()
            await asyncio.wait((starting,))
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().close()
    finally:
        gate.leave()
