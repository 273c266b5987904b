"""A sandbox that does not hold is not used, and somebody is told why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mahtab_tui import worker
from mahtab_tui.cli import doctor
from mahtab_tui.sandbox import process
from mahtab_tui.sandbox.base import SandboxError, Text
from mahtab_tui.sandbox.process import ProcessSandboxes
from mahtab_tui.worker.sandbox import confinement
from tests.integration.sandboxes import RecordingNode

# The child program, with a step of the lockdown left out.
_WEAKENED = """
import os, socket, sys
package = type(sys)("w"); package.__path__ = [sys.argv[1]]; sys.modules["w"] = package
from w import frames
from w.sandbox import confinement, server
CHANGE
locks = confinement.prepare()
ours, theirs = socket.socketpair()
parent, text = os.getpid(), confinement.memory_file("text")
if os.fork() == 0:
    try:
        server.run(parent, theirs.fileno(), text, locks)
    finally:
        os._exit(1)
theirs.close()
try:
    ours.sendall(frames.encode({"op": "text", "kind": "str", "parts": [], "contexts": [], "answer": 1000, "tools": []}))
except BrokenPipeError:  # it has ended by now; what it said is there
    pass
print(ours.recv(10_000)[4:].decode())
ours.close()
os.wait()
"""


def first_words(change: str) -> dict[str, str]:
    """The first message of a sandbox whose lockdown was changed."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _WEAKENED.replace("CHANGE", change),
        str(Path(worker.__file__).parent),
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    message: dict[str, str] = json.loads(output)
    return message


def test_intact_sandbox_is_used() -> None:
    assert first_words("") == {"op": "ready"}


def test_few_descriptors_suffice() -> None:
    few = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))"
    assert first_words(few) == {"op": "ready"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("confinement.restrict_files = lambda rules: None", "files can be opened"),
        ("confinement.apply_filter = lambda program: None", "processes can be made"),
        ("confinement.apply_filter = lambda program: None", "the internet can be reached"),
        (
            "confinement.filter_program.__defaults__ = ((*confinement.ALLOWED, confinement.AllowedCall('socket', 41, 198)),)",
            "the internet can be reached; local sockets can be reached",
        ),
        (
            "confinement.filter_program.__defaults__ = ((*confinement.ALLOWED, confinement.AllowedCall('kill', 62, 129)),)",
            "processes can be signalled",
        ),
        ("confinement.set_filter = lambda program: None", "processes can be made"),
        (
            "confinement.forbid_new_privileges = lambda: None\\nconfinement.restrict_files = lambda rules: confinement.syscall(446, -1, 0)",
            "Errno",
        ),
        (
            "def no(text): raise MemoryError('no memory')\\nconfinement.limit_resources = no",
            "A sandbox cannot be started: no memory",
        ),
        (
            "def no(rules): raise OSError(24, 'Too many open files')\\nconfinement.restrict_files = no",
            "A sandbox cannot be started: Too many open files",
        ),
    ],
)
def test_broken_sandbox_is_not_used(change: str, why: str) -> None:
    message = first_words(change.replace("\\n", "\n"))
    assert message["op"] == "refused"
    assert why in message["why"]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without Landlock, and without the interpreter that takes its place."""
    monkeypatch.setattr(confinement, "missing_support", lambda: "its kernel has no Landlock")
    monkeypatch.setattr(process, "find_spec", lambda name: None)


@pytest.mark.usefixtures("bare")
def test_missing_system_feature_is_reported() -> None:
    with pytest.raises(SandboxError, match="its kernel has no Landlock"):
        process.open_sandboxes()


async def test_unusable_interpreter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for executable, why in (
        ("/nowhere/python", "cannot be started"),
        ("/bin/false", "does not work as a sandbox"),
    ):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(SandboxError, match=why):
            await ProcessSandboxes().start(Text.root("text"), RecordingNode())


def _of_the_sandbox() -> str:
    return next(line for line in doctor.report() if line[2:].startswith("sandbox"))


def test_doctor_names_the_working_sandbox() -> None:
    assert _of_the_sandbox() == "✓ sandbox     a process under Landlock and seccomp"


@pytest.mark.usefixtures("bare")
def test_doctor_reports_missing_features() -> None:
    line = _of_the_sandbox()
    assert line.startswith("! sandbox     none")
    assert "its kernel has no Landlock" in line
    assert "pydantic-monty" in line


def test_doctor_explains_why_monty_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_monty")
    monkeypatch.setattr(confinement, "missing_support", lambda: "its kernel has no Landlock")
    line = _of_the_sandbox()
    assert line.startswith("! sandbox     Monty")
    assert "its kernel has no Landlock" in line
