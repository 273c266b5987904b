"""Serves the requests of the kernel."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus import records
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Input, UserReplOut, emit
from mahtab_tui.kernel.base import HostFunction, HostServer, KernelInfo, KernelState
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.spending import Spending
from mahtab_tui.session.agent_thread import AgentThread
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.frontend import Frontend
from mahtab_tui.session.private_names import PrivateNames, why_refused
from mahtab_tui.session.requests import RequestCancelled, UserRequests
from mahtab_tui.session.searches import Searches
from mahtab_tui.session.tool_calls import ToolCalls

if TYPE_CHECKING:
    from mahtab_tui.kernel.base import Kernel
    from mahtab_tui.session.server_calls import ServerCalls


@dataclass(eq=False, repr=False)
class SessionKernelHost:
    """The `kernel.base.KernelHost` of a session, created after its other parts."""

    _log: logging.Logger
    _face: Frontend
    _secrets: Secrets
    _spending: Spending
    _cells: Cells
    _tools: ToolCalls
    _servers: ServerCalls | None
    _searches: Searches
    _agent: AgentThread
    _private: PrivateNames
    _kernel: Kernel
    _approvals: UserRequests[Decision]
    _: KW_ONLY
    reads_input: bool
    """Whether a user can answer `input()`."""

    def __post_init__(self) -> None:
        self.inputs: UserRequests[str | None] = UserRequests()

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        emit(
            self._log,
            records.Kernel(
                text,
                state=str(info.state),
                python=info.python,
                executable=info.executable,
                cwd=info.cwd,
                pid=info.pid,
                cell=self._cells.last if info.state is KernelState.BUSY else None,
                since=self._cells.going_on_since if info.state is KernelState.BUSY else None,
                place=info.place or None,
                address=info.address or None,
                next_try=info.next_try or None,
            ),
        )
        self._cells.follow(info.state)
        if info.state.is_over and self._servers is not None:
            self._servers.cancel()

    def late_output(self, text: str) -> None:
        text = self._secrets.mask(text)
        emit(
            self._log,
            UserReplOut(text, cell=self._cells.last, late=True, kinds=(("stdout", len(text)),)),
        )

    def functions(self) -> Sequence[HostFunction]:
        return self._tools.functions()

    def servers(self) -> Sequence[HostServer]:
        return () if self._servers is None else self._servers.servers()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        if name in ("ask", "rlm") and (used := self._cells.private_in_use):
            raise RuntimeError(why_refused(f"{name}()", used))
        match name:
            case "private":
                return self._mark(str(args["name"]), bool(args["on"]))
            case "ask":
                return self._ask(str(args["prompt"]))
            case "usage":
                return self._spending.table()
            case "rlm":
                return self._searches.from_cell(args, self._cells.last, self._agent.model)
            case "rlm_text":
                return self._searches.take_text(str(args["tree"]), str(args["text"]))
            case "rlm_log":
                return self._searches.log(str(args["tree"]))
            case "rlm_tools":
                return self._searches.tools_of(str(args["tree"])).next()
            case "rlm_tool":
                return self._searches.tools_of(str(args["tree"])).done(args["call"], args["result"])
            case "rlm_tools_end":
                return self._searches.tools_of(str(args["tree"])).end()
            case "rlm_stop":
                return self._searches.stop_tree(str(args["tree"]))
            case "terminal":
                if place := self._kernel.info().place:  # what is there must not start programs here
                    raise RuntimeError(f"A program that needs the terminal cannot run on {place}.")
                return self._face.run_in_terminal(
                    [str(word) for word in args["argv"]], str(args["cwd"])
                )
            case "mcp_tools" | "mcp_call" | "mcp_cancel" | "mcp_search" if (
                self._servers is not None
            ):
                return self._servers.call(name, args)
            case "quit":
                return self._cells.leave()
            case "input":
                return self._input(str(args.get("prompt", "")), bool(args.get("password")))
            case _ if name in self._tools:
                return self._tools.call(name, args)
        raise RuntimeError(f"The host has nothing called {name!r}.")

    def call_cancelled(self, name: str) -> None:
        cancel: dict[str, Callable[[], object]] = {
            "input": self.inputs.cancel_all,
            "ask": self._agent.stop,
            "rlm": self._searches.stop_all,
            "rlm_tools": self._searches.end_tools,
        }
        cancel.get(name, partial(self._tools.cancel, name))()

    def _mark(self, name: str, private: bool) -> None:
        """Serve `private("…")` in a cell. Raises `RuntimeError`."""
        if not private and (self._cells.assistant_runs or self._cells.agent_runs):
            raise RuntimeError(
                "Code from the model or an agent cannot make a private variable public."
            )
        self._private.mark(name, private)

    def _ask(self, prompt: str) -> str:
        """Serve `ask("…")` in a cell; returns the answer in words. Raises `RuntimeError`."""
        if self._cells.assistant_runs or self._cells.agent_runs:
            raise RuntimeError("Code from the model or an agent cannot call ask().")
        try:
            return self._agent.ask_from_cell(prompt)
        except ModelError as error:
            raise RuntimeError(str(error)) from None

    def _input(self, prompt: str, password: bool) -> str | None:
        """Ask the user for a line; None for the end of input."""
        if not self.reads_input:
            return None
        request = self.inputs.new_id()
        asked = Input(
            prompt, request=request, cell=self._cells.last, password=password, state="waiting"
        )
        emit(self._log, asked)
        try:
            answer = self.inputs.wait(request)
        except RequestCancelled:
            emit(self._log, asked.changed(state="cancelled", time=0.0))
            return None
        if password and answer is not None:
            self._secrets.add(answer)
        emit(self._log, asked.changed(state="answered", time=0.0))
        return answer
