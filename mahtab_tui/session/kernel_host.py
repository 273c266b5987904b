"""Answers calls from a session's kernel, for instance functions called by cells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Input, UserReplOut, emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.host import HostCall, HostFunction, HostServer
from mahtab_tui.kernel.values import KernelInfo, KernelState
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.session_ledger import SessionLedger
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.private_names import PrivateNames, explain_refusal
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.user_requests import UserRequests

if TYPE_CHECKING:
    from mahtab_tui.session.agent import SessionAgent
    from mahtab_tui.session.knowledge import Knowledge
    from mahtab_tui.session.searches import Searches
    from mahtab_tui.session.server_calls import ServerCalls

CELL_OUTPUT_FUNCTION = HostFunction(
    name="_out",
    called="cell_output",
    parameters=(("cell", "int", None),),
    doc="Return all that a cell printed, as text, by the cell's number.",
)

Handler = Callable[[HostCall], Any]
"""Serves a call. Returns a JSON value."""


class SessionKernelHost:
    """The `kernel.host.KernelHost` of a session: logs what its kernel reports, and serves its calls."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        cells: Cells,
        private: PrivateNames,
        knowledge: Knowledge,
        searches: Searches,
        agent: SessionAgent,
        spending: SessionLedger,
        servers: ServerCalls | None,
    ) -> None:
        """Serve a session with these parts.

        Args:
            servers: None if the session has no MCP servers.
        """
        self._runtime = runtime
        self._cells = cells
        self._private = private
        self._knowledge = knowledge
        self._searches = searches
        self._agent = agent
        self._spending = spending
        self._servers = servers
        self.inputs: UserRequests[str | None] = UserRequests()
        """The calls of `input()` that wait for the user."""
        self.handlers: Mapping[str, Handler] = {
            "ask": self._ask_model,
            "cell_output": self._cell_output,
            "input": self._input,
            "private": self._mark_private,
            "quit": self._quit,
            "rlm": self._search,
            "rlm_text": self._receive_text,
            "rlm_tool": self._receive_tool_result,
            "rlm_tools": self._next_tool_call,
            "rlm_tools_end": self._end_tools,
            "rlm_stop": self._stop_search,
            "terminal": self._run_in_terminal,
            "usage": self._usage,
            # A server's call is cancelled by the call "mcp_cancel", and when its cell is interrupted.
            "mcp_call": self._call_server,
            "mcp_cancel": self._call_server,
            "mcp_search": self._call_server,
            "mcp_tools": self._call_server,
        }
        """The functions that serve the program's own calls. Their names are `kernel.host.OWN_CALLS`, so
        that no tool has one of them."""

    # The kernel's reports

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        is_routine_report = info.state in (KernelState.BUSY, KernelState.IDLE) and not text
        # In an agent's own session, nobody watches whether a cell runs.
        if not (is_routine_report and self._runtime.frontend.belongs_to_agent):
            self._log_state(info, text)
        self._cells.on_kernel_state(info.state)
        if info.state is KernelState.DEAD and self._servers is not None:
            self._servers.cancel()

    def _log_state(self, info: KernelInfo, text: str) -> None:
        is_busy = info.state is KernelState.BUSY
        record = records.KernelRecord(
            text,
            state=str(info.state),
            python=info.python,
            executable=info.executable,
            cwd=info.cwd,
            pid=info.pid,
            cell=self._cells.last if is_busy else None,
            since=self._cells.resumed_at if is_busy else None,
            host=info.host or None,
            address=info.address or None,
            next_try=info.next_try or None,
        )
        emit(self._runtime.log, record)

    def background_output(self, text: str) -> None:
        text = self._runtime.secrets.mask(text)
        kinds = (("stdout", len(text)),)
        emit(self._runtime.log, UserReplOut(text, cell=self._cells.last, late=True, kinds=kinds))

    # Calls

    def functions(self) -> Sequence[HostFunction]:
        return [*self._knowledge.toolset.functions(), CELL_OUTPUT_FUNCTION]

    def servers(self) -> Sequence[HostServer]:
        if self._servers is None:
            return ()
        return self._servers.servers()

    def call(self, call: HostCall) -> Any:
        """Serve a call by code in the kernel.

        Returns:
            A JSON value.

        Raises:
            RuntimeError: The call is refused, or failed. The message is a sentence.
            CancelledError: The call was cancelled.
        """
        handler = self.handlers.get(call.name)
        if handler is not None:
            return handler(call)
        if call.name in self._knowledge.toolset.tools:
            return self._run_tool(call)
        raise RuntimeError(f"The host has no function {call.name!r}.")

    def _run_tool(self, call: HostCall) -> str:
        """Run one of the model's tools for a cell."""
        from mahtab_tui.tools import ToolError

        cancelled = threading.Event()
        call.cancellation.on_cancel(cancelled.set)
        try:
            return self._knowledge.toolset.run(call.name, call.args, cancelled)
        except ToolError as error:
            raise RuntimeError(str(error)) from None

    def _mark_private(self, call: HostCall) -> None:
        """Mark a variable as private, or public. Only the user's code may make it public."""
        name = _get_argument(call, "name", str)
        private = _get_argument(call, "on", bool)
        if not private:
            self._refuse_foreign_code("make a private variable public")
        try:
            self._private.mark(name, private)
        except KernelError as error:
            raise RuntimeError(str(error)) from None

    def _cell_output(self, call: HostCall) -> str:
        """Return what a cell has printed.

        Code of the model or an agent gets no output of a cell that used a private variable.
        """
        cell = call.args.get("cell")
        # A bool is an int, too.
        if not isinstance(cell, int) or isinstance(cell, bool):
            raise RuntimeError("_out() takes the number of a cell, as in _out(7).")
        if self._private.is_private_cell(cell):
            self._refuse_foreign_code(
                f"read the output of cell {cell}, which used a private variable"
            )
        output = self._cells.outputs.get(cell)
        if output is None:
            raise RuntimeError(f"The output of cell {cell} is not remembered.")
        return output

    def _usage(self, call: HostCall) -> str:
        return self._spending.table()

    def _quit(self, call: HostCall) -> None:
        self._cells.leave()

    def _call_server(self, call: HostCall) -> Any:
        if self._servers is None:
            raise RuntimeError("This session has no MCP servers.")
        return self._servers.call(call.name, call.args)

    # Models

    def _ask_model(self, call: HostCall) -> str:
        """Ask the session's model, and return its last words."""
        prompt = _get_argument(call, "prompt", str)
        self._refuse_private_values("ask()")
        self._refuse_foreign_code("call ask()")
        try:
            return self._agent.ask(prompt, from_cell=call.from_cell, cancellation=call.cancellation)
        except ModelError as error:
            raise RuntimeError(str(error)) from None

    def _search(self, call: HostCall) -> dict[str, Any]:
        self._refuse_private_values("rlm()")
        tree = _get_argument(call, "tree", str)
        call.cancellation.on_cancel(partial(self._searches.stop_tree, tree))
        return self._searches.run_from_cell(call.args, self._cells.last, self._agent.model)

    def _stop_search(self, call: HostCall) -> None:
        self._searches.stop_tree(_get_argument(call, "tree", str))

    def _receive_text(self, call: HostCall) -> None:
        """Store a piece of a text that a search is about."""
        start = call.args.get("start")
        if start is not None:
            start = _get_argument(call, "start", int)
        tree = _get_argument(call, "tree", str)
        self._searches.received_texts.add(tree, _get_argument(call, "text", str), start)

    def _next_tool_call(self, call: HostCall) -> dict[str, Any] | None:
        """Wait until a search calls a function in the kernel. Return None when the search ends."""
        tree = _get_argument(call, "tree", str)
        call.cancellation.on_cancel(partial(self._searches.end_tools_of, tree))
        return self._searches.open_tools(tree).next()

    def _receive_tool_result(self, call: HostCall) -> None:
        """Pass the result of such a function on to the search."""
        tree = _get_argument(call, "tree", str)
        self._searches.open_tools(tree).done(call.args.get("call"), call.args.get("result"))

    def _end_tools(self, call: HostCall) -> None:
        self._searches.open_tools(_get_argument(call, "tree", str)).end()

    # The user

    def _run_in_terminal(self, call: HostCall) -> int:
        """Give the terminal to a program, and return its exit code.

        The program gets the user's keys, so the user ends it, and a cancellation need not.
        """
        if self._cells.runs_unapproved_code:
            raise RuntimeError("Only code that the user has approved by hand can use the terminal.")
        # Another machine must not start programs on this one.
        if host := self._runtime.kernel.info().host:
            raise RuntimeError(f"A program that needs the terminal cannot run on {host}.")
        argv = [str(word) for word in _get_argument(call, "argv", list)]
        if not argv:
            raise RuntimeError("The command to run in the terminal is empty.")
        return self._runtime.frontend.run_in_terminal(argv, _get_argument(call, "cwd", str))

    def _input(self, call: HostCall) -> str | None:
        """Ask the user for a line; None if nobody answers. A password is masked from then on."""
        if self._runtime.by_program:
            return None
        password = bool(call.args.get("password"))
        request = self.inputs.new_id()
        record = Input(
            str(call.args.get("prompt", "")),
            request=request,
            cell=self._cells.last,
            password=password,
            state="waiting",
        )
        emit(self._runtime.log, record)

        answer = None
        state = "cancelled"
        call.cancellation.on_cancel(partial(self.inputs.cancel, request))
        with suppress(CancelledError):
            answer = self.inputs.wait(request)
            state = "answered"
        if password and answer is not None:
            self._runtime.secrets.add(answer)
        # Without a time of its own, the record gets the time at which it is logged.
        emit(self._runtime.log, record.changed(state=state, time=0.0))
        return answer

    # Refusals

    def _refuse_private_values(self, function: str) -> None:
        """Raise `RuntimeError` if a running cell uses a private variable, whose value the arguments of
        the function could contain."""
        private_names = self._cells.private_in_use
        if private_names:
            raise RuntimeError(explain_refusal(function, private_names))

    def _refuse_foreign_code(self, action: str) -> None:
        """Raise `RuntimeError` if code of a model or an agent runs."""
        if self._cells.assistant_runs or self._cells.agent_runs:
            raise RuntimeError(f"Code from the model or an agent cannot {action}.")


def _get_argument(call: HostCall, name: str, kind: type[Any]) -> Any:
    """Return an argument of a call.

    Raises `RuntimeError` if the argument is missing or has another type.
    """
    value = call.args.get(name)
    if type(value) is not kind:
        raise RuntimeError(
            f"The argument {name!r} of the call must be of the type {kind.__name__}."
        )
    return value
