"""Attacks in a sandbox, and refusal of a weakened one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mahtab_tui import worker
from mahtab_tui.cli import doctor
from mahtab_tui.sandbox import process
from mahtab_tui.sandbox.base import CallRefusedError, Sandbox, SandboxError
from mahtab_tui.sandbox.process import ProcessSandboxes, open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.worker.sandbox import confinement
from tests.integration.canaries import Canaries, canaries
from tests.integration.escapes import ATTACKS, ESCAPES, Escape, some_quick
from tests.integration.sandboxes import RecordingNode, never, run

UNCONFINED = """
import sys
try:
    exec(compile(sys.argv[1], "escape", "exec"), {"__name__": "__main__"})
except BaseException as error:
    print(repr(error))
print("END", flush=True)
sys.stdin.read()
"""

WEAKENED = """
import os, socket, sys
package = type(sys)("w"); package.__path__ = [sys.argv[1]]; sys.modules["w"] = package
from w.link import frames
from w.sandbox import allowed_calls, confinement, process, system_calls
CHANGE
locks = confinement.prepare()
ours, theirs = socket.socketpair()
parent, text = os.getpid(), system_calls.memory_file("text")
if os.fork() == 0:
    try:
        process.run_sandbox(parent, theirs.fileno(), None, locks)
    finally:
        os._exit(1)
theirs.close()
try:
    socket.send_fds(ours, [b"t"], [text])
    ours.sendall(frames.encode({"op": "text", "kind": "str", "parts": [], "contexts": [], "max_answer_chars": 1000, "tools": []}))
except BrokenPipeError:  # it has ended; its message can still be read
    pass
