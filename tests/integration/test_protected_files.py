"""Protected files that code without approval tries to change while the witness watches the
kernel."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.bus.values import describe_files
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, FileWatching, Lock
from mahtab_tui.session.code_rules import CodeRules
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.settings.model import load_settings
from tests.integration.kernels import Cells, running
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are watched on Linux only")

SETUP = """
import ctypes, errno, mmap, os, socket, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
pool.submit(int).result()
c = ctypes.CDLL(None)
NAME = 'AGENTS' + '.md'
FILE = os.fsencode(NAME)
HOOK = b'.gi' + b't/hooks/pre-commit'
def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
def bind_natively(name):
    address = (1).to_bytes(2, sys.byteorder) + name
    assert c.bind(socket.socket(socket.AF_UNIX).detach(), address, len(address)) == -1
def in_a_root_folder():
    c.chroot(b'.gi' + b't/hooks')
    c.chdir(b'/')
    c.creat(b'/post-merge', 0o700)
def in_a_call_of_32_bits():
    c.mmap.restype = ctypes.c_void_p
    memory = c.mmap(ctypes.c_void_p(0x10000000), 4096, 7, 0x32, -1, ctypes.c_long(0))
    # creat(name, 0o600) through the table for 32 bits
    machine_code = bytes.fromhex('b808000000 bb00010010 b980010000 cd80 c3')
    ctypes.memmove(memory, machine_code, len(machine_code))
    ctypes.memmove(memory + 256, FILE + b'\\0', len(FILE) + 1)
    ctypes.CFUNCTYPE(ctypes.c_long)(memory)()
