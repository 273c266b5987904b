"""Runs the nodes of one tree, from the root's call to the last late answer."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from sys import getsizeof
from typing import Any, NamedTuple

from mahtab_tui.bus.records import SearchBegin, SearchChat, SearchFanOut, SearchFinal
from mahtab_tui.llm.failures import explain_error
from mahtab_tui.llm.ledger import Amount, Ledger, OverBudget
from mahtab_tui.sandbox.base import (
    CallRefusedError,
    Sandbox,
    SandboxError,
    Sandboxes,
    SearchedText,
    TextRun,
    TextSpan,
)
from mahtab_tui.search import prompts
from mahtab_tui.search.calls import Calls
from mahtab_tui.search.conversation import Model, PromptMessage
from mahtab_tui.search.gates import Gate
from mahtab_tui.search.limits import SearchDeadline, SearchLimits
from mahtab_tui.search.logs import SearchLog
from mahtab_tui.search.nodes import (
    FanOutPlace,
    LiveNode,
    NodeOutcome,
    NodeSource,
    TreeServices,
)
from mahtab_tui.search.requests import Request, SearchTools
from mahtab_tui.search.tree import Events, shortened
from mahtab_tui.search.turns import Exploration

Consent = Callable[[str], Awaitable[bool]]
"""Gets the id of a fan-out's question, and returns whether the user allows the fan-out."""

_DIGEST_CHUNK_CHARS = 1_000_000
"""Characters that are encoded at a time."""

_CALLS_PER_EXPLORATION = 3
"""Model calls that an exploring node is estimated to make."""
_CHARS_PER_EXPLORATION_CALL = 12_000
"""Characters that each of these calls is estimated to read."""

_MAX_SUB_CALLS = 20_000
"""Sub-calls of one search."""
_MAX_MADE_BYTES = 256 * 2**20
"""Bytes of texts made by code, for all nodes that have not ended."""
MAX_RECORDED_QUERY_CHARS = 4_000
_UNWIND_TIMEOUT_S = 0.3
"""Seconds that cancelled nodes have to end."""


class _MemoKey(NamedTuple):
    """Equal for nodes that have the same answer. Digests, so that no text is held."""

    model_name: str
    query_digest: bytes
    text_digest: bytes
    exploring_depth: int | None
    """None for a plain call. An exploring node waits only for nodes of its own depth, and plain
    calls for nobody, so that no two wait for each other."""

    @classmethod
    def of(cls, node: LiveNode) -> _MemoKey:
        return cls(
            model_name=node.model.name,
            query_digest=hashlib.blake2b(node.query.encode("utf-8", "surrogatepass")).digest(),
            text_digest=_digest(node.source),
            exploring_depth=None if node.is_plain else node.depth,
        )


class _MemoEntry(NamedTuple):
    """The outcome of a node, which may still be running."""

    outcome: asyncio.Future[NodeOutcome]
    runs: list[TextRun]
    """Where the node's text stands in the root's text."""


class Memo:
    """Answers equal nodes of a tree once."""

    def __init__(self) -> None:
        self._entries: dict[_MemoKey, _MemoEntry] = {}

    async def answer(
        self, node: LiveNode, work: Callable[[LiveNode], Awaitable[NodeOutcome]]
    ) -> NodeOutcome:
        """Return the answer of an equal node, even of a running one, or do the work."""
        if node.parent is None:
            return await work(node)

        key = _MemoKey.of(node)
        while key in self._entries:
            entry = self._entries[key]
            outcome = await asyncio.shield(entry.outcome)
            if outcome.state == "stopped":  # only the other node was, so this one goes on
                continue
            # In an equal text from elsewhere, the answer rests on other places.
            return outcome if entry.runs == node.source.runs else outcome._replace(evidence=())

        future = asyncio.get_running_loop().create_future()
        self._entries[key] = _MemoEntry(future, node.source.runs)
        outcome = NodeOutcome("", "stopped")
        try:
            outcome = await work(node)
        except Exception as error:
            outcome = NodeOutcome(str(error), "error")
            raise
        finally:
            if outcome.state != "done":
                del self._entries[key]
            future.set_result(outcome)
        return outcome


