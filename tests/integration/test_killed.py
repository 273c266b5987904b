"""A program that is killed leaves no process: neither one that searches without end, nor a program
that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import alive, descendants, ticks, wait_for

SEARCH = "import os; from mahtab_tui.knowledge.code import CodeSearcher; CodeSearcher('code', ripgrep={ripgrep}).search({pattern!r}, seconds=1000)"
PRINTED = "from mahtab_tui.session.attached import run_command; run_command({command!r}, '.', lambda: False)"
PROGRAMS = {
    "a search": SEARCH.format(ripgrep=None, pattern="(a|a)+$"),
    "ripgrep": SEARCH.format(ripgrep="os.path.abspath('rg')", pattern="a"),
    "a command that is attached": PRINTED.format(command="exec sleep 1000"),
}


def works(pid: int) -> bool:
    """Whether a process has begun with what it is there for: it is no longer the one that starts
    it, and sleeps or searches."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"sleep" in command[0] or (
        b"mahtab_tui.knowledge.scanning" in command and ticks(pid) > 50
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems cannot end a process with another"
)
@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_processes_started_by_a_killed_program_end(project: Path, code: str) -> None:
    (project / "code").mkdir()
    (project / "code" / "some.py").write_text("a" * 60 + "b")
    (project / "rg").write_text("#!/bin/sh\nexec sleep 1000\n")
    (project / "rg").chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", code], cwd=project) as program:
        started: list[int] = []
        try:
            wait_for(
                lambda: program.poll() is not None or any(map(works, descendants(program.pid)))
            )
            assert program.poll() is None
            started = descendants(program.pid)
            program.kill()
            wait_for(lambda: not any(map(alive, started)), 20)
        finally:
            program.kill()
            for pid in filter(alive, started):
                os.kill(pid, signal.SIGKILL)
