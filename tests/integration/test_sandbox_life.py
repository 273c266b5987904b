"""The life of sandboxes: how their processes begin, end, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.sandbox.base import Sandbox, SandboxError, Text
from mahtab_tui.sandbox.process import ProcessSandboxes, open_sandboxes
from mahtab_tui.worker.sandbox import confinement
from tests.integration.sandboxes import RecordingNode, printed, run

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_dying_process_reports_how_and_is_replaced(sandbox: Sandbox) -> None:
    result = await run(sandbox, "import os\nos._exit(3)")
    assert result.status == "died"
    assert "exited with code 3" in result.output
    result = await run(sandbox, "import ctypes\nctypes.string_at(0)")
    assert "SIGSEGV" in result.output
    assert await printed(sandbox, "len(context)") == "14\n"


@pytest.mark.parametrize("known", [False, True])
async def test_server_is_restarted_if_it_ends(
    sandboxes: ProcessSandboxes, node: RecordingNode, known: bool
) -> None:
    """Whether or not the loop has heard of its end."""
    sandbox = await sandboxes.start(Text.root("a"), node)
    server = sandboxes._server
    assert server is not None
    server._process.kill()
    os.waitid(os.P_PID, server._process.pid, os.WEXITED | os.WNOWAIT)
    while known and server.alive:
        await asyncio.sleep(0)
    other = await sandboxes.start(Text.root("b"), node)
    assert await printed(other, "context") == "'b'\n"
    result = await run(sandbox, "context")
    assert result.status == "died" or result.output == "'a'\n"
    assert await printed(sandbox, "context") == "'a'\n"


async def test_start_without_free_descriptors_fails_and_a_later_one_works(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    """Whichever of those that a start needs is the one that is lacking."""
    await (await sandboxes.start(Text.root("x"), node)).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    descriptors: list[int] = []
    try:
        for room in range(6):
            with suppress(OSError):
                while True:
                    descriptors.append(os.open(os.devnull, os.O_RDONLY))
            for _ in range(room):
                os.close(descriptors.pop())
            if room < 4:
                with pytest.raises(SandboxError, match="Too many open files"):
                    await asyncio.wait_for(sandboxes.start(Text.root("x"), node), 30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in descriptors:
            os.close(fd)
    sandbox = await sandboxes.start(Text.root("later"), node)
    assert await printed(sandbox, "context") == "'later'\n"
    await sandbox.close()


async def test_server_without_free_descriptors_reports_it_and_survives(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    await (await sandboxes.start(Text.root("x"), node)).close()
    server = sandboxes._server
    assert server is not None
    pid = server._process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(fd.name) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    free = [number for number in range(limits[0]) if number not in used]
    for room in range(3):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[room], limits[1]))
        with pytest.raises(SandboxError, match="Too many open files"):
            await sandboxes.start(Text.root("x"), node)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    sandbox = await sandboxes.start(Text.root("later"), node)
    assert sandboxes._server is server
    assert await printed(sandbox, "context") == "'later'\n"
    await sandbox.close()


async def test_many_sandboxes_run_concurrently(sandboxes: ProcessSandboxes) -> None:
    async def one(number: int) -> str:
        sandbox = await sandboxes.start(Text.root(str(number)), RecordingNode())
        text = await printed(sandbox, "print(context * 2)")
        await sandbox.close()
        return text

    assert await asyncio.gather(*map(one, range(20))) == [
        f"{number}{number}\n" for number in range(20)
    ]


async def test_cancelled_start_leaves_no_process(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    await sandboxes.start(Text.root("a"), node)
    server = sandboxes._server
    assert server is not None
    before = set(server._running)
    starts = [asyncio.create_task(sandboxes.start(Text.root("b"), node)) for _ in range(3)]
    await asyncio.sleep(0)
    for start in starts:
        start.cancel()
    await asyncio.gather(*starts, return_exceptions=True)
    other = await sandboxes.start(Text.root("c"), node)
    await other.close()
    while not set(server._running) <= before or server._requests:
        await asyncio.sleep(0.01)


async def test_starts_cancelled_at_any_point_do_not_affect_later_ones(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    await sandboxes.start(Text.root("a"), node)
    server = sandboxes._server
    assert server is not None
    for steps in range(12):
        before = len(server._running)
        start = asyncio.create_task(sandboxes.start(Text.root("a"), node))
        while len(server._running) == before:
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        start.cancel()
        following = asyncio.create_task(sandboxes.start(Text.root("b"), node))
        await asyncio.wait((start,))
        if not start.cancelled():
            await start.result().close()
        assert await printed(await following, "context") == "'b'\n"
        await following.result().close()


async def test_cancelled_start_with_a_large_text_leaves_no_file(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    def memory_files() -> list[str]:
        return [name for fd in os.listdir("/proc/self/fd") if "memfd:text" in (name := _link(fd))]

    start = asyncio.create_task(sandboxes.start(Text.root("x" * 20_000_000), node))
    while not memory_files():
        await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    while memory_files():
        await asyncio.sleep(0.01)


def _link(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


async def test_closing_ends_all_processes(node: RecordingNode) -> None:
    sandboxes = open_sandboxes()
    assert isinstance(sandboxes, ProcessSandboxes)
    sandbox = await sandboxes.start(Text.root("a"), node)
    turn = asyncio.create_task(run(sandbox, "print('go')\nllm('q')\nwhile True: pass"))
    await node.waiting.wait()
    await sandboxes.close()
    assert (await turn).status in ("died", "killed")


async def test_killed_host_leaves_nothing(tmp_path: Path) -> None:
    host = """
