"""A kernel runs without a host, and replays to the next one all that has happened, in order,
once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.bus.records import UserReplIn, UserReplOut
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import attach, detached_kernels, recovered_output, stop
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import KernelState, SaveTarget
from mahtab_tui.kernel.worker_process import CLAIMED, WorkerProcess
from mahtab_tui.session.background_kernels import (
    describe_detached_kernels,
    stop_detached_kernel,
    stop_surplus_kernels,
    summarize_detached_kernels,
)
from mahtab_tui.session.kernel import LocalDetachable
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.worker.link import spool
from tests.integration.detached import ELSEWHERE, OPEN, SESSION, Screen, holder_of
from tests.integration.kernels import RecordingHost
from tests.integration.remote import RemoteMachine
from tests.integration.sessions import Opened
from tests.waiting import alive, wait_for

WAIT = "import pathlib, time\nprint('begun')\nwhile not pathlib.Path('go').exists(): time.sleep(0.005)\n"

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture(autouse=True)
def close_kernels() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture(params=["here", "elsewhere"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "elsewhere":
        (tmp_path / "road").mkdir()
        ELSEWHERE.append(RemoteMachine(tmp_path / "road").address)
    yield request.param
    ELSEWHERE.clear()


def wait_until_dead(*pids: int) -> None:
    wait_for(lambda: not any(map(alive, pids)))


def go() -> None:
    """Let the cell end while no host is attached."""
    Path("go").touch()
    wait_for(lambda: all(kernel.cell == 0 for kernel in detached_kernels(SESSION)))


def leave_cell(code: str) -> None:
    """Leave a kernel in which a cell waits for the file "go", and then runs code."""
    first_screen = Screen()
    first_screen.begin(1, WAIT + code)
    first_screen.leave()


@pytest.mark.usefixtures("anywhere")
def test_detached_output_arrives_in_order() -> None:
    leave_cell(
        "class P:\n  def _repr_markdown_(self): return '**bold**'\nfor n in range(3):\n  print('before', n); display(P())\nprint('end'); 6 * 7"
    )
    go()
    second = Screen(again=True)
    result = second.go_on(1)
    assert result.status is Status.OK
    text = result.output
    assert [text.count(f"before {n}") for n in range(3)] == [1, 1, 1]
    assert [kind for kind, _ in result.kinds] == ["stdout", "display"] * 3 + ["stdout", "value"]
    assert text.startswith("begun\nbefore 0\n")
    assert text.endswith("end\n42\n")
    assert [display.data for display in second.displays] == ["**bold**"] * 3
    assert second.run(2, "P.__name__").output == "'P'\n"


@pytest.mark.usefixtures("anywhere")
def test_stored_cells_are_not_replayed() -> None:
    first_screen = Screen()
    first_screen.run(1, "print('one')")
    first_screen.run(2, "x = 2")
    first_screen.leave()
    second = Screen(again=True)
    assert not any(second.knows(cell) for cell in (1, 3))
    second.kernel.acknowledge(2)
    assert second.run(3, "x + 1").output == "3\n"
    second.leave()
    third = Screen(again=True)
    assert not any(third.knows(cell) for cell in (1, 2, 3))


def test_all_cells_that_wait_for_their_turn_when_the_screen_is_closed_are_ended() -> None:
    first_screen = Screen()
    first_screen.run(2, "x = 2")
    first_screen.leave()
    past = (
        UserReplIn("how it ended is unknown", cell=1),
        UserReplIn("x = 2", cell=2),
        UserReplOut("", cell=2, status="ok"),
        *(UserReplIn("x = 3", cell=cell) for cell in (3, 4, 5)),
    )
    kernel = ProcessKernel(launcher=LocalDetachable(SESSION, 1.0, attach(SESSION)))
    opened = Opened.make(load_settings(model="demo"), kernel=kernel, past=past)
    opened.session.start()
    try:
        assert opened.value("x") == "2"
        ends = [opened.store.wait(UserReplOut.tag, cell=cell) for cell in (3, 4, 5)]
        assert [end.status for end in ends] == ["died"] * 3
        assert {end.detail for end in ends} == {
            "The screen was closed before this cell began. It did not run."
        }
        assert opened.store.of(UserReplOut.tag, cell=1) == []
    finally:
        opened.session.close()


@pytest.mark.usefixtures("anywhere")
def test_thread_output_is_delivered_once() -> None:
    first_screen = Screen()
    code = "import threading, pathlib, time\ndef late():\n  print('early late')\n  while not pathlib.Path('go').exists(): time.sleep(0.005)\n  print('later')\n"
    first_screen.run(
        1, code + "t = threading.Thread(target=lambda: (time.sleep(0.2), late())); t.start()"
    )
    first_screen.host.wait_for_late("early late")
    first_screen.leave()
    Path("go").touch()
    second = Screen(again=True)
    assert second.host.wait_for_late("later").strip() == "later"
    assert second.run(2, "t.join()").output == ""


@pytest.mark.thorough
@pytest.mark.usefixtures("anywhere")
def test_a_million_lines_are_all_replayed() -> None:
    leave_cell("for n in range(1_000_000): print('line', n)")
    go()
    lines = Screen(again=True).go_on(1).output.splitlines()
    assert lines == ["begun", *(f"line {n}" for n in range(1_000_000))]


@pytest.mark.thorough
def test_excessive_output_loses_its_middle() -> None:
    size = spool.HEAD_BYTES + 4 * spool.TAIL_BYTES
    leave_cell(
        f"import sys\nfor n in range({size} // 64): sys.stdout.write(f'{{n:063}}\\n')\nprint('the end')"
    )
    go()
    (kernel,) = detached_kernels(SESSION)
    pages = Path(f"/proc/{holder_of(kernel.pid)}/statm").read_text().split()[1]
    assert int(pages) * 4096 <= 20 * 2**20
    second = Screen(again=True)
    second.go_on(1)
    text = "".join(second.printed)
    assert "bytes left out" in text
    assert text.startswith("begun\n" + "0" * 63)
    assert text.endswith("the end\n")
    assert (
        spool.HEAD_BYTES + spool.TAIL_BYTES
        <= len(text)
        <= spool.HEAD_BYTES + 2 * spool.TAIL_BYTES + 1000
    )


@pytest.mark.usefixtures("anywhere")
def test_nested_cells_are_replayed_separately() -> None:
    first_screen = Screen()

    def answer(name: str, args: object) -> str:
        wait_for(lambda: first_screen.printed)
        code = WAIT + "print('inner')"
        first_screen.kernel.execute(code, cell=2, on_output=lambda kind, text: None, nested=True)
        return "never sent"

    first_screen.host.answer = answer
    first_screen.begin(
        1,
        "print('outer', flush=True)\nanswer = ask('why?')\nimport time; time.sleep(0.5)\nprint('after', answer)",
    )
    wait_for(lambda: not first_screen.host.calls.empty())
    time.sleep(0.2)
    first_screen.leave()
    Path("go").touch()
    second = Screen(again=True, answer="because")
    inner = second.go_on(2, nested=True)
    outer = second.go_on(1)
    assert (inner.output, outer.output) == ("begun\ninner\n", "outer\nafter because\n")


@pytest.mark.usefixtures("anywhere")
def test_detached_question_waits_for_a_host() -> None:
    leave_cell("try: exit()\nexcept SystemExit: print('stays')\nname = input('name? ')")
    Path("go").touch()
    time.sleep(0.2)
    second = Screen(again=True, answer="Ada")
    assert second.go_on(1).output.startswith("begun\nstays\n")
    assert second.run(2, "name").output == "'Ada'\n"
    assert second.host.calls.get()[0] == "input"


@pytest.mark.usefixtures("anywhere")
def test_second_screen_claims_the_kernel() -> None:
    first_screen = Screen()
    first_screen.run(1, "n = 1")
    running = first_screen.begin(2, WAIT)
    second = Screen(again=True)
    assert running.result(60).status is Status.KILLED
    assert first_screen.host.wait_for_state(KernelState.DEAD) == CLAIMED
    with pytest.raises(KernelError, match=CLAIMED):
        first_screen.kernel.reset()  # a second kernel would wait for the same session
    assert first_screen.run(3, "n").status is Status.DIED
    first_screen.kernel.close()
    Path("go").touch()
    assert second.go_on(2).status is Status.OK
    assert second.run(3, "n").output == "1\n"


@pytest.mark.parametrize("when", ["before it is in its place", "at any time"])
def test_kernel_claimed_during_startup_is_gone(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first_screen = Screen()
    first_screen.run(1, "n = 1")
    first_screen.leave()
    launcher = LocalDetachable(SESSION, 1.0, attach(SESSION))
    third = Screen(again=True)
    become = ProcessKernel._set_worker

    def late(self: ProcessKernel, worker: WorkerProcess, executable: str) -> None:
        wait_for(lambda: worker.claimed)
        become(self, worker, executable)

    if when == "before it is in its place":
        monkeypatch.setattr(ProcessKernel, "_set_worker", late)
    second = ProcessKernel(launcher=launcher)
    OPEN.append(second)
    with suppress(KernelError):
        second.start(RecordingHost())
    wait_for(lambda: second.info().state is KernelState.DEAD)
    assert second.execute("n", cell=2, on_output=lambda kind, text: None).status is Status.DIED
    assert third.run(2, "n").output == "1\n"


def test_holder_is_no_child_of_the_kernel() -> None:
    code = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    assert Screen().run(1, code).output == "none\n"


@pytest.fixture
def keep() -> SaveTarget:
    keep = save_target(SESSION, 100)
    assert isinstance(keep, SaveTarget)
    return keep


def is_saved(keep: SaveTarget, name: str) -> bool:
    index = Path(keep.folder, "index.json")
    return index.exists() and name in index.read_text()


def test_idle_kernel_saves_its_variables_and_ends(keep: SaveTarget) -> None:
    first_screen = Screen(hours=1 / 3600, keep=keep)
    first_screen.run(1, "found = 17")
    (kernel,) = detached_kernels(SESSION)
    first_screen.leave()
    wait_for(lambda: not alive(kernel.pid) and not detached_kernels(SESSION))
    assert is_saved(keep, "found")


@pytest.mark.parametrize("on_purpose", [False, True], ids=["killed screen", "detached"])
def test_detached_cell_outlasts_the_time_limit(on_purpose: bool) -> None:
    first_screen = Screen(hours=1 / 3600)
    first_screen.begin(1, WAIT if on_purpose else "print(1)\nwhile True: pass")
    (kernel,) = detached_kernels(SESSION)
    first_screen.leave(on_purpose=on_purpose)
    if on_purpose:
        wait_for(lambda: time.time() - kernel.since > 3)
        assert alive(kernel.pid)
        Path("go").touch()
    wait_until_dead(kernel.pid)


def test_excess_idle_kernels_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.session.background_kernels.MAX_IDLE_KERNELS", 0)
    busy = Screen()
    busy.begin(1, "print(1)\nwhile True: pass")
    busy.leave()
    stop_surplus_kernels()
    sentence = describe_detached_kernels()
    assert f"Session {SESSION} has a kernel in the background, running cell 1 for " in sentence
    assert f"Stop: mahtab-tui sessions stop {SESSION}" in sentence
    summary = summarize_detached_kernels()[SESSION]
    assert re.match(r"running cell 1 for \d+ s, CPU \d+ s, \d+ MB$", summary)
    assert stop_detached_kernel(SESSION) == "Its kernel has ended."
    assert stop_detached_kernel(SESSION).startswith("No kernel of this machine waits for it.")
    idle = Screen()
    idle.run(1, "n = 1")
    (kernel,) = detached_kernels(SESSION)
    idle.leave()
    wait_for(lambda: not detached_kernels(SESSION)[0].has_host)
    stop_surplus_kernels()
    wait_until_dead(kernel.pid)


def test_kernel_of_a_dead_holder_ends_with_its_host() -> None:
    screen = Screen()
    screen.run(1, "n = 1")
    (kernel,) = detached_kernels(SESSION)
    assert screen.kernel.can_detach
    os.kill(holder_of(kernel.pid), signal.SIGKILL)
    wait_for(lambda: not screen.kernel.can_detach)
    assert screen.run(2, "n").output == "1\n"
    screen.leave()
    wait_until_dead(kernel.pid)


SOCKETS = """
import os, socket, stat
def sockets(kind):
    for fd in range(3, 1000):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                with socket.socket(fileno=os.dup(fd)) as copy:
                    if copy.type == kind: yield fd
        except OSError:
            pass
