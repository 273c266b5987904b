"""The public functions `rlm` and `arlm`, `Searcher`, and the searches behind them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import inspect
import json
import os
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from mahtab_tui.bus.codec import FORMAT, as_json
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, Record, SearchChatStream, SearchRecord
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.providers import Sampling, default_model, parse_sampling, pop_access
from mahtab_tui.llm.usage import Spending, UsageStats
from mahtab_tui.sandbox.base import Sandboxes, Text, TextSpan
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.search.conversation import (
    CALLER_LOOP,
    ChosenModels,
    GivenModel,
    Model,
    ModelOptions,
)
from mahtab_tui.search.engine import Engine
from mahtab_tui.search.limits import Limits, merge_limits
from mahtab_tui.search.requests import ToolRunner, Tools
from mahtab_tui.search.tree import Emit, Events
from mahtab_tui.search.turns import EndState, NodeOutcome
from mahtab_tui.system import wait_for_result
from mahtab_tui.worker.answers import Answer, Result, SearchUsage, needs_code, search_for_form
from mahtab_tui.worker.contexts import read_context, read_contexts
from mahtab_tui.worker.search import CallerTools, SearchFailed
from mahtab_tui.worker.search import rlm as rlm_of_kernels
from mahtab_tui.worker.search_log import TurnLines, pack_events


class SearchAnswer(NamedTuple):
    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    tree: str
    usage: UsageStats
    duration: float
    spans: Sequence[TextSpan] = ()
    why: str = ""
    """A sentence saying why it is partial, or how the text was searched."""
    log: SessionLog | None = None

    def as_result(self, *, raw: bool = False) -> Result:
        tokens = self.usage.input_tokens + self.usage.output_tokens
        used = SearchUsage(self.usage.calls, tokens, self.usage.cost, self.duration)
        partial = self.state == "partial"
        text = self.text if raw else plain(self.text)
        return Result(text, partial, self.why, used, tuple(self.spans), self.packed)

    def packed(self) -> bytes:
        return b"" if self.log is None else self.log.packed()


class CancelToken:
    """Lets another thread cancel a caller's wait for a search."""

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
        with self._lock:
            self._stopped = True
            if self._future is not None:
                self._future.cancel()


TREES = 8
TREE_BYTES = 300_000_000
"""Bytes that their texts may take; the newest tree is always kept."""
_CLOSING = 5.0
_STOPPING = 0.5
"""Seconds that a cancelled caller waits for the last events."""