import asyncio, sys
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.sandbox.base import Text
class Node:
    def tell(self, name, args): ...
async def main():
    sandboxes = open_sandboxes()
    sandbox = await sandboxes.start(Text.root("a"), Node())
    print((await sandbox.run("import os\\nprint(os.getpid(), os.getppid())", 60)).output, flush=True)
    await sandbox.run("import signal\\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\\nwhile True: pass", 1000)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", host, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    pids = list(map(int, (await process.stdout.readline()).split()))
    assert len(pids) == 2
    process.kill()
    await process.wait()
    while any(_alive(pid) for pid in pids):
        await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_closed_sandboxes_cannot_be_reused(node: RecordingNode) -> None:
    sandboxes = open_sandboxes()
    sandbox = await sandboxes.start(Text.root("a"), node)
    await sandboxes.close()
    assert (await run(sandbox, "1")).status == "died"
    with pytest.raises(SandboxError):
        await sandboxes.start(Text.root("a"), node)


async def test_memory_exhaustion_ends_only_this_sandbox_and_the_next_turn_works(
    sandbox: Sandbox,
) -> None:
    result = await run(sandbox, "hoard = []\nwhile True: hoard.append(bytearray(2**22))")
    assert result.status in ("error", "died")
    await run(sandbox, "hoard = None")
    assert await printed(sandbox, "len(context)") == "14\n"


THREADS = """
import ctypes
lib = ctypes.CDLL(None, use_errno=True)
stack = ctypes.create_string_buffer(2**20)
top, work, made = ctypes.c_void_p(ctypes.addressof(stack) + 2**20 - 4096), ctypes.cast(lib.pause, ctypes.c_void_p), 0
while lib.clone(work, top, 0x100 | 0x200 | 0x400 | 0x800 | 0x10000, None) > 0 and made < 5000:
    made += 1
"""
"""Threads that share one stack, so that no limit of memory counts them."""


async def test_operating_system_limits_the_threads_of_a_sandbox(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    """However busy its host is: they would take every process number that the machine has."""
    sandbox = await sandboxes.start(Text.root("text"), node)
    assert 0 < int(await printed(sandbox, THREADS + "print(made)")) < confinement.SHARED_THREADS
    await sandbox.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_threads_of_a_non_root_user_are_limited() -> None:
    code = f"import ctypes, os\nfrom mahtab_tui.worker.sandbox import confinement\nos.setresuid(54321, 54321, 54321)\nconfinement.limit_resources(2**30)\n{THREADS}"
    ended = "print(made, flush=True)\nos.kill(os.getpid(), 9)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code + ended, stdout=asyncio.subprocess.PIPE
    )
    made, _ = await process.communicate()
    assert confinement.THREADS < int(made) <= confinement.SHARED_THREADS


async def test_large_text_is_delivered_once_and_uses_only_its_own_memory(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    text = "0123456789abcde\n" * (100 * 2**20 // 16)
    sandbox = await sandboxes.start(Text.root(text), node)
    assert (
        await printed(sandbox, "len(context), len(grep('x')), len(peek(50))")
        == "(104857600, 0, 50)\n"
    )
    pid = int(await printed(sandbox, "import os\nos.getpid()"))
    peak = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    assert int(peak.split()[1]) * 1024 < 4 * len(text)
    assert await printed(sandbox, "twice = context + context\nlen(twice)") == "209715200\n"
