"""The tool `rlm`, and how its search went."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Union, cast

from .control import Host
from .stdlib import late_import
from .text_tools import mark_as_text

if TYPE_CHECKING:
    from .answers import Answer
    from .caller_tools import CallerTools
    from .contexts import ContextText, NamedContext
    from .search_log import SearchCall

Packed = Union[bytes, "Callable[[], bytes]"]
"""A log as `search_log.packed` makes it, or a function that fetches it."""


class Logged:
    """Something that knows how its search went."""

    _packed: Packed = b""
    _contexts: tuple[NamedContext, ...] = ()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The events of the search, as `mahtab-tui rlm --log` writes them: tag, text, time,
        attrs."""
        events: list[dict[str, Any]] = late_import(f"{__package__}.search_log").unpack_events(
            self._load_log()
        )
        return events

    @property
    def tree(self) -> SearchCall | None:
        """The calls of the search, as data that `print` shows as a tree; None if it ended before
        the first."""
        root: SearchCall | None = late_import(f"{__package__}.search_log").build_tree(
            self.log, self._contexts
        )
        return root

    def _load_log(self) -> bytes:
        if not isinstance(self._packed, bytes):
            self._packed = self._packed()
        return self._packed

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a stored variable needs: the log itself."""
        return {**self.__dict__, "_packed": self._load_log()}


class SearchFailed(Logged, RuntimeError):
    """A search has no answer; the message is a sentence saying why. `tree` and `log` tell how it
    went."""

    def __init__(
        self, why: str = "", packed: Packed = b"", contexts: tuple[NamedContext, ...] = ()
    ) -> None:
        super().__init__(why)
        self._packed = packed
        self._contexts = contexts

    def __reduce__(self) -> Any:
        # By a function: the class is named as if it were in builtins, which it leaves with the
        # kernel.
        return _failed, (str(self), self._load_log(), self._contexts)


def _failed(why: str, packed: bytes, contexts: tuple[NamedContext, ...]) -> SearchFailed:
    return SearchFailed(why, packed, contexts)


_OPTIONS = (
    "model sub_model temperature top_p seed base_url api_key max_depth max_turns max_calls max_usd max_seconds max_answer max_tokens turn_seconds small ask_above"
    " concurrency"
).split()
"""Options that the host gets where they are given."""
_TREE: contextvars.ContextVar[str] = contextvars.ContextVar("tree", default="")
"""The id of the search that `arlm` starts."""
_SENT_PIECE = 2**22
"""Characters of a text that are sent at a time to a host on another machine."""
_PIECE = 2**19
"""Characters of a text that are encoded at a time; they fit into a processor's cache."""


