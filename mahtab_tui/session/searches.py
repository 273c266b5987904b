"""Searches and MCP calls that cells start."""

from __future__ import annotations

import base64
import contextlib
import itertools
import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import (
    Approval,
    Decision,
    Notice,
    Record,
    SearchBegin,
    SearchFinal,
    Usage,
    emit,
)
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.kernel.base import HostServer, Kernel, KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import parse_sampling, pop_access
from mahtab_tui.llm.usage import Spending
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import RequestCancelled, SessionInfo, UserRequests, ask_approval
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.models import Models
from mahtab_tui.settings.approval_rules import Call
from mahtab_tui.settings.model import Settings
from mahtab_tui.system.imports import IMPORTS
from mahtab_tui.worker.sandbox.tools import DescribedTool

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.search.search import Asking, Search, SearchAnswer
    from mahtab_tui.servers.schema import ToolSignature
    from mahtab_tui.servers.servers import Servers
    from mahtab_tui.worker.contexts import NamedContext

_LONGEST = 2_000
_MOST = 50


class KernelTools:
    """Implements `search.tools.ToolRunner` by requests fetched by the kernel. Any thread may call
    it."""

    def __init__(self) -> None:
        self.described: list[DescribedTool] = []
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[Mapping[str, Any]], None]] = {}
        self._ended = False

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Ask the kernel to call a function."""
        with self._lock:
            if not self._ended:
                self._open[call] = done
                self._requests.put(
                    {"call": call, "name": name, "args": list(args), "kwargs": dict(kwargs)}
                )
                return
        done({"error": "The cell that has the function has ended."})

    def stop(self, call: int) -> None:
        """Ask the kernel to end a call."""
        with self._lock:
            if self._open.pop(call, None) is not None:
                self._requests.put({"stop": call})

    def next(self) -> dict[str, Any] | None:
        """Wait for the next request; None at the end."""
        request = self._requests.get()
        if request is None:
            self._requests.put(None)  # for other waiting threads, and for later callers
        return request

    def done(self, call: object, result: object) -> None:
        """Process the result of a call from the kernel, which is not trusted."""
        with self._lock:
            waiting = self._open.pop(call, None) if isinstance(call, int) else None
        if waiting is not None:
            waiting(
                result if isinstance(result, Mapping) else {"error": "The kernel did not answer."}
            )

    def end(self) -> None:
        """End all calls, because the cell or its kernel has ended."""
        with self._lock:
            self._ended = True
            waiting, self._open = self._open, {}
            self._requests.put(None)
        for done in waiting.values():
            done({"error": "The cell that has the function has ended."})


def parse_tools(given: Iterable[Any]) -> list[DescribedTool]:
    """Parse descriptions of functions from the kernel. Raises `ValueError`."""
    from mahtab_tui.worker.sandbox.names import name_problem

    tools = [
        DescribedTool(str(name), str(signature)[:_LONGEST], str(doc)[:_LONGEST])
        for name, signature, doc in given
    ]
    for tool in tools:
        if why := name_problem(tool.name):
            raise ValueError(f"tools: a tool cannot be named {tool.name!r}: {why}.")
    return tools[:_MOST]


_LARGE = 2_000_000
"""Maximum characters of a log that is sent with its answer."""
_TOOL_CALLS = 32


LONGEST_SENT = 500_000_000
"""Maximum characters of a text sent by a kernel on another machine."""
_MOST_SENT = 20
"""Maximum number of texts sent and not yet searched."""


@dataclass(eq=False, repr=False)
class Searches:
    """Implements `search.control.Control` over an engine that is loaded with the first search."""

    _log: logging.Logger
    _settings: Settings
    _models: Models
    _spending: Spending
    _secrets: Secrets
    _kernel: Kernel
    _inbox: Inbox
    _: KW_ONLY
    asking: Asking
    """What to do before a large fan-out; without a screen there is nobody to ask."""

    def __post_init__(self) -> None:
        self._engine_lock = threading.Lock()
        self._search: Search | None = None
        self._running: dict[str, str] = {}
        """Trees that cells wait for, with the root that is running."""
        self._tools: dict[str, KernelTools] = {}
        """By tree."""
        self._sent: dict[str, list[str]] = {}
        """Texts from another machine, in pieces, by tree."""

    def receive_text(self, tree: str, text: str) -> None:
        """Store a piece of a text that a kernel on another machine will search. Raises
        `RuntimeError`."""
        pieces = self._sent.setdefault(tree, [])
        pieces.append(text)
        if sum(map(len, pieces)) > LONGEST_SENT or len(self._sent) > _MOST_SENT:
            self._sent.clear()
            raise RuntimeError(
                f"A text from another machine may have at most {LONGEST_SENT:,} characters."
            )

    def _load_text(self, tree: str, file: str) -> str:
        """Return the text of a search, from the kernel's file or as sent by another machine. Raises
        `OSError` and `ValueError`."""
        if not self._kernel.info().host:
            return _read_text(Path(file))
        if tree not in self._sent:
            raise ValueError("The text of this search is unknown.")
        return "".join(self._sent.pop(tree))

    def run_from_cell(
        self, args: Mapping[str, Any], cell: int, session_model: str | BaseChatModel
    ) -> dict[str, Any]:
        """Serve `rlm(…)` in a cell: run a search, or rerun one with another query, and return a
        `worker.answers.Result` as a dict.

        If there is no answer, the dict has a sentence under `failed`. Raises `RuntimeError` with a
        sentence if the search cannot run.
        """
        from mahtab_tui.sandbox.base import SandboxError, Text
        from mahtab_tui.search.limits import merge_limits
        from mahtab_tui.worker.contexts import ContextText

        about = {"cell": cell, "source": "cell"}
        tree, options = str(args["tree"]), dict(args["options"])
        model, sub_model = options.pop("model", None), options.pop("sub_model", None)
        instructions = str(options.pop("instructions", ""))
        sampling = {name: options.pop(name, None) for name in ("temperature", "top_p", "seed")}
        try:
            access = pop_access(options)
            if access and self._kernel.info().host:  # it could reach what only this machine can
                raise ValueError(
                    "A kernel on another machine may not give base_url and api_key. Set base_url in the settings."
                )
            if not re.fullmatch(r"[0-9a-f]{8}", tree):
                raise ValueError("The id of a search has eight hexadecimal digits.")
            if not args["file"]:
                return self._result(self._engine().run_again(tree, str(args["query"]), about), args)
            limits = merge_limits(self._settings.rlm_limits(), **options)
            text = self._load_text(tree, str(args["file"]))
            answer = self._engine().run(
                str(args["query"]),
                Text.of(
                    ContextText(
                        text,
                        args["kind"],
                        _parse_parts(args["parts"]),
                        args["about"],
                        contexts=_parse_contexts(args["contexts"]),
                    ),
                    instructions,
                ),
                model=model or session_model,
                sub_model=sub_model or self._settings.sub_model,
                limits=limits,
                asking="run" if args["yes"] else self.asking,
                about=about,
                tree=tree,
                sampling=parse_sampling(**sampling),
                access=access,
                tools=self.open_tools(tree, parse_tools(args["tools"])) if args["tools"] else None,
                by_code=args.get("by_code") is True,
            )
        except (ValueError, OSError, ModelError, SandboxError) as error:
            raise RuntimeError(str(error)) from None
        return self._result(answer, args)

    def _result(self, answer: SearchAnswer, args: Mapping[str, Any]) -> dict[str, Any]:
        if answer.state in ("error", "stopped"):
            return {"failed": plain(answer.text), "packed": _log_to_send(answer)}
        if answer.state == "partial":
            why = answer.why.rstrip(".") or "The search ended early"
            emit(self._log, Notice(f"{why}; this answer is partial.", level="warning"))
        return {
            **answer.as_result(answer.text if args.get("raw") else plain(answer.text))._asdict(),
            "packed": _log_to_send(answer),
        }

    def log(self, tree: str) -> str:
        """Return the log of a search, encoded as text, if it was too large to come with the answer.
        Raises `RuntimeError`."""
        log = None if self._search is None else self._search.packed_log(tree)
        if log is None:
            raise RuntimeError("The log of this search is no longer in memory.")
        return base64.b64encode(log).decode()

    def open_tools(
        self, tree: str, described: Sequence[DescribedTool] | None = None
    ) -> KernelTools:
        """Open access to the cell's functions that a search may call. The kernel may ask for it
        before its search begins."""

        with self._engine_lock:
            for old in list(self._tools)[:-_TOOL_CALLS]:
                self._tools.pop(old).end()
            tools = self._tools.setdefault(tree, KernelTools())
        if described is not None:
            tools.described = list(described)
        return tools

    def end_tools(self) -> None:
        """End all calls of functions, because their kernel has ended."""
        for tools in list(self._tools.values()):
            tools.end()

    def stop_tree(self, tree: str) -> None:
        """Stop a search that a cell waits for."""
        if (root := self._running.get(tree)) is not None:
            self.stop(tree, root)

    def stop_all(self) -> None:
        """Stop all searches that cells wait for."""
        for tree in list(self._running):
            self.stop_tree(tree)

    def close(self) -> None:
        """Stop all searches, and wait until they have ended."""
        self.end_tools()
        with self._engine_lock:
            search, self._search = self._search, None
        if search is not None:
            search.close()

    # The methods of `Control`

    def stop(self, tree: str, node: str) -> None:
        if (search := self._search) is not None:
            search.stop(tree, node)

    def retry(self, tree: str, node: str, query: str | None = None) -> None:
        if (search := self._search) is not None:
            search.retry(tree, node, query)

    def make_variable(self, answer: str) -> None:
        def run() -> None:
            try:
                used = {variable.name for variable in self._kernel.variables()}
            except KernelError as error:
                emit(self._log, Notice(str(error), level="warning"))
                return
            names = (
                f"answer_{number}" if number > 1 else "answer" for number in itertools.count(1)
            )
            self._inbox.put(
                "python",
                f"{next(name for name in names if name not in used)} = {_literal(answer)}",
            )

        threading.Thread(target=run, name="answer", daemon=True).start()

    def text(self, tree: str, start: int, end: int) -> str | None:
        if (search := self._search) is None or search.text(tree, start, start) is None:
            return None
        return self._secrets.mask_page(
            lambda first, last: search.text(tree, first, last) or "", start, end
        )

    def answer(self, request: str, run: bool) -> None:
        if (search := self._search) is not None:
            search.answer(request, run)

    def _engine(self) -> Search:
        with IMPORTS.turn():
            from mahtab_tui.search.search import Search

        with self._engine_lock:
            if self._search is None:
                self._search = Search(
                    self._on_record,
                    model_options=self._models.options,
                    spending=self._spending,
                    secrets=self._secrets,
                )
            return self._search

    def _on_record(self, record: Record) -> None:
        """Log an event of a search; called on the search's thread."""
        if (
            isinstance(record, SearchBegin)
            and record.parent is None
            and (record.source == "cell" or record.tree in self._running)
        ):
            self._running[record.tree] = record.node
        elif isinstance(record, SearchFinal) and self._running.get(record.tree) == record.node:
            del self._running[record.tree]
        if isinstance(record, SearchBegin):
            self._spending.name(record)
        elif isinstance(record, Usage):
            self._spending.count(record)
        emit(self._log, record)
        if isinstance(record, SearchFinal) and record.late and record.state in ("done", "partial"):
            emit(
                self._log, Notice(f"Call {record.node} finished late. Press v to save its answer.")
            )