"""
"""What a cell of the user's defines. Native functions are called through ctypes, which raises no audit
event for a path."""

ATTEMPTS = {
    # Names that the text does not show
    "pattern of the shell": "os.system('echo x | tee AGEN*')",
    "variable of the shell": "os.system('n=AGENTS; echo x > $n.md')",
    "other interpreter": 'subprocess.run([sys.executable, \'-c\', \'open("AGEN" + "TS.md", "w")\'])',
    "native function": "c.creat(FILE, 0o600)",
    "thread": "t = threading.Thread(target=c.creat, args=(FILE, 0o600)); t.start(); t.join()",
    "thread of the user's": "pool.submit(c.creat, FILE, 0o600).result()",
    "fork": "child(lambda: c.creat(FILE, 0o600))",
    # Paths that begin elsewhere
    "parent folder": "c.creat(b'sub/../' + FILE, 0o600)",
    "descriptor of a folder": "c.openat(c.open(b'.gi' + b't', 0), b'hooks/new', 65, 0o700)",
    "working folder": "os.chdir('.git' + '/hooks'); c.creat(b'new', 0o700); os.chdir('../..')",
    "link to a folder": "c.symlink(b'.git', b'link'); c.creat(b'link/hooks/new', 0o700)",
    "own descriptors": "c.open(b'/proc/self/fd/%d' % c.open(FILE, 0), 1 | os.O_TRUNC)",
    "descriptors of a thread": "c.open(b'/proc/thread-self/fd/%d' % c.open(FILE, 0), 1 | os.O_TRUNC)",
    "device for descriptors": "c.open(b'/dev/fd/%d' % c.open(FILE, 0), 1 | os.O_TRUNC)",
    "link to descriptors": "c.symlink(b'/proc/self/fd/%d' % c.open(FILE, 0), b'l'); c.creat(b'l', 0o600)",
    "working folder in /proc": "f = c.open(FILE, 0); here = os.getcwd(); os.chdir('/proc'); c.creat(b'self/fd/%d' % f, 0o600); os.chdir(here)",
    "root folder": "child(in_a_root_folder)",
    "new hard link": "c.link(FILE, b'second'); c.creat(b'second', 0o600)",
    "old hard link": "c.creat(b'twin', 0o600)",
    "mount": 'os.system("mkdir -p m; mount --bind .gi?/hooks m && echo x > m/new; umount m")',
    "mount of its own": "os.system(\"mkdir -p m; unshare -rm sh -c 'mount --bind .gi?/hooks m && echo x > m/new'\")",
    "copy of a mount": "c.openat(c.syscall(428, -100, b'.gi' + b't/hooks', 1), b'new', 65, 0o700)",
    "copy of a mount with attributes": "c.openat(c.syscall(467, -100, b'.gi' + b't/hooks', 1, 0, 0), b'new', 65, 0o700)",
    # Renaming, linking and removing
    "rename over": "c.creat(b'n', 0o600); c.rename(b'n', FILE)",
    "rename away": "c.rename(FILE, b'n')",
    "exchange": "c.creat(b'n', 0o600); c.renameat2(-100, b'n', -100, FILE, 2)",
    "remove": "c.unlink(FILE)",
    "truncate": "c.truncate(FILE, 0)",
    "repository": "c.rename(b'.git', b'g')",
    "folder above": "c.rename(b'sub', b'other')",
    "folder that becomes a repository": "os.makedirs('g/hooks'); c.creat(b'g/hooks/new', 0o700); c.rename(b'g', b'sub/.git')",
    "folder that becomes settings": "os.makedirs('g/fish'); c.creat(b'g/fish/config.fish', 0o600); c.rename(b'g', b'sub/.config')",
    "empty folder that becomes a repository": "os.mkdir('g'); c.rename(b'g', b'sub/.git')",
    "folder above exchanged": "os.mkdir('g'); c.renameat2(-100, b'g', -100, b'sub', 2)",
    "repository exchanged": "os.makedirs('g/hooks'); c.renameat2(-100, b'g', -100, b'.git', 2)",
    "repository elsewhere": "c.symlink(b'/tmp', b'sub/.git')",
    "repository named by a file": "c.creat(b'sub/.git', 0o600)",
    "repository moved there": "c.creat(b'n', 0o600); c.rename(b'n', b'sub/.git')",
    "settings elsewhere": "c.symlink(b'/tmp', b'sub/.config')",
    "file without a name": "f = os.open('.', os.O_TMPFILE | os.O_RDWR); c.linkat(-100, b'/proc/self/fd/%d' % f, -100, b'sub/CLAUDE' + b'.md', 0x400)",
    "socket": "bind_natively(b'sub/CLAUDE' + b'.md')",
    "socket through a link": "c.symlink(b'.git', b'link'); bind_natively(b'link/hooks/new\\0')",
    "new folder": "c.mkdir(b'.ss' + b'h', 0o700)",
    "permissions": "c.chmod(HOOK, 0o777)",
    # Bare repositories
    "hook of a bare repository": "c.creat(b'bare.git/hooks/new', 0o700)",
    "folder that becomes a bare repository": "os.makedirs('g/hooks'); c.creat(b'g/hooks/new', 0o700); c.rename(b'g', b'new.git')",
    "bare repository moved": "c.rename(b'bare.git', b'g')",
    # Repositories that a file `.git` names
    "file that names a repository": "c.unlink(b'tree/.git')",
    "its permissions": "c.chmod(b'tree/.git', 0)",
    "hook of a repository with another name": "c.creat(b'repository/hooks/new', 0o700)",
    "settings of a repository with another name": "c.creat(b'repository/config', 0o600)",
    "repository with another name moved": "c.rename(b'repository', b'g')",
    "folder above such a repository": "os.makedirs('g'); c.renameat2(-100, b'g', -100, b'repository', 2)",
    "repository that only a file names": "os.chdir('tree'); c.creat(b'../other/hooks/new', 0o700); os.chdir('..')",
    # Owners and attributes
    "owner": "c.chown(FILE, 1, 1)",
    "owner of a link": "c.lchown(FILE, 1, 1)",
    "owner from a folder": "c.fchownat(-100, FILE, 1, 1, 0)",
    "owner of an open file": "c.fchown(c.open(FILE, 0), 1, 1)",
    "attributes": "c.setxattr(FILE, b'user.x', b'1', 1, 0)",
    "attributes of a link": "c.lsetxattr(FILE, b'user.x', b'1', 1, 0)",
    "attributes of an open file": "c.fsetxattr(c.open(FILE, 0), b'user.x', b'1', 1, 0)",
    "removed attributes": "c.removexattr(HOOK, b'user.mine')",
    "attributes from a folder": "c.syscall(469, -100, FILE, ctypes.create_string_buffer(24), 24, 0)",
    # Files that the system writes itself
    "account of processes": "c.acct(FILE); c.acct(None)",
    "swap space": "c.swapon(FILE, 0)",
    # Calls that name no path
    "open with a structure": "how = (ctypes.c_uint64 * 3)(1 | os.O_TRUNC, 0, 0); c.syscall(437, -100, FILE, how, 24)",
    "open below a root of its own": "how = (ctypes.c_uint64 * 3)(65, 0o700, 0x10); c.syscall(437, c.open(b'.gi' + b't', 0), b'/hooks/new', how, 24)",
    "queue of calls": "assert c.syscall(425, 8, ctypes.create_string_buffer(200)) == -1",
    "handle": "assert c.syscall(304, -100, 0, 2) == -1",
    "memory of the witness": "assert c.open(b'/proc/%d/mem' % os.getppid(), 2) == -1",
}
if os.uname().machine == "x86_64":
    ATTEMPTS["32 bits"] = "child(in_a_call_of_32_bits)"


def watched_kernel(folder: Path) -> ProcessKernel:
    watching = FileWatching((str(folder),), (), str(folder.parent / "copies"), 200)
    return ProcessKernel(cwd=str(folder), watching=watching)


CREAT_NUMBER = "85" if os.uname().machine == "x86_64" else "56"
"""The system call by which the C library's `creat` makes a file."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cells, Path]]:
    """A kernel whose files are watched, and its folder."""
    folder = tmp_path_factory.mktemp("project") / "work"
    folder.mkdir()
    with running(watched_kernel(folder)) as cells:
        cells.text(SETUP)
        yield cells, folder


