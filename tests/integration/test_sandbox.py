"""Turns in a sandbox, and the start and end of its processes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import zoneinfo
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui import worker
from mahtab_tui.sandbox.base import CallRefusedError, Sandbox, SandboxError
from mahtab_tui.sandbox.fork_server import ForkServer, TextServer, send_text
from mahtab_tui.sandbox.process import ProcessSandboxes, open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.worker.sandbox import confinement, system_calls
from tests.integration.sandboxes import RecordingNode, echo, never, printed, run
from tests.waiting import alive, run_python

pytestmark = pytest.mark.asyncio(loop_scope="module")

THREADS = """
import ctypes
lib = ctypes.CDLL(None, use_errno=True)
stack = ctypes.create_string_buffer(2**20)
top, work, made = ctypes.c_void_p(ctypes.addressof(stack) + 2**20 - 4096), ctypes.cast(lib.pause, ctypes.c_void_p), 0
while lib.clone(work, top, 0x100 | 0x200 | 0x400 | 0x800 | 0x10000, None) > 0 and made < 5000:
    made += 1
"""
"""Starts threads with one stack, so that no limit of memory counts them."""


def server_of(sandboxes: ProcessSandboxes) -> ForkServer:
    assert sandboxes._server is not None
    return sandboxes._server


# Turns: what the code finds, what remains, what stops it


async def test_printed_values_and_names_persist(sandbox: Sandbox) -> None:
    assert await printed(sandbox, "x = len(context)\nprint('a')\nx") == "a\n14\n"
    assert await printed(sandbox, "x + 1") == "15\n"
    assert await printed(sandbox, "None") == ""
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('out')"
    assert await printed(sandbox, code) == "out\nerr\nout\n"


async def test_failed_turn_shows_its_own_lines_and_keeps_its_names(sandbox: Sandbox) -> None:
    result = await run(sandbox, "x = 1\ndef f():\n    return 1 / 0\nf()")
    assert result.status == "error"
    assert result.output.startswith(
        'Traceback (most recent call last):\n  File "In [1]", line 4, in <module>\n    f()'
    )
    assert "return 1 / 0" in result.output
    assert "mahtab" not in result.output
    assert await printed(sandbox, "x") == "1\n"
    broken = await run(sandbox, "x = (")
    assert broken.status == "error"
    assert "SyntaxError" in broken.output
    assert "_compile" not in broken.output


async def test_library_frames_do_not_reveal_their_location(sandbox: Sandbox) -> None:
    result = await run(sandbox, "import statistics\nstatistics.mean([])")
    assert "  … 1 frame in statistics\n" in result.output
    assert sys.prefix not in result.output


async def test_stdlib_data_files_are_available(sandbox: Sandbox) -> None:
    code = "import zoneinfo, datetime\nsummer = datetime.datetime(2024, 7, 1)\n[summer.replace(tzinfo=zoneinfo.ZoneInfo(n)).utcoffset() for n in ('UTC', 'Asia/Kolkata')]"
    if zoneinfo.available_timezones():
        offsets = await printed(sandbox, code)
        assert offsets == "[datetime.timedelta(0), datetime.timedelta(seconds=19800)]\n"
    assert await printed(sandbox, "zoneinfo.available_timezones() and None") in ("", "set()\n")
    unknown = await run(sandbox, "zoneinfo.ZoneInfo('No/Where')")
    assert unknown.output.endswith("'No time zone found with key No/Where'\n")
    code = "'ä'.encode('cp1252'), 'ж'.encode('koi8_r'), 'ü.de'.encode('idna')"
    assert await printed(sandbox, code) == "(b'\\xe4', b'\\xd6', b'xn--tda.de')\n"
    assert "Return n characters" in await printed(sandbox, "help(peek)")
    assert await printed(sandbox, "exit()") == ""
    result = await run(sandbox, "import numpy")
    assert "No module named 'numpy' in this sandbox" in result.output


async def test_machine_details_stay_hidden(sandbox: Sandbox) -> None:
    code = """\
import os, sys, platform, socket
for ask in (
    platform.node, os.uname, socket.gethostname, os.getcwd, lambda: os.environ,
    lambda: (sys.executable, sys.path, sys.argv),
):
    try: print(ask())
    except OSError: print('-')
