"""Kernels that one host detaches and the next one attaches, on this machine and on another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.kernel.detached import attach
from mahtab_tui.kernel.launch import Launcher
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.address import Address
from mahtab_tui.kernel.remote.attaching import attach_remote
from mahtab_tui.kernel.remote.launcher import RemoteLauncher
from mahtab_tui.kernel.remote.notes import noted_kernels
from mahtab_tui.kernel.values import CellResult, SaveTarget
from mahtab_tui.session.kernel import LocalDetachable
from tests.integration.kernels import RecordingHost

SESSION = "session"
OPEN: list[ProcessKernel] = []
ELSEWHERE: list[Address] = []


@pytest.fixture
def close_kernels() -> Iterator[None]:
    yield
    ELSEWHERE.clear()
    while OPEN:
        OPEN.pop().close()


def no_answer(prompt: str, hidden: bool) -> None: ...


class Screen:
    def __init__(
        self,
        *,
        again: bool = False,
        hours: float = 1.0,
        keep: SaveTarget | None = None,
        answer: str = "",
    ) -> None:
        """again: attach to the kernel that an earlier one has detached. answer: to its calls."""
        self.host = RecordingHost()
        self.host.answer = lambda name, args: answer
        self.kernel = ProcessKernel(launcher=_launcher(again, hours), keep=keep, undo_steps=0)
        OPEN.append(self.kernel)
        self.kernel.start(self.host)
        self.printed: list[str] = []
        self.displays: list[DisplayRecord] = []

    def run(self, cell: int, code: str) -> CellResult:
        result = self.kernel.execute(
            code, cell=cell, on_output=self._output, on_display=self.displays.append
        )
        self.kernel.acknowledge(cell)
        return result

    def begin(self, cell: int, code: str) -> Future[CellResult]:
        result: Future[CellResult] = Future()
        has_output = threading.Event()

        def output(kind: str, text: str) -> None:
            self.printed.append(text)
            has_output.set()

        def work() -> None:
            result.set_result(self.kernel.execute(code, cell=cell, on_output=output))

        threading.Thread(target=work, daemon=True).start()
        assert has_output.wait(60)
        return result

    def go_on(self, cell: int, *, nested: bool = False) -> CellResult:
        result = self.kernel.resume_cell(
            cell, on_output=self._output, on_display=self.displays.append, nested=nested
        )
        assert result is not None
        return result

    def knows(self, cell: int) -> bool:
        resume = self.kernel.resume_cell
        return resume(cell, on_output=self._output, on_display=self.displays.append) is not None

    def leave(self, *, on_purpose: bool = False) -> None:
        self.kernel.close(leave=True, on_purpose=on_purpose)

    def _output(self, kind: str, text: str) -> None:
        self.printed.append(text)


def _launcher(again: bool, hours: float) -> Launcher:
    if ELSEWHERE:
        station = attach_remote(noted_kernels(SESSION)[0], no_answer) if again else None
        return RemoteLauncher(ELSEWHERE[0], hours, SESSION, station)
    waiting = attach(SESSION) if again else None
    assert (waiting is not None) == again
    return LocalDetachable(SESSION, hours, waiting)


def holder_of(kernel: int) -> int:
    process_ids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, parent, group, *_ = (process / "stat").read_text().rpartition(")")[2].split()
            if int(group) == kernel and kernel not in (int(parent), int(process.name)):
                process_ids.append(int(process.name))
    (holder,) = process_ids
    return holder
