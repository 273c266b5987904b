"""Serves what a session's kernel asks for, such as the functions that cells call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Input, UserReplOut, emit
from mahtab_tui.kernel.host import HostFunction, HostServer
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

OUTPUT_FUNCTION = HostFunction(
    name="_out",
    called="cell_output",
    parameters=(("cell", "int", None),),
    doc="Return all that a cell printed, as text, by the cell's number.",
)


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
        """Serve a session with these parts. servers: None if the session has no MCP servers."""
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
        self._tool_calls: set[tuple[str, threading.Event]] = set()
        """The running calls of tools: the name of the tool, and the event that cancels the call."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        is_only_busy_or_idle = info.state in (KernelState.BUSY, KernelState.IDLE) and not text
        # In an agent's own session, nobody watches whether a cell runs.
        if not (is_only_busy_or_idle and self._runtime.frontend.belongs_to_agent):
            self._log_state(info, text)
        self._cells.follow(info.state)
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
            since=self._cells.resumed_since if is_busy else None,
            host=info.host or None,
            address=info.address or None,
            next_try=info.next_try or None,
        )
        emit(self._runtime.log, record)

    def background_output(self, text: str) -> None:
        text = self._runtime.secrets.mask(text)
        kinds = (("stdout", len(text)),)
        emit(self._runtime.log, UserReplOut(text, cell=self._cells.last, late=True, kinds=kinds))

    def functions(self) -> Sequence[HostFunction]:
        return [*self._knowledge.toolset.functions(), OUTPUT_FUNCTION]

    def servers(self) -> Sequence[HostServer]:
        if self._servers is None:
            return ()
        return self._servers.servers()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve a function that code in the kernel has called.

        Args:
            name: The function's name on the wire.
            args: Its arguments. They come from the kernel, so nothing in them is trusted.

        Returns:
            A JSON value.

        Raises:
            RuntimeError: The call is refused, or failed. The message is a sentence.
        """
        searches = self._searches
        tree = str(args.get("tree", ""))

        # What these functions send to a model could contain a private value.
        if name in ("ask", "rlm"):
            private_names = self._cells.private_in_use
            if private_names:
                raise RuntimeError(explain_refusal(f"{name}()", private_names))
        match name:
            case "private":
                return self._mark_private(str(args["name"]), bool(args["on"]))
            case "ask":
                return self._ask_model(str(args["prompt"]))
            case "cell_output":
                return self._cell_output(args["cell"])
            case "usage":
                return self._spending.table()
            case "rlm":
                return searches.run_from_cell(args, self._cells.last, self._agent.model)
            case "rlm_text":
                start = args.get("start")
                start = None if start is None else int(start)
                return searches.received_texts.add(tree, str(args["text"]), start)
            case "rlm_tools":
                return searches.open_tools(tree).next()
            case "rlm_tool":
                return searches.open_tools(tree).done(args["call"], args["result"])
            case "rlm_tools_end":
                return searches.open_tools(tree).end()
            case "rlm_stop":
                return searches.stop_tree(tree)
            case "terminal":
                if self._cells.runs_unapproved_code:
                    raise RuntimeError(
                        "Only code that the user has approved by hand can use the terminal."
                    )
                # Another machine must not start programs on this one.
                if host := self._runtime.kernel.info().host:
                    raise RuntimeError(f"A program that needs the terminal cannot run on {host}.")
                argv = [str(word) for word in args["argv"]]
                return self._runtime.frontend.run_in_terminal(argv, str(args["cwd"]))
            case "mcp_tools" | "mcp_call" | "mcp_cancel" | "mcp_search" if self._servers:
                return self._servers.call(name, args)
            case "quit":
                return self._cells.leave()
            case "input":
                return self._input(str(args.get("prompt", "")), bool(args.get("password")))
            case _ if name in self._knowledge.toolset.tools:
                return self._call_tool(name, args)
        raise RuntimeError(f"The host has nothing called {name!r}.")

    def call_cancelled(self, name: str, args: Mapping[str, Any]) -> None:
        tree = str(args.get("tree", ""))
        cancel_functions: dict[str, Callable[[], object]] = {
            "input": self.inputs.cancel_all,
            "ask": self._agent.stop,
            "rlm": partial(self._searches.stop_tree, tree),
            "rlm_tools": partial(self._searches.end_tools_of, tree),
        }
        if name in cancel_functions:
            cancel_functions[name]()
        for tool_name, cancelled in list(self._tool_calls):
            if tool_name == name:
                cancelled.set()

    def _cell_output(self, cell: object) -> str:
        """Return what a cell has printed. Code of the model or an agent gets no output of a cell that
        used a private variable."""
        if type(cell) is not int:
            raise RuntimeError("_out() takes the number of a cell, as in _out(7).")
        if self._private.is_private_cell(cell):
            self._refuse_foreign_code(
                f"read the output of cell {cell}, which used a private variable"
            )
        output = self._cells.outputs.get(cell)
        if output is None:
            raise RuntimeError(f"The output of cell {cell} is not remembered.")
        return output

    def _call_tool(self, name: str, args: Mapping[str, Any]) -> str:
        """Run one of the model's tools for a cell, until `call_cancelled` cancels it."""
        cancelled = threading.Event()
        tool_call = (name, cancelled)
        self._tool_calls.add(tool_call)
        try:
            return self._knowledge.toolset.run(name, args, cancelled)
        finally:
            self._tool_calls.discard(tool_call)

    def _mark_private(self, name: str, private: bool) -> None:
        """Mark a variable as private, or public. Only the user's code may make it public."""
        if not private:
            self._refuse_foreign_code("make a private variable public")
        self._private.mark(name, private)

    def _refuse_foreign_code(self, action: str) -> None:
        """Raise `RuntimeError` if the running cell is the model's or an agent's. action: what it
        cannot do, as a verb with its object."""
        if self._cells.assistant_runs or self._cells.agent_runs:
            raise RuntimeError(f"Code from the model or an agent cannot {action}.")

    def _ask_model(self, prompt: str) -> str:
        """Ask the session's model, and return its last words."""
        self._refuse_foreign_code("call ask()")
        try:
            return self._agent.ask(prompt, from_cell=True)
        except ModelError as error:
            raise RuntimeError(str(error)) from None

    def _input(self, prompt: str, password: bool) -> str | None:
        """Ask the user for a line; None if nobody answers. A password is masked from then on."""
        if self._runtime.by_program:
            return None
        request = self.inputs.new_id()
        record = Input(
            prompt, request=request, cell=self._cells.last, password=password, state="waiting"
        )
        emit(self._runtime.log, record)

        answer = None
        state = "cancelled"
        with suppress(CancelledError):
            answer = self.inputs.wait(request)
            state = "answered"
        if password and answer is not None:
            self._runtime.secrets.add(answer)
        emit(self._runtime.log, record.changed(state=state, time=0.0))
        return answer
