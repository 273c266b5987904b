"""Runs searches on a thread of their own, for callers on any thread.

Each search has an `Engine`, which stays in memory for a while after its answer, so that a further query
can be asked over the same text.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Set
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.llm.ledger import Ledger
from mahtab_tui.llm.sampling import Sampling
from mahtab_tui.sandbox.base import Sandboxes
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.chosen_models import ChosenModels, GetOptions, ModelSpec
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.engine import Engine
from mahtab_tui.search.events import Emit, Events
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.logs import SearchLog
from mahtab_tui.search.nodes import NodeOutcome
from mahtab_tui.search.search_answers import CancelToken, SearchAnswer
from mahtab_tui.search.search_tools import SearchTools, ToolRunner
from mahtab_tui.system import wait_for_result
from mahtab_tui.worker.rlm.contexts import read_context

FanOutPolicy = Literal["ask", "run", "refuse"]
"""What happens before a large fan-out: the user is asked (see `Search.answer`), it runs, or it is
refused."""

MAX_TREES = 8
"""Maximum number of searches whose texts are kept in memory."""
MAX_TREE_BYTES = 300_000_000
"""Maximum bytes of their texts together; the newest tree is always kept."""
_CLOSE_TIMEOUT_S = 5.0
"""Seconds for everything to end when a `Search` is closed, and as long for its thread."""
_STOP_TIMEOUT_S = 0.5
"""Seconds that a cancelled caller waits for the last events."""


@dataclass(frozen=True)
class SearchSettings:
    """Settings of one search, besides its models and limits."""

    tree: str = ""
    """Id of the search, which no other search in memory has; empty for a new one."""
    fan_out_policy: FanOutPolicy = "ask"
    by_code: bool = False
    """Whether even a short text is searched by code."""
    tools: ToolRunner | None = None
    """Functions that the model's code may call."""
    sampling: Sampling = field(default_factory=dict)
    """`temperature`, `top_p` and `seed`, as far as they are set."""
    access: Mapping[str, str] = field(default_factory=dict)
    """`address` and `api_key` of the model's service, as far as they are set."""
    begin_attributes: Mapping[str, Any] = field(default_factory=dict)
    """Further attributes of the search's first event."""
    emit: Emit | None = None
    """Called with each event, instead of the function that all searches share."""


