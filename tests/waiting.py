"""Waiting for other processes and threads."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.005)


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run this Python in a new process."""
    options = {"timeout": 120, "check": False, **options}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


def alive(pid: int) -> bool:
    """Return whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it has ended just now, or there is no /proc
        return not Path("/proc/self").exists()


def detached_kernels(home: Path) -> list[int]:
    """Return the process ids of the kernels that have a holder there."""
    from mahtab_tui.kernel.holder_connection import ask

    process_ids = []
    for path in (home / ".mahtab" / "run" / "kernels").glob("*.sock"):
        with contextlib.suppress(OSError, ValueError):
            process_ids.append(int(ask(path, {"op": "status"}).fields["pid"]))
    return process_ids


def end_waiting_kernels(home: Path) -> None:
    """Kill the kernels that wait there, with their child processes."""
    for pid in detached_kernels(home):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the children of a process and their descendants (on Linux)."""
    children = [
        int(word)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for word in (task / "children").read_text().split()
    ]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


def ticks(pid: int) -> int:
    """Return the processor time of a process, in hundredths of a second (on Linux)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