Asking = Literal["ask", "run", "refuse"]
"""Before a large fan-out: ask the user (see `Search.answer`), run it, or refuse it."""


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
        """emit: called with every event on the search's thread; must return quickly."""
        self._emit = emit
        self._spending = spending or Spending()
        self._secrets = secrets or Secrets()
        self._open_sandboxes = open_sandboxes
        self._opened: Sandboxes | None = None
        self._models = ChosenModels(model_options, self._secrets, self._notice)
        self._trees: dict[str, Engine] = {}
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
        """Answer a query over a `Text` or any context. Raises `ContextError`, `ModelError`,
        `SandboxError`, and `ValueError` for an empty query."""
        if not query.strip():
            raise ValueError("The query is empty.")
        if not isinstance(context, Text):
            contents = read_context(context)
            for notice in contents.notices:
                self._notice("warning", notice)
            context = Text.of(contents)
        tree, chosen, emit = tree or uuid.uuid4().hex[:8], limits or Limits(), emit or self._emit

        log = SessionLog()

        async def grow() -> SearchAnswer:
            models = self._models.get_both(
                model, sub_model or model, chosen, sampling or {}, access or {}
            )
            if self._opened is None:
                self._opened = self._open_sandboxes()
            self._trees[tree] = engine = Engine(
                Events(tree, partial(_emit_to_all, [log.add, emit])),
                chosen,
                *models,
                spending=self._spending,
                sandboxes=self._opened,
                consent=partial(self._consent, asking),
                tools=None if tools is None else Tools(tools),
                by_code=by_code,
                log=log,
            )
            return await self._run(engine, engine.run(query, context, about or {}))

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
        def stop() -> None:
            if (engine := self._trees.get(tree)) is not None:
                engine.stop(node)

        self._call_later(stop)

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
        # A model's code that cannot be stopped keeps the thread and its loop: destroyed in the
        # middle, it would raise errors wherever its memory is collected.
        if asyncio.run_coroutine_threadsafe(self._close(), self._loop).result():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSING)
            if not self._thread.is_alive():
                self._loop.close()
        for caller in list(self._callers):
            caller.cancel()

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
                await self._trees.pop(oldest).close()
        return SearchAnswer(
            outcome.text,
            outcome.state,
            engine.events.tree,
            engine.calls.budget.usage,
            time.monotonic() - began,
            outcome.spans,
            outcome.why or engine.way,
            engine.log,
        )

    def forget(self, tree: str) -> None:
        async def close(engine: Engine, unused: Set[Model]) -> None:
            await engine.close()
            for model in unused:
                with contextlib.suppress(RuntimeError):  # the interpreter is ending
                    await asyncio.to_thread(model.close)

        def forget() -> None:
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

    async def _close(self) -> bool:
        """Returns whether every task has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.gather(*self._background, return_exceptions=True)
                for engine in self._trees.values():
                    await engine.close()
                if self._opened is not None:
                    await self._opened.close()
                await asyncio.to_thread(self._models.close)
                await asyncio.sleep(0)  # some things close in the loop's next iteration
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        return not others or not (await asyncio.wait(others, timeout=_STOPPING))[1]

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


_FORMAT = f"mahtab-rlm-{FORMAT}"
_AT_ONCE = 1_000
MOST = 20_000_000
"""Characters of events that are kept in memory."""


class SessionLog:
    """The events of one search, without streamed pieces, compressed from time to time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: list[bytes] = []
        self._events: list[Record] = []
        self.chars = 0

    def add(self, event: Record) -> None:
        if isinstance(event, SearchChatStream):
            return
        with self._lock:
            if self.chars > MOST:
                return
            self.chars += len(event.text) + 200 + 10 * len(getattr(event, "spans", ()))
            self._events.append(event)
            if self.chars > MOST:
                end = "The log ends here: the search had too many events."
                self._events.append(Notice(end, level="warning", time=event.time))
            if len(self._events) > _AT_ONCE:
                self._pack()

    def packed(self) -> bytes:
        with self._lock:
            self._pack()
            return b"".join(self._packed)

    def _pack(self) -> None:
        if self._events:
            self._packed.append(pack_events([as_json(event) for event in self._events]))
            self._events.clear()


