"""A client that others have written: acpx, a program of Node."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.warm import command

pytestmark = pytest.mark.skipif(
    shutil.which("acpx") is None, reason="acpx is not on the PATH: npm install -g acpx"
)
Acpx = Callable[..., str]


@pytest.fixture
def acpx(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Acpx]:
    """Run acpx with a session that stays open between calls, and return what it prints."""
    monkeypatch.setenv("MAHTAB_MODEL", "demo")
    agent = shlex.join([*command(), "acp"])

    def run(*words: str) -> str:
        done = subprocess.run(
            ["acpx", "--agent", agent, "--approve-all", *words],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        return done.stdout

    run("sessions", "new")
    yield run
    run("sessions", "close")


def test_acpx_drives_a_session(acpx: Acpx) -> None:
    assert "[+items list 2 items]" in acpx("/run items = [1, 2]")
    answer = acpx("how many items has items?")
    assert "items has 2 items" in answer
    assert answer.rstrip().endswith("[done] end_turn")
    assert "approval=auto" in acpx("set", "approval", "auto")
