"""Keeping a namespace at its limits: hostile objects, killed processes, a full disk, files of
others."""

from __future__ import annotations

import base64
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import Kernel, KernelError, KernelState
from mahtab_tui.kernel.inprocess import InProcessKernel
from tests.integration.kernels import PATIENCE, Cells, RecordingHost
from tests.integration.saving import SavedSession, listed, restored
from tests.waiting import alive, descendants, wait_for

HOSTILE = """\
import threading, time, os, sys
class Base:
    def __init__(self, how): self.how = how
class Raises(Base):
    def __reduce__(self): raise ValueError('not me')
class Hangs(Base):
    def __reduce__(self): time.sleep(3600)
class Prints(Base):
    def __reduce__(self): print('printed'); os.write(1, b'written'); return Base, ('printed',)
class Lies(Base):
    def __reduce__(self): return 5
class Ends(Base):
    def __reduce__(self): os._exit(0)
class Threads(Base):
    def __reduce__(self): threading.Thread(target=time.sleep, args=(3600,)).start(); return Base, ('threads',)
class Deep(Base):
    def __reduce__(self): return Base, (Deep(1),)
raises, hangs, prints, lies, ends, threads, deep = (cls(1) for cls in (Raises, Hangs, Prints, Lies, Ends, Threads, Deep))
good = [1, 2]
"""
OUTSIDE = """\
import socket, subprocess, threading, sqlite3, concurrent.futures, asyncio
def numbers(): yield 1
sock, gen, lock, file = socket.socket(), numbers(), threading.Lock(), open(__import__('os').devnull)
data, pool, inside = sqlite3.connect(':memory:'), concurrent.futures.ThreadPoolExecutor(), [lock]
view, good = memoryview(b'abc'), 1
"""


@pytest.fixture
def saved_namespace(home: Path, project: Path) -> Iterator[SavedSession]:
    saved_namespace = SavedSession(home, megabytes=20)
    yield saved_namespace
    saved_namespace.close()


def test_object_that_raises_hangs_exits_or_lies_loses_only_itself(
    saved_namespace: SavedSession,
) -> None:
    first = saved_namespace.kernel()
    first.text(HOSTILE)
    cells, missing = saved_namespace.again(first)
    assert set(missing) == {"raises", "hangs", "lies", "ends", "deep"}
    assert missing["raises"] == "it cannot be pickled (ValueError: not me)"
    assert "took longer than" in missing["hangs"]
    assert missing["ends"] == "writing it crashed the process"
    assert (
        cells.text("good, prints.how, threads.how, Base(3).how")
        == "([1, 2], 'printed', 'threads', 3)\n"
    )
    assert first.host.late.empty(), "nothing was printed"