"""
CLOSE_HOLDER_LINK = "for fd in sockets(socket.SOCK_SEQPACKET): "


@pytest.mark.parametrize(
    "close", ["os.close(fd)", "os.dup2(os.open(os.devnull, os.O_RDWR), fd)"], ids=["closed", "used"]
)
def test_kernel_that_closes_its_connection_to_the_holder_ends_with_its_host(
    keep: SaveTarget, close: str
) -> None:
    screen = Screen(keep=keep)
    screen.run(1, SOCKETS)
    (kernel,) = detached_kernels(SESSION)
    assert screen.run(2, f"{CLOSE_HOLDER_LINK}{close}\nfound = 19").status == Status.OK
    wait_for(lambda: not screen.kernel.can_detach)
    assert screen.run(3, "found").output == "19\n"
    screen.leave()
    wait_until_dead(kernel.pid)
    assert is_saved(keep, "found")


def test_fork_of_a_detached_kernel_that_closes_its_connection_prints_nothing() -> None:
    leave_cell(
        f"{SOCKETS}\nfor fd in sockets(socket.SOCK_STREAM): os.close(fd)\n"
        "pid = os.fork()\nif not pid: os._exit(0)\nstatus = os.waitpid(pid, 0)"
    )
    go()
    assert Screen(again=True).go_on(1).output == "begun\n"


@pytest.mark.parametrize("code", ["", WAIT], ids=["idle", "busy"])
def test_detached_kernel_stops_with_its_children(code: str) -> None:
    first_screen = Screen()
    start = "import subprocess; p = subprocess.Popen(['sleep', '1000']); print(p.pid)"
    child = int(first_screen.run(1, start).output)
    if code:
        first_screen.begin(2, code)
    first_screen.leave()
    (kernel,) = detached_kernels(SESSION)
    assert stop(kernel)
    wait_until_dead(kernel.pid, child)
    assert attach(SESSION) is None
    recovered = [(cell, output) for cell, output, _ in recovered_output(SESSION)]
    assert recovered == ([(2, b"begun\n")] if code else [])
    assert len(list(kernel.path.parent.iterdir())) == len(recovered)


def test_kernel_without_a_folder_ends_with_its_host(home: Path) -> None:
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "run").write_text("in the way")
    screen = Screen()
    assert "This kernel ends with its screen" in screen.host.wait_for_state(KernelState.IDLE)
    assert not screen.kernel.can_detach
    assert screen.run(1, "6 * 7").output == "42\n"
    screen.kernel.close()


@pytest.mark.sample(1)
@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_hosts_killed_during_a_cell_lose_nothing(project: Path, times: int) -> None:
    addresses = [address.text for address in ELSEWHERE]
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.killed_hosts", str(times), project, *addresses],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert f"{times} hosts were killed" in done.stdout, done.stderr


@pytest.mark.usefixtures("anywhere")
def test_answered_call_is_not_repeated() -> None:
    first_screen = Screen(answer="Ada")
    first_screen.begin(1, f"name = input()\n{WAIT}print(name)")
    wait_for(lambda: not first_screen.host.calls.empty())
    first_screen.leave()
    go()
    second = Screen(again=True, answer="Grace")
    assert second.go_on(1).output.endswith("Ada\n")
    assert second.run(2, "0").output == "0\n"
    assert second.host.calls.empty()


def test_last_message_of_a_dying_host_is_processed() -> None:
    first_screen = Screen()
    first_screen.run(1, "n = 1")
    (kernel,) = detached_kernels(SESSION)
    os.kill(kernel.pid, signal.SIGSTOP)
    options = {"cell": 2, "on_output": lambda kind, text: None}
    threading.Thread(
        target=first_screen.kernel.execute,
        args=("n = 2; print('heard')",),
        kwargs=options,
        daemon=True,
    ).start()
    assert first_screen.host.wait_for_state(KernelState.BUSY) == ""
    time.sleep(0.2)
    first_screen.leave()
    second = Screen(again=True)
    os.kill(kernel.pid, signal.SIGCONT)
    assert second.go_on(2).output == "heard\n"


@pytest.mark.usefixtures("anywhere")
def test_stored_background_output_is_not_replayed() -> None:
    first_screen = Screen()
    late = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nprint('begun', flush=True)"
    first_screen.begin(1, late).result(60)
    first_screen.host.wait_for_late("late")
    first_screen.leave()
    second = Screen(again=True)
    assert second.go_on(1).output == "begun\n"
    assert second.run(2, "0").output == "0\n"
    assert second.host.late.empty()


def test_variables_of_a_detached_cell_are_saved(keep: SaveTarget) -> None:
    first_screen = Screen(keep=keep)
    first_screen.begin(1, WAIT + "found = 18")
    first_screen.leave()
    Path("go").touch()
    wait_for(lambda: is_saved(keep, "found"))
    assert Screen(again=True).run(2, "found").output == "18\n"


def test_output_of_a_dead_detached_kernel_survives() -> None:
    first_screen = Screen()
    first_screen.run(1, "print('stored')")
    code = "import os\nfor n in range(100_000): print('line', n)\nprint('end', flush=True); os._exit(3)"
    first_screen.begin(2, WAIT + code)
    first_screen.leave()
    (kernel,) = detached_kernels(SESSION)
    Path("go").touch()
    wait_for(lambda: not alive(kernel.pid) and list(recovered_output(SESSION)))
    ((cell, output, path),) = recovered_output(SESSION)
    assert cell == 2
    assert output.decode().splitlines() == ["begun", *(f"line {n}" for n in range(100_000)), "end"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(recovered_output("other")) == []
    assert attach(SESSION) is None


def test_cell_during_a_replay_gets_only_its_output() -> None:
    leave_cell("for n in range(300_000): print('line', n)")
    go()
    second = Screen(again=True)
    assert second.run(2, "print('own')").output == "own\n"
    assert len(second.go_on(1).output.splitlines()) == 300_001