def _digest(source: NodeSource) -> bytes:
    """Hash a text chunk by chunk: copies of all parts of a fan-out might be too much."""
    digest = hashlib.blake2b(digest_size=16)
    text = source.container.text
    for index, (start, end) in enumerate(source.part_spans):
        if index > 0:
            digest.update(b"\n")
        for chunk_start in range(start, end, _DIGEST_CHUNK_CHARS):
            chunk = text[chunk_start : min(end, chunk_start + _DIGEST_CHUNK_CHARS)]
            digest.update(chunk.encode("utf-8", "surrogatepass"))
    return digest.digest()


@dataclass(eq=False)
class FanOuts:
    """The fan-outs of one tree. Consent counts for the whole tree."""

    _engine: Engine
    _started_count: int = 0
    """Sub-calls that have been allowed."""
    _free_count: int = 0
    """Sub-calls that need no consent."""
    _refused_turns: set[tuple[str, int]] = field(default_factory=set)
    """Nodes and turns in which the user refused: the rest of such a turn is refused unasked."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._free_count = self._engine.limits.ask_above

    async def wait_for_consent(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], fan_out_number: int
    ) -> None:
        """Wait for consent if the tree has used up its free sub-calls. It covers these parts, and
        as many sub-calls again as there were.

        Args:
            parent: the node whose code asks.
            request: its request.
            sources: the texts of the sub-calls.
            fan_out_number: which fan-out of the node it is, from 1.

        Raises:
            CallRefusedError: The user, or nobody, has answered with yes.
        """
        part_count = len(sources)
        if self._take_free(part_count):
            return

        asking = asyncio.ensure_future(self._ask(parent, request, sources, fan_out_number))
        parent.consent_requests.add(asking)
        try:
            await asyncio.wait((asking,))
        finally:  # also if nobody waits for an answer any more
            asking.cancel()
            parent.consent_requests.discard(asking)

        if asking.cancelled() or not asking.result():
            subject = "Another sub-call was"
            if part_count > 1:
                subject = f"{part_count:,} parts at once were"
            if self._free_count:
                allowance = f"at most {self._free_count:,} more may be handed on in this search"
            else:
                allowance = "no more sub-calls are allowed in this search"
            raise CallRefusedError(
                f"{subject} not allowed. {self._started_count:,} sub-calls have been made, and {allowance}. Filter by code first, or answer with what you have found."
            )

    def _take_free(self, part_count: int) -> bool:
        if part_count > self._free_count:
            return False
        self._free_count -= part_count
        self._started_count += part_count
        return True

    async def _ask(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], fan_out_number: int
    ) -> bool:
        async with self._asking:  # one question at a time: its answer may cover those that wait
            if self._take_free(len(sources)):
                return True
            turn = (parent.id, parent.turn)
            if turn in self._refused_turns:
                return False

            engine = self._engine
            estimate = self._estimate(parent, request, sources)
            question = SearchFanOut(
                node=parent.id,
                request=f"{engine.events.tree}-{parent.id}-{fan_out_number}",
                batch=fan_out_number,
                calls=estimate.calls,
                tokens=estimate.tokens,
                usd=estimate.usd if engine.sub_model.priced else None,
                made=self._started_count,
            )
            engine.events.send(question.changed(state="waiting"))
            allowed = False
            try:
                allowed = await engine.consent(question.request)
            finally:
                state = "run" if allowed else "refused"
                engine.events.send(question.changed(made=self._started_count, state=state))

            if allowed:
                self._started_count += len(sources)
                self._free_count = max(engine.limits.ask_above, self._started_count)
            else:
                self._refused_turns.add(turn)
            return allowed

    def _estimate(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource]
    ) -> Amount:
        """Estimate what a fan-out takes: plain calls read their text, others explore it."""
        engine = self._engine
        plain_chars = [
            len(query) + source.chars
            for query, source in zip(request.queries, sources, strict=True)
            if request.plain or engine.limits.is_plain(parent.depth + 1, source.chars)
        ]
        plain_estimate = engine.calls.estimate(engine.sub_model, sum(plain_chars), len(plain_chars))

        explored_calls = _CALLS_PER_EXPLORATION * (len(sources) - len(plain_chars))
        explored_chars = explored_calls * _CHARS_PER_EXPLORATION_CALL
        return plain_estimate.plus(
            engine.calls.estimate(engine.sub_model, explored_chars, explored_calls)
        )


@dataclass(eq=False)
class Engine:
    """Runs one tree, in one loop; `model` answers the root, `sub_model` all other nodes."""

    events: Events
    limits: SearchLimits
    model: Model
    sub_model: Model
    session_ledger: InitVar[Ledger]
    sandboxes: Sandboxes
    consent: Consent
    tools: SearchTools | None = None
    by_code: bool = False
    log: SearchLog | None = None

    def __post_init__(self, session_ledger: Ledger) -> None:
        concurrency = self.limits.concurrency or max(
            self.model.concurrency, self.sub_model.concurrency
        )
        self.calls = Calls(
            self.events, self.limits.open_ledger(), Gate(concurrency), session_ledger
        )
        self._fan_outs = FanOuts(self)
        # An exploring node has a process. A gate for each depth prevents deadlock: nodes wait only
        # for deeper ones.
        self._exploring: defaultdict[int, Gate] = defaultdict(lambda: Gate(concurrency))
        self._reading = Gate(concurrency)  # plain calls hold their text twice
        self._nodes: dict[str, LiveNode] = {}
        self._sub_call_count = 0
        self._root_count = 0
        self._made_bytes = 0
        self._memo = Memo()
        self._services = TreeServices(
            self.events, self.limits, self.calls, self.sandboxes, self.tools, self.ask
        )
        self._text = SearchedText("")
        self._background: set[asyncio.Task[None]] = set()

    async def run(self, query: str, text: SearchedText, about: Mapping[str, Any]) -> NodeOutcome:
        """Run a new root; cancelling stops the tree.

        Args:
            query: what the search is to answer.
            text: the text to search.
            about: attributes for its first event.
        """
        self._text = text
        now = asyncio.get_running_loop().time()
        self._services.deadline = SearchDeadline.after(self.limits.max_seconds, now)
        return await self.run_again(query, about)

    async def run_again(self, query: str, about: Mapping[str, Any]) -> NodeOutcome:
        """Run another root over the same text and limits."""
        root = self._start(
            None, query, NodeSource(self._text), self.model, FanOutPlace(), about=about
        )
        self._root = root
        try:
            return (await _outcomes([root]))[0]
        except asyncio.CancelledError:
            await self._unwind(self.running())
            raise

    @property
    def models(self) -> frozenset[Model]:
        return frozenset((self.model, self.sub_model))

    @property
    def strategy_note(self) -> str:
        """A sentence saying how the text was searched."""
        root = self._root
        if root.is_plain:
            return "The text was read at once, by one call."
        plural = "" if root.turn == 1 else "s"
        return f"The text was searched by code, in {root.turn} turn{plural}."

    @property
    def text_bytes(self) -> int:
        """Memory that the searched text takes."""
        return getsizeof(self._text.text)

    def stop(self, node_id: str) -> None:
        node = self._nodes.get(node_id)
        if node is not None and node.task is not None:
            node.task.cancel()

    def text(self, start: int, end: int) -> str:
        """Return a part of the root's text."""
        return self._text.text[max(0, start) : max(0, end)]

    async def close(self) -> None:
        await self._unwind(self.running())
        while self._background:
            await asyncio.wait(self._background)

    def running(self) -> list[LiveNode]:
        """Return the nodes that have not ended."""
        return [node for node in self._nodes.values() if node.outcome is None]

    def _start(
        self,
        parent: LiveNode | None,
        query: str,
        source: NodeSource,
        model: Model,
        place: FanOutPlace,
        *,
        plain: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> LiveNode:
        """Start a node. about: attributes for its first event."""
        if parent is None:
            self._root_count += 1
            node_id = str(self._root_count)
            depth = 0
        else:
            parent.child_count += 1
            node_id = f"{parent.id}.{parent.child_count}"
            depth = parent.depth + 1

        plain = plain or self.limits.is_plain(depth, source.chars)
        if plain and depth == 0 and self.limits.max_depth > 0:
            # A short text is searched by code all the same where that is better.
            plain = not (self.by_code or prompts.is_looked_up(query, self._text))
        node = LiveNode(node_id, parent, depth, plain, query, source, model, place)
        self._nodes[node_id] = node
        self.events.send(
            SearchBegin(
                shortened(query, MAX_RECORDED_QUERY_CHARS),
                node=node_id,
                parent=parent.id if parent else None,
                depth=depth,
                kind="llm" if plain else "rlm",
                batch=place.fan_out_number,
                index=place.part_index,
                of=place.part_count,
                spans=tuple(source.root_spans),
                chars=source.chars,
                model=model.name,
                **(about or {}),
            )
        )
        if parent is not None:
            parent.running_children[node] = None
        node.task = asyncio.create_task(self._run_node(node))
        node.task.add_done_callback(partial(self._on_node_end, node, time.monotonic()))
        return node

    async def _run_node(self, node: LiveNode) -> NodeOutcome:
        try:
            return await self._memo.answer(node, self._work)
        except (OverBudget, SandboxError, CallRefusedError) as error:
            return NodeOutcome(str(error), "error")
        except Exception as error:  # a node's outermost frame, around a provider's code
            return NodeOutcome(str(explain_error(error)), "error")
        finally:
            node.ending = True
            for consent_request in node.consent_requests:
                consent_request.cancel()
            await self._unwind(list(node.running_children))

    def _on_node_end(
        self, node: LiveNode, start_time: float, task: asyncio.Task[NodeOutcome]
    ) -> None:
        if task.cancelled():
            outcome = NodeOutcome("The call was stopped.", "stopped")
        else:
            outcome = task.result()
        node.outcome = outcome

        parent = node.parent
        if parent is not None:
            parent.running_children.pop(node, None)
            if not outcome.failed:
                parent.findings.add_answer(
                    node.query,
                    outcome.text,
                    part_index=node.place.part_index,
                    part_count=node.place.part_count,
                )

        self.events.send(
            SearchFinal(
                outcome.text,
                node=node.id,
                state=outcome.state,
                duration=time.monotonic() - start_time,
                spans=tuple(outcome.evidence),
            )
        )
        del self._nodes[node.id]
        node.source = NodeSource(
            SearchedText("")
        )  # others of its fan-out may still refer to the node

    async def _work(self, node: LiveNode) -> NodeOutcome:
        """Answer a node when it may run."""
        deadline = self._services.deadline
        if node.parent is not None:  # only the root keeps time for a last call
            deadline = deadline._replace(end=deadline.work)
        if node.is_plain:
            async with self._reading:
                return await self._answer_plainly(node, deadline)

        gate = self._exploring[node.depth]
        await gate.enter()
        exploration = Exploration(self._services, node)
        try:
            return await exploration.run(deadline)
        finally:
            closing = asyncio.create_task(_close(exploration.sandbox, gate))
            self._background.add(closing)
            closing.add_done_callback(self._background.discard)

    async def _answer_plainly(self, node: LiveNode, deadline: SearchDeadline) -> NodeOutcome:
        """Answer a node by one call that reads its text."""
        self._check_plain(node.source)
        text = node.source.make_text()
        system = prompts.with_instructions(prompts.plain_system(), text)
        message = prompts.plain_message(node.query, text.text)
        del text  # it may be a copy

        conversation = node.model.conversation(
            PromptMessage("system", system), PromptMessage("user", message)
        )
        try:
            async with asyncio.timeout_at(deadline.end) as limit:
                reply = await self.calls.ask(node.id, 1, 1, conversation)
        except Exception as error:  # also a provider's own code
            partial_answer = conversation.partial
            if not partial_answer.strip() and not limit.expired():
                raise
            reason = str(explain_error(error))
            if limit.expired():
                reason = "The time for the search is up."
            if not partial_answer.strip():
                return NodeOutcome(reason, "error")
            answer = f"{partial_answer}\n\n[The answer broke off here. {reason}]"
            return NodeOutcome(answer, "partial", reason=reason)
        finally:
            conversation.ended = True

        self.events.send(SearchChat(reply.text, node=node.id, turn=1))
        evidence = node.source.make_text().quoted(reply.text)
        if reply.cut:
            reason = "The answer was longer than the model may write at once."
            return NodeOutcome(reply.text, "partial", evidence, reason)
        return NodeOutcome(reply.text, "done", evidence)

    async def ask(
        self, parent: LiveNode, request: Request, text: SearchedText
    ) -> list[NodeOutcome]:
        """Answer the sub-calls of a node's code.

        Args:
            parent: the node.
            request: the queries, and their parts of its text.
            text: the node's text.

        Returns:
            One outcome for each part, in order.

        Raises:
            CallRefusedError: The sub-calls would exceed a limit, or the user refused them.
        """
        if self._sub_call_count + len(request.parts) > _MAX_SUB_CALLS:
            raise CallRefusedError(
                f"A search may make at most {_MAX_SUB_CALLS:,} sub-calls, and {self._sub_call_count:,} have been made."
            )

        # A query that all parts share is one object, and counts once.
        distinct_queries = {id(query): query for query in request.queries}.values()
        made_texts = [part.text for part in request.parts if isinstance(part, SearchedText)]
        made_bytes = sum(map(getsizeof, made_texts)) + sum(map(getsizeof, distinct_queries))
        if self._made_bytes + made_bytes > _MAX_MADE_BYTES:
            raise CallRefusedError(
                f"The texts that code makes may take at most {_MAX_MADE_BYTES // 2**20} MiB at a time in the whole search."
                " Hand on parts of `context` as they are, or less text."
            )

        sources = [
            NodeSource(part) if isinstance(part, SearchedText) else self._source_in_root(text, part)
            for part in request.parts
        ]
        try:  # check first: nodes that are bound to fail would hold their texts
            min_chars = min((source.chars for source in sources), default=0)
            self.calls.ledger.check(self.calls.estimate(self.sub_model, min_chars))
            if request.plain and not request.many:
                self._check_plain(sources[0])
        except (OverBudget, CallRefusedError) as error:
            return [NodeOutcome(str(error), "error")] * len(sources)

        self._made_bytes += made_bytes
        try:
            return await self._fan_out(parent, request, sources)
        finally:
            self._made_bytes -= made_bytes

    async def _unwind(self, nodes: list[LiveNode]) -> None:
        """Cancel nodes, and give them a moment to end."""
        tasks = [node.task for node in nodes if node.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_UNWIND_TIMEOUT_S)

    def _check_plain(self, source: NodeSource) -> None:
        if source.chars > self.limits.plain:
            raise CallRefusedError(
                f"A text of {source.chars:,} characters is too long for one call, which may read {self.limits.plain:,}. Make smaller parts."
            )

    async def _fan_out(
        self, parent: LiveNode, request: Request, sources: list[NodeSource]
    ) -> list[NodeOutcome]:
        parent.fan_out_count += 1
        fan_out_number = parent.fan_out_count
        if not parent.ending:
            await self._fan_outs.wait_for_consent(parent, request, sources, fan_out_number)
        if parent.ending:  # perhaps since
            raise CallRefusedError("The call that asked has ended.")

        self._sub_call_count += len(sources)
        nodes: list[LiveNode] = []
        for index, (query, source) in enumerate(zip(request.queries, sources, strict=True)):
            place = FanOutPlace(fan_out_number, index, len(sources))
            node = self._start(parent, query, source, self.sub_model, place, plain=request.plain)
            nodes.append(node)
        try:
            return await _outcomes(nodes)
        except asyncio.CancelledError:  # the code that asked has been stopped
            for node in nodes:
                self.stop(node.id)
            raise

    def _source_in_root(self, text: SearchedText, spans: tuple[TextSpan, ...]) -> NodeSource:
        """Refer to parts of a node's text as parts of the root's text, if each is in one place
        there: then the node's text, which may be a copy, can go."""
        root_spans: list[TextSpan] = []
        for start, end in spans:
            places = text.to_root([(start, end)])
            if len(places) != 1 or places[0][1] - places[0][0] != end - start:
                return NodeSource(text, spans)
            root_spans.append(places[0])
        return NodeSource(self._text, tuple(root_spans))


async def _outcomes(nodes: list[LiveNode]) -> list[NodeOutcome]:
    """Wait for nodes, and return their outcomes in order."""
    tasks = [node.task for node in nodes if node.task is not None]
    if tasks:
        await asyncio.wait(tasks)
    return [node.outcome for node in nodes if node.outcome is not None]


async def _close(starting: asyncio.Future[Sandbox] | None, gate: Gate) -> None:
    """Close a node's sandbox, even one that is starting, and let the next node explore."""
    try:
        if starting is not None:
            starting.cancel()
            await asyncio.wait((starting,))
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().close()
    finally:
        gate.leave()