def test_unsaveable_external_resources_are_named(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text(OUTSIDE)
    cells, missing = saved_namespace.again(first)
    assert missing == {
        "sock": "a connection cannot be saved",
        "gen": "a generator or coroutine cannot be saved",
        "lock": "a lock cannot be saved",
        "inside": "a lock cannot be saved",
        "file": "an open file cannot be saved",
        "data": "a connection cannot be saved",
        "pool": "a pool of threads or processes cannot be saved",
        "view": "a memoryview cannot be saved",
    }
    assert cells.text("good, next(numbers())") == "(1, 1)\n"


def test_secret_looking_name_is_not_written(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("api_key = 'abracadabra'; x = 1")
    _, missing = saved_namespace.again(first)
    assert missing == {"api_key": "its name looks like a secret's"}
    assert not any(b"abracadabra" in path.read_bytes() for path in saved_namespace.folder.iterdir())


def test_hidden_typed_text_is_not_written_in_any_variable(
    saved_namespace: SavedSession,
) -> None:
    first = saved_namespace.kernel()
    first.host.answer = lambda name, args: "hunter two/2" if args["prompt"] == "Key: " else "q"
    first.text(
        "import base64, getpass, json, numpy as np\nword, pin = getpass.getpass('Key: '), getpass.getpass('Pin: ')"
    )
    first.text(
        "x, other, answer = 1, 'quiz', 'q'\nurl = f'https://me:{word}@host'; inside = [{'a': (word,)}]; shared = inside\n"
        "header = 'Basic ' + base64.b64encode(f'me:{word}'.encode()).decode(); told = json.dumps({'word': word + chr(34)})\n"
        "wide, raw = np.array([word] * 2000), np.frombuffer(b'x' * 50_000 + word.encode(), 'u1').copy()\n"
        "def use(word=word): return word"
    )
    _, missing = saved_namespace.again(first)
    names = (
        "answer",
        "header",
        "inside",
        "pin",
        "raw",
        "shared",
        "told",
        "url",
        "use",
        "wide",
        "word",
    )
    assert missing == dict.fromkeys(names, "it contains text that was typed hidden")
    saved = b"".join(path.read_bytes() for path in saved_namespace.folder.iterdir())
    assert b"quiz" in saved
    for form in (
        b"hunter two/2",
        base64.b64encode(b"hunter two/2"),
        "hunter two/2".encode("utf-32-le"),
    ):
        assert form not in saved


def test_largest_variables_are_dropped_first(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text(
        "import array\nlarge, middle, small, text = (array.array('b', bytes(n * 2**20)) for n in (25, 14, 8, 2))"
    )
    cells, missing = saved_namespace.again(first)
    assert set(missing) == {"large", "middle"}
    assert (
        missing["middle"]
        == "14 MB, which together with the others is more than the 20 MB of keep_namespace_mb"
    )
    assert missing["large"] == "more than the 20 MB of keep_namespace_mb"
    assert cells.text("len(small), len(text)") == f"({8 * 2**20}, {2 * 2**20})\n"


def test_full_disk_preserves_the_saved_variables(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("v = 'old' * 10_000; w = 1")
    saved_namespace.keep(first)
    before = {path.name: path.read_bytes() for path in saved_namespace.folder.iterdir()}
    first.text(
        "import resource, signal, array\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nlimits = resource.getrlimit(resource.RLIMIT_FSIZE)"
    )
    first.text(
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1])); big = array.array('b', bytes(5_000_000))"
    )
    assert saved_namespace.keep(first).error == "File too large"
    assert {path.name: path.read_bytes() for path in saved_namespace.folder.iterdir()} == before
    first.text("resource.setrlimit(resource.RLIMIT_FSIZE, limits)")
    assert saved_namespace.keep(first).error == ""
    assert len(saved_namespace.files()) == 3


def writing(cells: Cells, saved_namespace: SavedSession) -> threading.Thread:
    """Start to write a namespace with an object that hangs; returns when it does."""
    cells.text(
        "import os, time\nclass Hangs:\n    def __reduce__(self): open('hangs', 'w').close(); time.sleep(3600)\nhangs = Hangs(); more = 'x' * 100_000"
    )

    def write() -> None:
        try:
            saved_namespace.keep(cells)
        except KernelError:  # the kernel is killed meanwhile
            return

    thread = threading.Thread(target=write)
    thread.start()
    wait_for(Path("hangs").exists)
    return thread


def test_killed_kernel_preserves_the_saved_variables_and_leaves_no_process(
    saved_namespace: SavedSession,
) -> None:
    first = saved_namespace.kernel()
    first.text("v = 'old'")
    saved_namespace.keep(first)
    thread = writing(first, saved_namespace)
    pid = first.kernel.info().pid
    started = descendants(pid)
    assert len(started) >= 2
    os.kill(pid, signal.SIGKILL)
    first.host.wait_for_state(KernelState.DEAD)
    wait_for(lambda: not any(map(alive, started)))
    thread.join()
    first.kernel.close()
    cells = saved_namespace.kernel()
    assert restored(cells) == {}
    assert cells.text("v") == "'old'\n"
    saved_namespace.keep(cells)
    assert not list(saved_namespace.folder.glob("*.new"))


def niceness(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])


def test_killed_writer_is_reported_and_preserves_the_saved_variables(
    saved_namespace: SavedSession,
) -> None:
    first = saved_namespace.kernel()
    first.text("v = 'old'")
    saved_namespace.keep(first)
    before = (saved_namespace.folder / "index.json").read_bytes()
    results: list[str] = []
    first.text(
        "import os, time\nclass Hangs:\n    def __reduce__(self): open('hangs', 'w').close(); time.sleep(3600)\nhangs = Hangs()"
    )
    thread = threading.Thread(target=lambda: results.append(saved_namespace.keep(first).error))
    thread.start()
    wait_for(Path("hangs").exists)
    kernel = first.kernel.info().pid
    for pid in descendants(kernel):
        if niceness(pid) > niceness(kernel):  # not a checkpoint of undo
            os.kill(pid, signal.SIGKILL)
    thread.join(PATIENCE)
    assert results == ["the process that writes them was killed"]
    assert (saved_namespace.folder / "index.json").read_bytes() == before
    assert first.text("v") == "'old'\n"