"""
    assert await printed(sandbox, code) == "\n-\n-\n/\nenviron({})\n('', [], [''])\n"


async def test_kernel_reports_that_the_process_is_locked(sandbox: Sandbox) -> None:
    pid = int(await printed(sandbox, "import os\nos.getpid()"))
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    capabilities = [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")]
    assert capabilities == [0] * 4
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert os.getsid(pid) == pid


async def test_long_output_keeps_its_ends(sandbox: Sandbox) -> None:
    result = await run(sandbox, "print('ä' * 20_000 + 'end')")
    assert result.chars == 20_004
    assert len(result.output) < 8_100
    assert result.output.startswith("ä" * 5_000 + "\n… 12,004 characters left out …\n")
    assert result.output.endswith("end\n")


async def test_closed_or_replaced_stream_is_restored_in_the_next_turn(sandbox: Sandbox) -> None:
    await run(sandbox, "import sys\nprint('before')")
    for code in ("sys.stdout.close()", "sys.stdout = None", "sys.stdout.detach()"):
        await run(sandbox, code)
        assert await printed(sandbox, "print('a')") == "a\n", code


async def test_any_text_arrives_unchanged(sandboxes: ProcessSandboxes, node: RecordingNode) -> None:
    sandbox = await sandboxes.start(SearchedText.root("a\0\ud800😀\r\n"), node)
    assert await printed(sandbox, "ascii(context)") == ascii(ascii("a\0\ud800😀\r\n")) + "\n"
    empty = await sandboxes.start(SearchedText.root(""), node)
    assert await printed(empty, "context") == "''\n"


async def test_threads_and_coroutines_make_concurrent_calls(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    both = asyncio.Event()

    async def answer(name: str, args: dict[str, object]) -> object:
        if len(node.calls) == 2:
            both.set()
        await both.wait()
        return {"answers": [{"text": f"<{args['query']}>", "failed": False}]}

    node.answer = answer
    for code in (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n    print(*pool.map(llm, 'ab'))",
        "import asyncio\nprint(*await asyncio.gather(*(asyncio.to_thread(llm, q) for q in 'ab')))",
    ):
        node.calls.clear()
        both.clear()
        assert await printed(sandbox, code) == "<a> <b>\n"


async def test_refused_call_is_an_exception_in_the_code(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    async def refuse(name: str, args: dict[str, object]) -> object:
        raise CallRefusedError("no more calls")

    node.answer = refuse
    result = await run(sandbox, "llm('q')")
    assert result.status == "error"
    assert result.output.rstrip().endswith("no more calls")
    assert "connection" not in result.output


async def test_final_ends_the_turn_whatever_the_code_catches(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    code = "print('first')\ntry:\n    FINAL('answer')\nexcept BaseException:\n    print('caught')\nFINAL('another')"
    result = await run(sandbox, code)
    assert result.status == "final"
    assert result.output.startswith("first\n")
    assert node.finals == ["answer"]
    code = "try:\n    FINAL(2)\nexcept BaseException:\n    pass\nwhile True: pass"
    assert (await run(sandbox, code)).status == "final"
    assert node.finals == ["answer", "2"]


async def test_answers_of_other_programs_models_are_understood(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    code = "import asyncio\nfound = await llm('a'), await llm_map('b', ['c'])\nprint(found, await asyncio.gather(llm('d'), llm('e')))"
    assert (await run(sandbox, code)).status == "ok"
    code = "answer['content'] = [len(context), *found[1]]\nanswer['ready'] = False"
    assert (await run(sandbox, code)).status == "ok"
    assert (await run(sandbox, "answer['ready'] = True")).status == "final"
    assert node.finals == ['[14, "b"]']


async def test_turn_starts_with_all_names_and_the_answer_function(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    code = "del context, peek\nFINAL = 'the answer'\ndef grep(pattern):\n    return 'my own'"
    await run(sandbox, code)
    assert await printed(sandbox, "print(len(context), peek(3), grep('x'))") == "14 one my own\n"
    await run(sandbox, "FINAL = 1")
    assert (await run(sandbox, "FINAL('found')")).status == "final"


async def test_uninterruptible_code_is_killed_and_the_next_turn_has_the_text(
    sandbox: Sandbox,
) -> None:
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx = 1\nwhile True: pass"
    result = await run(sandbox, code, 0.1)
    assert result.status == "killed"
    assert "killed" in result.output
    assert await printed(sandbox, "len(context), 'x' in globals()") == "(14, False)\n"


async def test_time_limit_counts_only_own_running_time(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    result = await run(sandbox, "while True: pass", 0.1)
    assert result.status == "timed out"
    assert "KeyboardInterrupt" in result.output

    async def slow(name: str, args: dict[str, object]) -> object:
        await asyncio.sleep(0.6)
        return {"answers": [{"text": "a", "failed": False}]}

    node.answer = slow
    result = await run(sandbox, "llm('q')", 0.5)
    assert result.status == "ok"
    assert result.duration >= 0.6
    node.answer = never
    busy = "import threading\nthreading.Thread(target=llm, args=('q',), daemon=True).start()\nwhile True: pass"
    assert (await run(sandbox, busy, 0.2)).status == "timed out"


async def test_cancelled_turn_ends_its_process_at_once(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    node.answer = never
    turn = asyncio.create_task(run(sandbox, "x = 1\nllm('q')"))
    await node.waiting.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert await printed(sandbox, "'x' in globals()") == "False\n"
    assert node.cancelled == ["llm"]


async def test_nothing_runs_between_turns(sandbox: Sandbox) -> None:
    busy = "import threading\ndef go():\n    while True: pass\nthreading.Thread(target=go, daemon=True).start()\n"
    pid = int(await printed(sandbox, busy + "import os\nos.getpid()"))
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        await asyncio.sleep(0.01)
    assert await printed(sandbox, "threading.active_count() >= 2") == "True\n"


async def test_thread_waiting_for_a_call_learns_that_the_turn_is_over(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    call_received = asyncio.Event()

    async def answer(name: str, args: dict[str, Any]) -> Any:
        if args["query"] == "q":
            call_received.set()
            await never(name, args)
        await call_received.wait()
        return await echo(name, args)

    node.answer = answer
    code = """
