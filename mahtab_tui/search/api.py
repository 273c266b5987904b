"""The public function `rlm`."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.providers import default_model
from mahtab_tui.search.budget import MAX_CALLS, limits_of
from mahtab_tui.search.log import Log
from mahtab_tui.search.search import Search, SearchAnswer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class SearchFailed(Exception):
    """A search has no answer; the message is a sentence that says why."""


def rlm(
    query: str,
    context: Any,
    *,
    model: str | BaseChatModel | None = None,
    sub_model: str | BaseChatModel | None = None,
    max_depth: int = 3,
    max_turns: int = 10,
    max_calls: int = MAX_CALLS,
    max_usd: float | None = None,
    max_seconds: float | None = None,
    concurrency: int | None = None,
    log: str | os.PathLike[str] | None = None,
    yes: bool = False,
    raw: bool = False,
    on_event: Callable[[Record], None] | None = None,
) -> str:
    """Answer a query over a context of any size, by a model that explores it with code and calls itself on parts. Ctrl+C stops it.

    context: str, bytes, a path object, a list of strings or documents, a dict of them, a DataFrame.
    model: a name as `get_llm` takes it, or a LangChain chat model; by default `claude` where the CLI is there, else `demo`.
    sub_model: for all calls but the root's, perhaps a cheaper one.
    max_depth, max_turns: how deep it calls itself, and how often one call may run code.
    max_calls, max_usd (US dollars), max_seconds: limits for all calls together; one call may cost more than was left.
    At the end of a limit, or where the model fails after something was found, the best answer so far is returned.
    concurrency: how many calls run at a time. log: a file that gets the events, for ``mahtab-tui rlm --replay``.
    yes: the search may make more than 50 sub-calls; else further ones are refused, and the model makes do with what it has.
    raw: the answer as the model wrote it; else without escape sequences and control characters, which could drive a terminal.
    on_event: given every event of the search, on another thread; a notice among them says where the answer is a partial one.

    Raises `SearchFailed` where there is no answer, `ModelError` for a model that cannot be had, `ContextError` for what is not a context,
    `SandboxError` where the system has no sandbox, `OSError` where the log cannot be begun (a file that holds something else stays),
    `ValueError` for a limit that is none and a query that asks nothing. A log that cannot be written to its end is warned of.
    """
    limits = limits_of(
        max_turns=max_turns, max_depth=max_depth, max_calls=max_calls, max_usd=max_usd, max_seconds=max_seconds, concurrency=concurrency
    )
    kept: Log | None = None
    with contextlib.ExitStack() as stack:
        takers: list[Callable[[Record], None]] = [] if on_event is None else [_Guarded(on_event)]
        if log is not None:
            kept = stack.enter_context(contextlib.closing(Log(Path(log))))
            takers.append(kept.write)

        def emit(record: Record) -> None:
            for take in takers:
                take(record)

        search = stack.enter_context(contextlib.closing(Search(emit)))
        answer = search.run(query, context, model=model or default_model(), sub_model=sub_model, limits=limits, asking="run" if yes else "refuse")
        if answer.state in ("error", "stopped"):
            raise SearchFailed(plain(answer.text))
        if answer.state == "partial":
            emit(Notice(_partial(answer), level="warning", time=time.time()))
    if kept is not None and kept.trouble:
        warnings.warn(kept.trouble, stacklevel=2)
    return answer.text if raw else plain(answer.text)


class _Guarded:
    """A function of the caller's, which must not end the search."""

    def __init__(self, take: Callable[[Record], None]) -> None:
        self._take: Callable[[Record], None] | None = take

    def __call__(self, record: Record) -> None:
        if self._take is None:
            return
        try:
            self._take(record)
        except BaseException as error:  # the caller's own code, also where it wants to leave: this is the search's thread
            self._take = None
            warnings.warn(f"on_event failed, and is not called any more: {type(error).__name__}: {error}", stacklevel=2)


def _partial(answer: SearchAnswer) -> str:
    return f"The answer is the best that was found in {answer.duration:.0f} s and {answer.usage.calls:,} calls; the search had not ended."
