"""Searches and MCP calls that cells start."""

from __future__ import annotations

import base64
import contextlib
import itertools
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Approval, Record, SearchBegin, SearchFinal, Usage, emit, warn
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.kernel.base import HostServer, KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import parse_sampling, pop_access
from mahtab_tui.session.info import Cancellation, ask_approval
from mahtab_tui.settings.approval_rules import Call, texts_to_resolve
from mahtab_tui.system import IMPORTS, start_thread
from mahtab_tui.worker.contexts import ContextText, NamedContext
from mahtab_tui.worker.sandbox.names import DescribedTool, name_problem

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.search.api import Search, SearchAnswer
    from mahtab_tui.servers.schema import ToolSignature
    from mahtab_tui.servers.servers import Servers
    from mahtab_tui.session.components import Components

_LONGEST = 2_000
_MOST = 50
_CELL_ENDED = {"error": "The cell that has the function has ended."}


class KernelTools:
    """Implements `search.tools.ToolRunner` by requests that the kernel fetches. Any thread may call
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
        with self._lock:
            ended = self._ended
            if not ended:
                self._open[call] = done
                request = {"call": call, "name": name, "args": list(args), "kwargs": dict(kwargs)}
                self._requests.put(request)
        if ended:
            done(_CELL_ENDED)

    def stop(self, call: int) -> None:
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
        """Process a result from the kernel, which is not trusted."""
        with self._lock:
            waiting = self._open.pop(call, None) if isinstance(call, int) else None
        if waiting is not None:
            no_answer = {"error": "The kernel did not answer."}
            waiting(result if isinstance(result, Mapping) else no_answer)

    def end(self) -> None:
        """End all calls, because the cell or its kernel has ended."""
        with self._lock:
            self._ended = True
            waiting, self._open = self._open, {}
            self._requests.put(None)
        for done in waiting.values():
            done(_CELL_ENDED)


def parse_tools(values: Iterable[Any]) -> list[DescribedTool]:
    """Parse descriptions from the kernel. Raises `ValueError`."""
    tools = [
        DescribedTool(str(name), str(signature)[:_LONGEST], str(doc)[:_LONGEST])
        for name, signature, doc in values
    ]
    for tool in tools:
        if why := name_problem(tool.name):
            raise ValueError(f"tools: a tool cannot be named {tool.name!r}: {why}.")
    return tools[:_MOST]


_TOOL_CALLS = 32
LONGEST_SENT = 500_000_000
"""Maximum characters of a text sent by a kernel on another machine."""
_MOST_SENT = 20


class Searches:
    """Implements `search.control.Control` over an engine that is loaded with the first search."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._log = parts.log
        self._kernel = parts.kernel
        self._can_ask = parts.frontend.can_ask
        self._engine_lock = threading.Lock()
        self._search: Search | None = None
        self._running: dict[str, str] = {}
        """The running root of each tree that a cell waits for."""
        self._tools: dict[str, KernelTools] = {}
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

    def run_from_cell(
        self, args: Mapping[str, Any], cell: int, session_model: str | BaseChatModel
    ) -> dict[str, Any]:
        """Serve `rlm(…)` in a cell, and return a `worker.answers.Result` as a dict, or one with
        `failed`. Raises `RuntimeError` if the search cannot run."""
        from mahtab_tui.sandbox.base import SandboxError, Text
        from mahtab_tui.search.limits import merge_limits

        settings = self._parts.settings
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
            limits = merge_limits(settings.rlm_limits(), **options)
            if not self._kernel.info().host:
                content = _read_text(Path(args["file"]))
            elif tree in self._sent:
                content = "".join(self._sent.pop(tree))
            else:
                raise ValueError("The text of this search is unknown.")
            contexts = (
                NamedContext(str(name), str(kind), int(start), int(end), _parts(parts), str(about))
                for name, kind, start, end, parts, about in args["contexts"]
            )
            kind, parts = args["kind"], _parts(args["parts"])
            text = ContextText(content, kind, parts, args["about"], contexts=tuple(contexts))
            tools = self.open_tools(tree, parse_tools(args["tools"])) if args["tools"] else None
            answer = self._engine().run(
                str(args["query"]),
                Text.of(text, instructions),
                model=model or session_model,
                sub_model=sub_model or settings.sub_model,
                limits=limits,
                # Without a screen there is nobody to ask about a large fan-out.
                asking="run" if args["yes"] else "ask" if self._can_ask else "refuse",
                about=about,
                tree=tree,
                sampling=parse_sampling(**sampling),
                access=access,
                tools=tools,
                by_code=args.get("by_code") is True,
            )
        except (ValueError, OSError, ModelError, SandboxError) as error:
            raise RuntimeError(str(error)) from None
        return self._result(answer, args)

    def _result(self, answer: SearchAnswer, args: Mapping[str, Any]) -> dict[str, Any]:
        packed = base64.b64encode(answer.packed()).decode()
        if answer.state in ("error", "stopped"):
            return {"failed": plain(answer.text), "packed": packed}
        if answer.state == "partial":
            why = answer.why.rstrip(".") or "The search ended early"
            warn(self._log, f"{why}; this answer is partial.")
        result = answer.as_result(raw=bool(args.get("raw")))
        return {**result._asdict(), "packed": packed}

    def open_tools(
        self, tree: str, described: Sequence[DescribedTool] | None = None
    ) -> KernelTools:
        """The kernel may ask for them before its search begins."""
        with self._engine_lock:
            for old in list(self._tools)[:-_TOOL_CALLS]:
                self._tools.pop(old).end()
            tools = self._tools.setdefault(tree, KernelTools())
        if described is not None:
            tools.described = list(described)
        return tools

    def end_tools(self) -> None:
        for tools in list(self._tools.values()):
            tools.end()

    def stop_tree(self, tree: str) -> None:
        """Stop a search that a cell waits for."""
        if (root := self._running.get(tree)) is not None:
            self.stop(tree, root)

    def stop_all(self) -> None:
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

    def make_variable(self, answer: str) -> None:
        def run() -> None:
            try:
                used = {variable.name for variable in self._kernel.variables()}
            except KernelError as error:
                warn(self._log, str(error))
                return
            names = itertools.chain(["answer"], map("answer_{}".format, itertools.count(2)))
            name = next(name for name in names if name not in used)
            self._parts.inbox.put("python", f"{name} = {answer!r}")

        start_thread("answer", run)

    def text(self, tree: str, start: int, end: int) -> str | None:
        if (search := self._search) is None or search.text(tree, start, start) is None:
            return None
        return self._parts.secrets.mask_page(
            lambda first, last: search.text(tree, first, last) or "", start, end
        )

    def answer(self, request: str, run: bool) -> None:
        if (search := self._search) is not None:
            search.answer(request, run)

    def _engine(self) -> Search:
        with IMPORTS.turn():
            from mahtab_tui.search.api import Search

        with self._engine_lock:
            if self._search is None:
                self._search = Search(
                    self._on_record,
                    model_options=self._parts.models.options,
                    spending=self._parts.spending,
                    secrets=self._parts.secrets,
                )
            return self._search

    def _on_record(self, record: Record) -> None:
        if isinstance(record, SearchBegin):
            from_cell = record.source == "cell" or record.tree in self._running
            if record.parent is None and from_cell:
                self._running[record.tree] = record.node
            self._parts.spending.name(record)
        elif isinstance(record, SearchFinal):
            if self._running.get(record.tree) == record.node:
                del self._running[record.tree]
        elif isinstance(record, Usage):
            self._parts.spending.count(record)
        emit(self._log, record)


