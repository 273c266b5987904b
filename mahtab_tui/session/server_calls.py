"""Calls the tools of MCP servers for cells; asks the user before the model or an agent calls one
that may change something."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.records import Approval
from mahtab_tui.kernel.base import HostServer
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.requests import RequestCancelled, UserRequests, ask_about
from mahtab_tui.settings.approval_rules import Call

if TYPE_CHECKING:
    from mahtab_tui.servers.servers import Servers
    from mahtab_tui.servers.signatures import ToolSignature

_LONGEST_ASKED = 200_000
"""Characters of a call that the user can be asked about."""


class _OpenCall:
    """A call that a cell waits for."""

    def __init__(self, cell: int) -> None:
        """cell: the newest cell when it began."""
        self.cell = cell
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """End what it waits for, now and later."""
        with self._lock:
            self.cancelled = True
            cancel = self._cancel
        if cancel is not None:
            cancel()

    def wait_with(self, cancel: Callable[[], object]) -> None:
        """Let `cancel` call this from now on."""
        with self._lock:
            self._cancel = cancel
            cancelled = self.cancelled
        if cancelled:
            cancel()


@dataclass(eq=False, repr=False)
class ServerCalls:
    """Serves what code in the kernel asks of MCP servers."""

    _log: logging.Logger
    _knowledge: Knowledge
    _cells: Cells
    _profile: SessionInfo
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
        """Answer a call of the kernel: ``mcp_tools``, ``mcp_call``, ``mcp_cancel`` or
        ``mcp_search``."""
        from mahtab_tui.servers.state import ServerError

        if name == "mcp_cancel":
            if (open_call := self._open.get(str(args["call"]))) is not None:
                open_call.cancel()
            return None
        servers = self._knowledge.servers
        if servers is None:
            raise RuntimeError("There are no MCP servers in this session.")
        try:
            if name == "mcp_search":
                from mahtab_tui.servers.finding import found

                return found(
                    servers, str(args["words"]), int(args["most"]), self._knowledge.meaning
                )
            if name == "mcp_tools":
                return self._tools(servers, str(args["server"]))
            return self._call(servers, args)
        except ServerError as error:
            return {"failed": str(error)}
        except (CancelledError, RequestCancelled):
            return {"failed": "The call was cancelled."}

    def cancel(self, cell: int | None = None) -> None:
        """Cancel the calls of a cell, also those that its threads wait for; all of them if the
        kernel has ended."""
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
            open_call.wait_with(future.cancel)
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
        """Ask the user, unless it is their own cell that calls, or a rule decides. Raises
        `ServerError` if the call must not be made."""
        from mahtab_tui.servers.state import ServerError

        party = self._cells.foreign_party(cell)
        if party is None:
            return
        name = f"{server}.{tool.name}"
        matching = [
            rule for rule in self._profile.rules if rule.matches(Call(name, keywords=arguments))
        ]
        deciding = min(
            matching, key=lambda rule: ("deny", "ask", "allow").index(rule.action), default=None
        )
        if deciding is not None and deciding.action == "deny":
            raise ServerError(f"{name} was not called: the rule {deciding.text} forbids it.")
        if deciding.action == "allow" if deciding is not None else self._profile.approval == "auto":
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
        open_call.wait_with(lambda: self._approvals.cancel(request))
        decision = ask_about(self._log, self._approvals, about, self._stop)
        if isinstance(decision, str):
            raise ServerError(f"The user did not allow the call of {name}{decision}")
