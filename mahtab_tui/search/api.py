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
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.providers import pop_access
from mahtab_tui.llm.sampling import validate_sampling
from mahtab_tui.llm.starting_model import default_model
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.chosen_models import ModelSpec
from mahtab_tui.search.events import Emit
from mahtab_tui.search.function_models import CALLER_LOOP
from mahtab_tui.search.limits import merge_limits
from mahtab_tui.search.logs import LogFile
from mahtab_tui.search.search import Search, SearchSettings, emit_to_all
from mahtab_tui.search.search_answers import CancelToken, SearchAnswer
from mahtab_tui.search.shared_object import SharedObject
from mahtab_tui.search.subscribers import make_subscribers
from mahtab_tui.worker.rlm.answers import Answer, Result, needs_code, search_for_form
from mahtab_tui.worker.rlm.contexts import ContextText, read_contexts
from mahtab_tui.worker.rlm.running_tools import CallerTools
from mahtab_tui.worker.rlm.search import SearchFailed

_IDLE_CLOSE_S = 60.0
"""The shared models and sandboxes are closed this long, or up to twice as long, after the last
`rlm` without a searcher."""
_CALLER: ContextVar[CancelToken | None] = ContextVar("caller", default=None)
"""Set while `arlm` waits for a search."""


class SearchOptions(TypedDict, total=False):
    """The options of `rlm` that a `Searcher` may set for all its searches."""

    contexts: Mapping[str, Any] | None
    returns: Any
    instructions: str
    tools: Sequence[Callable[..., Any]]
    temperature: float | None
    top_p: float | None
    seed: int | None
    base_url: str | None
    api_key: str | None
    max_depth: int | None
    max_turns: int | None
    max_calls: int | None
    max_usd: float | None
    max_seconds: float | None
    max_tokens: int | None
    turn_seconds: float | None
    small: int | None
    ask_above: int | None
    concurrency: int | None
    yes: bool
    raw: bool
    verbose: bool
    log: str | os.PathLike[str] | None
    on_event: Callable[[Record], None] | None


