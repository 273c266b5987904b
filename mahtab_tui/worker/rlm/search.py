"""The functions `rlm` and `arlm` of every namespace: the host searches, and calls back what the
search needs of the cell, such as the functions that its code may call."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, cast

from ..link.host import Host
from ..stdlib import late_import, own_module
from ..tools.text_tools import mark_as_text
from .logged import Logged, Packed

if TYPE_CHECKING:
    from ..sandbox.caller_tools import DescribedTool
    from .answers import Answer, Result
    from .contexts import ContextText, NamedContext
    from .running_tools import CallerTools

_OWN_OPTIONS = {"contexts", "returns", "tools", "yes", "raw", "verbose"}
"""Options of `rlm` that are used here; the host gets the others."""
_TREE: contextvars.ContextVar[str] = contextvars.ContextVar("tree", default="")
"""The id of the search that `arlm` begins; empty outside of it."""
_SENT_PIECE_CHARS = 2**22
"""A host on another machine gets a text in pieces of this size."""
_WRITTEN_PIECE_CHARS = 2**19
"""A text is written to a file in pieces of this size."""


class SearchFailed(Logged, RuntimeError):
    """A search has no answer; the message is a sentence saying why. `tree` and `log` tell how it
    went."""

    def __init__(
        self, reason: str = "", packed: Packed = b"", contexts: tuple[NamedContext, ...] = ()
    ) -> None:
        super().__init__(reason)
        self._packed = packed
        self._contexts = contexts

    def __reduce__(self) -> Any:
        # The class claims to be in builtins, where pickle finds it in kernels alone. A function is
        # found everywhere.
        return _failed, (str(self), self._load_log(), self._contexts)


def _failed(reason: str, packed: bytes, contexts: tuple[NamedContext, ...]) -> SearchFailed:
    """Return an exception that was pickled. Pickles hold the name of this function."""
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
    all_arguments = locals()
    host_options = {
        name: all_arguments[name]
        for name in rlm.__kwdefaults__ or ()
        if name not in _OWN_OPTIONS and all_arguments[name] is not None
    }
    contents = _read_contexts(context, contexts, named)
    for notice in contents.notices:
        print(notice)

    tree = _TREE.get() or os.urandom(4).hex()
    with _serve_tools(tree, tools) as described_tools:
        request = {
            "kind": contents.kind,
            "parts": contents.parts,
            "about": contents.about,
            "contexts": contents.contexts,
            "tools": described_tools,
            "options": host_options,
            "yes": bool(yes),
            "raw": bool(raw),
            "tree": tree,
            "by_code": own_module("rlm.answers").needs_code(str(query), returns, tools),
        }
        answer = _search(str(query), returns, request, contents, verbose=bool(verbose))
    mark_as_text(answer, "markdown")
    return answer


def _read_contexts(
    context: object, contexts: Mapping[str, object] | None, named: Mapping[str, object]
) -> ContextText:
    """Return the text of the contexts of `rlm`, whose parameters these are.

    Raises:
        RuntimeError: They cannot be searched.
    """
    # A context may not be called as an option is: a misspelt option is found this way.
    reserved_names = late_import("inspect").signature(rlm).parameters
    contexts_module = own_module("rlm.contexts")
    try:
        contents: ContextText = contexts_module.read_contexts(
            context, contexts, named, reserved_names
        )
    except contexts_module.ContextError as error:
        raise RuntimeError(str(error)) from None
    return contents


def _search(
    query: str, returns: Any, request: dict[str, Any], contents: ContextText, *, verbose: bool
) -> Answer:
    """Search until the answer has the requested form.

    Args:
        query: The question.
        returns: The form, as for `rlm`.
        request: Sent to the host with each search; it lacks the query and the text.
        contents: The text to search.
        verbose: Whether to print a line for each turn and answer.

    Raises:
        SearchFailed: There is no answer.
    """
    with contextlib.ExitStack() as files:
        searches = _HostSearches(request, contents, files, verbose=verbose)
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
    """Searches of the host over one text. A second one asks for the answer in another form."""

    def __init__(
        self,
        request: dict[str, Any],
        contents: ContextText,
        files: contextlib.ExitStack,
        *,
        verbose: bool,
    ) -> None:
        """
        Args:
            request: As for `_search`.
            contents: The text to search.
            files: Removes the file in which the host gets the text.
            verbose: Whether to print a line for each turn and answer.
        """
        self._request = request
        self._contents = contents
        self._files = files
        self._verbose = verbose
        self._is_text_sent = False
        self._printed_lines = 0

    def run(self, query: str) -> Result:
        """Search once. Raises `SearchFailed`."""
        text_place = self._send_text()
        result = Host.call("rlm", {**self._request, "query": query, "file": text_place})
        packed_log = late_import("base64").b64decode(result.pop("packed"))
        if self._verbose:
            self._print_turns(packed_log)
        if "failed" in result:
            raise SearchFailed(result["failed"], packed_log, self._contents.contexts)
        answers = own_module("rlm.answers")
        return answers.Result(  # type: ignore[no-any-return]
            **{
                **result,
                "usage": answers.SearchUsage(*result["usage"]),
                "spans": tuple(map(tuple, result["spans"])),
                "packed": packed_log,
            }
        )

    def _send_text(self) -> str:
        """Hand the text to the host, which keeps it for later searches.

        Returns:
            The path of a file, or what stands for one. Empty if the host has the text.
        """
        if self._is_text_sent:
            return ""
        self._is_text_sent = True
        if Host.is_locked:
            # It may make no file, and its call is refused by name.
            return ""
        if Host.is_remote:
            return _send_pieces(self._request["tree"], self._contents.text)
        return _write_file(self._files, self._contents.text)

    def _print_turns(self, packed_log: bytes) -> None:
        """Print the lines of a log that are not printed yet. It also has those of earlier
        searches."""
        search_log = own_module("rlm.search_log")
        turn_lines = search_log.TurnLines()
        lines = [turn_lines.describe(event) for event in search_log.unpack_events(packed_log)]
        printable_lines = [line for line in lines if line]
        sys.stderr.write("".join(printable_lines[self._printed_lines :]))
        self._printed_lines = len(printable_lines)


async def arlm(query: str, context: Any = None, **options: Any) -> Answer:
    """Search as rlm does, to be awaited; with asyncio.gather several searches run at once. Cancelling it stops the search.

    Example: first, second = await asyncio.gather(arlm("Who?", a), arlm("Who?", b, returns=list[str])).
    """
    asyncio = late_import("asyncio")
    tree = os.urandom(4).hex()
    variables = contextvars.copy_context()
    variables.run(_TREE.set, tree)

    def search() -> Answer:
        return variables.run(rlm, query, context, **options)

    running = asyncio.get_running_loop().run_in_executor(None, search)
    try:
        return cast("Answer", await asyncio.shield(running))
    except asyncio.CancelledError:
        # It may still wait for a thread: the host, which stops what runs, does not know it then.
        running.cancel()
        Host.call("rlm_stop", {"tree": tree})
        raise


def _write_file(files: contextlib.ExitStack, text: str) -> str:
    """Write a text to a file for the host, and return its path.

    Args:
        files: Removes the file when it is closed.
        text: What to write.
    """
    # A file in memory needs no space on a disk, and is gone when this process ends.
    if hasattr(os, "memfd_create"):
        file = files.enter_context(os.fdopen(os.memfd_create("mahtab"), "wb"))
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        descriptor, path = late_import("tempfile").mkstemp(prefix="mahtab-", suffix=".txt")
        # The host removes the file after reading it, unless it never begins.
        files.callback(late_import("pathlib").Path(path).unlink, missing_ok=True)
        file = files.enter_context(os.fdopen(descriptor, "wb"))
    # Encoding the whole text at once would take its memory a second time.
    for start in range(0, len(text), _WRITTEN_PIECE_CHARS):
        file.write(text[start : start + _WRITTEN_PIECE_CHARS].encode("utf-8", "surrogatepass"))
    file.flush()
    return str(path)


def _send_pieces(tree: str, text: str) -> str:
    """Send a text to a host on another machine, and return what replaces a file."""
    for start in range(0, len(text), _SENT_PIECE_CHARS):
        piece = text[start : start + _SENT_PIECE_CHARS]
        Host.call("rlm_text", {"tree": tree, "text": piece, "start": start})
    return "sent"


@contextlib.contextmanager
def _serve_tools(
    tree: str, functions: Sequence[Callable[..., object]]
) -> Iterator[list[DescribedTool]]:
    """Serve a search's calls of the caller's functions within the block.

    Yields:
        What the model is told of each function.
    """
    if not functions:
        yield []
        return
    tools: CallerTools = own_module("rlm.running_tools").CallerTools(functions)
    threading.Thread(target=_serve_calls, args=(tree, tools), name="rlm-tools", daemon=True).start()
    try:
        yield tools.described
    finally:
        tools.end()
        Host.call("rlm_tools_end", {"tree": tree})


def _serve_calls(tree: str, tools: CallerTools) -> None:
    """Start the calls that the host passes on, until the search ends."""

    def answer(call: int, result: Mapping[str, object]) -> None:
        with contextlib.suppress(RuntimeError):
            Host.call("rlm_tool", {"tree": tree, "call": call, "result": dict(result)})

    with contextlib.suppress(RuntimeError):  # without a host, there are no calls
        while request := Host.call("rlm_tools", {"tree": tree}):
            if "stop" in request:
                tools.stop(request["stop"])
                continue
            call = request["call"]
            on_result = partial(answer, call)
            tools.start(call, request["name"], request["args"], request["kwargs"], on_result)
