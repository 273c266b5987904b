"""Runs one search: its nodes, which read a text or explore it by code, and the nodes that their code starts.

A node is a task. It waits at a gate until it may run, and ends everything that it has started when it
ends itself. All nodes share limits of calls, money, memory and time.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from sys import getsizeof
from typing import Any

from mahtab_tui.bus.records import SearchBegin, SearchChat, SearchFinal
from mahtab_tui.llm.failures import explain_error
from mahtab_tui.llm.ledger import Ledger, OverBudget
from mahtab_tui.sandbox.base import CallRefusedError, Sandbox, SandboxError, Sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText, TextSpan
from mahtab_tui.search import prompts
from mahtab_tui.search.calls import BudgetedCalls
from mahtab_tui.search.conversation import Model, PromptMessage
from mahtab_tui.search.events import Events
from mahtab_tui.search.fan_outs import Consent, FanOuts
from mahtab_tui.search.gates import Gate
from mahtab_tui.search.limits import SearchDeadline, SearchLimits
from mahtab_tui.search.logs import SearchLog
from mahtab_tui.search.memo import Memo
from mahtab_tui.search.nodes import FanOutPlace, LiveNode, NodeOutcome, NodeSource, TreeServices
from mahtab_tui.search.query_lines import is_better_searched
from mahtab_tui.search.requests import Request
from mahtab_tui.search.search_tools import SearchTools
from mahtab_tui.search.system_prompts import plain_system, with_instructions
from mahtab_tui.search.tree_nodes import shortened
from mahtab_tui.search.turns import Exploration

_MAX_SUB_CALLS = 20_000
"""Sub-calls of one search."""
_MAX_MADE_BYTES = 256 * 2**20
"""Bytes of texts made by code, for all nodes that have not ended."""
MAX_RECORDED_QUERY_CHARS = 4_000
"""Characters of a query in the record of its node."""
_UNWIND_TIMEOUT_S = 0.3
"""Seconds that cancelled nodes have to end."""


class Engine:
    """Runs the tree of one search, in one event loop."""

    def __init__(
        self,
        *,
        events: Events,
        limits: SearchLimits,
        model: Model,
        sub_model: Model,
        session_ledger: Ledger,
        sandboxes: Sandboxes,
        consent: Consent,
        tools: SearchTools | None = None,
        by_code: bool = False,
        log: SearchLog | None = None,
    ) -> None:
        """
        Args:
            events: Where the tree's events are logged.
            limits: What the tree may take.
            model: Answers the root.
            sub_model: Answers all other nodes.
            session_ledger: Counts what the session's models cost.
            sandboxes: Where code runs.
            consent: Asks the user about many sub-calls.
            tools: The functions of the caller that code can call.
            by_code: Whether a short text is searched by code, too, instead of being read at once.
            log: Where the search is written down for programs.
        """
        self.events = events
        self.limits = limits
        self.model = model
        self.sub_model = sub_model
        self.sandboxes = sandboxes
        self.by_code = by_code
        self.log = log

        concurrency = limits.concurrency or max(model.concurrency, sub_model.concurrency)
        self.calls = BudgetedCalls(events, limits.open_ledger(), Gate(concurrency), session_ledger)
        self._fan_outs = FanOuts(events, limits, self.calls, sub_model, consent)
        # An exploring node has a process, and waits for the nodes that it starts. With one gate for
        # all, waiting nodes could fill it, and none would end; so each depth has its own.
        self._exploring_gates: defaultdict[int, Gate] = defaultdict(lambda: Gate(concurrency))
        self._reading_gate = Gate(concurrency)
        """The gate for nodes that read their text at once: they hold it twice in memory."""
        self._services = TreeServices(events, limits, self.calls, sandboxes, tools, self.ask)
        self._memo = Memo()

        self._text = SearchedText("")
        """The text that the roots search."""
        self._root: LiveNode
        """The newest root; set by `run_again`."""
        self._nodes: dict[str, LiveNode] = {}
        """Nodes that have not ended, by their ids."""
        self._sub_call_count = 0
        """How many calls there were, with those that still wait for consent."""
        self._root_count = 0
        self._made_bytes = 0
        """Bytes of the texts that code has made for nodes that have not ended."""
        self._background: set[asyncio.Task[None]] = set()
        """Closes the sandboxes of nodes that have ended."""

    async def run(
        self, query: str, text: SearchedText, begin_attributes: Mapping[str, Any]
    ) -> NodeOutcome:
        """Run a new root; cancelling stops the tree.

        Args:
            query: What the search is to answer.
            text: The text to search.
            begin_attributes: Further fields of its first event.
        """
        self._text = text
        now = asyncio.get_running_loop().time()
        self._services.deadline = SearchDeadline.after(self.limits.max_seconds, now)
        return await self.run_again(query, begin_attributes)

    async def run_again(self, query: str, begin_attributes: Mapping[str, Any]) -> NodeOutcome:
        """Run another root over the same text and limits."""
        self._root = self._start(
            None,
            query,
            NodeSource(self._text),
            self.model,
            FanOutPlace(),
            begin_attributes=begin_attributes,
        )
        try:
            outcomes = await _outcomes([self._root])
            return outcomes[0]
        except asyncio.CancelledError:
            await self._unwind(self.running())
            raise

    @property
    def models(self) -> frozenset[Model]:
        """The models that answer the nodes."""
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
        """Stop a node with all that it has started. Nothing happens if it has ended."""
        node = self._nodes.get(node_id)
        if node is not None and node.task is not None:
            node.task.cancel()

    def text(self, start: int, end: int) -> str:
        """Return a part of the root's text."""
        return self._text.text[max(0, start) : max(0, end)]

    async def close(self) -> None:
        """Stop all nodes, and wait until their sandboxes are closed."""
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
        must_read_at_once: bool = False,
        begin_attributes: Mapping[str, Any] | None = None,
    ) -> LiveNode:
        """Start a node.

        Args:
            parent: The node whose code asks; None for a root.
            query: What the node is to answer.
            source: The text that it reads.
            model: The model that answers it.
            place: Its place in its parent's fan-out.
            must_read_at_once: Whether it must not explore its text by code.
            begin_attributes: Further fields of its first event.
        """
        if parent is None:
            self._root_count += 1
            node_id = str(self._root_count)
            depth = 0
        else:
            parent.child_count += 1
            node_id = f"{parent.id}.{parent.child_count}"
            depth = parent.depth + 1

        is_plain = must_read_at_once or self._is_read_at_once(query, source, depth)
        node = LiveNode(node_id, parent, depth, is_plain, query, source, model, place)
        self._nodes[node_id] = node
        self.events.send(_begin_event(node, begin_attributes or {}))
        if parent is not None:
            parent.running_children[node] = None
        node.task = asyncio.create_task(self._run_node(node))
        node.task.add_done_callback(partial(self._on_node_end, node, time.monotonic()))
        return node

    def _is_read_at_once(self, query: str, source: NodeSource, depth: int) -> bool:
        """Return whether a node reads its text by one call, and does not search it by code."""
        if not self.limits.is_plain(depth, source.chars):
            return False
        is_root = depth == 0
        if is_root and self.limits.max_depth > 0:
            # A short text is searched by code all the same where that is better.
            return not self.by_code and not is_better_searched(query, self._text.text)
        return True

    async def _run_node(self, node: LiveNode) -> NodeOutcome:
        """Answer a node, whatever happens, and then stop what it has started."""
        try:
            return await self._memo.answer(node, self._answer)
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
        """Note the outcome of a node that has ended, and let its text go."""
        if task.cancelled():
            outcome = NodeOutcome("The call was stopped.", "stopped")
        else:
            outcome = task.result()
        node.outcome = outcome
        if node.parent is not None:
            _tell_parent(node.parent, node, outcome)
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
        # Others of its fan-out may still refer to the node.
        node.source = NodeSource(SearchedText(""))

    async def _answer(self, node: LiveNode) -> NodeOutcome:
        """Answer a node once it may run."""
        deadline = self._services.deadline
        # Only the root keeps time for a last call.
        if node.parent is not None:
            deadline = deadline._replace(end=deadline.work)
        if node.is_plain:
            async with self._reading_gate:
                return await self._read_at_once(node, deadline)
        return await self._explore(node, deadline)

    async def _explore(self, node: LiveNode, deadline: SearchDeadline) -> NodeOutcome:
        """Answer a node by code that its model writes."""
        gate = self._exploring_gates[node.depth]
        await gate.enter()
        try:
            exploration = Exploration(self._services, node)
        except BaseException:
            gate.leave()
            raise
        try:
            return await exploration.run(deadline)
        finally:
            # The answer does not wait for the end of the sandbox, but the next node does.
            closing = asyncio.create_task(_close(exploration.sandbox, gate))
            self._background.add(closing)
            closing.add_done_callback(self._background.discard)

    async def _read_at_once(self, node: LiveNode, deadline: SearchDeadline) -> NodeOutcome:
        """Answer a node by one call that reads its text."""
        self._check_plain(node.source)
        text = node.source.make_text()
        system = with_instructions(plain_system(), text)
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
            return _broken_off(partial_answer, reason)
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
            parent: The node.
            request: The queries, and their parts of its text.
            text: The node's text.

        Returns:
            One outcome for each part, in order.

        Raises:
            CallRefusedError: The sub-calls would exceed a limit, or the user refused them.
        """
        if self._sub_call_count + len(request.parts) > _MAX_SUB_CALLS:
            raise CallRefusedError(
                f"A search may make at most {_MAX_SUB_CALLS:,} sub-calls, and {self._sub_call_count:,} have been made or asked for."
            )

        made_bytes = _count_made_bytes(request)
        if self._made_bytes + made_bytes > _MAX_MADE_BYTES:
            raise CallRefusedError(
                f"The texts that code makes may take at most {_MAX_MADE_BYTES // 2**20} MiB at a time in the whole search."
                " Hand on parts of `context` as they are, or less text."
            )

        sources = [self._source(text, part) for part in request.parts]
        # Before nodes are started, because those that are bound to fail would hold their texts.
        try:
            self._check_affordable(request, sources)
        except (OverBudget, CallRefusedError) as error:
            return [NodeOutcome(str(error), "error")] * len(sources)

        self._made_bytes += made_bytes
        try:
            return await self._fan_out(parent, request, sources)
        finally:
            self._made_bytes -= made_bytes

    def _check_affordable(self, request: Request, sources: Sequence[NodeSource]) -> None:
        """Raise an error if sub-calls are bound to fail.

        Raises:
            OverBudget: Not even the cheapest one is possible.
            CallRefusedError: The only one is too long.
        """
        min_chars = min((source.chars for source in sources), default=0)
        self.calls.ledger.check(self.calls.estimate(self.sub_model, min_chars))
        if request.must_read_at_once and not request.is_fan_out:
            self._check_plain(sources[0])

    async def _unwind(self, nodes: list[LiveNode]) -> None:
        """Cancel nodes, and give them a moment to end."""
        tasks = [node.task for node in nodes if node.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_UNWIND_TIMEOUT_S)

    def _check_plain(self, source: NodeSource) -> None:
        """Raise `CallRefusedError` if a text is too long for one call."""
        if source.chars > self.limits.plain:
            raise CallRefusedError(
                f"A text of {source.chars:,} characters is too long for one call, which may read {self.limits.plain:,}. Make smaller parts."
            )

    async def _fan_out(
        self, parent: LiveNode, request: Request, sources: list[NodeSource]
    ) -> list[NodeOutcome]:
        """Start a node for each source, and wait for all. Raises `CallRefusedError`."""
        parent.fan_out_count += 1
        fan_out_number = parent.fan_out_count
        # Counted before the user is asked, because other nodes may ask meanwhile.
        self._sub_call_count += len(sources)
        try:
            if not parent.ending:
                await self._fan_outs.wait_for_consent(parent, request, sources, fan_out_number)
            # The node may have ended while the user was asked.
            if parent.ending:
                raise CallRefusedError("The call that asked has ended.")
        except BaseException:  # also if the code that asked is stopped
            self._sub_call_count -= len(sources)
            raise

        nodes: list[LiveNode] = []
        for index, (query, source) in enumerate(zip(request.queries, sources, strict=True)):
            place = FanOutPlace(fan_out_number, index, len(sources))
            node = self._start(
                parent,
                query,
                source,
                self.sub_model,
                place,
                must_read_at_once=request.must_read_at_once,
            )
            nodes.append(node)
        try:
            return await _outcomes(nodes)
        except asyncio.CancelledError:  # the code that asked has been stopped
            for node in nodes:
                self.stop(node.id)
            raise

    def _source(self, text: SearchedText, part: SearchedText | tuple[TextSpan, ...]) -> NodeSource:
        """Return what a sub-call reads.

        Spans of a node's text become spans of the root's text, if each is in one place there: then the
        node's text, which may be a copy, can go.

        Args:
            text: The text of the node that asks.
            part: A text that its code has made, or spans of its text.
        """
        if isinstance(part, SearchedText):
            return NodeSource(part)
        spans = part
        root_spans: list[TextSpan] = []
        for start, end in spans:
            places = text.to_root([(start, end)])
            if len(places) != 1:
                return NodeSource(text, spans)
            root_start, root_end = places[0]
            if root_end - root_start != end - start:
                return NodeSource(text, spans)
            root_spans.append(places[0])
        return NodeSource(self._text, tuple(root_spans))


def _tell_parent(parent: LiveNode, node: LiveNode, outcome: NodeOutcome) -> None:
    """Let a parent know that a node has ended. It keeps the answer, in case that it fails itself."""
    parent.running_children.pop(node, None)
    if not outcome.failed:
        parent.findings.add_answer(
            node.query,
            outcome.text,
            part_index=node.place.part_index,
            part_count=node.place.part_count,
        )


def _begin_event(node: LiveNode, begin_attributes: Mapping[str, Any]) -> SearchBegin:
    """Return the first event of a node.

    Args:
        node: The node.
        begin_attributes: Further fields of the event.
    """
    return SearchBegin(
        shortened(node.query, MAX_RECORDED_QUERY_CHARS),
        node=node.id,
        parent=node.parent.id if node.parent else None,
        depth=node.depth,
        kind="llm" if node.is_plain else "rlm",
        batch=node.place.fan_out_number,
        index=node.place.part_index,
        of=node.place.part_count,
        spans=tuple(node.source.root_spans),
        chars=node.source.chars,
        model=node.model.name,
        **begin_attributes,
    )


def _broken_off(partial_answer: str, reason: str) -> NodeOutcome:
    """Return the outcome of a call that broke off.

    Args:
        partial_answer: What the model had written until then.
        reason: Why it broke off, as a sentence.
    """
    if not partial_answer.strip():
        return NodeOutcome(reason, "error")
    answer = f"{partial_answer}\n\n[The answer broke off here. {reason}]"
    return NodeOutcome(answer, "partial", reason=reason)


def _count_made_bytes(request: Request) -> int:
    """Return the memory of the texts that code has made for a request."""
    # A query that all parts share is one object, and counts once.
    distinct_queries = {id(query): query for query in request.queries}.values()
    made_texts = [part.text for part in request.parts if isinstance(part, SearchedText)]
    return sum(map(getsizeof, [*made_texts, *distinct_queries]))


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