print(ours.recv(10_000)[4:].decode())
ours.close()
os.wait()
"""
"""The child program, with a change of the lockdown."""
ALLOW = (
    "confinement.filter_program.__defaults__ = "
    "((*allowed_calls.ALLOWED, allowed_calls.AllowedCall('x', {}, {})),)"
)


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    with (
        canaries(tmp_path_factory.mktemp("canaries")) as created_canary,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        monkeypatch.setenv("CANARY", created_canary.token)
        yield created_canary


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandboxes(
    canary: Canaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ProcessSandboxes]:
    left_open = tmp_path_factory.mktemp("open") / "file"
    left_open.write_text("canary-inherited")
    fd = os.open(left_open, os.O_RDONLY)
    os.set_inheritable(fd, True)
    opened_sandboxes = open_sandboxes()
    assert isinstance(opened_sandboxes, ProcessSandboxes)
    yield opened_sandboxes
    await opened_sandboxes.close()
    os.close(fd)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bystander(sandboxes: ProcessSandboxes) -> AsyncIterator[Sandbox]:
    other_sandbox = await sandboxes.start(SearchedText.root("other"), RecordingNode())
    yield other_sandbox
    await other_sandbox.close()


class WaryNode(RecordingNode):
    async def call(self, name: str, args: dict[str, Any]) -> Any:
        if name == "wait":
            return await never(name, args)
        self.calls.append((name, args))
        raise CallRefusedError("no")


def _pid(sandbox: Any) -> int | None:
    child = sandbox._child
    return None if child is None or child.over else child._forked.pid


@pytest.mark.sample(50)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("escape", some_quick([*ESCAPES, *ATTACKS]))
async def test_no_escape_attempt_succeeds(
    escape: Escape,
    sandboxes: ProcessSandboxes,
    bystander: Sandbox,
    canary: Canaries,
    capfd: pytest.CaptureFixture[str],
) -> None:
    node = WaryNode()
    sandbox = await sandboxes.start(SearchedText.root("text"), node)
    server = sandboxes._server
    result = await run(sandbox, canary.prelude() + escape.code, escape.seconds)
    output = f"{result.output} {node.calls} {node.notifications}"
    assert canary.dead(output, _pid(sandbox)) == [], result
    assert "canary-" not in output
    sent = [result.output, node.calls, node.notifications]
    assert json.dumps(sent, ensure_ascii=False).encode()  # no surrogates
    assert "TERMINAL" not in "".join(capfd.readouterr())
    assert len(result.output) <= 20_000
    # The other sandbox, this one's next turn and the server work.
    assert (await run(bystander, "context")).output == "'other'\n"
    assert (await run(sandbox, "context")).output in ("'text'\n", "") or result.status == "ok"
    assert sandboxes._server is server
    assert server is not None
    assert server.alive
    await sandbox.close()


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_all_attacks_at_once_leave_other_processes_alone(
    sandboxes: ProcessSandboxes, bystander: Sandbox, canary: Canaries
) -> None:

    async def attack(escape: Escape) -> None:
        sandbox = await sandboxes.start(SearchedText.root("text"), WaryNode())
        await run(sandbox, canary.prelude() + escape.code, min(escape.seconds, 2.0))
        await sandbox.close()

    attacks = asyncio.gather(*map(attack, ATTACKS))
    turns = 0
    while not attacks.done():
        assert (await run(bystander, "context")).output == "'other'\n"
        turns += 1
        await asyncio.sleep(0.05)
    await attacks
    assert turns > 1
    assert canary.dead("", _pid(bystander)) == []


@pytest.mark.sample(20)
@pytest.mark.skipif(os.getuid() != 0, reason="some escapes need root")
@pytest.mark.parametrize(
    "escape", some_quick(candidate for candidate in ESCAPES if candidate.works)
)
def test_canaries_detect_escapes_without_a_sandbox(
    escape: Escape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = subprocess.PIPE
    options: Any = {"stdin": pipe, "stdout": pipe, "stderr": subprocess.STDOUT, "text": True}
    with canaries(tmp_path) as canary:
        monkeypatch.setenv("CANARY", canary.token)
        command = [sys.executable, "-c", UNCONFINED, canary.prelude() + escape.code]
        with subprocess.Popen(command, start_new_session=True, **options) as process:
            assert process.stdout is not None
            output = "".join(takewhile("END\n".__ne__, process.stdout))
            dead = canary.dead(output, process.pid)
            process.kill()
    assert dead, output


# A sandbox that can be escaped is not used, and the user learns why.


def first_message(change: str) -> dict[str, str]:
    program = WEAKENED.replace("CHANGE", change)
    folder = str(Path(worker.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", program, folder]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    message: dict[str, str] = json.loads(output)
    return message


@pytest.mark.parametrize(
    "change", ["", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))"]
)
def test_intact_sandbox_is_used_and_needs_few_descriptors(change: str) -> None:
    assert first_message(change) == {"op": "ready"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("confinement.restrict_files = lambda rules: None", "files can be opened"),
        ("confinement.apply_filter = lambda program: None", "processes can be made"),
        ("confinement.apply_filter = lambda program: None", "the internet can be reached"),
        (ALLOW.format(41, 198), "the internet can be reached; local sockets can be reached"),
        (ALLOW.format(62, 129), "processes can be signalled"),
        (
            "confinement.forbid_new_privileges = lambda: None\nconfinement.restrict_files = lambda rules: system_calls.syscall(446, -1, 0)",
            "Errno",
        ),
        (
            "def no(text): raise MemoryError('no memory')\nconfinement.limit_resources = no",
            "A sandbox cannot be started: no memory",
        ),
        (
            "def no(rules): raise OSError(24, 'Too many open files')\nconfinement.restrict_files = no",
            "A sandbox cannot be started: Too many open files",
        ),
    ],
)
def test_broken_sandbox_is_not_used(change: str, reason: str) -> None:
    message = first_message(change)
    assert message["op"] == "refused"
    assert reason in message["reason"]


async def test_unusable_interpreter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for executable, reason in (
        ("/nowhere/python", "cannot be started"),
        ("/bin/false", "does not work as a sandbox"),
    ):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(SandboxError, match=reason):
            await ProcessSandboxes().start(SearchedText.root("text"), RecordingNode())


def test_doctor_names_the_sandbox_and_missing_features(monkeypatch: pytest.MonkeyPatch) -> None:
    def reported() -> str:
        return next(line for line in doctor.report() if line[2:].startswith("sandbox"))

    assert reported() == "✓ sandbox     a process under Landlock and seccomp"
    lacking = "its kernel has no Landlock"
    monkeypatch.setattr(confinement, "missing_support", lambda: lacking)
    assert reported().startswith("! sandbox     Monty")
    assert lacking in reported()
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    assert reported().startswith("! sandbox     none")
    assert lacking in reported()
    assert "pydantic-monty" in reported()