def _parts(values: Iterable[Any]) -> tuple[tuple[str, int, int], ...]:
    return tuple((str(name), int(start), int(end)) for name, start, end in values)


def _read_text(file: Path) -> str:
    """Remove the cell's file, too: the kernel might be killed before it can."""
    text = file.read_bytes().decode("utf-8", "surrogatepass")
    with contextlib.suppress(OSError):  # it is in memory, and belongs to the kernel
        file.unlink()
    return text


_LONGEST_ASKED = 200_000
"""Maximum characters of a call that the user can be asked about."""


class ServerCalls:
    """Serves requests to MCP servers from code in the kernel."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._cells = parts.cells
        self._numbers = itertools.count(1)
        self._open: dict[str, tuple[Cancellation, int]] = {}
        """Calls that cells wait for, with the newest cell when the call began."""
        parts.cells.interrupted.append(self.cancel)

    def servers(self) -> Sequence[HostServer]:
        servers = self._parts.knowledge.servers
        return [
            HostServer(state.python, visible(state.where)[:200])
            for state in (servers.states.values() if servers else ())
        ]

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve ``mcp_tools``, ``mcp_call``, ``mcp_cancel`` and ``mcp_search``."""
        from mahtab_tui.servers.servers import ServerError, format_matches

        if name == "mcp_cancel":
            if (waiting := self._open.get(str(args["call"]))) is not None:
                waiting[0].cancel()
            return None
        servers = self._parts.knowledge.servers
        if servers is None:
            raise RuntimeError("There are no MCP servers in this session.")
        try:
            if name == "mcp_search":
                index = self._parts.knowledge.semantic_index
                return format_matches(servers, str(args["words"]), int(args["most"]), index)
            if name == "mcp_tools":
                return self._tools(servers, str(args["server"]))
            return self._call(servers, args)
        except ServerError as error:
            return {"failed": str(error)}
        except CancelledError:
            return {"failed": "The call was cancelled."}

    def cancel(self, cell: int | None = None) -> None:
        """Cancel the calls of a cell and its threads, or all calls."""
        for open_call, began in list(self._open.values()):
            if cell in (None, began):
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
        server, wire = str(args["server"]), str(args["tool"])
        arguments, key = dict(args["arguments"]), str(args["call"])
        open_call = Cancellation()
        self._open[key] = open_call, self._cells.last

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
        open_call: Cancellation,
        server: str,
        tool: ToolSignature,
        arguments: Mapping[str, Any],
        cell: int | None,
    ) -> None:
        """Ask the user, unless their own cell makes the call, or a rule decides. Raises
        `ServerError` and `CancelledError`."""
        from mahtab_tui.servers.servers import ServerError

        party = self._cells.foreign_party(cell)
        if party is None:
            return
        name = f"{server}.{tool.name}"
        call, strictest = Call(name, keywords=arguments), ("deny", "ask", "allow")
        rules = self._parts.info.rules
        paths = self._parts.agent.rules.resolve_paths(texts_to_resolve(rules, [call]))
        matching = [rule for rule in rules if rule.matches(call, paths)]
        rule = min(matching, key=lambda rule: strictest.index(rule.action), default=None)
        if rule is not None and rule.action == "deny":
            raise ServerError(f"{name} was not called: the rule {rule.text} forbids it.")
        if rule.action == "allow" if rule is not None else self._parts.info.approval == "auto":
            return
        shown = "".join(
            f"\n    {name if name.isidentifier() else repr(name)}={value!r},"
            for name, value in arguments.items()
        )
        text = visible(f"{name}({shown}\n)" if shown else f"{name}()")
        if len(text) > _LONGEST_ASKED:
            why = f"arguments of {len(text):,} characters are too long for the user to read."
            raise ServerError(f"{name} was not called: {why}")
        why = f"{party} calls a tool of the MCP server {server} that may change something"
        if rule is not None:
            why += f"; the rule {rule.text} asks"
        request = f"tool-{next(self._numbers)}"
        approvals = self._parts.approvals
        open_call.on_cancel(lambda: approvals.cancel(request))
        about = Approval(text, request=request, party=party, is_code=False, why=why)
        decision = ask_approval(self._parts.log, approvals, about)
        if decision is None:
            raise CancelledError
        if decision.action == "stop":
            self._parts.agent.stop()
        if decision.action in ("skip", "stop"):
            reason = f": {decision.reason}" if decision.reason.strip() else "."
            raise ServerError(f"The user did not allow the call of {name}{reason}")
