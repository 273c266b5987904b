"""A saved namespace is restored unchanged, or what is missing is named."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.operations import Operations
from mahtab_tui.kernel.values import KernelState
from tests.integration.kernels import PATIENCE, Cells, interpreters
from tests.integration.saving import SavedSession, listed, restored
from tests.tables import rows
from tests.waiting import alive, descendants, wait_for

SAVED = r"""
v = [1, 'a', None, 2.5, b'x', {1: (2, {3})}] | v
import decimal, pathlib, re\nv = decimal.Decimal('1.5'), pathlib.Path('x'), re.compile('a+') | v
v = [1]; v.append(v); w = v | v[1] is v, w is v
v = [1]; w = {'v': v} | v.append(2), w, w['v'] is v
def v(x, y=2, *, z: int = 3):\n    'doc'\n    return x + y + z + more\nmore = 10 | v(1), v.__doc__, v.__annotations__, v.__qualname__
more = 1\ndef v(): return more | v.__globals__ is globals(), globals().__setitem__('more', 5), v()
import functools\n@functools.cache\ndef v(n): return n if n < 2 else v(n - 1) + v(n - 2)\nv(5) | v(30), v.cache_info().maxsize
def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up, lambda: n\nup, get = make(); up() | up(), get()
import collections\nn = 5\nv = collections.defaultdict(lambda: n, a=1) | v['b'], dict(v)
class C:\n    seen = []\n    def __init__(self): C.seen.append(1); self.me = self\n    def f(self): return super().__repr__()[:5]\nv, w = C(), C() | type(v) is C is type(w), v.me is v, v.f(), C.seen, C().seen is v.seen
import typing\nclass T(typing.NamedTuple):\n    x: int\nv = T(3) | v, type(v) is T
class S:\n    __slots__ = ('x',)\nv = S(); v.x = [1] | v.x, S.__slots__, hasattr(v, '__dict__')
class P:\n    __slots__ = 'a'\nclass S(P):\n    __slots__ = {'__b': 'private', '__weakref__': ''}\n    def get(self): self.__b = 2; return self.__b\nv = S(); v.a = 1 | v.a, v.get(), S.__slots__, hasattr(v, '__dict__')
import dataclasses, sys\nslots = {'slots': True} if sys.version_info > (3, 10) else {}\n@dataclasses.dataclass(frozen=True, **slots)\nclass D:\n    a: int = 5\nv = D(3) | v, D(), D.__slots__
class C: pass\nold = C()\nclass C: new = 1 | type(old) is C, hasattr(old, 'new'), C.new
import json as v | v.dumps(1)
import enum\nclass E(enum.Enum):\n    A = 1\nv = E.A; _private = 1 | v is E.A, _private
"""

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
def saved(home: Path, project: Path) -> Iterator[SavedSession]:
    saved = SavedSession(home)
    yield saved
    saved.close()


@pytest.mark.sample(6)
@pytest.mark.parametrize(("code", "look"), rows(SAVED))
def test_namespace_is_restored_unchanged(saved: SavedSession, code: str, look: str) -> None:
    first_cells = saved.started(code)
    saved.keep(first_cells)
    output_before = first_cells.text(look)
    first_cells.kernel.close()
    cells = saved.kernel()
    assert restored(cells) == {}
    assert cells.text(look) == output_before


def test_views_and_frames_share_their_memory(saved: SavedSession) -> None:
    pytest.importorskip("pandas")
    first_cells = saved.started(
        "import numpy as np, pandas as pd\na = np.arange(50_000.0); v = a[10:20]; t = a.reshape(100, 500).T; o = np.array([[1], 'x'], dtype=object)",
        "when = np.array(['2020-01-01'] * 9000, 'M8[D]'); f = np.asfortranarray(np.ones((50, 70))); f.flags.writeable = False",
        "df = pd.DataFrame({'x': a, 'y': list('ab') * 25_000}); part = df['x']; small = df[df.x < 5]; inside = {'df': df}",
    )
    look = "df.describe(), df.y.value_counts(), when[0], f.flags.f_contiguous, f.flags.writeable, o, small"
    output_before = first_cells.text(look)
    cells, missing = saved.again(first_cells)
    assert missing == {}
    assert cells.text(look) == output_before
    assert cells.text(
        "np.shares_memory(a, v), np.shares_memory(a, t), a.flags.owndata, inside['df'] is df, np.shares_memory(df['x'], part)"
    ) == ("(True, True, True, True, True)\n")
    together = [{variable.name for variable in file.variables} for file in listed(cells).files]
    assert {"a", "v", "t"} in together
    assert {"df", "part", "inside"} in together


def test_tables_of_other_libraries_are_restored(saved: SavedSession) -> None:
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    first_cells = saved.started(
        "import polars as pl, pyarrow as pa\nv = pl.DataFrame({'a': range(5000)}); lazy = v.lazy().filter(pl.col('a') > 4990); t = pa.table({'b': list(range(5000))})"
    )
    cells, missing = saved.again(first_cells)
    assert missing == {}
    assert (
        cells.text("v['a'].sum(), lazy.collect().height, t.num_rows, t['b'][4999].as_py()")
        == "(12497500, 9, 5000, 4999)\n"
    )


def test_unchanged_variables_are_not_rewritten(saved: SavedSession) -> None:
    first_cells = saved.started(
        "import array\nclass C:\n    def f(self): return 1\nbig = array.array('b', bytes(3_000_000)); other = [C(), array.array('b', bytes(100_000))]"
    )
    saved.keep(first_cells)
    files_before = saved.files()
    assert len(files_before) == 3
    first_cells.text("x = 1; other[1][0] = 7")
    saved.keep(first_cells)
    files_after = saved.files()
    assert len(files_after) == 3
    assert len(files_before.items() & files_after.items()) == 1, "the large one is the same file"
    first_cells.text("pass")
    saved.keep(first_cells)
    assert saved.files() == files_after


def test_name_rebound_by_a_cell_meanwhile_is_not_overwritten(saved: SavedSession) -> None:
    saved.leave("v = 1; w = 2")
    cells = saved.started("v = 'mine'")
    assert restored(cells) == {"v": "a cell has made a new one since"}
    assert cells.text("v, w") == "('mine', 2)\n"


def test_source_of_functions_is_restored(saved: SavedSession) -> None:
    first_cells = saved.started("def f():\n    return 1 / 0")
    cells, _ = saved.again(first_cells)
    assert "return 1 / 0" in cells.run("f()").output
    assert "return 1 / 0" in cells.text("import inspect; print(inspect.getsource(f))")


@pytest.mark.parametrize("python", interpreters())
def test_every_python_version_saves_and_restores(python: str, saved: SavedSession) -> None:
    first_cells = saved.started(
        "class C:\n    def f(self): return n\nn = 3; v = [C()]; v.append(v[0]); g = lambda: v",
        python=python,
    )
    cells, missing = saved.again(first_cells, python)
    assert missing == {}
    assert (
        cells.text("v[0].f(), v[0] is v[1], type(v[0]) is C, g() is v") == "(3, True, True, True)\n"
    )


def test_other_python_restores_only_data_and_leaves_code_for_the_first(saved: SavedSession) -> None:
    old, *_, new = [str(param.values[0]) for param in interpreters()] * 2  # type: ignore[attr-defined]
    if old == new:
        pytest.skip("there is one Python only")
    first_cells = saved.started(
        "data = {'a': [1, 2]}\ndef f(): return 1\nclass C:\n    def f(self): return 2", python=old
    )
    cells, missing = saved.again(first_cells, new)
    assert set(missing) == {"f", "C"}
    assert "it contains code of Python" in missing["f"]
    assert cells.text("data; data['a'].append(3); data") == "{'a': [1, 2, 3]}\n"
    saved.keep(cells, *(file.name for file in listed(cells).files))
    cells.kernel.close()
    third = saved.kernel(old)
    assert restored(third) == {}
    assert third.text("data, f(), C().f()") == "({'a': [1, 2, 3]}, 1, 2)\n"


@pytest.fixture
def limited(home: Path, project: Path) -> Iterator[SavedSession]:
    saved = SavedSession(home, megabytes=20)
    yield saved
    saved.close()


def test_object_that_raises_hangs_exits_or_lies_loses_only_itself(limited: SavedSession) -> None:
    first_cells = limited.started(HOSTILE)
    cells, missing = limited.again(first_cells)
    assert set(missing) == {"raises", "hangs", "lies", "ends", "deep"}
    assert missing["raises"] == "it cannot be pickled (ValueError: not me)"
    assert "took longer than" in missing["hangs"]
    assert missing["ends"] == "writing it crashed the process"
    assert (
        cells.text("good, prints.how, threads.how, Base(3).how")
        == "([1, 2], 'printed', 'threads', 3)\n"
    )
    assert first_cells.host.late.empty(), "nothing was printed"


def test_new_variables_are_left_out_if_those_of_earlier_kernels_fill_the_limit(
    limited: SavedSession,
) -> None:
    limited.leave("earlier = bytes(range(256)) * 8_192")
    limited.location = limited.location._replace(megabytes=1)
    cells = limited.started("new = 1")
    result = limited.keep(cells, *(file.name for file in listed(cells).files))
    assert result.error == ""
    saved = listed(cells)
    assert [file.variables[0].name for file in saved.files] == ["earlier"]
    assert {entry.variable.name: entry.reason for entry in saved.missing} == {
        "new": "0 MB, which together with the others is more than the 1 MB of keep_namespace_mb"
    }


def test_unsaveable_external_resources_are_named(limited: SavedSession) -> None:
    first_cells = limited.started(OUTSIDE)
    cells, missing = limited.again(first_cells)
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


def test_secret_looking_name_is_not_written(limited: SavedSession) -> None:
    first_cells = limited.started("api_key = 'abracadabra'; x = 1")
    _, missing = limited.again(first_cells)
    assert missing == {"api_key": "its name looks like a secret's"}
    assert not any(b"abracadabra" in path.read_bytes() for path in limited.folder.iterdir())


def test_hidden_typed_text_is_not_written_in_any_variable(limited: SavedSession) -> None:
    first_cells = limited.kernel()
    first_cells.host.answer = lambda name, args: (
        "hunter two/2" if args["prompt"] == "Key: " else "q"
    )
    first_cells.text(
        "import base64, getpass, json, numpy as np\nword, pin = getpass.getpass('Key: '), getpass.getpass('Pin: ')"
    )
    first_cells.text(
        "x, other, answer = 1, 'quiz', 'q'\nurl = f'https://me:{word}@host'; inside = [{'a': (word,)}]; shared = inside\n"
        "header = 'Basic ' + base64.b64encode(f'me:{word}'.encode()).decode(); quoted = json.dumps({'word': word + chr(34)})\n"
        "wide, raw = np.array([word] * 2000), np.frombuffer(b'x' * 50_000 + word.encode(), 'u1').copy()\n"
        "def use(word=word): return word"
    )
    _, missing = limited.again(first_cells)
    names = "answer header inside pin quoted raw shared url use wide word".split()
    assert missing == dict.fromkeys(names, "it contains text that was typed hidden")
    saved = b"".join(path.read_bytes() for path in limited.folder.iterdir())
    assert b"quiz" in saved
    for form in (
        b"hunter two/2",
        base64.b64encode(b"hunter two/2"),
        "hunter two/2".encode("utf-32-le"),
    ):
        assert form not in saved


def test_text_typed_hidden_is_not_written_as_a_name(limited: SavedSession) -> None:
    first_cells = limited.kernel()
    first_cells.host.answer = lambda name, args: "hunter2" if args["prompt"] == "Key: " else "q"
    first_cells.text(
        "import getpass, threading\nnames = globals()\n"
        "names[getpass.getpass('Key: ')], names[getpass.getpass('Pin: ')], names['my_hunter2'] = threading.Lock(), 5, 6\n"
        "class Lost:\n    def __reduce__(self): raise ValueError('no ' + next(iter(set(names) & {'hunter2'})))\n"
        "lost, other = Lost(), [type('hunter2', (Lost,), {})()]"
    )
    _, missing = limited.again(first_cells)
    assert "lost" in missing
    assert "hunter2" not in repr(missing)
    saved = b"".join(path.read_bytes() for path in limited.folder.iterdir())
    assert b"hunter2" not in saved
    assert b'"q"' not in saved


def test_largest_variables_are_dropped_first(limited: SavedSession) -> None:
    first_cells = limited.started(
        "import array\nlarge, middle, small, text = (array.array('b', bytes(n * 2**20)) for n in (25, 14, 8, 2))"
    )
    cells, missing = limited.again(first_cells)
    assert set(missing) == {"large", "middle"}
    limit = "more than the 20 MB of keep_namespace_mb"
    assert missing["middle"] == f"14 MB, which together with the others is {limit}"
    assert missing["large"] == limit
    assert cells.text("len(small), len(text)") == f"({8 * 2**20}, {2 * 2**20})\n"


def test_full_disk_preserves_the_saved_variables(limited: SavedSession) -> None:
    first_cells = limited.started("v = 'old' * 10_000; w = 1")
    limited.keep(first_cells)
    names = (*limited.files(), "index.json")
    files_before = {name: (limited.folder / name).read_bytes() for name in names}
    first_cells.text(
        "import resource, signal, array\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nlimits = resource.getrlimit(resource.RLIMIT_FSIZE)"
    )
    first_cells.text(
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1])); big = array.array('b', bytes(5_000_000))"
    )
    assert limited.keep(first_cells).error == "File too large"
    assert {name: (limited.folder / name).read_bytes() for name in names} == files_before
    assert limited.files().keys() == set(names) - {"index.json"}
    first_cells.text("resource.setrlimit(resource.RLIMIT_FSIZE, limits)")
    assert limited.keep(first_cells).error == ""
    assert len(limited.files()) == 3


def writing(cells: Cells, saved: SavedSession) -> tuple[threading.Thread, list[str]]:
    cells.text(
        "import os, time\nclass Hangs:\n    def __reduce__(self): open('hangs', 'w').close(); time.sleep(3600)\nhangs = Hangs(); more = 'x' * 100_000"
    )
    errors: list[str] = []

    def write() -> None:
        with contextlib.suppress(KernelError):  # the kernel is killed meanwhile
            errors.append(saved.keep(cells).error)

    thread = threading.Thread(target=write)
    thread.start()
    wait_for(Path("hangs").exists)
    return thread, errors


def test_killed_kernel_preserves_the_saved_variables_and_leaves_no_process(
    limited: SavedSession,
) -> None:
    first_cells = limited.started("v = 'old'")
    limited.keep(first_cells)
    thread, _ = writing(first_cells, limited)
    pid = first_cells.kernel.info().pid
    started = descendants(pid)
    assert len(started) >= 2
    os.kill(pid, signal.SIGKILL)
    first_cells.host.wait_for_state(KernelState.DEAD)
    wait_for(lambda: not any(map(alive, started)))
    thread.join()
    first_cells.kernel.close()
    cells = limited.kernel()
    assert restored(cells) == {}
    assert cells.text("v") == "'old'\n"
    limited.keep(cells)
    assert not list(limited.folder.glob("*.new"))


def niceness(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])


def test_killed_writer_is_reported_and_preserves_the_saved_variables(limited: SavedSession) -> None:
    first_cells = limited.started("v = 'old'")
    limited.keep(first_cells)
    index_before = (limited.folder / "index.json").read_bytes()
    thread, errors = writing(first_cells, limited)
    kernel = first_cells.kernel.info().pid
    for pid in descendants(kernel):
        if niceness(pid) > niceness(kernel):  # not a checkpoint of undo
            os.kill(pid, signal.SIGKILL)
    thread.join(PATIENCE)
    assert errors == ["the process that writes them was killed"]
    assert (limited.folder / "index.json").read_bytes() == index_before
    assert first_cells.text("v") == "'old'\n"


def test_cells_run_during_saving(limited: SavedSession) -> None:
    first_cells = limited.kernel()
    thread, _ = writing(first_cells, limited)
    assert first_cells.text("1 + 1") == "2\n"
    assert thread.is_alive()
    thread.join()


def test_restoring_can_be_stopped_without_loss(limited: SavedSession) -> None:
    limited.leave(
        "import time\nclass Slow:\n    def __setstate__(self, state): open('slow', 'w').close(); time.sleep(0 if fast() else 3600)\ndef fast():\n    import os\n    return os.path.exists('fast')",
        "slow = Slow(); slow.x = 'x' * 100_000; other = 1",
    )
    cells = limited.kernel()
    names = {
        file.name: [variable.name for variable in file.variables] for file in listed(cells).files
    }
    (name,) = [file for file, variables in names.items() if variables == ["slow"]]

    def stop() -> None:
        wait_for(Path("slow").exists)
        cells.kernel.interrupt()

    with ThreadPoolExecutor() as pool:
        pool.submit(stop)
        assert restored(cells) == {"slow": "reading it was stopped"}
    assert cells.text("other") == "1\n"
    limited.keep(cells, name)
    cells.kernel.close()
    Path("fast").touch()
    third = limited.kernel()
    assert restored(third) == {}
    assert third.text("type(slow) is Slow, other") == "(True, 1)\n"


def test_restoring_that_takes_too_long_is_stopped(
    limited: SavedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited.leave(
        "import time\nclass Slow:\n    def __setstate__(self, state): time.sleep(20)",
        "slow = Slow(); slow.x = 1",
    )
    cells = limited.kernel()
    monkeypatch.setattr(Operations.restore, "timeout", 0.5)
    with pytest.raises(KernelError):
        restored(cells)
    cells.expect("'slow' in globals()", "False\n")


def test_missing_package_is_named_and_the_variable_stays_saved(
    limited: SavedSession, project: Path
) -> None:
    (project / "own_package.py").write_text("class Thing: x = 5\n")
    limited.leave("import own_package\nthing = own_package.Thing(); other = 1")
    (project / "own_package.py").rename(project / "elsewhere.txt")
    cells = limited.kernel()
    reason = "its package own_package is missing"
    assert restored(cells) == {"own_package": reason, "thing": reason}
    assert cells.text("other") == "1\n"
    limited.keep(cells, *(file.name for file in listed(cells).files))
    cells.kernel.close()
    (project / "elsewhere.txt").rename(project / "own_package.py")
    third = limited.kernel()
    assert restored(third) == {}
    assert third.text("thing.x") == "5\n"


def test_undo_across_a_restore_is_refused_with_a_sentence(limited: SavedSession) -> None:
    limited.leave("v = [1]")
    cells = limited.started("w = [2]; w.append(3)")
    assert restored(cells) == {}
    with pytest.raises(KernelError, match="variables have come back since"):
        cells.kernel.undo(cells.number)
    cells.text("v.append(2); w.clear()")
    cells.kernel.undo(cells.number)
    assert cells.text("v, w") == "([1], [2, 3])\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("file", ["session-1", "session-1/index.json", "data", ""])
def test_files_writable_by_others_are_not_read(limited: SavedSession, file: str) -> None:
    limited.leave("v = 1")
    (data,) = limited.folder.glob("*.variables")
    path = data if file == "data" else limited.folder.parent / file
    path.chmod(path.stat().st_mode | 0o020)
    cells = limited.kernel()
    if file == "data":
        assert "others can write" in restored(cells)["v"]
    else:
        with pytest.raises(KernelError, match=f"others can write .*{path.name}"):
            cells.kernel.saved_namespace()
    assert "NameError" in cells.run("v").output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_of_another_user_are_not_read(limited: SavedSession) -> None:
    limited.leave("v = 1")
    os.chown(limited.folder / "index.json", 12345, -1)
    with pytest.raises(KernelError, match="belongs to another user"):
        limited.kernel().kernel.saved_namespace()


def test_links_and_copies_of_another_session_are_not_read(
    limited: SavedSession, tmp_path: Path
) -> None:
    limited.leave("v = 1")
    index = limited.folder / "index.json"
    index.rename(tmp_path / "index.json")
    index.symlink_to(tmp_path / "index.json")
    with pytest.raises(KernelError):
        limited.kernel().kernel.saved_namespace()
    index.unlink()
    text = (tmp_path / "index.json").read_bytes().partition(b"\n")[2]
    index.write_bytes(b"0" * 64 + b"\n" + text)
    index.chmod(0o600)
    with pytest.raises(KernelError, match="not written there by a session of yours"):
        limited.kernel().kernel.saved_namespace()


def test_swapped_pickle_is_not_read(limited: SavedSession) -> None:
    limited.leave("v = 1")
    (path,) = limited.folder.glob("*.variables")
    path.write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.".ljust(path.stat().st_size, b"\0"))
    cells = limited.kernel()
    assert restored(cells) == {"v": "its file is damaged: it is not what was written"}
    assert not Path("pwned").exists()
    path.write_bytes(b"")
    assert restored(cells) == {"v": "its file is damaged: it ends too early"}


def test_saved_files_are_private_to_the_user(limited: SavedSession) -> None:
    first_cells = limited.started("import os; os.umask(0); v = 'x' * 100_000; w = 1")
    limited.keep(first_cells)
    assert limited.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in limited.folder.iterdir()} == {0o600}