import threading
errors = []
def ask():
    try: llm('q')
    except Exception as error: errors.append(str(error))
thread = threading.Thread(target=ask, daemon=True)
thread.start()
llm('answered once the thread has asked')
"""
    await run(sandbox, code)
    assert await printed(sandbox, "thread.join()\nerrors") == "['the turn is over']\n"


# Processes: their start and end


async def test_dying_process_reports_how_and_is_replaced(sandbox: Sandbox) -> None:
    result = await run(sandbox, "import os\nos._exit(3)")
    assert result.status == "died"
    assert "exited with code 3" in result.output
    result = await run(sandbox, "import ctypes\nctypes.string_at(0)")
    assert "SIGSEGV" in result.output
    assert await printed(sandbox, "len(context)") == "14\n"


@pytest.mark.parametrize("wait_for_end", [False, True])
async def test_server_is_restarted_if_it_ends(
    sandboxes: ProcessSandboxes, node: RecordingNode, wait_for_end: bool
) -> None:
    sandbox = await sandboxes.start(SearchedText.root("a"), node)
    server = server_of(sandboxes)
    server._process.kill()
    os.waitid(os.P_PID, server._process.pid, os.WEXITED | os.WNOWAIT)
    while wait_for_end and server.alive:
        await asyncio.sleep(0)
    second_sandbox = await sandboxes.start(SearchedText.root("b"), node)
    assert await printed(second_sandbox, "context") == "'b'\n"
    result = await run(sandbox, "context")
    assert result.status == "died" or result.output == "'a'\n"
    assert await printed(sandbox, "context") == "'a'\n"


@asynccontextmanager
async def using_the_spare(sandboxes: ProcessSandboxes, node: RecordingNode) -> AsyncIterator[None]:
    """Use the process made ahead, and check afterwards that sandboxes can be started."""
    await (await sandboxes.start(SearchedText.root("x"), node)).close()
    first_sandbox = await sandboxes.start(SearchedText.root("x"), node)
    yield
    sandbox = await sandboxes.start(SearchedText.root("later"), node)
    assert await printed(sandbox, "context") == "'later'\n"
    await sandbox.close()
    await first_sandbox.close()


async def test_start_without_free_descriptors_fails_and_a_later_one_works(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors: list[int] = []
    async with using_the_spare(sandboxes, node):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        try:
            for free_descriptors in range(6):
                with suppress(OSError):
                    while True:
                        descriptors.append(os.open(os.devnull, os.O_RDONLY))
                for _ in range(free_descriptors):
                    os.close(descriptors.pop())
                if free_descriptors < 4:
                    with pytest.raises(SandboxError, match="Too many open files"):
                        await asyncio.wait_for(sandboxes.start(SearchedText.root("x"), node), 30)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in descriptors:
                os.close(fd)


async def test_server_without_free_descriptors_reports_it_and_survives(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    async with using_the_spare(sandboxes, node):
        server = server_of(sandboxes)
        pid = server._process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        open_descriptors = {int(fd.name) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        unused_descriptors = [
            number for number in range(limits[0]) if number not in open_descriptors
        ]
        for free_descriptors in range(2):
            resource.prlimit(
                pid, resource.RLIMIT_NOFILE, (unused_descriptors[free_descriptors], limits[1])
            )
            with pytest.raises(SandboxError, match="Too many open files"):
                await sandboxes.start(SearchedText.root("x"), node)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert sandboxes._server is server


async def test_next_sandbox_is_a_process_made_ahead_unless_that_has_died(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    for dies in (False, True):
        await (await sandboxes.start(SearchedText.root("before"), node)).close()
        assert sandboxes._spare is not None
        _, forked = await sandboxes._spare
        if dies:
            os.kill(forked.pid, signal.SIGKILL)
            await asyncio.shield(forked.exit_code)
        sandbox = await sandboxes.start(SearchedText.root("later"), node)
        assert await printed(sandbox, "context") == "'later'\n"
        assert (sandbox._child._forked is forked) is not dies
        await sandbox.close()


async def test_starts_cancelled_at_any_point_leave_no_process_and_do_not_affect_later_ones(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    await sandboxes.start(SearchedText.root("a"), node)
    server = server_of(sandboxes)
    running = set(server._running)
    for steps in range(-1, 12):
        running_before = len(server._running)
        spare = sandboxes._spare
        start = asyncio.create_task(sandboxes.start(SearchedText.root("a"), node))
        while steps >= 0 and len(server._running) == running_before and sandboxes._spare is spare:
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        start.cancel()
        following = asyncio.create_task(sandboxes.start(SearchedText.root("b"), node))
        await asyncio.wait((start,))
        if not start.cancelled():
            await start.result().close()
        assert await printed(await following, "context") == "'b'\n"
        await following.result().close()
    assert sandboxes._spare is not None
    _, spare_process = await sandboxes._spare
    while any(
        number not in running and end_event is not spare_process.exit_code
        for number, end_event in server._running.items()
    ):
        await asyncio.sleep(0.01)
    assert not server._requests


async def test_cancelled_start_with_a_large_text_leaves_no_file(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    def memory_files() -> list[str]:
        return [name for fd in os.listdir("/proc/self/fd") if "memfd:text" in (name := _link(fd))]

    start = asyncio.create_task(sandboxes.start(SearchedText.root("x" * 20_000_000), node))
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


async def test_closing_ends_all_processes_for_good(node: RecordingNode) -> None:
    sandboxes = open_sandboxes()
    assert isinstance(sandboxes, ProcessSandboxes)
    sandbox = await sandboxes.start(SearchedText.root("a"), node)
    turn = asyncio.create_task(run(sandbox, "print('go')\nllm('q')\nwhile True: pass"))
    await node.waiting.wait()
    await sandboxes.close()
    assert (await turn).status in ("died", "killed")
    assert (await run(sandbox, "1")).status == "died"
    with pytest.raises(SandboxError):
        await sandboxes.start(SearchedText.root("a"), node)


async def test_killed_host_leaves_nothing() -> None:
    host = """