class Log:
    """Writes one event a line, without streamed pieces, until it fails. Any thread may call it."""

    def __init__(self, path: Path) -> None:
        """Create a file that only its owner can read. Raises `OSError`, also if the file exists and
        is not a log."""
        begins = ""
        if path.is_file():
            with path.open(encoding="latin-1") as file:
                begins = file.readline(1_000)
        if begins and _FORMAT not in begins:
            raise FileExistsError(
                errno.EEXIST, "The file exists and is not the log of a search", str(path)
            )
        self.trouble = ""
        self._path = path
        self._lock = threading.Lock()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass")
        try:
            self._line({"format": _FORMAT})
        except OSError:
            self._close()
            raise

    def write(self, record: Record) -> None:
        if isinstance(record, SearchChatStream):
            return
        with self._lock:
            if not self._file.closed:
                try:
                    self._line(as_json(record))
                except OSError as error:
                    self.trouble = f"The log {self._path} is not complete: {error.strerror}."
                    self._close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # closing tries once more to write what is buffered
            self._file.close()

    def _line(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"
        self._file.write(line)
        self._file.flush()


F = TypeVar("F", bound=Callable[..., Any])

_CALLER: ContextVar[CancelToken | None] = ContextVar("caller", default=None)


_SIGNATURE = inspect.signature(rlm_of_kernels)


def _extend_rlm_of_kernels(function: F) -> F:
    """Give `rlm` the parameters of that of kernels in place of `**options`, and its docstring first."""
    own = inspect.signature(function)
    named = {name: each for name, each in own.parameters.items() if name != "options"}
    parameters = {**_SIGNATURE.parameters, **named}.values()
    extended: Any = function
    extended.__signature__ = own.replace(parameters=sorted(parameters, key=lambda each: each.kind))
    extended.__doc__ = f"{inspect.getdoc(rlm_of_kernels)}\n\n{inspect.getdoc(function)}"
    return function


@_extend_rlm_of_kernels
def rlm(
    query: str,
    context: Any = None,
    *,
    model: GivenModel | None = None,
    sub_model: GivenModel | None = None,
    log: str | os.PathLike[str] | None = None,
    on_event: Callable[[Record], None] | None = None,
    searcher: Searcher | None = None,
    **options: Any,
) -> Answer:
    """Outside of a session, the search runs in this process, and Ctrl+C stops it:

    model, sub_model: a name for `get_llm`, a LangChain chat model, or a function that gets the messages as dicts with `role` and `content`
    and returns or yields the answer, or returns answer and usage, asynchronous or not; or a client of OpenAI or Anthropic, asynchronous or
    not, with a model's name: (client, "gpt-4o-mini"). By default `claude` if the CLI is installed, else one of a server on this machine, or
    `demo`.
    base_url, api_key: by default as the environment says. No other key is sent to base_url than api_key or, by `openai:`,
    OPENAI_COMPATIBLE_API_KEY.
    max_calls, max_usd, max_seconds: the last call may exceed what was left. The best answer so far is also returned if the model fails after
    something was found.
    yes: otherwise sub-calls above ask_above are refused, and the model makes do with what it has.
    verbose: the lines are printed during the search.
    log: a file to write the events to, as JSON lines.
    on_event: called with every event of the search on another thread; a notice among them says if the answer is partial.
    searcher: keeps the model and the sandboxes' server for the next search.

    Raises `SearchFailed` if there is no answer, `ModelError` if a model is not available or does not take an option, `ContextError` for an
    unsupported context or name, `SandboxError` if the system has no sandbox, `OSError` if the log cannot be created (a file that is not a
    log is not overwritten), `ValueError` for an invalid limit, an empty query and what cannot be a tool. A log that cannot be completed
    causes a warning.
    """
    bound = _SIGNATURE.bind(query, context, **options)
    bound.apply_defaults()
    given = bound.arguments
    returns, tools, raw = given["returns"], given["tools"], given["raw"]
    if not isinstance(given["instructions"], str):
        raise ValueError(f"instructions must be a str, not {given['instructions']!r}.")
    limits = merge_limits(
        **{each.name: given[each.name] for each in fields(Limits) if each.name in given}
    )
    sampling = parse_sampling(**{name: given[name] for name in ("temperature", "top_p", "seed")})
    access = pop_access({name: given[name] for name in ("base_url", "api_key")})
    contents = read_contexts(
        context,
        given["contexts"],
        given["named"],
        inspect.signature(rlm).parameters if given["named"] else (),
    )
    runner = CallerTools(tools) if tools else None
    caller = _CALLER.get()
    log_file: Log | None = None
    with contextlib.ExitStack() as stack:
        takers: list[Emit] = [] if on_event is None else [_safe_callback(on_event)]
        if log is not None:
            log_file = stack.enter_context(contextlib.closing(Log(Path(log))))
            takers.append(log_file.write)
        if given["verbose"]:
            takers.append(partial(_print_turn, TurnLines()))
        emit = partial(_emit_to_all, takers)
        used = searcher or stack.enter_context(_SHARED.lent())
        search = stack.enter_context(used.subscribed(emit))
        for notice in contents.notices:
            _warn(emit, notice)
        tree, again = uuid.uuid4().hex[:8], False

        def find(query: str) -> Result:
            nonlocal again
            if again:
                found = search.run_again(tree, query, caller=caller)
            else:
                again = True
                found = search.run(
                    query,
                    Text.of(contents, given["instructions"]),
                    model=model or used.model or default_model(),
                    sub_model=sub_model or used.sub_model,
                    limits=limits,
                    asking="run" if given["yes"] else "refuse",
                    tree=tree,
                    sampling=sampling,
                    access=access,
                    tools=runner,
                    by_code=needs_code(str(query), returns, tools),
                    emit=emit,
                    caller=caller,
                )
            if found.state in ("error", "stopped"):
                raise SearchFailed(plain(found.text), found.packed, contents.contexts)
            if found.state == "partial":
                spent = f"{found.duration:.0f} s and {found.usage.calls:,} calls"
                _warn(emit, f"The search did not finish; this is the best answer from {spent}.")
            return found.as_result(raw=raw)

        try:
            answer = search_for_form(
                query,
                returns,
                find,
                (SearchFailed, ValueError),
                raw=raw,
                contexts=contents.contexts,
            )
        finally:
            if searcher is None:  # nobody can run it again
                search.forget(tree)
    if log_file is not None and log_file.trouble:
        warnings.warn(log_file.trouble, stacklevel=2)
    return answer


async def arlm(query: str, context: Any = None, **options: Any) -> Answer:
    """Search as `rlm` does, to be awaited. Cancelling it stops the search."""
    caller = CancelToken()
    variables = contextvars.copy_context()
    variables.run(_CALLER.set, caller)
    variables.run(CALLER_LOOP.set, asyncio.get_running_loop())
    running = asyncio.ensure_future(
        asyncio.get_running_loop().run_in_executor(
            None, lambda: variables.run(rlm, query, context, **options)
        )
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        caller.stop()
        with contextlib.suppress(SearchFailed):
            await running
        raise


class Searcher:
    """Searches that share models and the server of their sandboxes, so that each after the first begins at once. Any thread of the process
    that made it may use it; a fork of the process makes its own.

    Example: with Searcher(model="claude", max_usd=1) as searcher: answers = [searcher.rlm("Who signed?", text) for text in contracts].
    """

    def __init__(
        self,
        *,
        model: GivenModel | None = None,
        sub_model: GivenModel | None = None,
        **options: Any,
    ) -> None:
        """The options of `rlm` hold for all its searches that do not have others. Raises `TypeError` for an unknown one."""
        self.model = model
        self.sub_model = sub_model
        known = [
            name
            for name, each in inspect.signature(rlm).parameters.items()
            if each.kind is each.KEYWORD_ONLY and name != "searcher"
        ]
        if unknown := options.keys() - known:
            raise TypeError(f"Searcher has no option {min(unknown)!r}.")
        self._options = options
        self._subscribers: list[Emit] = []
        # The search's thread does not refer to this object, so that it can be collected.
        self._search = Search(partial(_emit_to_all, self._subscribers))

    def rlm(self, query: str, context: Any = None, **options: Any) -> Answer:
        """Search as the function `rlm` does, with this searcher's options."""
        return rlm(query, context, searcher=self, **{**self._options, **options})

    async def arlm(self, query: str, context: Any = None, **options: Any) -> Answer:
        """Search as the function `arlm` does, with this searcher's options."""
        return await arlm(query, context, searcher=self, **{**self._options, **options})

    def close(self) -> None:
        """Stop its searches, and end the models' processes and the sandboxes' server. A later search raises `SearchFailed`."""
        self._search.close()

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        search = getattr(self, "_search", None)
        if search is None or search.closed or is_exiting():
            return
        # The collector may run on any thread, even that of the search.
        threading.Thread(target=search.close, name="rlm-close", daemon=True).start()
        warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    @contextlib.contextmanager
    def subscribed(self, emit: Emit) -> Iterator[Search]:
        self._subscribers.append(emit)
        try:
            yield self._search
        finally:
            self._subscribers.remove(emit)


_KEEP_SECONDS = 60.0
"""Models and the sandboxes' server are closed so long, or up to twice as long, after the last `rlm`
without a searcher."""


class _SharedSearcher:
    """The searcher of all calls of `rlm` without one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None
        self._process = 0
        self._users = 0
        self._uses = 0

    @contextlib.contextmanager
    def lent(self) -> Iterator[Searcher]:
        with self._lock:
            if self._searcher is None or self._process != os.getpid():
                self._searcher, self._process, self._users = Searcher(), os.getpid(), 0
                closing = partial(self._close_unused, self._searcher)
                threading.Thread(target=closing, name="rlm-idle", daemon=True).start()
            searcher = self._searcher
            self._users += 1
            self._uses += 1
        try:
            yield searcher
        finally:
            with self._lock:
                if searcher is self._searcher:
                    self._users -= 1

    def _close_unused(self, searcher: Searcher) -> None:
        uses = -1
        while True:
            with self._lock:
                if self._searcher is not searcher:
                    return
                if not self._users and uses == self._uses:
                    self._searcher = None
                    break
                uses = self._uses
            time.sleep(_KEEP_SECONDS)
        searcher.close()

    def close(self) -> None:
        with self._lock:
            if self._users or self._searcher is None:
                return
            searcher, self._searcher = self._searcher, None
        searcher.close()


_SHARED = _SharedSearcher()


def _warn(emit: Emit, text: str) -> None:
    emit(Notice(text, level="warning", time=time.time()))


def _print_turn(lines: TurnLines, record: Record) -> None:
    if isinstance(record, SearchRecord) and not isinstance(record, SearchChatStream):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # there is no stderr
            sys.stderr.write(lines.describe(as_json(record)))


def _emit_to_all(subscribers: list[Emit], record: Record) -> None:
    for emit in list(subscribers):
        emit(record)


def _safe_callback(on_event: Emit) -> Emit:
    failed = False

    def emit(record: Record) -> None:
        nonlocal failed
        if failed:
            return
        try:
            on_event(record)
        except BaseException as error:  # even if it exits: this is the search's thread
            failed = True
            warnings.warn(
                f"on_event failed and will not be called again: {type(error).__name__}: {error}",
                stacklevel=2,
            )

    return emit