def rlm(
    query: str,
    context: Any = None,
    *,
    contexts: Mapping[str, Any] | None = None,
    returns: Any = None,
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
    max_answer: int | None = None,
    max_tokens: int | None = None,
    turn_seconds: float | None = None,
    small: int | None = None,
    ask_above: int | None = None,
    concurrency: int | None = None,
    yes: bool = False,
    raw: bool = False,
    **named: Any,
) -> Answer:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox, and calls itself on parts.

    context: a str, bytes, a path object (file or folder), a list of texts or documents, a dict of them, or a DataFrame. Several may be given
    by names of their own, which are then variables of the model's code: rlm(query, contract=a, mails=b), or contexts={"contract": a} for
    any name. What looks like a secret or another program's option is refused.
    returns: the form of the answer's .value, such as int, list[str], a dataclass or a pydantic model; an answer of another form is sent back
    to the model at most twice. The answer itself is a str; it has .value, .state ("answered", "partial"), .why, .usage, .spans, .tree (the
    calls, as data) and .log (the events).
    model, sub_model: names of the models for the whole and for the parts; by default the session's and the configured one.
    base_url, api_key: where the service of a model that is named is, and its key; by default as the settings say.
    tools: your functions that the model's code may call, here and with your permissions, without asking again; each call has a thread of its
    own. Arguments and results are plain data. The model is told their signatures and docstrings.
    temperature, top_p, seed: how the models choose their words, as far as they take these options.
    max_depth (1), max_turns (20): calls at this depth are plain and run no code; how often one call may run code.
    max_calls (200), max_usd (US dollars), max_seconds: limits of the whole search; when one is reached, the best answer so far is returned.
    max_answer (1,000,000): how many characters the answer may have.
    max_tokens: read and written by all calls together. turn_seconds (30): how long the code of one turn may run, without its sub-calls, and
    its calls of tools together. small (20,000): texts of at most so many characters are given to the model whole.
    ask_above (50): sub-calls that are not asked about.
    concurrency: model calls at a time. yes: allow any number of sub-calls without asking.
    raw: return the answer as the model wrote it, with escape sequences that could drive a terminal.
    The pane "recursion" shows the search; Escape stops it. Raises SearchFailed, a RuntimeError that has .tree and .log, if there is no
    answer, and RuntimeError if it cannot run.
    Example: from pathlib import Path; print(rlm("Which requests timed out, and why?", Path("server.log"))).
    """
    given = locals()
    options = {name: given[name] for name in _OPTIONS if given[name] is not None}
    try:
        contents = late_import(f"{__package__}.contexts").read_contexts(
            context, contexts, named, late_import("inspect").signature(rlm).parameters
        )
    except late_import(f"{__package__}.contexts").ContextError as error:
        raise RuntimeError(str(error)) from None
    for notice in contents.notices:
        print(notice)
    tree = _TREE.get() or _new_tree()
    with _serve_tools(tree, tools) as described:
        about = {
            "kind": contents.kind,
            "parts": contents.parts,
            "about": contents.about,
            "contexts": contents.contexts,
            "tools": described,
        }
        asked = {**about, "options": options, "yes": bool(yes), "raw": bool(raw), "tree": tree}
        answer = _search(str(query), returns, asked, contents, bool(raw))
    mark_as_text(answer, "markdown")
    return answer


def _search(
    query: str, returns: Any, asked: dict[str, Any], contents: ContextText, raw: bool
) -> Answer:
    """Have the host search until the answer has the form that the caller wants."""
    answers = late_import(f"{__package__}.answers")
    sent: list[str] = []

    with contextlib.ExitStack() as files:

        def search(query: str) -> Any:
            """Run the search; a second time without the text, which the host still has."""
            file = (
                ""
                if sent
                else _send_text(contents.text, asked["tree"])
                if Host.is_remote
                else _write_text(contents.text, files)
            )
            sent.append(file)
            result = Host.call("rlm", {**asked, "query": query, "file": file})
            log = _receive_log(result.pop("packed"), asked["tree"])
            if "failed" in result:
                raise SearchFailed(result["failed"], log, contents.contexts)
            usage, spans = answers.SearchUsage(*result["usage"]), tuple(map(tuple, result["spans"]))
            return answers.Result(**{**result, "usage": usage, "spans": spans, "packed": log})

        answer: Answer = answers.search_for_form(
            query, returns, search, (RuntimeError,), raw=raw, contexts=contents.contexts
        )
    return answer


def _receive_log(sent: str | None, tree: str) -> Packed:
    """Return a log that the host has sent, or the way to get it."""

    if sent is not None:
        return _decode_log(sent)
    return lambda: _decode_log(Host.call("rlm_log", {"tree": tree}))


def _decode_log(log: str) -> bytes:
    data: bytes = late_import("base64").b64decode(log)
    return data


async def arlm(query: str, context: Any = None, **options: Any) -> Answer:
    """The same as rlm, to be awaited; with asyncio.gather several searches run at once. Cancelling it stops the search.

    Example: first, second = await asyncio.gather(arlm("Who?", a), arlm("Who?", b, returns=list[str])).
    """
    asyncio = late_import("asyncio")
    tree = _new_tree()
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


def _new_tree() -> str:
    return os.urandom(4).hex()


def _write_text(text: str, opened: contextlib.ExitStack) -> str:
    """Write a text to a file for the host, in memory where the system can, and return its path. opened: closes or removes it.

    A frame with a hundred megabytes would be slower.
    """
    if hasattr(os, "memfd_create"):
        file = opened.enter_context(os.fdopen(os.memfd_create("mahtab"), "wb"))
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        descriptor, path = late_import("tempfile").mkstemp(prefix="mahtab-", suffix=".txt")
        opened.callback(
            late_import("pathlib").Path(path).unlink, missing_ok=True
        )  # the host removes it once it is read
        file = opened.enter_context(os.fdopen(descriptor, "wb"))
    for start in range(0, len(text), _PIECE):
        file.write(text[start : start + _PIECE].encode("utf-8", "surrogatepass"))
    file.flush()
    return str(path)


def _send_text(text: str, tree: str) -> str:
    """Tell a host on another machine the text, and return what it takes for a file."""
    for start in range(0, len(text), _SENT_PIECE):
        Host.call("rlm_text", {"tree": tree, "text": text[start : start + _SENT_PIECE]})
    return "told"


@contextlib.contextmanager
def _serve_tools(tree: str, functions: Sequence[Callable[..., Any]]) -> Iterator[list[Any]]:
    """Serve a search's calls of functions while the block runs; yields their descriptions. At the end, running calls are ended.

    Raises `ValueError` with a sentence for what cannot be a tool.
    """
    if not functions:
        yield []
        return
    tools: CallerTools = late_import(f"{__package__}.caller_tools").CallerTools(functions)
    threading.Thread(target=_serve_calls, args=(tree, tools), name="rlm-tools", daemon=True).start()
    try:
        yield tools.described
    finally:
        tools.end()
        Host.call("rlm_tools_end", {"tree": tree})


def _serve_calls(tree: str, tools: CallerTools) -> None:
    """Run what the host asks for, one call after the other."""

    def answer(call: int, result: Mapping[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):
            Host.call("rlm_tool", {"tree": tree, "call": call, "result": dict(result)})

    with contextlib.suppress(RuntimeError):  # there is no host any more
        while request := Host.call("rlm_tools", {"tree": tree}):
            if "stop" in request:
                tools.stop(request["stop"])
            else:
                tools.start(
                    request["call"],
                    request["name"],
                    request["args"],
                    request["kwargs"],
                    partial(answer, request["call"]),
                )
