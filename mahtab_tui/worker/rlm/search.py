"""The functions `rlm` and `arlm` of every namespace, as far as they run in the kernel.

The host does the searching. This module turns the arguments into a request (`_SearchRequest`), hands
the text to the host (`_HostSearches`), and runs the caller's functions when the model's code calls
them (`_serve_tools`). `contexts` reads the text, and `answers` brings the answer into its form.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, TypedDict, cast

from ..link.host import Host
from ..stdlib import late_import, own_module
from ..tools.text_tools import mark_as_text
from .logged import Logged, Packed

if TYPE_CHECKING:
    from ..sandbox.caller_tools import DescribedTool
    from .answers import Answer, Result
    from .contexts import ContextText, NamedContext
    from .running_tools import CallerTools

_KERNEL_OPTIONS = frozenset(("contexts", "returns", "tools", "yes", "raw", "verbose"))
"""Keywords of `rlm` that are used here. The host gets the others as its options."""

_ARLM_SEARCH_ID: contextvars.ContextVar[str] = contextvars.ContextVar("arlm_search_id", default="")
"""The id that `arlm` has chosen for the search of this thread; empty for a plain `rlm`."""

_SENT_PIECE_CHARS = 2**22
"""Characters of the text in one message to a host on another machine."""
_WRITTEN_PIECE_CHARS = 2**19
"""Characters of the text that are encoded and written to a file at once."""

_TEXT_WAS_SENT = "sent"
"""Stands for the path of the text's file if the host has got the text in messages."""


class SearchFailed(Logged, RuntimeError):
    """A search has no answer. The message is a sentence that says why; `tree` and `log` tell how it
    went."""

    def __init__(
        self, reason: str = "", packed: Packed = b"", contexts: tuple[NamedContext, ...] = ()
    ) -> None:
        super().__init__(reason)
        self._packed = packed
        self._contexts = contexts

    def __reduce__(self) -> Any:
        # In a kernel, the class claims to be one of builtins, where another process would not find
        # it. The function is found everywhere.
        return _failed, (str(self), self._load_log(), self._contexts)


def _failed(reason: str, packed: bytes, contexts: tuple[NamedContext, ...]) -> SearchFailed:
    """Recreate an exception that was pickled. Saved pickles contain the name of this function."""
    return SearchFailed(reason, packed, contexts)


