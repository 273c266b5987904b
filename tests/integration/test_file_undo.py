"""Undo of files that cells change, whoever writes them."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.values import NotRestored, Status, describe_files
from mahtab_tui.kernel.messages import CellEnd
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.running_cell import SUDO_HINT, RunningCell
from mahtab_tui.kernel.values import FileWatching, KernelState, Restoration
from mahtab_tui.settings.model import file_copies_folder
from mahtab_tui.store.file_copies import collect_file_copies, delete_file_copies
from tests.benchmarks.kernel import memory_mib
from tests.integration.kernels import FIND_CHANNEL, Cells, interpreters, running
from tests.random_files import find_problems, read_tree, watched_kernel
from tests.waiting import alive, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are watched on Linux only")

EFFECTS = {
    # Python's own functions
    "new": "open('n.txt', 'w').write('n')",
    "overwrite": "open('a.txt', 'w').write('other')",
    "append": "open('a.txt', 'a').write('more')",
    "r+": "f = open('a.txt', 'r+'); f.seek(2); f.write('XX'); f.close()",
    "exclusive": "open('n.txt', 'x').close()",
    "flags": "f = os.open('a.txt', os.O_RDWR | os.O_CREAT); os.pwrite(f, b'zz', 1); os.close(f)",
    "O_TRUNC": "os.close(os.open('a.txt', os.O_RDONLY | os.O_TRUNC))",
    "truncate": "os.truncate('a.txt', 1)",
    "ftruncate": "f = os.open('a.txt', os.O_WRONLY); os.ftruncate(f, 100); os.close(f)",
    "rename": "os.rename('a.txt', 'b.txt')",
    "replace": "open('n', 'w').write('n'); os.replace('n', 'a.txt')",
    "remove": "os.remove('a.txt')",
    "remove and create": "os.remove('a.txt'); open('a.txt', 'w').write('again')",
    "swap": "os.rename('a.txt', 't'); os.rename('data.csv', 'a.txt'); os.rename('t', 'data.csv')",
    "rename and write": "os.rename('a.txt', 'b.txt'); open('b.txt', 'a').write('more')",
    "create and remove": "open('n', 'w').write('n'); os.remove('n')",
    "touch": "pathlib.Path('a.txt').touch()",
    "times": "os.utime('a.txt', (1, 2))",
    "permissions": "os.chmod('a.txt', 0o600)",
    "permissions of a descriptor": "f = os.open('a.txt', os.O_RDONLY); os.fchmod(f, 0o640); os.close(f)",
    "permissions and write": "os.chmod('a.txt', 0o600); open('a.txt', 'w').write('x')",
    # Folders
    "folder": "os.makedirs('x/y/z'); open('x/y/z/f', 'w').write('f')",
    "empty folder removed": "os.rmdir('empty')",
    "tree removed": "shutil.rmtree('sub')",
    "folder renamed": "os.rename('sub', 'other')",
    "folder renamed and changed": "open('sub/x.txt', 'a').write('1'); os.rename('sub', 'other'); open('other/x.txt', 'a').write('2'); os.remove('other/deep/y.txt')",
    "folder renamed twice": "os.rename('sub', 'one'); os.rename('one', 'two'); open('two/new', 'w').close()",
    "file becomes folder": "os.remove('a.txt'); os.mkdir('a.txt'); open('a.txt/in', 'w').close()",
    "folder becomes file": "shutil.rmtree('sub'); open('sub', 'w').write('file')",
    "relative to a folder": "d = os.open('sub', os.O_RDONLY); os.remove('x.txt', dir_fd=d); os.close(d)",
    "rename into": "os.rename('a.txt', 'sub/a.txt')",
    # Links
    "new link": "os.symlink('a.txt', 'new link')",
    "through a link": "open('link', 'w').write('through')",
    "link removed": "os.remove('link')",
    "link replaced": "os.symlink('data.csv', 't'); os.replace('t', 'link')",
    "link to nothing": "os.symlink('target', 'l'); open('l', 'w').write('x')",
    "hard link": "os.link('a.txt', 'hard')",
    "through a new hard link": "os.link('a.txt', 'hard'); open('hard', 'a').write('both')",
    "through a hard link": "open('twin', 'a').write('both')",
    # Special content and names
    "large": "open('big.bin', 'r+b').write(bytes(100))",
    "holes": "f = open('holes', 'r+b'); f.seek(1_000_000); f.write(b'in the middle'); f.close()",
    "pipe": "os.mkfifo('fifo')",
    "other encoding": r"open(b'caf\xe9', 'a').write('x'); os.remove(b'\xff')",
    "line break": r"open('two\nlines', 'w').write('x')",
    "O_TMPFILE": "f = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(f, b'x'); d = os.open('.', os.O_RDONLY); os.link(f'/proc/self/fd/{f}', 'linked', dst_dir_fd=d); os.close(f); os.close(d)",
    "map": "import mmap; f = open('big.bin', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:3] = b'map'; m.close(); f.close()",
    # Other threads and processes
    "thread": "import threading; t = threading.Thread(target=lambda: open('a.txt', 'w').write('t')); t.start(); t.join()",
    "asyncio": "import asyncio; await asyncio.to_thread(pathlib.Path('a.txt').write_text, 'async')",
    "fork": "import multiprocessing; p = multiprocessing.get_context('fork').Process(target=os.remove, args=['a.txt']); p.start(); p.join()",
    "spawn": "import multiprocessing; p = multiprocessing.get_context('spawn').Process(target=os.remove, args=['a.txt']); p.start(); p.join()",
    "shell": "sh('echo other > a.txt; echo more >> data.csv')",
    "shell in another folder": "sh('cd sub && rm x.txt && mv ../a.txt .')",
    "sed": "sh('sed -i s/1/9/ data.csv')",
    "mv": "sh('mv sub moved; mv a.txt moved/')",
    "rm": "sh('rm -r sub a.txt')",
    "cp": "sh('cp data.csv a.txt; cp -r sub copy')",
    "gzip": "sh('gzip data.csv')",
    "tee": "sh('echo x | tee -a a.txt')",
    "dd": "sh('dd if=/dev/zero of=big.bin bs=1 count=9 seek=5 conv=notrunc 2>&1')",
    "orphan": "sh('(setsid sh -c \"sleep 0.1; echo x > a.txt; echo done > finished\" &)'); [time.sleep(0.01) for _ in iter(lambda: os.path.exists('finished'), True)]",
    # Libraries
    "tempfile": "import tempfile; f = tempfile.NamedTemporaryFile(dir='.', delete=False); f.write(b'x'); f.close(); os.replace(f.name, 'a.txt')",
    "zip": "import zipfile; z = zipfile.ZipFile('z.zip', 'w'); z.write('a.txt'); z.close(); os.remove('a.txt'); zipfile.ZipFile('z.zip').extractall('.')",
    "sqlite": "import sqlite3; c = sqlite3.connect('base.db'); c.execute('insert into t values (2)'); c.commit(); c.close()",
    "numpy": "import numpy as np; np.save('array.npy', np.zeros(9)); m = np.memmap('big.bin', 'u1', 'r+'); m[7] = 200; m.flush(); del m",
    "pandas": "import pandas as pd; pd.read_csv('data.csv').assign(c=1).to_csv('data.csv')",
    "parquet": "import pandas as pd; pd.DataFrame({'a': [1]}).to_parquet('p.parquet')",
    "polars": "import polars as pl; pl.DataFrame({'a': [1, 2]}).write_csv('data.csv'); pl.DataFrame({'a': [1]}).lazy().sink_parquet('lazy.parquet')",
}
"""What a cell does to files, in a folder that `make_files` has filled."""

SETUP = "import os, pathlib, shutil, subprocess, time\ndef sh(command): subprocess.run(command, shell=True, check=True)\n"


def make_files(folder: Path) -> None:
    for name in ("sub/deep", "empty"):
        (folder / name).mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "a.txt").chmod(0o755)
    (folder / "data.csv").write_text("a,b\n1,2\n")
    (folder / "sub/x.txt").write_text("x")
    (folder / "sub/deep/y.txt").write_text("y")
    (folder / "big.bin").write_bytes(bytes(range(256)) * 4096)
    with (folder / "holes").open("wb") as file:
        file.truncate(3_000_000)
    (folder / "link").symlink_to("a.txt")
    (folder / "first").write_text("hard")
    os.link(folder / "first", folder / "twin")
    with open(os.fsencode(folder) + b"/\xff", "wb") as file:
        file.write(b"odd")
    subprocess.run(["sqlite3", "base.db", "create table t (a)"], cwd=folder, check=True)


def tree(folder: Path) -> dict[bytes, Any]:
    """Return everything in a folder that an undo has to restore."""
    states: dict[bytes, Any] = {}
    root = os.fsencode(folder)
    for parent, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            content: Any = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = (file.read(), status.st_mtime_ns)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            states[path[len(root) + 1 :]] = (oct(status.st_mode), content)
    return states


def watching(folder: Path, **changes: Any) -> FileWatching:
    copies = folder.parent / "copies"
    return FileWatching((str(folder),), (), str(copies), 200)._replace(**changes)


def unrestored_files(restoration: Restoration) -> list[NotRestored]:
    """Return what an undo has left as it is in the folders of these tests."""
    return [item for item in restoration.not_restored if "case" in item.name]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    """A kernel whose files are watched, for all tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("project") / "work"
    folder.mkdir()
    with running(ProcessKernel(cwd=str(folder), watching=watching(folder))) as cells:
        cells.folder = folder  # type: ignore[attr-defined]
        yield cells