class Search:
    """Runs searches, for callers on any thread."""

    def __init__(
        self,
        emit: Emit,
        open_sandboxes: Callable[[], Sandboxes] = open_sandboxes,
        *,
        model_options: GetOptions = dict,
        ledger: Ledger | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """Start the search's thread.

        Args:
            emit: Called with every event on the search's thread; must return quickly.
            open_sandboxes: Called there before the first search.
            model_options: Returns the arguments for `get_llm`.
            ledger: The session's, which limits what models use; by default without a limit.
            secrets: Masked in what models get.
        """
        self._emit = emit
        self._ledger = ledger or Ledger()
        self._secrets = secrets or Secrets()
        self._open_sandboxes = open_sandboxes
        self._sandboxes: Sandboxes | None = None
        self._models = ChosenModels(model_options, self._secrets, self._notice)
        self._trees: dict[str, Engine] = {}
        self._questions: dict[str, asyncio.Future[bool]] = {}
        """Fan-outs that wait for the user's answer, by request."""
        self.closed = False
        self._process_id = os.getpid()
        """A fork of this process has a copy of this object, but not its thread."""
        self._registering = threading.Lock()
        """Held while a caller registers, so that `close` sees every caller."""
        self._awaited_answers: set[Future[SearchAnswer]] = set()
        """The answers for which callers wait."""
        self._background: set[asyncio.Task[None]] = set()
        """Trees that are being closed. A loop keeps no tasks alive by itself."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="rlm", daemon=True)
        self._thread.start()

    def run(
        self,
        query: str,
        context: Any,
        *,
        model: ModelSpec,
        sub_model: ModelSpec | None = None,
        limits: SearchLimits | None = None,
        settings: SearchSettings | None = None,
        cancel_token: CancelToken | None = None,
    ) -> SearchAnswer:
        """Answer a query over a `SearchedText` or any context.

        Args:
            query: The question.
            context: A `SearchedText`, or anything that `read_context` takes.
            model: The model of the whole search.
            sub_model: The model of its sub-calls; by default the same.
            limits: Limits of the search.
            settings: What else is set for it.
            cancel_token: Lets another thread cancel the wait.

        Raises:
            ContextError: The context is not supported.
            ModelError: A model is not available or does not take an option.
            SandboxError: There is no sandbox.
            ValueError: The query is empty, or the id is in use.
        """
        if not query.strip():
            raise ValueError("The query is empty.")
        text = self._read_text(context)
        limits = limits or SearchLimits()
        settings = settings or SearchSettings()

        async def run_search() -> SearchAnswer:
            engine = self._make_engine(model, sub_model or model, limits, settings)
            return await self._run(engine, engine.run(query, text, settings.begin_attributes))

        return self._wait(run_search(), cancel_token)

    def _make_engine(
        self, model: ModelSpec, sub_model: ModelSpec, limits: SearchLimits, settings: SearchSettings
    ) -> Engine:
        """Make the engine of a new search, in the search's thread; see `run` for what it raises."""
        tree_id = settings.tree or uuid.uuid4().hex[:8]
        if tree_id in self._trees:
            # Nobody could stop or close the other search any more.
            raise ValueError(f"There is already a search with the id {tree_id}.")
        models = self._models.get_both(model, sub_model, limits, settings.sampling, settings.access)
        if self._sandboxes is None:
            self._sandboxes = self._open_sandboxes()

        log = SearchLog()
        engine = Engine(
            events=Events(tree_id, partial(emit_to_all, [log.add, settings.emit or self._emit])),
            limits=limits,
            model=models.root,
            sub_model=models.parts,
            session_ledger=self._ledger,
            sandboxes=self._sandboxes,
            consent=partial(self._get_consent, settings.fan_out_policy),
            tools=None if settings.tools is None else SearchTools(settings.tools),
            by_code=settings.by_code,
            log=log,
        )
        self._trees[tree_id] = engine
        return engine

    def _read_text(self, context: Any) -> SearchedText:
        """Return the text of a context. Raises `ContextError`."""
        if isinstance(context, SearchedText):
            return context
        contents = read_context(context)
        for notice in contents.notices:
            self._notice("warning", notice)
        return SearchedText.of(contents)

    def run_again(
        self,
        tree: str,
        query: str,
        begin_attributes: Mapping[str, Any] | None = None,
        cancel_token: CancelToken | None = None,
    ) -> SearchAnswer:
        """Answer another query over a tree's text, with its models and within its limits.

        Args:
            tree: Id of the search.
            query: The question.
            begin_attributes: Further attributes of the root's first event.
            cancel_token: Lets another thread cancel the wait.

        Raises:
            ValueError: The tree is no longer in memory.
        """

        async def run_search() -> SearchAnswer:
            engine = self._trees.get(tree)
            if engine is None:
                raise ValueError("The search is no longer in memory.")
            return await self._run(engine, engine.run_again(query, begin_attributes or {}))

        return self._wait(run_search(), cancel_token)

    def stop(self, tree: str, node: str) -> None:
        """Stop a node and its sub-calls; nothing if it has ended."""

        def stop() -> None:
            engine = self._trees.get(tree)
            if engine is not None:
                engine.stop(node)

        self._call_later(stop)

    def text(self, tree: str, start: int, end: int) -> str | None:
        """Return a part of a search's text, in characters; None if it is no longer in memory."""
        engine = self._trees.get(tree)
        return None if engine is None else engine.text(start, end)

    def answer(self, request: str, run: bool) -> None:
        """Answer the question about a large fan-out.

        Args:
            run: Whether the user allows it.
        """

        def answer() -> None:
            question = self._questions.get(request)
            if question is not None and not question.done():
                question.set_result(run)

        self._call_later(answer)

    def forget(self, tree: str) -> None:
        """Close a tree without waiting, and the models that no other tree uses."""

        async def close(engine: Engine, unused_models: Set[Model]) -> None:
            await engine.close()
            for model in unused_models:
                with contextlib.suppress(RuntimeError):  # the interpreter is ending
                    await asyncio.to_thread(model.close)

        def forget() -> None:
            if self.closed:  # `close` closes everything itself
                return
            engine = self._trees.pop(tree, None)
            if engine is None:
                return
            used_models = {model for other in self._trees.values() for model in other.models}
            unused_models = engine.models - used_models
            self._models.forget(unused_models)
            closing = self._loop.create_task(close(engine, unused_models))
            self._background.add(closing)
            closing.add_done_callback(self._background.discard)

        self._call_later(forget)

    def close(self) -> None:
        """Stop all trees, and end the sandboxes and the processes of models.

        Callers get a `stopped` answer. In a fork, this does nothing.
        """
        if self._process_id != os.getpid():
            return
        with self._registering:
            if self.closed:
                return
            self.closed = True
        have_tasks_ended = asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        # If a task cannot be stopped, the thread goes on running the loop. Without its loop, the task
        # would be destroyed before its end, and raise errors wherever its memory is collected.
        if have_tasks_ended:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_TIMEOUT_S)
            if not self._thread.is_alive():
                self._loop.close()
        # Of tasks that have not ended, nobody waits for the answer any more.
        for answer in list(self._awaited_answers):
            answer.cancel()

    def _wait(
        self, search: Coroutine[Any, Any, SearchAnswer], cancel_token: CancelToken | None
    ) -> SearchAnswer:
        """Run a search on the search's thread, and wait for its answer.

        Args:
            search: The search, which has not begun.
            cancel_token: Lets another thread cancel the wait.

        Raises:
            RuntimeError: This process is a fork of the one that made the `Search`.
            Exception: The search's error.
        """
        if self._process_id != os.getpid():
            search.close()
            raise RuntimeError(
                "A Searcher does not work in a fork of the process that made it. Make another one after the fork."
            )
        has_ended = threading.Event()

        async def run() -> SearchAnswer:
            try:
                return await search
            finally:
                has_ended.set()

        stopped = SearchAnswer("The search was stopped.", "stopped", "", UsageStats(), 0.0)
        # A caller that registers before `close` is cancelled by it; a later one is not admitted.
        with self._registering:
            if self.closed:
                search.close()
                return stopped
            future = asyncio.run_coroutine_threadsafe(run(), self._loop)
            self._awaited_answers.add(future)
        if cancel_token is not None:
            cancel_token.attach(future)
        try:
            return wait_for_result(future)
        except CancelledError:  # by `CancelToken.stop` or `close`
            if not self.closed:
                has_ended.wait(_STOP_TIMEOUT_S)
            return stopped
        except BaseException:
            if not future.done():
                future.cancel()
                has_ended.wait(_STOP_TIMEOUT_S)
            raise
        finally:
            self._awaited_answers.discard(future)

    def _notice(self, level: str, text: str) -> None:
        self._emit(Notice(text, level=level, time=time.time()))

    async def _run(
        self, engine: Engine, root_run: Coroutine[Any, Any, NodeOutcome]
    ) -> SearchAnswer:
        """Run a root, and return its outcome as an answer.

        Args:
            engine: The tree of the root.
            root_run: A call of `Engine.run` or `Engine.run_again`.
        """
        start_time = time.monotonic()
        try:
            outcome = await root_run
        finally:
            await self._close_old_trees()
        return SearchAnswer(
            text=outcome.text,
            state=outcome.state,
            tree=engine.events.tree,
            usage=engine.calls.ledger.total,
            duration=time.monotonic() - start_time,
            spans=outcome.evidence,
            why=outcome.reason or engine.strategy_note,
            log=engine.log,
        )

    async def _close_old_trees(self) -> None:
        """Close the oldest finished trees while there are too many, or their texts are too large."""
        while len(self._trees) > 1:
            text_bytes = sum(engine.text_bytes for engine in self._trees.values())
            if len(self._trees) <= MAX_TREES and text_bytes <= MAX_TREE_BYTES:
                return
            finished = (tree for tree, engine in self._trees.items() if not engine.running())
            oldest = next(finished, None)
            if oldest is None:
                return
            await self._trees.pop(oldest).close()

    async def _get_consent(self, fan_out_policy: FanOutPolicy, request: str) -> bool:
        """Return whether a large fan-out may run; the user's answer comes by `answer`."""
        if fan_out_policy != "ask":
            return fan_out_policy == "run"
        question: asyncio.Future[bool] = self._loop.create_future()
        self._questions[request] = question
        try:
            return await question
        finally:
            del self._questions[request]

    async def _close(self) -> bool:
        """Close everything. Returns whether every task has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.gather(*self._background, return_exceptions=True)
                # A tree that ends meanwhile may remove others.
                for engine in list(self._trees.values()):
                    await engine.close()
                if self._sandboxes is not None:
                    await self._sandboxes.close()
                await asyncio.to_thread(self._models.close)
                await asyncio.sleep(0)  # some things close in the loop's next iteration

        other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in other_tasks:
            task.cancel()
        if not other_tasks:
            return True
        _, pending_tasks = await asyncio.wait(other_tasks, timeout=_STOP_TIMEOUT_S)
        return not pending_tasks

    def _call_later(self, action: Callable[[], None]) -> None:
        """Call an action on the search's thread, without waiting."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(action)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. `SystemExit` in a provider's task ends that task only."""
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue


def emit_to_all(subscribers: list[Emit], record: Record) -> None:
    """Pass a record to each subscriber. A subscriber may change the list."""
    for emit in list(subscribers):
        emit(record)
