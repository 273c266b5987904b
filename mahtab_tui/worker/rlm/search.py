"""The tool `rlm`, and information about its searches."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Callable, cast

from ..link.control import Host
from ..stdlib import late_import, own_module
from ..tools.text_tools import mark_as_text
from .logged import Logged, Packed

if TYPE_CHECKING:
    from ..sandbox.caller_tools import DescribedTool
    from .answers import Answer
    from .contexts import ContextText, NamedContext

_OWN_OPTIONS = {"contexts", "returns", "tools", "yes", "raw", "verbose"}
"""Options of `rlm` that are used here; the host gets the others."""
_TREE: contextvars.ContextVar[str] = contextvars.ContextVar("tree", default="")
_SENT_PIECE_CHARS = 2**22
_PIECE_CHARS = 2**19

_MAX_DOC_CHARS = 2_000
_MAX_ERROR_CHARS = 1_000
_MAX_TOOLS = 50


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
        # By a function, because outside the kernel the class is not in builtins, as its name says.
        return _failed, (str(self), self._load_log(), self._contexts)


def _failed(reason: str, packed: bytes, contexts: tuple[NamedContext, ...]) -> SearchFailed:
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

    context: a str, bytes, a path object (file or folder), a list of texts or documents, a dict of them, or a DataFrame. Several may be given
    by names of their own, which are then variables of the model's code: rlm(query, contract=a, mails=b), or contexts={"contract": a} for
    any name. Keywords that look like secrets, or like options of other programs, are rejected.
    returns: the form of the answer's .value, such as int, list[str], a dataclass or a pydantic model; an answer of another form is sent back
    to the model at most twice. The answer itself is a str; it has .value, .state ("answered", "partial"), .why, .usage, .spans, .tree (the
    calls, as data), .trajectory (the same as dicts) and .log (the events).
    instructions: what else the search's first model must know or observe, such as what words in the text mean; parts are read without it.
    model, sub_model: names of the models for the whole and for the parts; by default the session's and the configured one.
    base_url, api_key: where the service of a model that is named is, and its key; by default as the settings say.
    tools: your functions that the model's code may call, here and with your permissions, without asking again; each call has a thread of its
    own. Arguments and results are plain data. The model is told their signatures and docstrings.
    temperature, top_p, seed: how the models choose their words, as far as they take these options.
    max_depth (1), max_turns (20): calls at this depth are plain and run no code; how often one call may run code.
    max_calls (200), max_usd (US dollars), max_seconds: limits of the whole search; when one is reached, the best answer so far is returned.
    max_tokens: read and written by all calls together. turn_seconds (30): how long the code of one turn may run, without its sub-calls, and
    its calls of tools together. small (20,000): texts of up to this many characters are read whole, unless there are tools, the
    text is in a container, or the query counts, compares, or has all its words in one line.
    ask_above (50): how many sub-calls are made without asking.
    concurrency: model calls at a time. yes: allow any number of sub-calls without asking.
    raw: return the answer as the model wrote it, with escape sequences that could drive a terminal.
    verbose: print a line for each turn and each answer to stderr, after the search.
    The pane "recursion" shows the search; Escape stops it. Raises SearchFailed, a RuntimeError that has .tree and .log, if there is no
    answer, and RuntimeError if it cannot run.
    Example: from pathlib import Path; print(rlm("Which requests timed out, and why?", Path("server.log"))).
    """
    all_arguments = locals()
    options = {
        name: all_arguments[name]
        for name in rlm.__kwdefaults__ or ()
        if name not in _OWN_OPTIONS and all_arguments[name] is not None
    }
    parameters = late_import("inspect").signature(rlm).parameters
    reading = own_module("rlm.contexts")
    try:
        contents = reading.read_contexts(context, contexts, named, parameters)
    except reading.ContextError as error:
        raise RuntimeError(str(error)) from None
    for notice in contents.notices:
        print(notice)
    tree = _TREE.get() or os.urandom(4).hex()
    with _serve_tools(tree, tools) as described:
        request = {
            "kind": contents.kind,
            "parts": contents.parts,
            "about": contents.about,
            "contexts": contents.contexts,
            "tools": described,
            "options": options,
            "yes": bool(yes),
            "raw": bool(raw),
            "tree": tree,
            "by_code": own_module("rlm.answers").needs_code(str(query), returns, tools),
        }
        answer = _search(str(query), returns, request, contents, bool(verbose))
    mark_as_text(answer, "markdown")
    return answer