import asyncio, sys
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.sandbox.base import SearchedText
class Node:
    def send(self, name, args): ...
async def main():
    sandboxes = open_sandboxes()
    sandbox = await sandboxes.start(SearchedText.root("a"), Node())
    print((await sandbox.run("import os\\nprint(os.getpid(), os.getppid())", 60)).output, flush=True)
    await sandbox.run("import signal\\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\\nwhile True: pass", 1000)
asyncio.run(main())
"""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", host, stdout=pipe)
    assert process.stdout is not None
    pids = list(map(int, (await process.stdout.readline()).split()))
    assert len(pids) == 2
    process.kill()
    await process.wait()
    while any(map(alive, pids)):
        await asyncio.sleep(0.01)


async def test_memory_exhaustion_ends_only_this_sandbox_and_the_next_turn_works(
    sandbox: Sandbox,
) -> None:
    result = await run(sandbox, "hoard = []\nwhile True: hoard.append(bytearray(2**22))")
    assert result.status in ("error", "died")
    await run(sandbox, "hoard = None")
    assert await printed(sandbox, "len(context)") == "14\n"


async def test_operating_system_limits_the_threads_of_a_sandbox(sandbox: Sandbox) -> None:
    assert 0 < int(await printed(sandbox, THREADS + "print(made)")) < confinement.MAX_SHARED_THREADS


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_threads_of_a_non_root_user_are_limited() -> None:
    code = f"import ctypes, os\nfrom mahtab_tui.worker.sandbox import confinement\nos.setresuid(54321, 54321, 54321)\nconfinement.limit_resources(2**30)\n{THREADS}"
    code += "print(made, flush=True)\nos.kill(os.getpid(), 9)"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=pipe)
    thread_count, _ = await process.communicate()
    assert confinement.MAX_THREADS < int(thread_count) <= confinement.MAX_SHARED_THREADS


async def test_large_text_is_delivered_once_and_uses_only_its_own_memory(
    sandboxes: ProcessSandboxes, node: RecordingNode
) -> None:
    text = "0123456789abcde\n" * (100 * 2**20 // 16)
    sandbox = await sandboxes.start(SearchedText.root(text), node)
    lengths = await printed(sandbox, "len(context), len(grep('x')), len(peek(50))")
    assert lengths == "(104857600, 0, 50)\n"
    pid = int(await printed(sandbox, "import os\nos.getpid()"))
    status = Path(f"/proc/{pid}/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    assert peak < 4 * len(text)
    assert await printed(sandbox, "twice = context + context\nlen(twice)") == "209715200\n"


async def test_memory_that_is_missing_to_read_a_text_is_named() -> None:
    server = await ForkServer.start()
    try:
        text = "x" * 50_000_000
        file = system_calls.memory_file("text")
        os.write(file, text.encode())
        process = await server.fork(load=True)
        pid = process.forked.pid
        used_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        limit = 20 * 2**20 + used_pages * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        send_text(process, file)
        os.close(file)
        with pytest.raises(
            SandboxError, match=r"Cannot allocate memory|[Nn]o memory|enough memory"
        ):
            await TextServer(process, text).loaded()
    finally:
        server.close()


REFUSING_SERVER = """
import os, socket, sys
package = type(sys)("w"); package.__path__ = [sys.argv[1]]; sys.modules["w"] = package
from w.sandbox import confinement, server
send_fds = socket.send_fds
def refuse(channel, data, fds):
    if fds:
        raise OSError(109, "Too many references")
    return send_fds(channel, data, fds)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if os.fork() == 0:
    ours.close()
    socket.send_fds = refuse
    server._Server(theirs, confinement.prepare()).run()
    os._exit(0)
theirs.close()
ours.recv(4096)
send_fds(ours, [b'{"id": 1}'], [0])
print(ours.recv(4096).decode())
"""
"""Prints the answer to a request of a server whose system sends no descriptors."""


async def test_descriptor_that_cannot_be_sent_is_reported() -> None:
    folder = str(Path(worker.__file__).parent)
    done = run_python("-I", "-S", "-c", REFUSING_SERVER, folder, stdin=subprocess.DEVNULL)
    answer = {"op": "failed", "id": 1, "reason": "Too many references"}
    assert json.loads(done.stdout) == answer, done.stderr
