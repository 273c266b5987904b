"""Serves what code in the kernel asks of MCP servers: their tools, a search in them, and calls.

A call of a model's or an agent's code that may change something needs the user's permission.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import Approval
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import HostServer
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.user_requests import ask_approval
from mahtab_tui.settings.approval_rules import Call, Rule, texts_to_resolve

# The modules of `servers` are imported only when a server is used, because they slow down the start.
if TYPE_CHECKING:
    from mahtab_tui.servers.servers import Servers
    from mahtab_tui.servers.tool_signature import ToolSignature
    from mahtab_tui.session.agent import SessionAgent

MAX_ASKED_CHARS = 200_000
"""Characters of a call that the user can be asked about."""
MAX_SERVER_CHARS = 200
"""Characters of a server's command or address in its `repr`."""

_RULE_ACTIONS = ("deny", "ask", "allow")
"""What a rule may say, the strictest first: of several rules that match a call, it decides."""

T = TypeVar("T")


class OpenCall(NamedTuple):
    """A call that a cell waits for."""

    cancellation: Cancellation
    newest_cell: int
    """The number of the newest cell when the call began."""


class ServerCalls:
    """Serves requests to MCP servers from code in the kernel. Any thread may call it."""

    def __init__(
        self,
        runtime: Runtime,
        cells: Cells,
        knowledge: Knowledge,
        agent: SessionAgent,
    ) -> None:
        self._runtime = runtime
        self._cells = cells
        self._knowledge = knowledge
        self._agent = agent
        self._numbers = itertools.count(1)
        self._open_calls: dict[str, OpenCall] = {}
        """The open calls by the keys that the kernel has given them."""
        cells.interrupt_listeners.append(self.cancel)

    def servers(self) -> Sequence[HostServer]:
        """Return the MCP servers for the namespace."""
        servers = self._knowledge.servers
        if servers is None:
            return []
        return [
            HostServer(state.variable, visible(state.command_or_address)[:MAX_SERVER_CHARS])
            for state in servers.states.values()
        ]

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve ``mcp_tools``, ``mcp_call``, ``mcp_cancel`` and ``mcp_search``.

        Args:
            name: One of these names.
            args: Its arguments. They come from the kernel, so nothing in them is trusted.

        Returns:
            A JSON value; for a call that failed, a dict with the key ``failed``.

        Raises:
            RuntimeError: The arguments cannot be read. The message is a sentence.
        """
        from mahtab_tui.servers.state import ServerError

        if name == "mcp_cancel":
            self._cancel_call(str(args.get("call")))
            return None
        servers = self._knowledge.servers
        if servers is None:
            raise RuntimeError("There are no MCP servers in this session.")
        server = str(args.get("server"))
        try:
            match name:
                case "mcp_search":
                    return self._search(servers, args)
                case "mcp_tools":
                    return self._tools(servers, server)
                case "mcp_call":
                    return self._call(servers, server, args)
                case _:
                    raise RuntimeError(f"MCP servers have no function {name!r}.")
        except ServerError as error:
            return {"failed": str(error)}
        except CancelledError:
            return {"failed": "The call was cancelled."}

    def cancel(self, cell: int | None = None) -> None:
        """Cancel the calls of a cell and its threads, or all calls."""
        for open_call in list(self._open_calls.values()):
            if cell is None or cell == open_call.newest_cell:
                open_call.cancellation.cancel()

    def _cancel_call(self, key: str) -> None:
        """Cancel a call, unless it has ended."""
        open_call = self._open_calls.get(key)
        if open_call is not None:
            open_call.cancellation.cancel()

    def _search(self, servers: Servers, args: Mapping[str, Any]) -> str:
        """Return the tools of all servers that fit a description."""
        from mahtab_tui.servers.tool_search import format_matches

        max_matches = args.get("most")
        if not isinstance(max_matches, int):
            raise RuntimeError("The number of tools to find must be a whole number.")
        description = str(args.get("words", ""))
        return format_matches(servers, description, max_matches, self._knowledge.semantic_index)

    def _tools(self, servers: Servers, server: str) -> dict[str, Any]:
        """Return the tools of a server, once it is ready."""
        servers.ready(server).result()
        state = servers.states[server]
        tools: list[dict[str, Any]] = []
        for tool in state.tools.values():
            parameters = [parameter._asdict() for parameter in tool.parameters]
            tools.append({**tool._asdict(), "parameters": parameters})
        return {"revision": state.revision, "tools": tools}

    def _call(self, servers: Servers, server: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool, after the user has allowed it if that is needed."""
        tool_name = str(args.get("tool"))
        arguments = args.get("arguments")
        key = str(args.get("call"))
        if not isinstance(arguments, dict):
            raise RuntimeError("The arguments of a tool must be a dict.")
        # Only the kernel knows which thread calls. `Cells.foreign_party` believes this number only while
        # no cell of a model or an agent runs; code that goes on after such a cell can forge it.
        cell = args.get("cell")
        caller_cell = cell if type(cell) is int else None
        cancellation = Cancellation()
        open_call = OpenCall(cancellation, self._cells.last)
        if self._open_calls.setdefault(key, open_call) is not open_call:
            raise RuntimeError(f"There is already an open call with the key {key!r}.")

        def wait_for(future: Future[T]) -> T:
            cancellation.on_cancel(future.cancel)
            return future.result()

        try:
            tool = wait_for(servers.prepare(server, tool_name, arguments))
            if not tool.read_only:
                self._permit(cancellation, server, tool, arguments, caller_cell)
            parts = wait_for(servers.call(server, tool_name, arguments))
            return {"parts": parts, "revision": servers.states[server].revision}
        finally:
            del self._open_calls[key]

    def _permit(
        self,
        cancellation: Cancellation,
        server: str,
        tool: ToolSignature,
        arguments: Mapping[str, Any],
        cell: int | None,
    ) -> None:
        """Return if a call is allowed: by the user, by a rule, or because their own cell makes it.

        Args:
            cancellation: Ends the wait for the user.
            server: The server's name in the namespace.
            tool: The tool.
            arguments: The arguments of the call.
            cell: The number of the cell that makes the call, as the kernel says; None if it is not known.

        Raises:
            ServerError: The call is not allowed.
            CancelledError: The call was cancelled while the user was asked.
        """
        from mahtab_tui.servers.state import ServerError

        party = self._cells.foreign_party(cell)
        if party is None:
            return

        name = f"{server}.{tool.name}"
        reason = f"{party} calls a tool of the MCP server {server} that may change something"
        rule = self._strictest_rule(Call(name, keywords=arguments))
        if rule is None:
            if self._runtime.info.approval == "auto":
                return
        elif rule.action == "allow":
            return
        elif rule.action == "deny":
            raise ServerError(f"{name} was not called: the rule {rule.text} forbids it.")
        else:
            reason += f"; the rule {rule.text} asks"
        self._ask_user(cancellation, party, name, arguments, reason)

    def _strictest_rule(self, call: Call) -> Rule | None:
        """Return the rule that decides about a call; None if none matches."""
        rules = self._runtime.info.rules
        paths = self._agent.rules.resolve_paths(texts_to_resolve(rules, [call]))
        matching_rules = [rule for rule in rules if rule.matches(call, paths)]
        return min(matching_rules, key=lambda rule: _RULE_ACTIONS.index(rule.action), default=None)

    def _ask_user(
        self,
        cancellation: Cancellation,
        party: str,
        name: str,
        arguments: Mapping[str, Any],
        reason: str,
    ) -> None:
        """Ask whether a tool may be called. Raises `ServerError` if not, and `CancelledError`."""
        from mahtab_tui.servers.state import ServerError

        text = _format_call(name, arguments)
        if len(text) > MAX_ASKED_CHARS:
            problem = f"arguments of {len(text):,} characters are too long for the user to read."
            raise ServerError(f"{name} was not called: {problem}")
        request = f"tool-{next(self._numbers)}"
        cancellation.on_cancel(lambda: self._runtime.approvals.cancel(request))
        approval = Approval(text, request=request, party=party, is_code=False, why=reason)
        decision = ask_approval(self._runtime.log, self._runtime.approvals, approval)
        if decision is None:
            raise CancelledError
        if decision.action == "stop":
            self._agent.stop()
        if decision.action in ("skip", "stop"):
            ending = f": {decision.reason}" if decision.reason.strip() else "."
            raise ServerError(f"The user did not allow the call of {name}{ending}")


def _format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Format a call as code, with each argument on a line of its own."""
    if not arguments:
        return visible(f"{name}()")
    lines = [f"{name}("]
    for argument, value in arguments.items():
        keyword = argument if argument.isidentifier() else repr(argument)
        lines.append(f"    {keyword}={value!r},")
    lines.append(")")
    return visible("\n".join(lines))