def _literal(text: str) -> str:
    """Format a text as a Python literal, with one line for each of its lines."""
    lines = text.splitlines(keepends=True)
    return (
        repr(text)
        if len(lines) < 2
        else "\n".join(["(", *(f"    {line!r}" for line in lines), ")"])
    )


def _log_to_send(answer: SearchAnswer) -> str | None:
    """Return a log as text; None if it is so large that it is only sent on request."""
    if answer.log is None:
        return ""
    return base64.b64encode(answer.packed()).decode() if answer.log.chars <= _LARGE else None


def _parse_parts(given: Iterable[Any]) -> tuple[tuple[str, int, int], ...]:
    return tuple((str(name), int(start), int(end)) for name, start, end in given)


def _parse_contexts(given: Iterable[Any]) -> tuple[NamedContext, ...]:
    from mahtab_tui.worker.contexts import NamedContext

    return tuple(
        NamedContext(str(name), str(kind), int(start), int(end), _parse_parts(parts), str(about))
        for name, kind, start, end, parts, about in given
    )


def _read_text(file: Path) -> str:
    """Read a cell's text and remove its file, because the kernel might be killed before it can."""
    text = file.read_bytes().decode("utf-8", "surrogatepass")
    with contextlib.suppress(OSError):  # it is in memory, and belongs to the kernel
        file.unlink()
    return text