def rlm(
    query: str,
    context: Any = None,
    *,
    contexts: Mapping[str, Any] | None = None,
    returns: Any = None,
    instructions: str = "",
    model: str | None = None,
    sub_model: str | None = None,
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
    **named: Any,
) -> Answer:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox, and calls itself on parts.

    The pane "recursion" shows the search; Escape stops it.

    Example: from pathlib import Path; print(rlm("Which requests timed out, and why?", Path("server.log"))).

    Args:
        query: the question.
        context: a str, bytes, a path object (file or folder), a list of texts or documents, a dict
            of them, or a DataFrame.
        contexts: several of these by name, which are then variables of the model's code.
        returns: the form of the answer's .value, such as int, list[str], a dataclass or a pydantic
            model; an answer of another form is sent back to the model at most twice.
        instructions: what else the search's first model must know or observe, such as what words in
            the text mean; parts are read without it.
        model: the name of the model for the whole; by default the session's.
        sub_model: the name of the model for the parts; by default the configured one.
        tools: your functions that the model's code may call, here and with your permissions, without
            asking again; each call has a thread of its own. Arguments and results are plain data.
            The model is told their signatures and docstrings.
        temperature: how the models choose their words, as far as they take the option.
        top_p: likewise.
        seed: likewise.
        base_url: where the service of a model that is named is; by default as the settings say.
        api_key: its key; by default as the settings say.
        max_depth (1): calls at this depth are plain and run no code.
        max_turns (20): how often one call may run code.
        max_calls (200): model calls of the whole search. When this limit or one of the next three is
            reached, the best answer so far is returned.
        max_usd: US dollars of the whole search.
        max_seconds: seconds of the whole search.
        max_tokens: tokens read and written by all calls together.
        turn_seconds (30): how long the code of one turn may run, without its sub-calls, and its
            calls of tools together.
        small (20,000): texts of up to this many characters are read whole, unless there are tools,
            the text is in a container, or the query counts, compares, or has all its words in one
            line.
        ask_above (50): how many sub-calls are made without asking.
        concurrency: model calls at a time.
        yes: allow any number of sub-calls without asking.
        raw: return the answer as the model wrote it, with escape sequences that could drive a
            terminal.
        verbose: print a line for each turn and each answer to stderr, after the search.
        named: several contexts by names of their own: rlm(query, contract=a, mails=b). Keywords that
            look like secrets, or like options of other programs, are rejected.

    Returns:
        The answer, a str; it has .value, .state ("answered", "partial"), .why, .usage, .spans, .tree
        (the calls, as data), .trajectory (the same as dicts) and .log (the events).

    Raises:
        SearchFailed: There is no answer. It is a RuntimeError that has .tree and .log.
        RuntimeError: The search cannot run.
    """
    # The first statement, because it takes all local variables for arguments.
    host_options = _select_host_options(locals())
    contents = _read_contexts(context, contexts, named)
    for notice in contents.notices:
        print(notice)

    search_id = _ARLM_SEARCH_ID.get() or _new_search_id()
    with _serve_tools(search_id, tools) as described_tools:
        request: _SearchRequest = {
            "kind": contents.kind,
            "parts": contents.parts,
            "about": contents.about,
            "contexts": contents.contexts,
            "tools": described_tools,
            "options": host_options,
            "yes": bool(yes),
            "raw": bool(raw),
            "tree": search_id,
            "by_code": own_module("rlm.answers").needs_code(str(query), returns, tools),
        }
        answer = _search(str(query), returns, request, contents, verbose=bool(verbose))
    mark_as_text(answer, "markdown")
    return answer


async def arlm(query: str, context: Any = None, **options: Any) -> Answer:
    """Search as rlm does, to be awaited; with asyncio.gather several searches run at once. Cancelling it stops the search.

    Example: first, second = await asyncio.gather(arlm("Who?", a), arlm("Who?", b, returns=list[str])).
    """
    asyncio = late_import("asyncio")
    search_id = _new_search_id()
    # The search runs on another thread, with the context variables of this task.
    variables = contextvars.copy_context()
    variables.run(_ARLM_SEARCH_ID.set, search_id)

    def search() -> Answer:
        return variables.run(rlm, query, context, **options)

    future = asyncio.get_running_loop().run_in_executor(None, search)
    try:
        return cast("Answer", await asyncio.shield(future))
    except asyncio.CancelledError:
        # The host can stop only a search that it knows, and this one may still wait for a thread.
        future.cancel()
        Host.call("rlm_stop", {"tree": search_id})
        raise


class _SearchRequest(TypedDict):
    """What the host gets with each search of one call of `rlm`, beside the query and the text."""

    kind: str
    """What the model's code gets as the text: a `str`, or a `list` or `dict` of documents."""
    parts: Sequence[tuple[str, int, int]]
    """The name of each document, and its start and end in the text, in characters."""
    about: str
    """What the first model is told about the text."""
    contexts: Sequence[NamedContext]
    """The parts of the text that have names of their own; empty if there is one context."""
    tools: list[DescribedTool]
    options: dict[str, object]
    """The keywords of `rlm` that the caller has set, such as `max_usd`."""
    yes: bool
    raw: bool
    tree: str
    """The id of the search, which all messages about it name."""
    by_code: bool
    """Whether to run code though a model could read the text at once."""