def _search(
    query: str, returns: Any, request: dict[str, Any], contents: ContextText, verbose: bool
) -> Answer:
    answers = own_module("rlm.answers")
    search_log = own_module("rlm.search_log")
    file: str | None = None
    printed = 0
    with contextlib.ExitStack() as files:
        if Host.is_remote:
            send = partial(_send_text, request["tree"])
        else:
            send = partial(_write_text, files)

        def search(query: str) -> Any:
            nonlocal file, printed
            file = send(contents.text) if file is None else ""
            result = Host.call("rlm", {**request, "query": query, "file": file})
            log = late_import("base64").b64decode(result.pop("packed"))
            if verbose:
                describe = search_log.TurnLines().describe
                lines = list(filter(None, map(describe, search_log.unpack_events(log))))
                sys.stderr.write("".join(lines[printed:]))
                printed = len(lines)
            if "failed" in result:
                raise SearchFailed(result["failed"], log, contents.contexts)
            usage = answers.SearchUsage(*result["usage"])
            spans = tuple(map(tuple, result["spans"]))
            return answers.Result(**{**result, "usage": usage, "spans": spans, "packed": log})

        answer: Answer = answers.search_for_form(
            query, returns, search, (RuntimeError,), raw=request["raw"], contexts=contents.contexts
        )
    return answer


async def arlm(query: str, context: Any = None, **options: Any) -> Answer:
    """Search as rlm does, to be awaited; with asyncio.gather several searches run at once. Cancelling it stops the search.

    Example: first, second = await asyncio.gather(arlm("Who?", a), arlm("Who?", b, returns=list[str])).
    """
    asyncio = late_import("asyncio")
    tree = os.urandom(4).hex()
    variables = contextvars.copy_context()
    variables.run(_TREE.set, tree)
    running = asyncio.get_running_loop().run_in_executor(
        None, lambda: variables.run(rlm, query, context, **options)
    )
    try:
        return cast("Answer", await asyncio.shield(running))
    except asyncio.CancelledError:
        Host.call("rlm_stop", {"tree": tree})
        raise


def _write_text(opened: contextlib.ExitStack, text: str) -> str:
    """Write a text to a file for the host, and return its path. opened: removes it."""
    if hasattr(os, "memfd_create"):
        file = opened.enter_context(os.fdopen(os.memfd_create("mahtab"), "wb"))
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        descriptor, path = late_import("tempfile").mkstemp(prefix="mahtab-", suffix=".txt")
        # The host removes it after reading it.
        opened.callback(late_import("pathlib").Path(path).unlink, missing_ok=True)
        file = opened.enter_context(os.fdopen(descriptor, "wb"))
    for start in range(0, len(text), _PIECE_CHARS):
        file.write(text[start : start + _PIECE_CHARS].encode("utf-8", "surrogatepass"))
    file.flush()
    return str(path)


def _send_text(tree: str, text: str) -> str:
    """Send a text to a host on another machine, and return what replaces a file."""
    for start in range(0, len(text), _SENT_PIECE_CHARS):
        piece = text[start : start + _SENT_PIECE_CHARS]
        Host.call("rlm_text", {"tree": tree, "text": piece, "start": start})
    return "sent"


@contextlib.contextmanager
def _serve_tools(tree: str, functions: Sequence[Callable[..., Any]]) -> Iterator[list[Any]]:
    """Serve a search's calls of functions within the block; yields their descriptions."""
    if not functions:
        yield []
        return
    tools = CallerTools(functions)
    threading.Thread(target=_serve_calls, args=(tree, tools), name="rlm-tools", daemon=True).start()
    try:
        yield tools.described
    finally:
        tools.end()
        Host.call("rlm_tools_end", {"tree": tree})