_LONGEST_ASKED = 200_000
"""Maximum characters of a call that the user can be asked about."""


class _OpenCall:
    """An MCP call that a cell waits for."""

    def __init__(self, cell: int) -> None:
        """cell: the newest cell when the call began."""
        self.cell = cell
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the call's current step, and every later one."""
        with self._lock:
            self.cancelled = True
            cancel = self._cancel
        if cancel is not None:
            cancel()

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Set what `cancel` calls from now on."""
        with self._lock:
            self._cancel = cancel
            cancelled = self.cancelled
        if cancelled:
            cancel()


@dataclass(eq=False, repr=False)
class ServerCalls:
    """Serves requests to MCP servers from code in the kernel."""

    _log: logging.Logger
    _knowledge: Knowledge
    _cells: Cells
    _info: SessionInfo
    _approvals: UserRequests[Decision]
    _stop: Callable[[], object]
    """Stops the model's turn."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[str, _OpenCall] = {}
        self._cells.interrupted.append(self.cancel)

    def servers(self) -> Sequence[HostServer]:
        """Return the servers for a new namespace."""
        servers = self._knowledge.servers
        if servers is None:
            return []
        self._cells.servers = frozenset({*servers.states, "tools"})
        return [
            HostServer(state.python, visible(state.where)[:200])
            for state in servers.states.values()
        ]

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve a call from the kernel: ``mcp_tools``, ``mcp_call``, ``mcp_cancel`` or
        ``mcp_search``."""
        from mahtab_tui.servers.servers import ServerError

        if name == "mcp_cancel":
            if (open_call := self._open.get(str(args["call"]))) is not None:
                open_call.cancel()
            return None
        servers = self._knowledge.servers
        if servers is None:
            raise RuntimeError("There are no MCP servers in this session.")
        try:
            if name == "mcp_search":
                from mahtab_tui.servers.servers import format_matches

                return format_matches(
                    servers, str(args["words"]), int(args["most"]), self._knowledge.semantic_index
                )
            if name == "mcp_tools":
                return self._tools(servers, str(args["server"]))
            return self._call(servers, args)
        except ServerError as error:
            return {"failed": str(error)}
        except (CancelledError, RequestCancelled):
            return {"failed": "The call was cancelled."}

    def cancel(self, cell: int | None = None) -> None:
        """Cancel the calls of a cell, including those of its threads; without a cell all calls,
        because the kernel has ended."""
        for open_call in list(self._open.values()):
            if cell in (None, open_call.cell):
                open_call.cancel()

    def _tools(self, servers: Servers, server: str) -> dict[str, Any]:
        servers.ready(server).result()
        state = servers.states[server]
        tools = [
            {**tool._asdict(), "parameters": [each._asdict() for each in tool.parameters]}
            for tool in state.tools.values()
        ]
        return {"revision": state.revision, "tools": tools}

    def _call(self, servers: Servers, args: Mapping[str, Any]) -> dict[str, Any]:
        server, wire, arguments, key = (
            str(args["server"]),
            str(args["tool"]),
            dict(args["arguments"]),
            str(args["call"]),
        )
        open_call = self._open[key] = _OpenCall(self._cells.last)

        def waited(future: Future[Any]) -> Any:
            open_call.on_cancel(future.cancel)
            return future.result()

        try:
            tool: ToolSignature = waited(servers.prepare(server, wire, arguments))
            if not tool.read_only:
                self._ask(open_call, server, tool, arguments, args.get("cell"))
            parts = waited(servers.call(server, wire, arguments))
            return {"parts": parts, "revision": servers.states[server].revision}
        finally:
            del self._open[key]

    def _ask(
        self,
        open_call: _OpenCall,
        server: str,
        tool: ToolSignature,
        arguments: Mapping[str, Any],
        cell: int | None,
    ) -> None:
        """Ask the user, unless their own cell makes the call, or a rule decides. Raises
        `ServerError` if the call must not be made."""
        from mahtab_tui.servers.servers import ServerError

        party = self._cells.foreign_party(cell)
        if party is None:
            return
        name = f"{server}.{tool.name}"
        matching = [
            rule for rule in self._info.rules if rule.matches(Call(name, keywords=arguments))
        ]
        deciding = min(
            matching, key=lambda rule: ("deny", "ask", "allow").index(rule.action), default=None
        )
        if deciding is not None and deciding.action == "deny":
            raise ServerError(f"{name} was not called: the rule {deciding.text} forbids it.")
        if deciding.action == "allow" if deciding is not None else self._info.approval == "auto":
            return
        request = f"tool-{next(self._numbers)}"
        given = "".join(
            f"\n    {name if name.isidentifier() else repr(name)}={value!r},"
            for name, value in arguments.items()
        )
        text = visible(f"{name}({given}\n)" if given else f"{name}()")
        if len(text) > _LONGEST_ASKED:
            raise ServerError(
                f"{name} was not called: arguments of {len(text):,} characters are too long for the user to read."
            )
        why = f"{party} calls a tool of the MCP server {server} that may change something" + (
            f"; the rule {deciding.text} asks" if deciding else ""
        )
        about = Approval(text, request=request, party=party, is_code=False, why=why)
        open_call.on_cancel(lambda: self._approvals.cancel(request))
        decision = ask_approval(self._log, self._approvals, about, self._stop)
        if isinstance(decision, str):
            raise ServerError(f"The user did not allow the call of {name}{decision}")
