"""Waiting for what happens outside of this process, or a little later on another thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Until something is so. Raises AssertionError when it takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come to be"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it has ended just now, or there is no /proc
        return not Path("/proc/self").exists()