def test_cells_run_during_saving(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    thread = writing(first, saved_namespace)
    assert first.text("1 + 1") == "2\n"
    assert thread.is_alive()
    thread.join()


def test_restoring_can_be_stopped_without_loss(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text(
        "import time\nclass Slow:\n    def __setstate__(self, state): open('slow', 'w').close(); time.sleep(0 if fast() else 3600)\ndef fast():\n    import os\n    return os.path.exists('fast')"
    )
    first.text("slow = Slow(); slow.x = 'x' * 100_000; other = 1")
    saved_namespace.keep(first)
    first.kernel.close()
    cells = saved_namespace.kernel()
    (name,) = [
        file.name
        for file in listed(cells).files
        if [variable.name for variable in file.variables] == ["slow"]
    ]

    def stop() -> None:
        wait_for(Path("slow").exists)
        cells.kernel.interrupt()

    stopping = threading.Thread(target=stop)
    stopping.start()
    assert restored(cells) == {"slow": "reading it was stopped"}
    stopping.join()
    assert cells.text("other") == "1\n"
    saved_namespace.keep(cells, name)
    cells.kernel.close()
    Path("fast").touch()
    third = saved_namespace.kernel()
    assert restored(third) == {}
    assert third.text("type(slow) is Slow, other") == "(True, 1)\n"


def test_missing_package_is_named_and_the_variable_stays_saved(
    saved_namespace: SavedSession, project: Path
) -> None:
    (project / "own_package.py").write_text("class Thing: x = 5\n")
    first = saved_namespace.kernel()
    first.text("import own_package\nthing = own_package.Thing(); other = 1")
    saved_namespace.keep(first)
    first.kernel.close()
    (project / "own_package.py").rename(project / "elsewhere.txt")
    cells = saved_namespace.kernel()
    reason = "its package own_package is missing"
    assert restored(cells) == {"own_package": reason, "thing": reason}
    assert cells.text("other") == "1\n"
    saved_namespace.keep(cells, *(file.name for file in listed(cells).files))
    cells.kernel.close()
    (project / "elsewhere.txt").rename(project / "own_package.py")
    third = saved_namespace.kernel()
    assert restored(third) == {}
    assert third.text("thing.x") == "5\n"


def test_undo_across_a_restore_is_refused_with_a_sentence(
    saved_namespace: SavedSession,
) -> None:
    first = saved_namespace.kernel()
    first.text("v = [1]")
    saved_namespace.keep(first)
    first.kernel.close()
    cells = saved_namespace.kernel()
    cells.text("w = [2]; w.append(3)")
    assert restored(cells) == {}
    with pytest.raises(KernelError, match="variables have come back since"):
        cells.kernel.undo(cells.number)
    cells.text("v.append(2); w.clear()")
    cells.kernel.undo(cells.number)
    assert cells.text("v, w") == "([1], [2, 3])\n"


@pytest.mark.parametrize("file", ["session-1", "session-1/index.json", "data", ""])
def test_files_writable_by_others_are_not_read(saved_namespace: SavedSession, file: str) -> None:
    first = saved_namespace.kernel()
    first.text("v = 1")
    saved_namespace.keep(first)
    first.kernel.close()
    path = (
        next(saved_namespace.folder.glob("*.variables"))
        if file == "data"
        else saved_namespace.folder.parent / file
    )
    path.chmod(path.stat().st_mode | 0o020)
    cells = saved_namespace.kernel()
    if file == "data":
        assert "others can write" in restored(cells)["v"]
    else:
        with pytest.raises(KernelError, match=f"others can write .*{path.name}"):
            cells.kernel.saved_namespace()
    assert "NameError" in cells.run("v").output


def test_files_of_another_user_are_not_read(saved_namespace: SavedSession) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    first = saved_namespace.kernel()
    first.text("v = 1")
    saved_namespace.keep(first)
    first.kernel.close()
    os.chown(saved_namespace.folder / "index.json", 12345, -1)
    with pytest.raises(KernelError, match="belongs to another user"):
        saved_namespace.kernel().kernel.saved_namespace()


def test_links_and_copies_of_another_session_are_not_read(
    saved_namespace: SavedSession, tmp_path: Path
) -> None:
    first = saved_namespace.kernel()
    first.text("v = 1")
    saved_namespace.keep(first)
    first.kernel.close()
    index = saved_namespace.folder / "index.json"
    index.rename(tmp_path / "index.json")
    index.symlink_to(tmp_path / "index.json")
    with pytest.raises(KernelError):
        saved_namespace.kernel().kernel.saved_namespace()
    index.unlink()
    text = (tmp_path / "index.json").read_bytes().partition(b"\n")[2]
    index.write_bytes(b"0" * 64 + b"\n" + text)
    index.chmod(0o600)
    with pytest.raises(KernelError, match="not written there by a session of yours"):
        saved_namespace.kernel().kernel.saved_namespace()


def test_swapped_pickle_is_not_read(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("v = 1")
    saved_namespace.keep(first)
    first.kernel.close()
    (path,) = saved_namespace.folder.glob("*.variables")
    path.write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.".ljust(path.stat().st_size, b"\0"))
    cells = saved_namespace.kernel()
    assert restored(cells) == {"v": "its file is damaged: it is not what was written"}
    assert not Path("pwned").exists()
    path.write_bytes(b"")
    assert restored(cells) == {"v": "its file is damaged: it ends too early"}


def test_saved_files_are_private_to_the_user(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("import os; os.umask(0); v = 'x' * 100_000; w = 1")
    saved_namespace.keep(first)
    assert saved_namespace.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in saved_namespace.folder.iterdir()} == {0o600}


def test_twenty_thousand_names_use_two_files(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("globals().update((f'v{i}', [i]) for i in range(20_000))")
    cells, missing = saved_namespace.again(first)
    assert missing == {}
    assert len(saved_namespace.files()) == 1
    assert cells.text("v0, v19999") == "([0], [19999])\n"


def test_in_process_kernel_saves_nothing() -> None:
    kernel: Kernel = InProcessKernel({})
    kernel.start(RecordingHost())
    try:
        assert kernel.saved_namespace() is None
        with pytest.raises(KernelError, match="not saved"):
            kernel.keep((), (), 1.0)
    finally:
        kernel.close()
