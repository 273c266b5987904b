"""A kernel that dies in a cell loses that cell: the rest comes back in the next kernel."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.values import FileWatching, KernelState
from tests.integration.kernels import Cells
from tests.integration.saving import SavedSession, restored
from tests.waiting import alive, descendants, wait_for

DEATHS = {
    "exits": "import os; os._exit(3)",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "its group is killed": "import os; os.killpg(0, 9)",
    "aborts": "import os; os.abort()",
    "closes all files before": "import os; os.closerange(3, 4096); os._exit(1)",
    "child holds the connection": "import os; os.fork() or __import__('time').sleep(1); os._exit(1)",
}


@pytest.fixture
def saved(home: Path, project: Path) -> Iterator[SavedSession]:
    session = SavedSession(home)
    yield session
    session.close()


def start_thread(action: Callable[[], object]) -> None:
    """Act on a kernel from a callback of its reader thread, which must not wait."""
    threading.Thread(target=action).start()


def die(cells: Cells, code: str) -> None:
    while not cells.host.states.empty():
        cells.host.states.get()
    assert cells.run(code).status == "died"
    cells.host.wait_for_state(KernelState.IDLE)


@pytest.mark.sample(3)
@pytest.mark.parametrize("death", DEATHS)
def test_what_was_not_saved_comes_back_after_a_crash(saved: SavedSession, death: str) -> None:
    cells = saved.started("import socket; rows = [1, 2]", "rows.append(3); conn = socket.socket()")
    die(cells, f"rows.append(4); lost = 1; {DEATHS[death]}")
    assert restored(cells) == {"conn": "a connection cannot be saved"}
    assert cells.text("rows, 'lost' in globals()") == "([1, 2, 3], False)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="files are watched on Linux only")
def test_what_was_not_saved_comes_back_if_the_witness_is_killed(
    saved: SavedSession, tmp_path: Path
) -> None:
    saved.watching = FileWatching((str(tmp_path),), (), str(tmp_path / "copies"), 200)
    os.mkfifo(tmp_path / "go")
    cells = saved.started("import os, subprocess; rows = [1, 2]")
    die(
        cells,
        f"rows.append(3); subprocess.Popen('read x < {tmp_path}/go; echo $x > {tmp_path}/out', shell=True, start_new_session=True); os.kill(os.getppid(), 9); input()",
    )
    assert restored(cells) == {}
    assert cells.text("rows") == "[1, 2]\n"
    # Processes that outlive the witness are let go on.
    (tmp_path / "go").write_text("still\n")
    wait_for(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text() == "still\n")


def test_kernel_killed_by_the_user_in_a_cell_comes_back(saved: SavedSession) -> None:
    cells = saved.started("rows = [1, 2]")
    result = cells.run_until(
        "ready",
        lambda: start_thread(cells.kernel.kill),
        "import time\nwhile True:\n    try:\n        print('ready'); time.sleep(60)\n    except KeyboardInterrupt: pass",
    )
    assert result.status == "killed"
    assert restored(cells) == {}
    assert cells.text("rows") == "[1, 2]\n"


def test_rescue_replaces_what_was_saved_earlier(saved: SavedSession) -> None:
    saved.leave("kept = 'old'; unread = [1]")
    cells = saved.kernel()
    assert restored(cells) == {}
    cells.text("kept = 'new'; del unread")
    die(cells, DEATHS["exits"])
    assert restored(cells) == {}
    assert cells.text("kept, 'unread' in globals()") == "('new', False)\n"


def test_rescue_does_not_write_again_what_is_saved(saved: SavedSession) -> None:
    cells = saved.started("kept = bytes(1_000_000)")
    saved.keep(cells)
    kept_files = saved.files()
    cells.text("new = bytes(2_000_000)")
    die(cells, DEATHS["exits"])
    assert restored(cells) == {}
    assert cells.text("len(kept), len(new)") == "(1000000, 2000000)\n"
    files = saved.files()
    assert len(files) == 2
    assert kept_files.items() < files.items()

    # A file that a rescue has written is replaced by the next save.
    saved.keep(cells)
    saved_files = saved.files()
    assert len(saved_files) == 2
    assert kept_files.items() < saved_files.items()


def test_a_second_rescue_does_not_take_the_file_of_the_first_for_another(
    saved: SavedSession,
) -> None:
    cells = saved.started("first = bytes(1_000_000)")
    die(cells, DEATHS["exits"])
    assert restored(cells) == {}
    cells.text("second = bytes(2_000_000)")
    die(cells, DEATHS["exits"])
    assert restored(cells) == {}
    assert cells.text("len(first), len(second)") == "(1000000, 2000000)\n"


@pytest.mark.parametrize("file", ["", "own.txt"], ids=["closed", "used"])
def test_checkpoint_whose_connection_a_cell_has_closed_saves_nothing_outdated(
    saved: SavedSession, file: str
) -> None:
    cells = saved.started(
        f"import os; rows = [1]; file = {file!r}; before = os.listdir('/proc/self/fd')"
    )
    cells.text(
        "rows.append(2)\n"
        "for name in set(os.listdir('/proc/self/fd')).difference(before):\n"
        "    if os.path.exists('/proc/self/fd/' + name):\n"
        "        os.close(number := int(name))\n"
        "        if file: os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)"
    )
    cells.text("rows.append(3)")
    if file:
        assert cells.text("os.fstat(number).st_size") == "0\n"
    cells, missing = saved.again(cells)
    assert missing == {}
    assert cells.text("rows") == "[1, 2, 3]\n"


def test_checkpoint_of_a_finished_cell_is_not_used(saved: SavedSession) -> None:
    cells = saved.started("rows = [1, 2]", "rows.append(3)", "rows.append(4)")
    checkpoints = descendants(cells.kernel.info().pid)
    os.kill(cells.kernel.info().pid, signal.SIGKILL)
    cells.host.wait_for_state(KernelState.DEAD)
    cells.host.wait_for_state(KernelState.IDLE)
    assert checkpoints
    wait_for(lambda: not any(map(alive, checkpoints)))
    assert restored(cells) == {}
    assert "rows" not in cells.names()


def test_reset_while_a_cell_runs_brings_nothing_back(saved: SavedSession) -> None:
    # More than the new kernel needs to start.
    cells = saved.started("rows = [1, 2]; large = bytes(range(256)) * 400_000")
    pid = cells.kernel.info().pid
    started: set[int] = set()

    def reset() -> None:
        started.update(descendants(pid))
        start_thread(cells.kernel.reset)

    assert (
        cells.run_until("ready", reset, "import time; print('ready'); time.sleep(60)").status
        == "killed"
    )
    wait_for(lambda: not any(map(alive, started)))
    assert restored(cells) == {}
    assert "rows" not in cells.names()


def test_deleted_session_is_not_saved_again(saved: SavedSession) -> None:
    cells = saved.started("rows = [1, 2]")
    started = cells.run("import time; time.sleep(0)")
    assert started.status == "ok"
    pid = cells.kernel.info().pid
    checkpoints: set[int] = set()

    def delete_and_kill() -> None:
        checkpoints.update(descendants(pid))
        shutil.rmtree(saved.folder)
        start_thread(cells.kernel.close)

    cells.run_until("ready", delete_and_kill, "import time; print('ready'); time.sleep(60)")
    wait_for(lambda: not any(map(alive, checkpoints)))
    assert not saved.folder.exists()


def test_next_kernel_waits_for_what_takes_longer_than_its_start(saved: SavedSession) -> None:
    cells = saved.started(
        "import time\nclass Slow:\n    def __reduce__(self): time.sleep(2); return Slow, ()\nslow = Slow()"
    )
    die(cells, DEATHS["exits"])
    assert restored(cells) == {}
    assert cells.text("type(slow).__name__") == "'Slow'\n"
