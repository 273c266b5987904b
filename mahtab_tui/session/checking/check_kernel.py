"""The kernel of a check, which works in a copy of the project, and what it does not do for cells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import DisplayRecord, Record
from mahtab_tui.bus.values import Status
from mahtab_tui.export.entries import ExportedConversation, has_run
from mahtab_tui.export.outputs import outputs
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.bounded_cell import BoundedCell
from mahtab_tui.kernel.connection_state import ConnectionState
from mahtab_tui.kernel.host import HostCall, HostFunction, HostServer, KernelHost
from mahtab_tui.kernel.launch import LocalLauncher
from mahtab_tui.kernel.local_process import environment, spawn
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.process_parts import Process
from mahtab_tui.kernel.values import CellResult, SaveTarget
from mahtab_tui.session.checking.check_folder import CheckError
from mahtab_tui.session.checking.project_copy import ProjectCopy
from mahtab_tui.session.checking.recorded import CellOutcome, RecordedCell, make_outcome
from mahtab_tui.session.kernel import startup_code
from mahtab_tui.session.kernel_host import CELL_OUTPUT_FUNCTION
from mahtab_tui.tools.loading import load_tools

SCREEN_LINES = 40

_CONFINE = "__import__('mahtab_worker.guard.confined_changes', fromlist=['']).confine_changes({!r})"
_REFUSED_CALLS = {
    "input": "it reads input",
    "ask": "it asks a model",
    "rlm": "it asks a model",
    "terminal": "it needs the terminal",
    "mcp_call": "it calls a tool of an MCP server",
    "mcp_tools": "it calls a tool of an MCP server",
    "usage": "it shows what models cost",
}
"""What a check does not do for cells, as clauses, by the function that they call."""


@dataclass(frozen=True)
class CellRun:
    """How a cell has ended."""

    result: CellResult
    displays: Sequence[DisplayRecord]
    refusals: Sequence[str]
    """What a check did not do for the cell, as clauses."""
    timed_out: bool
    """Whether it did not end within its time."""
    timeout_s: float
    """How many seconds it had."""

    @property
    def has_ended_kernel(self) -> bool:
        return self.result.status in (Status.KILLED, Status.DIED)

    def outcome(self, copy: ProjectCopy, cell: RecordedCell) -> CellOutcome:
        """Return what the cell has shown, made as that of the session or the notebook is."""
        result = self.result
        number = result.cell
        past: list[Record] = [records.UserReplIn(cell.code, cell=number)]
        past += [display.changed(cell=number) for display in self.displays]
        end = records.UserReplOut(
            result.output,
            cell=number,
            status=str(result.status),
            kinds=result.kinds,
            rewritten=result.rewritten,
        )
        entries = ExportedConversation([*past, end]).entries
        cells: list[Cell] = [entry for entry in entries if has_run(entry)]
        parts = [
            part._replace(text=copy.original_text(part.text), data=copy.original_text(part.data))
            for part in outputs(cells[0])
        ]
        has_failed = result.status is not Status.OK
        return make_outcome(
            parts, has_failed=has_failed, time=time.time(), is_foreign=cell.is_foreign
        )


class _Launcher(LocalLauncher):
    """Starts kernels whose temporary files are in the copy's folder."""

    def __init__(self, temporary: str) -> None:
        self._temporary = temporary

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], state: ConnectionState
    ) -> Process:
        variables = {**environment(*size), "TMPDIR": self._temporary}
        return spawn(executable, cwd, variables)


class _Host(KernelHost):
    """Serves the cells of a check, and notes what it does not do for them."""

    def __init__(self, servers: Sequence[str]) -> None:
        """
        Args:
            servers: The names of the MCP servers.
        """
        self._servers = servers
        self.refusals: list[str] = []
        """Clauses about the running cell."""
        self.outputs: dict[int, str] = {}
        """The outputs by cell."""

    def functions(self) -> Sequence[HostFunction]:
        # They have to exist, so that a cell that calls them says so instead of failing.
        tools = load_tools(lambda problem: None)
        tool_functions = [function for tool in tools.values() for function in tool.host_functions()]
        return [*tool_functions, CELL_OUTPUT_FUNCTION]

    def servers(self) -> Sequence[HostServer]:
        return [HostServer(name, "") for name in self._servers]

    def call(self, call: HostCall) -> Any:
        if call.name == "cell_output":
            return self.outputs.get(call.args["cell"], "")
        # Neither the end of the program nor private variables change what a cell computes.
        if call.name in ("quit", "private"):
            return None
        refusal = _REFUSED_CALLS.get(call.name, f"it calls {call.name}()")
        self.refusals.append(refusal)
        raise RuntimeError(f"A check does not do this for a cell: {refusal}.")


class CheckKernel:
    """A kernel in a copy of the project, which can change files only there. It must be closed."""

    def __init__(
        self,
        copy: ProjectCopy,
        secrets: Secrets,
        python: str | None,
        *,
        is_confined: bool,
        columns: int,
        servers: Sequence[str],
        save_target: SaveTarget | None = None,
    ) -> None:
        """Create a kernel that is not started.

        Args:
            copy: Where it works.
            secrets: What is masked in its results.
            python: The interpreter; None for our own.
            is_confined: Whether the system keeps it from changing other files.
            columns: The width of its screen.
            servers: The names of the MCP servers, which are not called.
            save_target: Where the variables are saved that it can restore.
        """
        self._copy = copy
        self._is_confined = is_confined
        self.host = _Host(servers)
        inner = ProcessKernel(
            python,
            copy.path,
            undo_steps=0,
            keep=save_target,
            launcher=_Launcher(copy.temporary),
        )
        inner.set_size(columns, SCREEN_LINES)
        self.kernel: Kernel = MaskedKernel(inner, secrets)

    def start(self) -> None:
        """Start the kernel, and run the user's startup code. Raises `CheckError`."""
        try:
            self.kernel.start(self.host)
            if self._is_confined:
                self._run_own(_CONFINE.format(self._copy.folder))
            if startup := startup_code():
                self._run_own(startup)
        except KernelError as error:
            raise CheckError(f"The kernel did not start. {error}") from None

    def _run_own(self, code: str) -> None:
        """Run code that belongs to no cell. Raises `CheckError` if it fails."""
        result = self.kernel.execute(code, cell=0, on_output=lambda kind, text: None)
        if result.status is not Status.OK:
            ending = (result.output.strip() or result.detail).splitlines()[-1:]
            raise CheckError(f"The code with which the kernel begins failed: {' '.join(ending)}")

    def close(self) -> None:
        """End the kernel. Any thread may do this."""
        self.kernel.close()

    def run_cell(self, cell: RecordedCell, timeout: float) -> CellRun:
        """Run a cell.

        Args:
            cell: The cell.
            timeout: Seconds until it is interrupted.
        """
        displays: list[DisplayRecord] = []
        self.host.refusals.clear()
        bounded = BoundedCell(self.kernel, timeout, may_kill=True)
        execute = partial(
            self.kernel.execute,
            cell.code,
            cell=cell.number,
            on_output=lambda kind, text: None,
            on_display=displays.append,
        )
        result = bounded.run(execute)
        self.host.outputs[cell.number] = result.output
        return CellRun(result, displays, self.host.refusals[:], bounded.timed_out, timeout)
