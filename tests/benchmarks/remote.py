"""A remote kernel, over a connection that needs 50 ms each way.

From the command to the first result, where the other machine has nothing of ours yet and where it
has it; then cells.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.attaching import attach_remote
from mahtab_tui.kernel.remote.launcher import RemoteLauncher
from mahtab_tui.kernel.remote.notes import noted_kernels
from tests.benchmarks.screen import echo_row, key_echo, our_terminal
from tests.benchmarks.table import Row, since, timed
from tests.integration.kernels import Cells, RecordingHost
from tests.integration.remote import RemoteMachine

_DELAY = 50.0
"""Milliseconds each way."""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        machine = RemoteMachine(Path(folder))
        machine.delay(_DELAY)
        try:
            took = timed(lambda: machine.kernel().text("1 + 1"))
            yield Row("first result over 50 ms, nothing there", took, "<= 2,000 ms")
            took = timed(lambda: machine.kernel().text("1 + 1"))
            yield Row("first result over 50 ms, again", took, "<= 1,000 ms")
            cells = machine.kernel()
            took = timed(cells.text, 20, "1 + 1")
            yield Row("1+1 over 50 ms each way", took, "1 round trip", 2 * _DELAY, "the wire")
            with tempfile.TemporaryDirectory() as home:
                remote_echo = _echo(home, "--kernel", machine.typed)
                local_echo = _echo(home)
            yield echo_row(
                "over 50 ms while a cell prints", remote_echo, local_echo, "with a kernel here"
            )
            yield Row("attached again over 50 ms, 10,000 variables listed", _attach_again(machine))
        finally:
            machine.close()


def _echo(home: str, *where: str) -> list[float]:
    with our_terminal(home, *where) as terminal:
        terminal.enter("import time\nwhile True: print('a line of output'); time.sleep(0.02)")
        terminal.press("enter")
        terminal.wait("busy")
        took = key_echo(terminal)
        terminal.press("escape")
        terminal.wait("idle")
        terminal.leave()  # a kernel with a running cell would go on without us
    return took


def _attach_again(machine: RemoteMachine) -> float:
    home = machine.folder / "home-here"
    home.mkdir()
    with patch.dict(os.environ, HOME=str(home)):
        first_kernel = ProcessKernel(launcher=RemoteLauncher(machine.address, 1.0, "session"))
        first_kernel.start(RecordingHost())
        Cells(first_kernel, RecordingHost()).text(
            "for n in range(10_000): globals()[f'v{n}'] = [n]"
        )
        first_kernel.variables()
        first_kernel.close(leave=True)
        start = perf_counter()
        connected = attach_remote(noted_kernels("session")[0], lambda prompt, hidden: None)
        second = ProcessKernel(launcher=RemoteLauncher(machine.address, 1.0, "session", connected))
        second.start(RecordingHost())
        assert len(second.variables()) >= 10_000
        took = since(start)
        second.close()
    return took
