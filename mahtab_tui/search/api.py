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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from mahtab_tui.bus.codec import as_json
from mahtab_tui.bus.records import Notice, Record, SearchChatStream, SearchRecord
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.providers import default_model, parse_sampling, pop_access
from mahtab_tui.sandbox.base import Text
from mahtab_tui.search.conversation import CALLER_LOOP, GivenModel
from mahtab_tui.search.limits import MAX_CALLS, merge_limits
from mahtab_tui.search.log import Emit, Log
from mahtab_tui.search.search import CancelToken, Search
from mahtab_tui.worker.answers import Answer, Result, needs_code, search_for_form
from mahtab_tui.worker.caller_tools import CallerTools
from mahtab_tui.worker.contexts import read_contexts
from mahtab_tui.worker.search import SearchFailed
from mahtab_tui.worker.search_log import TurnLines

_CALLER: ContextVar[CancelToken | None] = ContextVar("caller", default=None)
"""Who waits for the search that `arlm` starts."""


def rlm(
    query: str,
    context: Any = None,
    *,
    contexts: Mapping[str, Any] | None = None,
    returns: Any = None,
    instructions: str = "",
    model: GivenModel | None = None,
    sub_model: GivenModel | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    max_depth: int = 1,
    max_turns: int = 20,
    max_calls: int = MAX_CALLS,
    max_usd: float | None = None,
    max_seconds: float | None = None,
    max_answer: int | None = None,
    max_tokens: int | None = None,
    turn_seconds: float | None = None,
    small: int | None = None,
    ask_above: int | None = None,
    concurrency: int | None = None,
    log: str | os.PathLike[str] | None = None,
    yes: bool = False,
    raw: bool = False,
    verbose: bool = False,
    on_event: Callable[[Record], None] | None = None,
    searcher: Searcher | None = None,
    **named: Any,
) -> Answer:
    """Answer a query over a context of any size: a model explores it with code and calls itself on parts. Ctrl+C stops it.

    context: str, bytes, a path object, a list of strings or documents, a dict of them, a DataFrame. Several may be given by names of their
    own, which are then variables of the model's code: rlm(query, contract=a, mails=b), or contexts={"contract": a} for any name. What
    looks like a secret or another program's option is refused.
    returns: the form of the answer's `value`, such as int, list[str], a dataclass or a pydantic model; an answer of another form is sent
    back to the model at most twice. The answer is a str; it also has `value`, `state` ("answered", "partial"), `why`, `usage`, `spans`,
    `tree` (the calls, as data), `trajectory` (the same as dicts) and `log` (the events).
    instructions: what else the first model must know or observe, such as what words in the text mean; parts are read without it.
    model: a name for `get_llm`, a LangChain chat model, or a function that gets the messages as dicts with `role` and `content` and returns
    or yields the answer, or returns answer and usage, asynchronous or not; or a client of OpenAI or Anthropic, asynchronous or not, with a
    model's name: (client, "gpt-4o-mini"). By default `claude` if the CLI is installed, else one of a server on this machine, or `demo`.
    base_url, api_key: where the service of a model that is named is, as in "http://localhost:8000/v1", and its key; by default as the
    environment says. No other key is sent to base_url than api_key or, by `openai:`, OPENAI_COMPATIBLE_API_KEY.
    sub_model: for all calls but the root's, perhaps a cheaper one.
    tools: functions that the model's code may call, in this process and with its rights, without asking again; each call has a thread of
    its own. Arguments and results are plain data. The model is told their signatures and docstrings.
    temperature, top_p, seed: how the models choose their words, as far as they take these options.
    max_depth (1), max_turns (20): calls at this depth are plain, and how often one call may run code.
    max_calls, max_usd (US dollars), max_seconds: limits for all calls together; the last call may exceed what was left.
    max_answer (1,000,000): how many characters the answer may have.
    When a limit is reached, or the model fails after something was found, the best answer so far is returned.
    max_tokens: read and written by all calls together. turn_seconds (30): how long the code of one turn may run, without its sub-calls, and
    its calls of tools together. small (20,000): texts of at most so many characters are read whole, but for tools, containers and queries that count or compare.
    ask_above (50): sub-calls that need no consent. yes: allow more sub-calls than that; otherwise further ones are refused, and the model
    makes do with what it has.
    concurrency: how many calls run at a time. log: a file to write the events to, as JSON lines.
    raw: return the answer as the model wrote it; otherwise without escape sequences and control characters, which could drive a terminal.
    verbose: print a line for each turn and each answer to stderr.
    on_event: called with every event of the search on another thread; a notice among them says if the answer is partial.
    searcher: keeps the model and the sandboxes' server for the next search.

    Raises `SearchFailed` if there is no answer, `ModelError` if a model is not available or does not take an option, `ContextError` for an
    unsupported context or name, `SandboxError` if the system has no sandbox, `OSError` if the log cannot be created (a file that is not a
    log is not overwritten), `ValueError` for an invalid limit, an empty query and what cannot be a tool. A log that cannot be completed
    causes a warning.
    """
    if not isinstance(instructions, str):
        raise ValueError(f"instructions must be a str, not {instructions!r}.")
    limits = merge_limits(
        max_turns=max_turns,
        max_depth=max_depth,
        max_calls=max_calls,
        max_usd=max_usd,
        max_seconds=max_seconds,
        max_answer=max_answer,
        max_tokens=max_tokens,
        turn_seconds=turn_seconds,
        small=small,
        ask_above=ask_above,
        concurrency=concurrency,
    )
    sampling = parse_sampling(temperature=temperature, top_p=top_p, seed=seed)
    access = pop_access({"base_url": base_url, "api_key": api_key})
    contents = read_contexts(context, contexts, named, inspect.signature(rlm).parameters)
    runner = CallerTools(tools) if tools else None
    caller = _CALLER.get()
    log_file: Log | None = None
    with contextlib.ExitStack() as stack:
        takers: list[Callable[[Record], None]] = (
            [] if on_event is None else [_SafeCallback(on_event)]
        )
        if log is not None:
            log_file = stack.enter_context(contextlib.closing(Log(Path(log))))
            takers.append(log_file.write)
        if verbose:
            takers.append(partial(_print_turn, TurnLines()))

        def emit(record: Record) -> None:
            for take in takers:
                take(record)

        used = searcher or stack.enter_context(_SHARED.lent())
        search = stack.enter_context(used.subscribed(emit))
        for notice in contents.notices:
            emit(Notice(notice, level="warning", time=time.time()))
        trees: list[str] = []

        def find(query: str) -> Result:
            if trees:
                found = search.run_again(trees[0], query, caller=caller)
            else:
                found = search.run(
                    query,
                    Text.of(contents, instructions),
                    model=model or used.model or default_model(),
                    sub_model=sub_model or used.sub_model,
                    limits=limits,
                    asking="run" if yes else "refuse",
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
                emit(
                    Notice(
                        f"The search did not finish; this is the best answer from {spent}.",
                        level="warning",
                        time=time.time(),
                    )
                )
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

    def __del__(
        self,
        warn: Callable[..., None] = warnings.warn,
        is_exiting: Callable[[], bool] = sys.is_finalizing,
    ) -> None:
        search = getattr(self, "_search", None)
        if search is None or search.closed or is_exiting():
            return
        # The collector may run on any thread, that of the search too.
        threading.Thread(target=search.close, name="rlm-close", daemon=True).start()
        warn(f"unclosed {self!r}", ResourceWarning, source=self)

    @contextlib.contextmanager
    def subscribed(self, emit: Emit) -> Iterator[Search]:
        """Enclose a search that gets the notices of models, which concern all."""
        self._subscribers.append(emit)
        try:
            yield self._search
        finally:
            self._subscribers.remove(emit)


_KEEP_SECONDS = 60.0
"""Seconds that the models and the sandboxes' server stay after the last `rlm` without a searcher."""


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
            searcher = self._searcher
            self._users += 1
            self._uses += 1
        try:
            yield searcher
        finally:
            with self._lock:
                if searcher is self._searcher:
                    self._users -= 1
                    timer = threading.Timer(_KEEP_SECONDS, self.close, (self._uses,))
                    timer.daemon = True
                    timer.start()

    def close(self, uses: int | None = None) -> None:
        """Close it, unless it has been used more often than so many times, or is used now."""
        with self._lock:
            if self._users or uses not in (None, self._uses) or self._searcher is None:
                return
            searcher, self._searcher = self._searcher, None
        searcher.close()


_SHARED = _SharedSearcher()


def _emit_to_all(subscribers: list[Emit], record: Record) -> None:
    for emit in list(subscribers):
        emit(record)


def _print_turn(lines: TurnLines, record: Record) -> None:
    """Print the line for an event to stderr, if it has one."""
    if isinstance(record, SearchRecord) and not isinstance(record, SearchChatStream):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # there is no stderr
            sys.stderr.write(lines.describe(as_json(record)))


class _SafeCallback:
    """Calls the caller's function, whose errors must not end the search."""

    def __init__(self, take: Callable[[Record], None]) -> None:
        self._take: Callable[[Record], None] | None = take

    def __call__(self, record: Record) -> None:
        if self._take is None:
            return
        try:
            self._take(record)
        except (
            BaseException
        ) as error:  # the caller's code, even if it exits: this is the search's thread
            self._take = None
            warnings.warn(
                f"on_event failed and will not be called again: {type(error).__name__}: {error}",
                stacklevel=2,
            )