def _serve_calls(tree: str, tools: CallerTools) -> None:

    def answer(call: int, result: Mapping[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):
            Host.call("rlm_tool", {"tree": tree, "call": call, "result": dict(result)})

    with contextlib.suppress(RuntimeError):  # there is no host any more
        while request := Host.call("rlm_tools", {"tree": tree}):
            if "stop" in request:
                tools.stop(request["stop"])
            else:
                call = request["call"]
                name = request["name"]
                done = partial(answer, call)
                tools.start(call, name, request["args"], request["kwargs"], done)


# The caller's functions


class ToolStopped(BaseException):
    """Raised in the thread of a tool that takes too long, or whose search has ended."""


Done = Callable[[Mapping[str, Any]], None]


class CallerTools:
    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self.described: list[DescribedTool] = []
        self._lock = threading.Lock()
        self._running: dict[int, threading.Thread] = {}
        self._ended = False
        for function in functions:
            self._add(function)
        if len(self._functions) > _MAX_TOOLS:
            raise ValueError(f"A search may have at most {_MAX_TOOLS} tools.")

    def start(
        self, call: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], done: Done
    ) -> None:
        """Call a tool on its own thread, with arguments that hostile code may have chosen."""
        job = (call, name, args, kwargs, done)
        label = f"tool-{name}"[:60]
        thread = threading.Thread(target=self._run, args=job, name=label, daemon=True)
        with self._lock:
            if not self._ended:
                self._running[call] = thread
                thread.start()

    def stop(self, call: int) -> None:
        with self._lock:
            thread = self._running.pop(call, None)
            if thread is not None and thread.ident is not None:
                ident = ctypes.c_ulong(thread.ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(ToolStopped))

    def end(self) -> None:
        with self._lock:
            self._ended = True
        for call in list(self._running):
            self.stop(call)

    def _add(self, function: Any) -> None:
        name = getattr(function, "__name__", "")
        if not callable(function) or not isinstance(name, str):
            raise ValueError(f"tools: {function!r} is not a function.")
        if problem := own_module("sandbox.names").name_problem(name):
            raise ValueError(f"tools: a tool cannot be named {name!r}: {problem}.")
        if name in self._functions:
            raise ValueError(f"tools: there are two tools named {name!r}.")
        inspect = late_import("inspect")
        try:
            signature = str(inspect.signature(function)).replace("'", "")
        except (TypeError, ValueError):
            signature = "(...)"
        self._functions[name] = function
        texts = (
            text[:_MAX_DOC_CHARS] for text in (name, signature, inspect.getdoc(function) or "")
        )
        self.described.append(own_module("sandbox.caller_tools").DescribedTool(*texts))

    def _run(
        self, call: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], done: Done
    ) -> None:
        try:
            try:
                result = {"value": self._result(name, args, kwargs)}
            except BaseException as error:  # of the caller's function, perhaps an exit
                try:
                    text = str(error)
                except Exception:  # raised by the tool's own code
                    text = ""
                reason = f"{type(error).__name__}: {text}"[:_MAX_ERROR_CHARS]
                result = {"error": f"{name} failed: {reason}"}
            with self._lock:  # from here on, nothing is raised in this thread
                is_wanted = self._running.pop(call, None) is not None
            if is_wanted:
                done(result)
        except ToolStopped:
            pass

    def _result(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if name not in self._functions:
            raise LookupError("There is no such tool.")
        plain_data = own_module("sandbox.caller_tools").plain_data
        plain_args = plain_data(list(args), "An argument")
        named = plain_data(dict(kwargs), "An argument")
        value = self._functions[name](*plain_args, **named)
        if isinstance(value, CoroutineType):
            value = late_import("asyncio").run(value)
        return plain_data(value, f"What {name} returned")
