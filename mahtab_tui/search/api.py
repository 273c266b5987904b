"""The public functions `rlm` and `arlm`, and `Searcher`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mahtab_tui.bus.codec import as_json
from mahtab_tui.bus.records import Notice, Record, SearchChatStream, SearchRecord
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.providers import default_model, parse_sampling, pop_access
from mahtab_tui.sandbox.base import Text
from mahtab_tui.search.conversation import CALLER_LOOP, GivenModel
from mahtab_tui.search.limits import Limits, merge_limits
from mahtab_tui.search.log import Emit, Log
from mahtab_tui.search.search import CancelToken, Search
from mahtab_tui.worker.answers import Answer, Result, needs_code, search_for_form
from mahtab_tui.worker.contexts import read_contexts
from mahtab_tui.worker.search import CallerTools, SearchFailed
from mahtab_tui.worker.search import rlm as rlm_of_kernels
from mahtab_tui.worker.search_log import TurnLines

F = TypeVar("F", bound=Callable[..., Any])

_CALLER: ContextVar[CancelToken | None] = ContextVar("caller", default=None)
"""Who waits for the search that `arlm` starts."""


def _extends(shared: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the parameters of another one in place of its `**options`, and the other's
    docstring before its own."""

    def extend(function: F) -> F:
        own, inherited = inspect.signature(function), inspect.signature(shared)
        named = {name: each for name, each in own.parameters.items() if name != "options"}
        parameters = {**inherited.parameters, **named}.values()
        extended: Any = function
        extended.__signature__ = own.replace(
            parameters=sorted(parameters, key=lambda each: each.kind)
        )
        extended.__doc__ = f"{inspect.getdoc(shared)}\n\n{inspect.getdoc(function)}"
        return function

    return extend


_SIGNATURE = inspect.signature(rlm_of_kernels)


@_extends(rlm_of_kernels)
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
        trees: list[str] = []

        def find(query: str) -> Result:
            if trees:
                found = search.run_again(trees[0], query, caller=caller)
            else:
                found = search.run(
                    query,
                    Text.of(contents, given["instructions"]),
                    model=model or used.model or default_model(),
                    sub_model=sub_model or used.sub_model,
                    limits=limits,
                    asking="run" if given["yes"] else "refuse",
                    sampling=sampling,
                    access=access,
                    tools=runner,
                    by_code=needs_code(str(query), returns, tools),
                    emit=emit,
                    caller=caller,
                )
                trees.append(found.tree)
            if found.state in ("error", "stopped"):
                raise SearchFailed(plain(found.text), found.packed, contents.contexts)
            if found.state == "partial":
                spent = f"{found.duration:.0f} s and {found.usage.calls:,} calls"
                _warn(emit, f"The search did not finish; this is the best answer from {spent}.")
            return found.as_result(found.text if raw else plain(found.text))

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
            if searcher is None and trees:  # nobody can run it again
                search.forget(trees[0])
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
        # The collector may run on any thread, that of the search too.
        threading.Thread(target=search.close, name="rlm-close", daemon=True).start()
        warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    @contextlib.contextmanager
    def subscribed(self, emit: Emit) -> Iterator[Search]:
        """Enclose a search that gets the notices of models, which concern all."""
        self._subscribers.append(emit)
        try:
            yield self._search
        finally:
            self._subscribers.remove(emit)


_KEEP_SECONDS = 60.0
"""Seconds that the models and the sandboxes' server stay at least after the last `rlm` without a
searcher, and at most twice as long."""


class _SharedSearcher:
    """The searcher of all calls of `rlm` that bring none, so that each after the first begins at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None
        self._process = 0
        self._users = 0
        self._uses = 0

    @contextlib.contextmanager
    def lent(self) -> Iterator[Searcher]:
        """Lend it for a search; it is closed a while after the last one."""
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
        """Close it, unless it is used now."""
        with self._lock:
            if self._users or self._searcher is None:
                return
            searcher, self._searcher = self._searcher, None
        searcher.close()


_SHARED = _SharedSearcher()


def _warn(emit: Emit, text: str) -> None:
    emit(Notice(text, level="warning", time=time.time()))


def _print_turn(lines: TurnLines, record: Record) -> None:
    """Print the line for an event to stderr, if it has one."""
    if isinstance(record, SearchRecord) and not isinstance(record, SearchChatStream):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # there is no stderr
            sys.stderr.write(lines.describe(as_json(record)))


def _emit_to_all(subscribers: list[Emit], record: Record) -> None:
    for emit in list(subscribers):
        emit(record)


def _safe_callback(on_event: Emit) -> Emit:
    """Return a function that calls the caller's, whose errors must not end the search."""
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