@pytest.fixture
def folder(watched: Cells, request: pytest.FixtureRequest) -> Path:
    """A new folder, which is the working folder of the kernel."""
    path: Path = watched.folder / f"case{watched.number}"  # type: ignore[attr-defined]
    path.mkdir()
    watched.text(f"{SETUP}os.chdir({str(path)!r})")
    return path


@pytest.mark.parametrize("python", interpreters())
def test_changes_of_many_files_are_undone_under_each_interpreter(
    python: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for index in range(99):
        (work / f"f{index}").write_text("old")
    with running(ProcessKernel(python, cwd=str(work), watching=watching(work))) as cells:
        result = cells.run("for i in range(99): open(f'f{i}', 'w').write('new')")
        cells.kernel.undo(1)
    assert len(result.files) == 99
    assert {path.read_text() for path in work.iterdir()} == {"old"}


def test_the_witness_imports_nothing_from_the_users_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    modules = tmp_path / "modules"
    imported = tmp_path / "imported.txt"
    for folder in (work, modules):
        folder.mkdir()
    for name in ("array", "zlib", "_pickle", "_blake2"):
        (modules / f"{name}.py").write_text(
            f"open({str(imported)!r}, 'a').write({name + ' '!r})\nraise ImportError\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(modules))
    with running(ProcessKernel(cwd=str(work), watching=watching(work))) as cells:
        cells.text("import os\nfor i in range(99): open(f'f{i}', 'w').write('old')")
        cells.text("for i in range(99): os.remove(f'f{i}')")
        restoration = cells.kernel.undo(1)
    assert not imported.exists(), imported.read_text()
    assert len(os.listdir(work)) == 0, restoration


@pytest.mark.sample(12)
@pytest.mark.parametrize("effect", EFFECTS)
def test_effects_on_files_are_undone_and_redone(watched: Cells, folder: Path, effect: str) -> None:
    make_files(folder)
    before = tree(folder)
    result = watched.run(EFFECTS[effect])
    assert result.status == "ok", result.output
    after = tree(folder)
    assert bool(result.files) == (before != after), result.files

    restoration = watched.kernel.undo(watched.number)
    assert tree(folder) == before
    assert unrestored_files(restoration) == []
    watched.kernel.redo()
    assert tree(folder) == after


def test_a_cell_names_what_it_did_to_files(watched: Cells, folder: Path) -> None:
    make_files(folder)
    code = "open('out.csv', 'w').write('x'); open('data.csv', 'a').write('y'); os.remove('a.txt')\nos.makedirs('new/deep'); open('new/deep/f', 'w').close(); os.rename('big.bin', 'small.bin')\nopen('sub/x.txt').read(); open('twin', 'r+').close()"
    text = describe_files(watched.run(code).files)
    assert text.replace(f"{folder.name}/", "") == (
        "files: `out.csv` new, `a.txt` removed, `new/` new, `big.bin` renamed to `small.bin`,"
        " `data.csv` changed"
    )
    assert watched.run("open('data.csv').read(); open(os.devnull, 'w').close()").files == ()
    into_new_folder = watched.run("os.mkdir('made'); os.rename('small.bin', 'made/small.bin')")
    text = describe_files(into_new_folder.files).replace(f"{folder.name}/", "")
    assert text == "files: `made/` new, `small.bin` renamed to `made/small.bin`"


def test_several_cells_are_undone_together(watched: Cells, folder: Path) -> None:
    make_files(folder)
    before = tree(folder)
    watched.text("open('a.txt', 'w').write('1'); os.rename('sub', 'other')")
    first = watched.number
    watched.text("open('a.txt', 'w').write('2'); open('other/x.txt', 'w').write('2')")
    watched.text("os.remove('a.txt'); os.rename('other', 'last')")
    after = tree(folder)
    preview = watched.kernel.preview_undo(first)
    assert tree(folder) == after
    restoration = watched.kernel.undo(first)
    assert [file[:2] for file in restoration.files] == [file[:2] for file in preview.files]
    assert tree(folder) == before
    watched.kernel.redo()
    assert tree(folder) == after


INTERRUPTED_AT_ITS_END = (
    FIND_CHANNEL
    + """\
send = channel.send
def interrupt_sending(frame):
    if frame['op'] == 'done':
        channel.send = send
        raise KeyboardInterrupt
    send(frame)
channel.send = interrupt_sending
open('out.csv', 'w').close()"""
)
"""Code whose end is sent at the second attempt."""


def test_a_cell_that_is_interrupted_at_its_end_names_what_it_did_to_files(
    watched: Cells, folder: Path
) -> None:
    (file,) = watched.run(INTERRUPTED_AT_ITS_END).files
    assert file.path.endswith("out.csv")


def test_many_files_that_change_places_are_undone_with_all_their_names(
    watched: Cells, folder: Path
) -> None:
    for number in range(200):
        path = folder / f"d{number % 7}" / f"f{number}"
        path.parent.mkdir(exist_ok=True)
        if number % 3:
            os.link(folder / f"d{(number - 1) % 7}" / f"f{number - 1}", path)
        else:
            path.write_text(str(number))
    trees = [read_tree(folder)]
    watched.text("paths = sorted(map(str, pathlib.Path().glob('d*/f*')))")
    for seed in range(2):
        watched.text(
            f"import random; new_paths = random.Random({seed}).sample(paths, len(paths))\n"
            "for path in paths: os.rename(path, path + '-moved')\n"
            "for old, new in zip(paths, new_paths): os.rename(old + '-moved', new)"
        )
        trees.append(read_tree(folder))
    for cell, tree_before in ((watched.number, trees[1]), (watched.number - 1, trees[0])):
        for _ in range(2):
            tree_after = read_tree(folder)
            assert unrestored_files(watched.kernel.undo(cell)) == []
            assert read_tree(folder) == tree_before
            watched.kernel.redo()
            assert read_tree(folder) == tree_after
        watched.kernel.undo(cell)


def test_a_preview_shows_the_lines_of_a_small_text(watched: Cells, folder: Path) -> None:
    make_files(folder)
    watched.text("open('a.txt', 'w').write('one\\nthree\\n'); open('big.bin', 'wb').write(b'\\0')")
    files = {
        Path(file.path).name: file for file in watched.kernel.preview_undo(watched.number).files
    }
    assert files["a.txt"].diff.splitlines() == ["@@ -1,2 +1,2 @@", " one", "-three", "+two"]
    assert files["big.bin"].diff == ""


def test_what_somebody_else_changed_since_stays_and_is_named(watched: Cells, folder: Path) -> None:
    make_files(folder)
    watched.text(
        "for name in ('a.txt', 'data.csv', 'n.txt', 'm.txt'): open(name, 'w').write('by the cell')\nos.makedirs('made'); open('made/own', 'w').close()"
    )
    (folder / "data.csv").write_text("by hand")
    (folder / "n.txt").write_text("by hand")
    (folder / "made/other").write_text("by hand")
    # The same content with another time is not another file.
    os.utime(folder / "m.txt", (1, 1))

    restoration = watched.kernel.undo(watched.number)
    reasons = {
        Path(item.name).name: item.reason
        for item in restoration.not_restored
        if folder.name in item.name
    }
    assert {name: reason.split(",")[0] for name, reason in reasons.items()} == {
        "data.csv": "it was changed since by something outside the cells",
        "n.txt": "it was changed since by something outside the cells",
        "made": "it could not be restored (Directory not empty)",
    }
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert (folder / "data.csv").read_text() == (folder / "n.txt").read_text() == "by hand"
    assert [path.name for path in (folder / "made").iterdir()] == ["other"]
    assert not (folder / "m.txt").exists()


@pytest.mark.parametrize(
    ("opening", "writing"),
    [
        ("f = open('a.txt', 'r+')", "f.write('XXX'); f.flush()"),
        ("import numpy as np; m = np.memmap('big.bin', 'u1', 'r+')", "m[:3] = 7; m.flush()"),
    ],
)
def test_a_file_that_stays_open_is_copied_again_for_the_next_cell(
    watched: Cells, folder: Path, opening: str, writing: str
) -> None:
    make_files(folder)
    watched.text(opening)
    before = tree(folder)
    result = watched.run(writing)
    assert describe_files(result.files).endswith(" changed")
    watched.text("1 + 1")
    watched.kernel.undo(watched.number - 1)
    assert {name: state[1] and state[1][0] for name, state in tree(folder).items()} == {
        name: state[1] and state[1][0] for name, state in before.items()
    }
    watched.text("f = m = None")


def test_a_process_that_outlives_its_cell_is_undone_with_it(watched: Cells, folder: Path) -> None:
    make_files(folder)
    watched.text(
        "p = subprocess.Popen('read x; echo late > a.txt', shell=True, stdin=subprocess.PIPE)"
    )
    cell = watched.number
    watched.text("p.communicate(b'go'); p.wait()")
    assert (folder / "a.txt").read_text() == "late\n"
    watched.kernel.undo(cell)
    assert (folder / "a.txt").read_text() == "one\ntwo\n"


def test_a_process_that_writes_after_an_undo_does_not_end_its_redo(
    watched: Cells, folder: Path
) -> None:
    make_files(folder)
    os.mkfifo(folder / "go")
    watched.text(
        "open('a.txt', 'w').write('x'); p = subprocess.Popen('read x < go; echo late > data.csv; echo > done', shell=True)"
    )
    watched.text("1")
    watched.kernel.undo(watched.number - 1)
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    (folder / "go").write_text("go\n")
    wait_for(lambda: (folder / "done").exists())
    watched.kernel.redo()
    assert (folder / "a.txt").read_text() == "x"
    assert (folder / "data.csv").read_text() == "late\n"
    watched.text("p.wait()")


def test_a_change_through_a_link_to_another_folder_is_named(
    watched: Cells, folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "outside"
    target.write_text("original")
    (folder / "out").symlink_to(target)
    watched.text("open('out', 'w').write('x')")
    names = [item.name for item in watched.kernel.undo(watched.number).not_restored]
    assert names == ["out"]


@pytest.mark.parametrize(
    ("moves", "named"),
    [
        ("os.rename('sub', outside); os.rename(outside, 'other')", []),
        ("os.rename('sub', outside); os.rename(outside, 'sub')", []),
        ("os.rename('sub', outside)", ["sub"]),
        ("os.mkdir(outside); os.rename(outside, 'other')", ["other"]),
        ("os.rename('sub/deep', outside); os.rename('sub', 'other')", ["sub/deep"]),
    ],
)
def test_a_folder_that_leaves_the_watched_ones_is_undone_if_it_comes_back_or_named(
    watched: Cells, folder: Path, tmp_path: Path, moves: str, named: list[str]
) -> None:
    make_files(folder)
    before = tree(folder)
    outside = tmp_path / "outside"
    watched.text(f"outside = {str(outside)!r}; {moves}")

    restoration = watched.kernel.undo(watched.number)

    changed_names = before.keys() ^ tree(folder).keys()
    assert [item.name for item in restoration.not_restored if str(tmp_path) not in item.name] == [
        f"{folder.name}/{name}" for name in named
    ]
    assert all(os.fsdecode(name).startswith(tuple(named)) for name in changed_names)


@pytest.mark.parametrize("function", ["os.link", "os.symlink"])
def test_a_link_that_is_made_outside_the_watched_folders_is_named(
    watched: Cells, folder: Path, tmp_path: Path, function: str
) -> None:
    (folder / "data.csv").write_text("1")
    link = tmp_path / "link"
    watched.text(f"import os; {function}('data.csv', {str(link)!r})")
    not_restored = watched.kernel.undo(watched.number).not_restored
    assert [(item.name, item.reason) for item in not_restored] == [
        ("data.csv", "a link to this file was created and stays")
    ]
    assert os.path.lexists(link)


def test_a_change_below_a_root_folder_of_its_own_is_named(watched: Cells, folder: Path) -> None:
    (folder / "root").mkdir()
    code = """
import ctypes, os
library = ctypes.CDLL(None)
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o600, 0x10)
root = os.open('root', os.O_RDONLY)
os.close(library.syscall(437, root, b'/new', how, 24))
os.close(root)
"""
    watched.text(code)
    assert (folder / "root" / "new").exists()
    reasons = [item.reason for item in watched.kernel.undo(watched.number).not_restored]
    assert any("another root folder" in reason for reason in reasons)


def test_the_history_of_versions_is_left_alone_and_named(watched: Cells, folder: Path) -> None:
    make_files(folder)
    watched.text("sh('git init -q . && git add data.csv')")
    watched.text(
        "sh('git -c user.name=a -c user.email=b commit -qm x; echo 9 > data.csv; git checkout -q data.csv; rm a.txt')"
    )
    restoration = watched.kernel.undo(watched.number)
    assert any(".git: the history" in item.reason for item in restoration.not_restored)
    assert (folder / "a.txt").exists()
    log = subprocess.run(["git", "log", "--oneline"], cwd=folder, capture_output=True, check=True)
    assert log.stdout.endswith(b" x\n")


def test_a_file_over_the_limit_is_named(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "large").write_bytes(bytes(3 * 2**20))
    (work / "small").write_bytes(b"small")
    kernel = ProcessKernel(cwd=str(work), watching=watching(work, cell_megabytes=2))
    with running(kernel) as cells:
        cells.text("for name in ('large', 'small'): open(name, 'w').write('x')")
        restoration = cells.kernel.undo(1)
        assert [
            (item.name, "2 MB (file_undo_mb)" in item.reason) for item in restoration.not_restored
        ] == [("large", True)]
        assert (work / "small").read_bytes() == b"small"
        assert (work / "large").read_bytes() == b"x"


def test_the_oldest_copies_are_removed_first(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in "ab":
        (work / name).write_bytes(bytes(700_000))
    with running(ProcessKernel(cwd=str(work), watching=watching(work, megabytes=1))) as cells:
        cells.text("open('a', 'w').write('x')")
        cells.text("open('b', 'w').write('x')")
        restoration = cells.kernel.undo(1)
        assert [item.name for item in restoration.not_restored] == ["a"]
        assert "all copies need more than" in restoration.not_restored[0].reason
        assert (work / "b").stat().st_size == 700_000


def test_a_file_that_cannot_be_copied_is_named_and_the_cell_goes_on(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("a")
    with running(ProcessKernel(cwd=str(work), watching=watching(work))) as cells:
        # The witness has begun to watch when the first file is made.
        cells.text("open('b', 'w').close()")
        # As if the disk were full: nothing can be made in the folder of the copies.
        copies = next((tmp_path / "copies").iterdir())
        copies.rename(tmp_path / "elsewhere")
        cells.text("open('a', 'w').write('x')")
        (reason,) = [item.reason for item in cells.kernel.undo(2).not_restored]
        assert reason.startswith("it could not be copied (No such file")


def test_folders_on_another_file_system_and_ignored_ones(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "state").mkdir(parents=True)
    other = Path("/dev/shm", f"mahtab-{os.getpid()}")
    other.mkdir()
    try:
        (other / "a").write_text("a")
        settings = watching(work, folders=(str(work), str(other)), ignored=(str(work / "state"),))
        with running(ProcessKernel(cwd=str(work), watching=settings)) as cells:
            result = cells.run(
                f"import os; os.remove({str(other / 'a')!r}); open('state/x', 'w').close(); open('/tmp/mahtab-x', 'w').close()"
            )
            assert [(file.path, file.change) for file in result.files] == [
                (str(other / "a"), "removed")
            ]
            cells.kernel.undo(1)
            assert (other / "a").read_text() == "a"
            assert (work / "state/x").exists()
    finally:
        subprocess.run(["rm", "-r", str(other)], check=True)


def test_a_kernel_is_replaced_when_its_witness_is_killed(tmp_path: Path) -> None:
    with running(ProcessKernel(cwd=str(tmp_path), watching=watching(tmp_path))) as cells:
        cells.text("x = 1")
        kernel_pid = cells.kernel.info().pid
        witness_pid = int(cells.text("import os; print(os.getppid())"))
        os.kill(witness_pid, signal.SIGKILL)
        text = cells.host.wait_for_state(KernelState.DEAD)
        assert text.startswith("The kernel died: it was killed from outside")
        wait_for(lambda: not alive(kernel_pid))
        cells.host.wait_for_state(KernelState.IDLE)
        assert cells.run("open('new', 'w').close()").files[0].path == "new"


def test_the_witness_needs_little_memory_after_a_cell_that_changes_many_files(
    tmp_path: Path,
) -> None:
    with running(ProcessKernel(cwd=str(tmp_path), watching=watching(tmp_path))) as cells:
        witness_pid = int(cells.text("import os; open('first', 'w').close(); print(os.getppid())"))
        before = memory_mib(witness_pid)
        cells.text("for n in range(10_000): open(f'file-{n}', 'w').close()")
        assert memory_mib(witness_pid) - before < 10


def test_a_process_that_outlives_its_kernel_can_still_write(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    with running(ProcessKernel(cwd=str(work), watching=watching(work))) as cells:
        cells.text(
            "import subprocess; subprocess.Popen('read x < go; echo $x > out', shell=True, start_new_session=True)"
        )
        witness_pid = int(cells.text("import os; print(os.getppid())"))
        os.kill(cells.kernel.info().pid, signal.SIGKILL)
        cells.host.wait_for_state(KernelState.DEAD)
        wait_for(lambda: not alive(witness_pid))
        (work / "go").write_text("still\n")
        wait_for(lambda: (work / "out").exists() and (work / "out").read_text() == "still\n")
    wait_for(lambda: not list((tmp_path / "copies").glob("*")))


def test_signals_for_cells_do_not_end_the_witness(watched: Cells, folder: Path) -> None:
    make_files(folder)
    watched.text("import signal; [signal.signal(number, signal.SIG_IGN) for number in (1, 15)]")
    witness_pid = int(watched.text("print(os.getppid())"))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        os.kill(witness_pid, number)
    assert watched.interrupt_after("go", "print('go')\nwhile True: pass").status == "interrupted"
    watched.text("open('a.txt', 'w').write('x')")
    watched.kernel.undo(watched.number)
    assert (folder / "a.txt").read_text() == "one\ntwo\n"


def test_a_locked_fork_still_names_what_native_code_hides(watched: Cells, folder: Path) -> None:
    make_files(folder)
    code = "import ctypes; ctypes.CDLL(None).creat(b'hidden', 0o600)"
    watched.number += 1
    result = watched.kernel.execute(
        code, cell=watched.number, on_output=lambda kind, text: None, lock="keep"
    )
    assert result.needs == "wanted to write hidden"


def test_what_is_not_watched_says_so() -> None:
    with running(ProcessKernel()) as cells:
        cells.text("x = 1")
        assert (
            cells.kernel.preview_undo(1).files_unwatched
            == "file_undo is off, or has no effect here"
        )


def test_sudo_that_cannot_work_names_the_setting(watched: Cells, folder: Path) -> None:
    refusal = 'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.'
    watched.expect(
        f"print({refusal!r})",
        f"{refusal}\nsudo does not work in cells while their changes of files are watched:"
        " set file_undo = false, then /reset.\n",
    )


def test_a_refusal_that_sudo_writes_in_pieces_names_the_setting() -> None:
    pieces: list[str] = []
    running_cell = RunningCell(1, lambda kind, text: pieces.append(text))
    running_cell.watches_files = True
    for piece in ("sudo: ", 'The "no new ', 'privileges" flag is set, which prevents sudo\n'):
        running_cell.add_output(piece)
    running_cell.done(CellEnd(1, Status.OK, (), (), (), 0.0, ""))
    assert pieces[-1] == SUDO_HINT
    assert running_cell.result.result(0).output.endswith(f"sudo\n{SUDO_HINT}")


def test_copies_of_killed_kernels_are_collected(home: Path) -> None:
    copies = file_copies_folder("s")
    for name in ("killed", "running"):
        (copies / name).mkdir(parents=True)
        (copies / name / "in-use").touch()
        (copies / name / "1").write_text("a copy")
    with (copies / "running/in-use").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert collect_file_copies() == 1
        assert [folder.name for folder in copies.iterdir()] == ["running"]
    delete_file_copies("s")
    assert not copies.exists()


def test_deleting_a_session_removes_what_a_killed_undo_has_left(home: Path, tmp_path: Path) -> None:
    copies = file_copies_folder("s") / "killed"
    copies.mkdir(parents=True)
    (copies / "in-use").touch()
    draft = tmp_path / "a.txt.1.0.restored"
    draft.write_text("half")
    (copies / "drafts").write_text(f"{draft}\0\0")

    delete_file_copies("s")

    assert not draft.exists()
    assert not copies.exists()


def test_nothing_stays_of_a_kernel_whose_host_is_killed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    cell = "import os, subprocess; open('a', 'w').write('a'); open('a', 'w').close(); subprocess.Popen('read x < go; echo $x > out', shell=True, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); print(os.getppid())"
    code = f"""
import time
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import FileWatching
from mahtab_tui.kernel.host import NullHost
watching = FileWatching(({str(work)!r},), (), {str(tmp_path / "copies")!r}, 200)
kernel = ProcessKernel(cwd={str(work)!r}, watching=watching)
kernel.start(NullHost())
result = kernel.execute({cell!r}, cell=1, on_output=lambda *words: None)
print(kernel.info().pid, result.output, flush=True)
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pids = [int(word) for word in host.stdout.readline().split()]
        host.kill()
    assert len(pids) == 2
    wait_for(lambda: not any(map(alive, pids)))
    (work / "go").write_text("still\n")
    wait_for(lambda: (work / "out").exists() and (work / "out").read_text() == "still\n")
    wait_for(lambda: not list((tmp_path / "copies").glob("*")))


@pytest.mark.sample(1)
@pytest.mark.parametrize("first_seed", range(0, 100, 10))
@pytest.mark.parametrize("cell_megabytes", [200, 1])
def test_random_programs_are_undone_or_named(
    tmp_path: Path, first_seed: int, cell_megabytes: int
) -> None:
    with watched_kernel(tmp_path, cell_megabytes) as (cells, work):
        for seed in range(first_seed, first_seed + 10):
            assert find_problems(cells, work, seed) == []


UNREADABLE = """
import tempfile
from pathlib import Path
from tests.random_files import watched_kernel
with tempfile.TemporaryDirectory() as folder, watched_kernel(Path(folder), 200) as (cells, work):
    cells.text("open('a', 'w').write('1')")
    # No other process may read its memory any more.
    cells.text("import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)")
    cells.text("open('a', 'w').write('22')")
    restoration = cells.kernel.undo(cells.number)
    print((work / "a").read_text(), restoration.files, restoration.not_restored[0].reason)
"""


@pytest.mark.slow
def test_files_are_written_and_named_as_unknown_where_no_memory_may_be_read() -> None:
    command = [sys.executable, "-c", UNREADABLE]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may read all memory, and setpriv is not installed")
        command = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", *command]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    reason = "A program changed files whose memory cannot be read, so that they are unknown."
    assert result.stdout == f"22 () {reason}\n", result.stderr
