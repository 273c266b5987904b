"""The public functions `rlm` and `arlm`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.worker.answers import Answer, Result, answered
from mahtab_tui.llm.providers import default_model
from mahtab_tui.search.limits import MAX_CALLS, limits_of
from mahtab_tui.search.log import Log
from mahtab_tui.search.search import Search, SearchAnswer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


_SEARCHES: ContextVar[list[Search] | None] = ContextVar("searches", default=None)
"""Where `arlm` finds the search that it has started."""


class SearchFailed(Exception):
    """A search has no answer; the message is a sentence saying why."""


def rlm(
    query: str,
    context: Any,
    *,
    returns: Any = None,
    model: str | BaseChatModel | None = None,
    sub_model: str | BaseChatModel | None = None,
    max_depth: int = 3,
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
    on_event: Callable[[Record], None] | None = None,
) -> Answer:
    """Answer a query over a context of any size: a model explores it with code and calls itself on parts. Ctrl+C stops it.

    context: str, bytes, a path object, a list of strings or documents, a dict of them, a DataFrame.
    returns: the form of the answer's `value`, such as int, list[str], a dataclass or a pydantic model; an answer of another form is sent
    back to the model at most twice. The answer is a str; it also has `value`, `state` ("answered", "partial"), `why`, `usage` and `spans`.
    model: a name for `get_llm`, or a LangChain chat model; by default `claude` if the CLI is installed, otherwise `demo`.
    sub_model: for all calls but the root's, perhaps a cheaper one.
    max_depth, max_turns: how deep it may call itself, and how often one call may run code.
    max_calls, max_usd (US dollars), max_seconds: limits for all calls together; the last call may exceed what was left.
    max_answer (1,000,000): how many characters the answer may have.
    When a limit is reached, or the model fails after something was found, the best answer so far is returned.
    max_tokens: read and written by all calls together. turn_seconds (30): how long the code of one turn may run, without its sub-calls.
    small (20,000): texts of at most so many characters are given to the model whole. ask_above (50): sub-calls that need no consent.
    concurrency: how many calls run at a time. log: a file to write the events to, for ``mahtab-tui rlm --replay``.
    yes: allow more sub-calls than that; otherwise further ones are refused, and the model makes do with what it has.
    raw: return the answer as the model wrote it; otherwise without escape sequences and control characters, which could drive a terminal.
    on_event: called with every event of the search on another thread; a notice among them says if the answer is partial.

    Raises `SearchFailed` if there is no answer, `ModelError` if a model is not available, `ContextError` for an unsupported context,
    `SandboxError` if the system has no sandbox, `OSError` if the log cannot be created (a file that is not a log is not overwritten),
    `ValueError` for an invalid limit and an empty query. A log that cannot be completed causes a warning.
    """
    limits = limits_of(
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
    kept: Log | None = None
    with contextlib.ExitStack() as stack:
        takers: list[Callable[[Record], None]] = [] if on_event is None else [_SafeCallback(on_event)]
        if log is not None:
            kept = stack.enter_context(contextlib.closing(Log(Path(log))))
            takers.append(kept.write)

        def emit(record: Record) -> None:
            for take in takers:
                take(record)

        search = stack.enter_context(contextlib.closing(Search(emit)))
        if (started := _SEARCHES.get()) is not None:
            started.append(search)
        trees: list[str] = []

        def find(query: str) -> Result:
            if trees:
                found = search.run_again(trees[0], query)
            else:
                found = search.run(
                    query, context, model=model or default_model(), sub_model=sub_model, limits=limits, asking="run" if yes else "refuse"
                )
                trees.append(found.tree)
            if found.state in ("error", "stopped"):
                raise SearchFailed(plain(found.text))
            if found.state == "partial":
                emit(Notice(_partial(found), level="warning", time=time.time()))
            return found.as_result(found.text if raw else plain(found.text))

        answer = answered(query, returns, find, (SearchFailed, ValueError), raw=raw)
    if kept is not None and kept.trouble:
        warnings.warn(kept.trouble, stacklevel=2)
    return answer


async def arlm(query: str, context: Any, **options: Any) -> Answer:
    """The same as `rlm`, to be awaited. Cancelling it stops the search."""
    searches: list[Search] = []
    token = _SEARCHES.set(searches)
    running = asyncio.ensure_future(asyncio.to_thread(rlm, query, context, **options))
    _SEARCHES.reset(token)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        for search in searches:
            await asyncio.to_thread(search.close)
        with contextlib.suppress(SearchFailed):
            await running
        raise


class _SafeCallback:
    """Calls the caller's function, whose errors must not end the search."""

    def __init__(self, take: Callable[[Record], None]) -> None:
        self._take: Callable[[Record], None] | None = take

    def __call__(self, record: Record) -> None:
        if self._take is None:
            return
        try:
            self._take(record)
        except BaseException as error:  # the caller's code, even if it exits: this is the search's thread
            self._take = None
            warnings.warn(f"on_event failed and will not be called again: {type(error).__name__}: {error}", stacklevel=2)


def _partial(answer: SearchAnswer) -> str:
    return f"The search did not finish; this is the best answer from {answer.duration:.0f} s and {answer.usage.calls:,} calls."
