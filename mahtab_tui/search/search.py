"""Runs searches on a thread of their own, for callers on any thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.llm.providers import Sampling
from mahtab_tui.llm.usage import Spending, UsageStats
from mahtab_tui.sandbox.base import Sandboxes, Text, TextSpan
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.search.conversation import ChosenModels, GivenModel, Model, ModelOptions
from mahtab_tui.search.engine import Engine
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.live import EndState, NodeOutcome
from mahtab_tui.search.log import Emit, Events, SessionLog
from mahtab_tui.search.requests import ToolRunner, Tools
from mahtab_tui.system import wait_for_result
from mahtab_tui.worker.answers import Result, SearchUsage
from mahtab_tui.worker.contexts import read_context


class SearchAnswer(NamedTuple):
    """The answer of a search."""

    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    tree: str
    usage: UsageStats
    duration: float
    """Seconds."""
    spans: Sequence[TextSpan] = ()
    """Spans of the text on which the answer rests."""
    why: str = ""
    """A sentence saying why it is partial, or how the text was searched."""
    log: SessionLog | None = None
    """Its events; None if it did not start."""

    def as_result(self, text: str) -> Result:
        """Return it for the caller, who gets this text."""
        used = SearchUsage(
            self.usage.calls,
            self.usage.input_tokens + self.usage.output_tokens,
            self.usage.cost,
            self.duration,
        )
        return Result(
            text,
            self.state == "partial",
            self.why,
            used,
            tuple(self.spans),
            self.packed,
        )

    def packed(self) -> bytes:
        """Return its log as `worker.search_log.unpack_events` reads it."""
        return b"" if self.log is None else self.log.packed()


class CancelToken:
    """A caller who waits for a search, and whom another thread may make give up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Future[SearchAnswer] | None = None
        self._stopped = False

    def attach(self, future: Future[SearchAnswer]) -> None:
        with self._lock:
            self._future = future
            if self._stopped:
                future.cancel()

    def stop(self) -> None:
        """Stop the search for which the caller waits, and all that it would start."""
        with self._lock:
            self._stopped = True
            if self._future is not None:
                self._future.cancel()


TREES = 8
"""Trees that are kept, so that their nodes can be run again."""
TREE_BYTES = 300_000_000
"""Bytes that their texts may take; the newest tree is always kept."""
_CLOSING = 5.0
"""Seconds that sandboxes and models get to end."""
_STOPPING = 0.5
"""Seconds that a caller who gives up waits for the last events."""

Asking = Literal["ask", "run", "refuse"]
"""Action before a large fan-out: ask the user (by an event, which `Search.answer` answers), run it,
or refuse it."""