def rlm(
    query: str,
    context: Any = None,
    *,
    contexts: Mapping[str, Any] | None = None,
    returns: Any = None,
    instructions: str = "",
    model: ModelSpec | None = None,
    sub_model: ModelSpec | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    max_depth: int | None = None,
    max_turns: int | None = None,
    max_calls: int | None = None,
    max_usd: float | None = None,
    max_seconds: float | None = None,
    max_tokens: int | None = None,
    turn_seconds: float | None = None,
    small: int | None = None,
    ask_above: int | None = None,
    concurrency: int | None = None,
    yes: bool = False,
    raw: bool = False,
    verbose: bool = False,
    log: str | os.PathLike[str] | None = None,
    on_event: Callable[[Record], None] | None = None,
    searcher: Searcher | None = None,
    **named: Any,
) -> Answer:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox,
    and calls itself on parts. The search runs in this process, and Ctrl+C stops it. Any thread may
    call it.

    Example: print(rlm("Which requests timed out, and why?", Path("server.log"))).

    Args:
        query: the question.
        context: a str, bytes, a path object (file or folder), a list of texts or documents, a dict
            of them, or a DataFrame.
        contexts: several of these by name, which are then variables of the model's code.
        returns: the form of the answer's .value, such as int, list[str], a dataclass or a pydantic
            model; an answer of another form is sent back to the model at most twice.
        instructions: what else the search's first model must know or observe, such as what words in
            the text mean; parts are read without it.
        model: a name for `get_llm`, a LangChain chat model, or a function that gets the messages as
            dicts with `role` and `content` and returns or yields the answer, or returns answer and
            usage, asynchronous or not; or a client of OpenAI or Anthropic, asynchronous or not, with
            a model's name: (client, "gpt-4o-mini"). By default `claude` if the CLI is installed,
            else one of a server on this machine, or `demo`.
        sub_model: the model for the parts; by default the same.
        tools: your functions that the model's code may call, in this process and with your
            permissions, without asking again; each call has a thread of its own. Arguments and
            results are plain data. The model is told their signatures and docstrings.
        temperature: how the models choose their words, as far as they take the option.
        top_p: likewise.
        seed: likewise.
        base_url: where the service of a model that is named is; by default as the environment says.
        api_key: its key. No other key is sent to base_url than this one or, by `openai:`,
            OPENAI_COMPATIBLE_API_KEY.
        max_depth (1): calls at this depth are plain and run no code.
        max_turns (20): how often one call may run code.
        max_calls (200): model calls of the whole search. The last call may exceed what was left of
            this limit and the next two; the best answer so far is returned when one is reached, and
            also if the model fails after something was found.
        max_usd: US dollars of the whole search.
        max_seconds: seconds of the whole search.
        max_tokens: tokens read and written by all calls together.
        turn_seconds (30): how long the code of one turn may run, without its sub-calls, and its
            calls of tools together.
        small (20,000): texts of up to this many characters are read whole, unless there are tools,
            the text is in a container, or the query counts, compares, or has all its words in one
            line.
        ask_above (50): unless `yes` is set, more sub-calls than this are refused, and the model makes
            do with what it has.
        concurrency: model calls at a time.
        yes: allow any number of sub-calls.
        raw: return the answer as the model wrote it, with escape sequences that could drive a
            terminal.
        verbose: print a line for each turn and each answer to stderr during the search.
        log: a file to write the events to, as JSON lines.
        on_event: called with every event of the search on another thread; a notice among them says
            if the answer is partial.
        searcher: keeps the model and the sandboxes' server for the next search.
        named: several contexts by names of their own: rlm(query, contract=a, mails=b). Keywords
            that look like secrets, or like options of other programs, are rejected.

    Returns:
        The answer, a str; it has .value, .state ("answered", "partial"), .why, .usage, .spans, .tree
        (the calls, as data), .trajectory (the same as dicts) and .log (the events).

    Raises:
        SearchFailed: There is no answer.
        ModelError: A model is not available or does not take an option.
        ContextError: A context or its name is not supported.
        SandboxError: The system has no sandbox.
        OSError: The log cannot be created. A file that is not a log is not overwritten; a log that
            cannot be completed causes a warning.
        ValueError: A limit or a tool is invalid, or the query is empty.
    """
    # Check all arguments before anything starts.
    if not isinstance(instructions, str):
        raise ValueError(f"instructions must be a str, not {instructions!r}.")
    limits = merge_limits(
        max_depth=max_depth,
        max_turns=max_turns,
        max_calls=max_calls,
        max_usd=max_usd,
        max_seconds=max_seconds,
        max_tokens=max_tokens,
        turn_seconds=turn_seconds,
        small=small,
        ask_above=ask_above,
        concurrency=concurrency,
    )
    sampling = validate_sampling(temperature=temperature, top_p=top_p, seed=seed)
    access = pop_access({"base_url": base_url, "api_key": api_key})
    reserved_names = inspect.signature(rlm).parameters if named else ()
    contents = read_contexts(context, contexts, named, reserved_names)
    runner = CallerTools(tools) if tools else None

    log_file: LogFile | None = None
    with contextlib.ExitStack() as stack:
        if log is not None:
            log_file = stack.enter_context(contextlib.closing(LogFile(Path(log))))
        emit = partial(emit_to_all, make_subscribers(on_event, log_file, verbose))
        used_searcher = searcher or stack.enter_context(_SHARED.borrow())
        search = stack.enter_context(used_searcher.subscribe(emit))
        for notice in contents.notices:
            _warn(emit, notice)
        tree = uuid.uuid4().hex[:8]
        cancel_token = _CALLER.get()
        settings = SearchSettings(
            tree=tree,
            fan_out_policy="run" if yes else "refuse",
            by_code=needs_code(str(query), returns, tools),
            tools=runner,
            sampling=sampling,
            access=access,
            emit=emit,
        )
        has_run = False

        def search_once(query: str) -> Result:
            """Search, the second time over the same text and within the limits of the first."""
            nonlocal has_run
            if has_run:
                search_answer = search.run_again(tree, query, cancel_token=cancel_token)
            else:
                has_run = True
                search_answer = search.run(
                    query,
                    SearchedText.of(contents, instructions),
                    model=model or used_searcher.model or default_model(),
                    sub_model=sub_model or used_searcher.sub_model,
                    limits=limits,
                    settings=settings,
                    cancel_token=cancel_token,
                )
            return _as_result(search_answer, contents, emit, raw=raw)

        failures = (SearchFailed, ValueError)
        try:
            answer = search_for_form(
                query, returns, search_once, failures, raw=raw, contexts=contents.contexts
            )
        finally:
            if searcher is None:  # nobody can run it again
                search.forget(tree)

    if log_file is not None and log_file.problem:
        warnings.warn(log_file.problem, stacklevel=2)
    return answer


def _as_result(
    search_answer: SearchAnswer, contents: ContextText, emit: Emit, *, raw: bool
) -> Result:
    """Return what the search answered, with a notice if it is partial. Raises `SearchFailed`."""
    if search_answer.state in ("error", "stopped"):
        raise SearchFailed(plain(search_answer.text), search_answer.packed, contents.contexts)
    if search_answer.state == "partial":
        effort = f"{search_answer.duration:,.0f} s and {search_answer.usage.calls:,} calls"
        _warn(emit, f"The search did not finish; this is the best answer from {effort}.")
    return search_answer.as_result(raw=raw)


async def arlm(
    query: str,
    context: Any = None,
    *,
    model: ModelSpec | None = None,
    sub_model: ModelSpec | None = None,
    searcher: Searcher | None = None,
    **options: Unpack[SearchOptions],
) -> Answer:
    """Search as `rlm` does, to be awaited. Cancelling it stops the search.

    Example: first, second = await asyncio.gather(arlm("Who?", a), arlm("Who?", b, returns=list[str])).

    Args:
        query: see `rlm`, as the others.
        context: see `rlm`.
        model: see `rlm`.
        sub_model: see `rlm`.
        searcher: see `rlm`.
        options: the other options of `rlm`, or contexts by names of their own.
    """
    caller = CancelToken()
    variables = contextvars.copy_context()
    variables.run(_CALLER.set, caller)
    variables.run(CALLER_LOOP.set, asyncio.get_running_loop())

    def search() -> Answer:
        return rlm(query, context, model=model, sub_model=sub_model, searcher=searcher, **options)

    running = asyncio.ensure_future(
        asyncio.get_running_loop().run_in_executor(None, variables.run, search)
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        caller.stop()
        with contextlib.suppress(SearchFailed):
            await running
        raise


class Searcher:
    """Searches that share models and the server of their sandboxes, so that each after the first
    begins at once. Any thread of the process that made it may use it; a fork of the process makes
    its own.

    Example: with Searcher(model="claude", max_usd=1) as searcher:
        answers = [searcher.rlm("Who signed?", text) for text in contracts]
    """

    def __init__(
        self,
        *,
        model: ModelSpec | None = None,
        sub_model: ModelSpec | None = None,
        **options: Unpack[SearchOptions],
    ) -> None:
        """Start the thread of its searches.

        Args:
            model: see `rlm`.
            sub_model: see `rlm`.
            options: the options of `rlm` for all searches that do not set their own.

        Raises:
            TypeError: There is no such option.
        """
        self.model = model
        self.sub_model = sub_model
        unknown_options = options.keys() - SearchOptions.__annotations__.keys()
        if unknown_options:
            raise TypeError(f"Searcher has no option {min(unknown_options)!r}.")
        self._options = options
        self._subscribers: list[Emit] = []
        # The search's thread does not refer to this object, so that it can be collected.
        self._search = Search(partial(emit_to_all, self._subscribers))

    def rlm(
        self,
        query: str,
        context: Any = None,
        *,
        model: ModelSpec | None = None,
        sub_model: ModelSpec | None = None,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """Search as the function `rlm` does, with this searcher's options unless others are given."""
        all_options: SearchOptions = {**self._options, **options}
        return rlm(query, context, model=model, sub_model=sub_model, searcher=self, **all_options)

    async def arlm(
        self,
        query: str,
        context: Any = None,
        *,
        model: ModelSpec | None = None,
        sub_model: ModelSpec | None = None,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """Search as the function `arlm` does, with this searcher's options unless others are given."""
        all_options: SearchOptions = {**self._options, **options}
        return await arlm(
            query, context, model=model, sub_model=sub_model, searcher=self, **all_options
        )

    def close(self) -> None:
        """Stop its searches, and end the models' processes and the sandboxes' server.

        A later search raises `SearchFailed`.
        """
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
    def subscribe(self, emit: Emit) -> Iterator[Search]:
        """Pass this searcher's notices on while one of its searches runs."""
        self._subscribers.append(emit)
        try:
            yield self._search
        finally:
            self._subscribers.remove(emit)


_SHARED = SharedObject(Searcher, _IDLE_CLOSE_S)
"""The searcher of all calls of `rlm` without one."""


def _warn(emit: Emit, text: str) -> None:
    emit(Notice(text, level="warning", time=time.time()))
