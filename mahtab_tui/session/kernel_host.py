"""What the kernel tells and asks the session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import emit
from mahtab_tui.kernel.base import HostFunction, KernelInfo, KernelState
from mahtab_tui.session.face import Face
from mahtab_tui.session.requests import Cancelled, Requests
from mahtab_tui.session.searches import Searches
from mahtab_tui.session.tool_calls import ToolCalls


class SessionKernelHost:
    """`kernel.base.KernelHost` over a session's bus, face and agent."""

    def __init__(
        self,
        log: logging.Logger,
        face: Face,
        *,
        secrets: Secrets,
        ask: Callable[[str], str],
        stop_asking: Callable[[], None],
        usage: Callable[[], str],
        tools: ToolCalls,
        searches: Searches,
        current_cell: Callable[[], int],
        guest_runs: Callable[[], bool],
    ) -> None:
        """guest_runs: whether what runs now is an agent's code."""
        self._log = log
        self._face = face
        self._secrets = secrets
        self._current_cell = current_cell
        self._guest_runs = guest_runs
        self._stop_asking = stop_asking
        self._searches = searches
        self._tools = tools
        self.inputs: Requests[str | None] = Requests()
        self.info: KernelInfo | None = None
        self._leaves = threading.Event()
        """A cell has called `exit()`."""
        self.on_state: Callable[[KernelState], None] = lambda state: None
        """Called with each state of the kernel, once it was told."""
        self._calls: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "ask": lambda args: ask(str(args["prompt"])),
            "usage": lambda args: usage(),
            "rlm": lambda args: searches.from_cell(args, current_cell()),
            "terminal": lambda args: face.run_in_terminal([str(word) for word in args["argv"]], str(args["cwd"])),
            "quit": lambda args: self._quit(),
            "input": lambda args: self._input(str(args.get("prompt", "")), bool(args.get("password"))),
        }

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        self.info = info
        emit(
            self._log,
            tags.KERNEL,
            text,
            state=str(info.state),
            python=info.python,
            executable=info.executable,
            cwd=info.cwd,
            pid=info.pid,
            cell=self._current_cell() if info.state is KernelState.BUSY else None,
        )
        self.on_state(info.state)

    def late_output(self, text: str) -> None:
        text = self._secrets.mask(text)
        emit(self._log, tags.USER_REPL_OUT, text, cell=self._current_cell(), late=True, kinds=[["stdout", len(text)]])

    def functions(self) -> Sequence[HostFunction]:
        return self._tools.functions()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        if (served := self._calls.get(name)) is not None:
            return served(args)
        if name in self._tools:
            return self._tools.call(name, args)
        raise RuntimeError(f"The host has nothing called {name!r}.")

    def call_cancelled(self, name: str) -> None:
        if name == "input":
            self.inputs.cancel_all()
        elif name == "ask":
            self._stop_asking()
        elif name == "rlm":
            self._searches.stop_all()
        else:
            self._tools.cancel(name)

    def cell_ended(self) -> None:
        """Leave, if the cell has called `exit()`: not earlier, lest the cell itself be what leaving would cut off."""
        if self._leaves.is_set():
            self._leaves.clear()
            self._face.leave()

    def _quit(self) -> None:
        if self._guest_runs():
            raise RuntimeError("The session is the person's: exit() in an agent's code does not end it.")
        self._leaves.set()

    def _input(self, prompt: str, password: bool) -> str | None:
        """The line that the person enters; None for the end of input."""
        request = self.inputs.new_id()
        about = {"request": request, "cell": self._current_cell(), "password": password}
        emit(self._log, tags.INPUT, prompt, **about, state="waiting")
        try:
            answer = self.inputs.wait(request)
        except Cancelled:
            emit(self._log, tags.INPUT, prompt, **about, state="cancelled")
            return None
        if password and answer is not None:
            self._secrets.add(answer)
        emit(self._log, tags.INPUT, prompt, **about, state="answered")
        return answer