class Search:
    """Runs searches, for callers on any thread."""

    def __init__(
        self,
        emit: Emit,
        open_sandboxes: Callable[[], Sandboxes] = open_sandboxes,
        *,
        model_options: ModelOptions = dict,
        spending: Spending | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """emit: called with every event on the search's thread; must return quickly. secrets:
        masked in messages to models."""
        self._emit = emit
        self._spending = spending or Spending()
        self._secrets = secrets or Secrets()
        self._open_sandboxes = open_sandboxes
        self._opened: Sandboxes | None = None
        self._models = ChosenModels(model_options, self._secrets, self._notice)
        self._trees: dict[str, Engine] = {}
        self._logs: dict[str, SessionLog] = {}
        self._questions: dict[str, asyncio.Future[bool]] = {}
        self.closed = False
        self._process = os.getpid()
        self._entering = threading.Lock()
        """Held while a caller registers, so that `close` sees every caller."""
        self._callers: set[Future[SearchAnswer]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="rlm", daemon=True)
        self._thread.start()

    def run(
        self,
        query: str,
        context: Any,
        *,
        model: GivenModel,
        sub_model: GivenModel | None = None,
        limits: Limits | None = None,
        asking: Asking = "ask",
        about: Mapping[str, Any] | None = None,
        tree: str | None = None,
        sampling: Sampling | None = None,
        access: Mapping[str, str] | None = None,
        tools: ToolRunner | None = None,
        by_code: bool = False,
        emit: Emit | None = None,
        caller: CancelToken | None = None,
    ) -> SearchAnswer:
        """Answer a query over a `Text` or any context. caller: may make the caller give up. Raises
        `ContextError`, `ModelError`, `SandboxError`, and `ValueError` for an empty query."""
        if not query.strip():
            raise ValueError("The query is empty.")
        text = context if isinstance(context, Text) else self._get_text(context)
        tree, chosen, emit = tree or uuid.uuid4().hex[:8], limits or Limits(), emit or self._emit

        def record(event: Record) -> None:
            log.add(event)
            emit(event)

        log = SessionLog()

        async def grow() -> SearchAnswer:
            root_model, other_model = self._models.get_both(
                model, sub_model or model, chosen, sampling or {}, access or {}
            )
            if self._opened is None:
                self._opened = self._open_sandboxes()
            self._logs[tree] = log
            self._trees[tree] = engine = Engine(
                Events(tree, record),
                chosen,
                model=root_model,
                sub_model=other_model,
                gates=self._models.gates,
                spending=self._spending,
                sandboxes=self._opened,
                consent=partial(self._consent, asking),
                tools=None if tools is None else Tools(tools),
                by_code=by_code,
            )
            return await self._run(engine, engine.run(query, text, about or {}))

        return self._wait(grow(), caller)

    def run_again(
        self,
        tree: str,
        query: str,
        about: Mapping[str, Any] | None = None,
        caller: CancelToken | None = None,
    ) -> SearchAnswer:
        """Answer another query over a tree's text, with its models and within its limits. Raises
        `ValueError` if it is no longer in memory."""

        async def grow() -> SearchAnswer:
            if (engine := self._trees.get(tree)) is None:
                raise ValueError("The search is no longer in memory.")
            return await self._run(engine, engine.run_again(query, about or {}))

        return self._wait(grow(), caller)

    def packed_log(self, tree: str) -> bytes | None:
        """Return a tree's log as `SearchAnswer.packed` does; None if it is no longer in memory."""
        log = self._logs.get(tree)
        return None if log is None else log.packed()

    def _wait(
        self, growing: Coroutine[Any, Any, SearchAnswer], caller: CancelToken | None
    ) -> SearchAnswer:
        if self._process != os.getpid():
            growing.close()
            raise RuntimeError(
                "A search cannot be run by a fork of the process that made its Searcher. Make a Searcher after the fork."
            )
        ended = threading.Event()

        async def run() -> SearchAnswer:
            try:
                return await growing
            finally:
                ended.set()

        stopped = SearchAnswer("The search was stopped.", "stopped", "", UsageStats(), 0.0)
        with self._entering:
            if self.closed:
                growing.close()
                return stopped
            future = asyncio.run_coroutine_threadsafe(run(), self._loop)
            self._callers.add(future)
        if caller is not None:
            caller.attach(future)
        try:
            return wait_for_result(future)
        except CancelledError:  # by `CancelToken.stop` or `close`
            if not self.closed:
                ended.wait(_STOPPING)
            return stopped
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(_STOPPING)
            raise
        finally:
            self._callers.discard(future)

    def stop(self, tree: str, node: str) -> None:
        self._on_tree(tree, lambda engine: engine.stop(node))

    def retry(self, tree: str, node: str, query: str | None = None) -> None:
        def retry(engine: Engine) -> None:
            if not engine.retry(node, query):
                self._notice(
                    "warning",
                    f"Call {node} of the search cannot be run again: its text is no longer in memory.",
                )

        self._on_tree(tree, retry)

    def text(self, tree: str, start: int, end: int) -> str | None:
        engine = self._trees.get(tree)
        return None if engine is None else engine.text(start, end)

    def answer(self, request: str, run: bool) -> None:
        def answer() -> None:
            if (question := self._questions.get(request)) is not None and not question.done():
                question.set_result(run)

        self._call_later(answer)

    def close(self) -> None:
        """Stop all trees, end sandboxes and models' processes. Callers get a `stopped` answer. A
        fork, which has no thread, does nothing."""
        if self._process != os.getpid():
            return
        with self._entering:
            if self.closed:
                return
            self.closed = True
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING)
        for caller in list(self._callers):
            caller.cancel()
        if not self._thread.is_alive():
            self._loop.close()

    def _get_text(self, context: Any) -> Text:
        contents = read_context(context)
        for notice in contents.notices:
            self._notice("warning", notice)
        return Text.of(contents)

    def _notice(self, level: str, text: str) -> None:
        self._emit(Notice(text, level=level, time=time.time()))

    async def _run(self, engine: Engine, running: Coroutine[Any, Any, NodeOutcome]) -> SearchAnswer:
        began = time.monotonic()
        try:
            outcome = await running
        finally:
            while len(self._trees) > 1 and (
                len(self._trees) > TREES
                or sum(each.size for each in self._trees.values()) > TREE_BYTES
            ):
                ended = (tree for tree, each in self._trees.items() if not each.running())
                if (oldest := next(ended, None)) is None:
                    break
                del self._logs[oldest]
                await self._trees.pop(oldest).close()
        return SearchAnswer(
            outcome.text,
            outcome.state,
            engine.tree,
            engine.calls.budget.usage,
            time.monotonic() - began,
            outcome.spans,
            outcome.why or engine.way,
            self._logs.get(engine.tree),
        )

    def forget(self, tree: str) -> None:
        async def close(engine: Engine, unused: Set[Model]) -> None:
            await engine.close()
            for model in unused:
                with contextlib.suppress(RuntimeError):  # the interpreter is ending
                    await asyncio.to_thread(model.close)

        def forget() -> None:
            self._logs.pop(tree, None)
            if (engine := self._trees.pop(tree, None)) is not None:
                used = {model for each in self._trees.values() for model in each.models}
                self._models.forget(unused := engine.models - used)
                closing = self._loop.create_task(close(engine, unused))
                self._background.add(closing)
                closing.add_done_callback(self._background.discard)

        self._call_later(forget)

    async def _consent(self, asking: Asking, request: str) -> bool:
        if asking != "ask":
            return asking == "run"
        question: asyncio.Future[bool] = self._loop.create_future()
        self._questions[request] = question
        try:
            return await question
        finally:
            del self._questions[request]

    async def _close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.gather(*self._background, return_exceptions=True)
                for engine in self._trees.values():
                    await engine.close()
                if self._opened is not None:
                    await self._opened.close()
                await asyncio.to_thread(self._models.close)
                await asyncio.sleep(0)  # some things close in the loop's next iteration

    def _on_tree(self, tree: str, action: Callable[[Engine], None]) -> None:
        self._call_later(lambda: action(self._trees[tree]) if tree in self._trees else None)

    def _call_later(self, action: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(action)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. `SystemExit` in a provider's task ends that task only."""
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
