"""Real kernels for tests, and a host that records their messages."""

from __future__ import annotations

import functools
import os
import queue
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.host import HostCall, HostFunction, HostServer
from mahtab_tui.kernel.values import CellResult, Completion, KernelInfo, KernelState, OutputKind

PATIENCE = 60.0
FIND_CHANNEL = """\
import sys
frame = sys._getframe()
while frame.f_code.co_name != '_execute':
    frame = frame.f_back
channel = frame.f_locals['self'].channel
"""
"""Code that finds the channel by which its own kernel answers, so that it can replace its methods."""
WAITS = {
    "computes": "while True: pass",
    "sleeps": "import time; time.sleep(1000)",
    "awaits": "import asyncio; await asyncio.sleep(1000)",
    "runs asyncio.run": "import asyncio; asyncio.run(asyncio.sleep(1000))",
    "waits in os.system": "import os; os.system('sleep 1000')",
    "waits for a child": "import subprocess; subprocess.run(['sleep', '1000'])",
    "waits for a lock": "import threading; threading.Event().wait()",
    "waits for a thread": "import threading, time; t = threading.Thread(target=time.sleep, args=[1000], daemon=True); t.start(); t.join()",
}
"""Code that never ends by itself."""


class RecordingHost:
    def __init__(self) -> None:
        self.states: queue.Queue[tuple[KernelState, str]] = queue.Queue()
        self.late: queue.Queue[str] = queue.Queue()
        self.calls: queue.Queue[tuple[str, Mapping[str, Any]]] = queue.Queue()
        self.cancelled: queue.Queue[str] = queue.Queue()
        self.given: Sequence[HostFunction] = ()
        self.answer: Callable[[str, Mapping[str, Any]], Any] = lambda name, args: None

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        self.states.put((info.state, text))

    def background_output(self, text: str) -> None:
        self.late.put(text)

    def functions(self) -> Sequence[HostFunction]:
        return self.given

    def servers(self) -> Sequence[HostServer]:
        return ()

    def call(self, call: HostCall) -> Any:
        call.cancellation.on_cancel(lambda: self.cancelled.put(call.name))
        self.calls.put((call.name, call.args))
        return self.answer(call.name, call.args)

    def wait_for_state(self, state: KernelState) -> str:
        while True:
            reported_state, text = self.states.get(timeout=PATIENCE)
            if reported_state is state:
                return text

    def wait_for_late(self, expected_text: str) -> str:
        text = ""
        while expected_text not in text:
            text += self.late.get(timeout=PATIENCE)
        return text


class Cells:
    def __init__(self, kernel: Kernel, host: RecordingHost) -> None:
        self.kernel = kernel
        self.host = host
        self.number = 0

    def run(self, code: str, nested: bool = False) -> CellResult:
        return self.run_until("", lambda: None, code, nested)

    def run_until(
        self,
        expected_text: str,
        action: Callable[[], object],
        code: str,
        nested: bool = False,
    ) -> CellResult:
        self.number += 1
        output_pieces: list[str] = []

        def on_output(kind: OutputKind, text: str) -> None:
            was_expected = expected_text in "".join(output_pieces)
            output_pieces.append(text)
            if expected_text and not was_expected and expected_text in "".join(output_pieces):
                action()

        result = self.kernel.execute(code, cell=self.number, on_output=on_output, nested=nested)
        assert "".join(output_pieces) == result.output or result.detail or result.rewritten
        return result

    def interrupt_after(self, expected_text: str, code: str) -> CellResult:
        return self.run_until(expected_text, self.kernel.interrupt, code)

    def text(self, code: str) -> str:
        result = self.run(code)
        assert result.status == "ok", result
        return result.output

    def complete(self, code: str) -> list[Completion]:
        """Complete code at its end. The first time takes long on a busy machine."""
        for _ in range(20):
            with suppress(KernelError):
                return list(self.kernel.complete(code, len(code)).items)
        raise AssertionError("no completions in time")

    def names(self) -> set[str]:
        return {variable.name for variable in self.kernel.variables()}

    def expect(self, code: str, output: str) -> None:
        """Run code that must succeed with exactly this output."""
        printed = self.text(code)
        assert printed == output, f"{code!r} printed {printed!r}, not {output!r}"


@functools.cache
def interpreters() -> Sequence[object]:
    """Test parameters: every Python from 3.9 on that is on the PATH or among pyenv's versions. The
    newest is slow, and those between it and the oldest are thorough."""
    pythons = [Path(path) for minor in range(9, 20) if (path := shutil.which(f"python3.{minor}"))]
    root = os.environ.get("PYENV_ROOT") or (shutil.which("pyenv") and _output("pyenv", "root"))
    if root:
        # Its shims are slow, and fail for versions that are not set.
        pythons = [python for python in pythons if not python.is_relative_to(Path(root, "shims"))]
        pythons += sorted(Path(root, "versions").glob("3.*/bin/python"))
    by_version: dict[tuple[int, ...], str] = {}
    for python in pythons:
        version = _output(str(python), "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])")
        if version and (numbers := tuple(map(int, version.split(".")))) >= (3, 9):
            by_version.setdefault(numbers, str(python))
    pythons_in_order = [by_version[version] for version in sorted(by_version)]
    return [
        *(pytest.param(python) for python in pythons_in_order[:1]),
        *(pytest.param(python, marks=pytest.mark.thorough) for python in pythons_in_order[1:-1]),
        *(pytest.param(python, marks=pytest.mark.slow) for python in pythons_in_order[1:][-1:]),
    ]


@contextmanager
def running(kernel: Kernel) -> Iterator[Cells]:
    host = RecordingHost()
    kernel.start(host)
    try:
        yield Cells(kernel, host)
    finally:
        kernel.close()


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def show(cells: Cells, code: str) -> list[DisplayRecord]:
    """Run a cell, and return what it displayed."""
    return list(cells.run(code).displays)