@pytest.fixture
def folder(watched: tuple[Cells, Path]) -> Iterator[Path]:
    """The folder, with protected files in it."""
    folder = watched[1]
    for inner_folder in ("sub", ".git/hooks", "bare.git/hooks"):
        (folder / inner_folder).mkdir(parents=True)
    for name in ("AGENTS.md", "sub/AGENTS.md", ".git/config", ".git/hooks/pre-commit"):
        (folder / name).write_text("mine")
    os.link(folder / "AGENTS.md", folder / "twin")
    for inner_folder in ("tree", "repository/hooks", "repository/objects", "other/hooks"):
        (folder / inner_folder).mkdir(parents=True)
    for name in ("repository/HEAD", "repository/config"):
        (folder / name).write_text("mine")
    (folder / "tree/.git").write_text("gitdir: ../other")
    with suppress(OSError):  # a file system without attributes
        os.setxattr(folder / ".git/hooks/pre-commit", "user.mine", b"1")
    yield folder
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@pytest.fixture
def cells(watched: tuple[Cells, Path]) -> Cells:
    return watched[0]


def run(cells: Cells, code: str, lock: Lock | None = "guard") -> CellResult:
    """Run a cell; by default one that the user has not approved."""
    cells.number += 1
    return cells.kernel.execute(
        code, cell=cells.number, on_output=lambda kind, text: None, lock=lock
    )


PLACES = ".git bare.git new.git sub AGENTS.md .ssh twin tree repository other".split()
"""Files and folders with protected ones in them."""


def protected_state(folder: Path) -> dict[str, tuple[int, int, list[str], str]]:
    """Return the permissions, owner, attributes and text of each protected file, by path."""
    state = {}
    for place in PLACES:
        for path in (folder / place, *(folder / place).rglob("*")):
            if path.exists():
                text = path.read_text() if path.is_file() else ""
                status = path.stat()
                state[str(path)] = status.st_mode, status.st_uid, os.listxattr(path), text
    return state


@pytest.mark.sample(12)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_code_without_approval_changes_no_protected_file(
    cells: Cells, folder: Path, attempt: str
) -> None:
    before = protected_state(folder)
    result = run(cells, ATTEMPTS[attempt])
    assert result.status == "ok", result.output
    assert protected_state(folder) == before
    assert "refused: `" in describe_files(result.files)


def test_a_refusal_names_the_file(cells: Cells, folder: Path) -> None:
    result = run(cells, "os.system('for f in AGENTS.md; do echo x > $f; done')")
    assert "AGENTS.md is protected" in result.output
    result = run(cells, "os.system('f=AGENTS; echo x > $f.md; echo y > out')")
    assert "cannot create AGENTS.md: Operation not permitted" in result.output
    assert describe_files(result.files) == (
        "files: `out` new;"
        " refused: `AGENTS.md` (only code that the user approves by hand may change that)"
    )
    result = run(cells, "print(ctypes.CDLL(None, use_errno=True).creat(FILE, 0o600))")
    assert result.output == "-1\n"


def test_code_that_the_user_approves_changes_protected_files(cells: Cells, folder: Path) -> None:
    run(cells, "c.creat(FILE, 0o600)")
    result = run(
        cells, "c.creat(FILE, 0o600); os.system('echo x | tee sub/AGEN*; rm -r .git')", None
    )
    assert "refused" not in describe_files(result.files)
    assert (folder / "AGENTS.md").read_text() == ""
    assert (folder / "sub" / "AGENTS.md").read_text() == "x\n"
    assert not (folder / ".git").exists()