def _select_host_options(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the keywords that a caller of `rlm` has set and that the host uses."""
    return {
        name: arguments[name]
        for name in rlm.__kwdefaults__ or ()
        if name not in _KERNEL_OPTIONS and arguments[name] is not None
    }


def _read_contexts(
    context: object, contexts: Mapping[str, object] | None, named: Mapping[str, object]
) -> ContextText:
    """Convert the contexts of `rlm`, whose parameters these are, to one text.

    Raises:
        RuntimeError: They cannot be searched.
    """
    # A misspelt option becomes a named context, so names that are close to options are refused.
    option_names = late_import("inspect").signature(rlm).parameters
    contexts_module = own_module("rlm.contexts")
    try:
        contents: ContextText = contexts_module.read_contexts(
            context, contexts, named, option_names
        )
    except contexts_module.ContextError as error:
        raise RuntimeError(str(error)) from None
    return contents


def _new_search_id() -> str:
    return os.urandom(4).hex()


def _search(
    query: str, returns: Any, request: _SearchRequest, contents: ContextText, *, verbose: bool
) -> Answer:
    """Search until the answer has the requested form.

    Args:
        query: The question.
        returns: The form, as for `rlm`.
        request: Sent to the host with each search.
        contents: The text to search.
        verbose: Whether to print a line for each turn and answer.

    Raises:
        SearchFailed: There is no answer.
    """
    with contextlib.ExitStack() as text_file:
        searches = _HostSearches(request, contents, text_file, verbose=verbose)
        answer: Answer = own_module("rlm.answers").search_for_form(
            query,
            returns,
            search=searches.run,
            failures=(RuntimeError,),
            raw=request["raw"],
            contexts=contents.contexts,
        )
    return answer


class _HostSearches:
    """Searches of the host over one text.

    There is more than one if the first answer does not have the requested form: the next query asks
    for it in that form. The host keeps the text, so only the first search sends it.
    """

    def __init__(
        self,
        request: _SearchRequest,
        contents: ContextText,
        text_file: contextlib.ExitStack,
        *,
        verbose: bool,
    ) -> None:
        """Begin without a search.

        Args:
            request: Sent to the host with each search.
            contents: The text to search.
            text_file: Closes and removes the file with the text after the last search.
            verbose: Whether to print a line for each turn and answer.
        """
        self._request = request
        self._contents = contents
        self._text_file = text_file
        self._verbose = verbose
        self._is_text_sent = False
        self._printed_line_count = 0

    def run(self, query: str) -> Result:
        """Search once. Raises `SearchFailed`."""
        text_path = self._send_text()
        reply = Host.call("rlm", {**self._request, "query": query, "file": text_path})
        packed_log = late_import("base64").b64decode(reply.pop("packed"))
        if self._verbose:
            self._print_turns(packed_log)
        if "failed" in reply:
            raise SearchFailed(reply["failed"], packed_log, self._contents.contexts)
        return _read_reply(reply, packed_log)

    def _send_text(self) -> str:
        """Hand the text to the host, unless it has it.

        Returns:
            The path of a file with the text, `_TEXT_WAS_SENT`, or an empty text if nothing was sent.
        """
        if self._is_text_sent:
            return ""
        self._is_text_sent = True
        if Host.is_locked:
            # A locked fork may not make a file. It need not: the host refuses its search anyway.
            return ""
        if Host.is_remote:
            _send_in_pieces(self._request["tree"], self._contents.text)
            return _TEXT_WAS_SENT
        return _write_file(self._text_file, self._contents.text)

    def _print_turns(self, packed_log: bytes) -> None:
        """Print the lines of a log that are new. It begins with those of the earlier searches."""
        events = own_module("rlm.search_log").unpack_events(packed_log)
        turn_lines = own_module("rlm.turn_lines").TurnLines()
        lines = [turn_lines.describe(event) for event in events]
        printable_lines = [line for line in lines if line]
        sys.stderr.write("".join(printable_lines[self._printed_line_count :]))
        self._printed_line_count = len(printable_lines)


def _read_reply(reply: Mapping[str, Any], packed_log: bytes) -> Result:
    """Return the result in the host's reply, in which JSON has made all tuples lists."""
    answers = own_module("rlm.answers")
    fields = dict(reply)
    fields["usage"] = answers.SearchUsage(*reply["usage"])
    fields["spans"] = tuple(map(tuple, reply["spans"]))
    result: Result = answers.Result(**fields, packed=packed_log)
    return result


# Handing the text to the host


def _write_file(text_file: contextlib.ExitStack, text: str) -> str:
    """Write the text to a file for the host, and return its path.

    Args:
        text_file: Gets what closes and removes the file.
        text: What to write.
    """
    # A file in memory needs no space on a disk, and is gone when this process ends.
    if hasattr(os, "memfd_create"):
        file = text_file.enter_context(os.fdopen(os.memfd_create("mahtab"), "wb"))
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        descriptor, path = late_import("tempfile").mkstemp(prefix="mahtab-", suffix=".txt")
        # The host removes the file once it has read it. It reads nothing if it refuses the search.
        text_file.callback(late_import("pathlib").Path(path).unlink, missing_ok=True)
        file = text_file.enter_context(os.fdopen(descriptor, "wb"))
    # Encoding the whole text at once would take its memory a second time.
    for start in range(0, len(text), _WRITTEN_PIECE_CHARS):
        file.write(text[start : start + _WRITTEN_PIECE_CHARS].encode("utf-8", "surrogatepass"))
    file.flush()
    return str(path)


def _send_in_pieces(search_id: str, text: str) -> None:
    """Send the text to a host on another machine, which cannot read our files."""
    for start in range(0, len(text), _SENT_PIECE_CHARS):
        piece = text[start : start + _SENT_PIECE_CHARS]
        Host.call("rlm_text", {"tree": search_id, "text": piece, "start": start})


# Running the caller's functions


@contextlib.contextmanager
def _serve_tools(
    search_id: str, functions: Sequence[Callable[..., object]]
) -> Iterator[list[DescribedTool]]:
    """Let the model's code call the caller's functions while the block runs.

    Yields:
        What the model is told about each function.
    """
    if not functions:
        yield []
        return
    tools: CallerTools = own_module("rlm.running_tools").CallerTools(functions)
    threading.Thread(
        target=_run_tool_calls, args=(search_id, tools), name="rlm-tools", daemon=True
    ).start()
    try:
        yield tools.described
    finally:
        tools.end()
        Host.call("rlm_tools_end", {"tree": search_id})


def _run_tool_calls(search_id: str, tools: CallerTools) -> None:
    """Start and stop calls as the host says, until the search ends."""

    def send_result(call: int, result: Mapping[str, object]) -> None:
        with contextlib.suppress(RuntimeError):  # nobody waits for it any more
            Host.call("rlm_tool", {"tree": search_id, "call": call, "result": dict(result)})

    with contextlib.suppress(RuntimeError):  # without a host, there are no calls
        while message := Host.call("rlm_tools", {"tree": search_id}):
            if "stop" in message:
                tools.stop(message["stop"])
                continue
            call = message["call"]
            tools.start(
                call,
                message["name"],
                message["args"],
                message["kwargs"],
                on_result=partial(send_result, call),
            )