def test_code_without_approval_changes_other_files(cells: Cells, folder: Path) -> None:
    run(
        cells,
        "socket.socket(socket.AF_UNIX).bind('socket'); socket.socket(socket.AF_UNIX).bind(b'\\0CLAUDE.md'); socket.socket().bind(('127.0.0.1', 0))",
    )
    assert (folder / "socket").is_socket()
    code = "os.makedirs('.git/objects/a', exist_ok=True); open('.git/HEAD', 'w').write('x'); os.rename('twin', 'b'); os.system('echo x > c; mv c d; mkdir -p sub e; mv e sub; cat AGEN*')"
    result = run(cells, code)
    assert result.output == "mine0\n"
    assert "refused" not in describe_files(result.files)
    assert (folder / "d").read_text() == "x\n"
    assert (folder / ".git/HEAD").read_text() == "x"


@pytest.mark.parametrize(
    "code",
    [
        "os.close(c.open(FILE, os.O_CREAT | os.O_RDONLY, 0o600))",
        "assert c.mkdir(b'.git/hooks', 0o700) == -1",
    ],
    ids=["opening", "making a folder"],
)
def test_what_is_there_already_is_not_made(cells: Cells, folder: Path, code: str) -> None:
    result = run(cells, code)
    assert (result.status, result.output) == ("ok", "")
    assert "refused" not in describe_files(result.files)


def test_what_code_without_approval_leaves_running_stays_bound(cells: Cells, folder: Path) -> None:
    os.mkfifo(folder / "go")
    run(cells, "os.system('(read x < go; echo x | tee AGEN*; echo x > done) >/dev/null 2>&1 &')")
    run(cells, "open('go', 'w').write('.\\n')", None)
    wait_for((folder / "done").exists)
    assert (folder / "AGENTS.md").read_text() == "mine"

    task = """
import asyncio
async def later():
    os.system('echo x | tee AGEN*; echo x > late')
task = asyncio.get_running_loop().create_task(later())
"""
    run(cells, task)
    run(cells, "await task", None)
    assert (folder / "late").exists()
    assert (folder / "AGENTS.md").read_text() == "mine"


def test_what_ran_before_code_without_approval_is_free(cells: Cells, folder: Path) -> None:
    os.mkfifo(folder / "go")
    run(cells, "p = subprocess.Popen('read x < go; echo x | tee AGEN*', shell=True)", None)
    run(cells, "c.creat(b'a', 0o600)")
    run(cells, "open('go', 'w').write('.\\n'); p.wait()", None)
    assert (folder / "AGENTS.md").read_text() == "x\n"


def test_a_busy_witness_heeds_all_that_the_kernel_has_said_before_a_call(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with running(watched_kernel(folder)) as cells:
        cells.text(SETUP)
        witness_pid = int(run(cells, "os.getppid()").output)
        present_call = Path(f"/proc/{cells.kernel.info().pid}/syscall")
        os.kill(witness_pid, signal.SIGSTOP)
        try:
            run(cells, "0")
            run(cells, "0", None)
            with ThreadPoolExecutor(1) as pool:
                result = pool.submit(run, cells, "c.creat(FILE, 0o600)")
                wait_for(lambda: present_call.read_text().split()[0] == CREAT_NUMBER)
                os.kill(witness_pid, signal.SIGCONT)
                result.result()
        finally:
            os.kill(witness_pid, signal.SIGCONT)
    assert not (folder / "AGENTS.md").exists()


@pytest.mark.parametrize("outer", [None, "guard"])
@pytest.mark.parametrize("inner", [None, "guard"])
def test_a_cell_has_its_own_rights_again_after_a_nested_one(
    cells: Cells,
    folder: Path,
    outer: Lock | None,
    inner: Lock | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_inner(name: str, args: Mapping[str, object]) -> str:
        cells.number += 1
        cells.kernel.execute(
            "c.creat(b'sub/' + FILE, 0o600)",
            cell=cells.number,
            on_output=lambda kind, text: None,
            nested=True,
            lock=inner,
        )
        return "answered"

    monkeypatch.setattr(cells.host, "answer", run_inner)
    run(cells, "input()\nc.creat(FILE, 0o600)", outer)
    assert (folder / "sub" / "AGENTS.md").read_text() == ("mine" if inner else "")
    assert (folder / "AGENTS.md").read_text() == ("mine" if outer else "")


def test_a_command_counts_as_changing_a_file_if_the_kernel_cannot_look(tmp_path: Path) -> None:
    info = SessionInfo(logging.getLogger(__name__), load_settings(), "test", "")
    kernel = ProcessKernel(cwd=str(tmp_path))
    rules = CodeRules(info, kernel, lambda name: True)
    with running(kernel):
        assert rules.protected_file("!touch *.txt") == ""
    assert rules.protected_file("!touch *.txt") == "a protected file"
    assert rules.protected_file("!ls *.txt") == ""
