"""Cells in a locked fork: what they may not do fails and is named, ordinary code that reads runs,
and only plain data comes back."""

from __future__ import annotations

import copyreg
import json
import os
import pickle
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.messages import KernelReady, checked
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, Lock
from mahtab_tui.worker.guard import fork_observer, plain_pickle, trial
from mahtab_tui.worker.guard.fork_report import TOO_LARGE, _are_surely_small
from mahtab_tui.worker.guard.library_codecs import all_library_codecs
from mahtab_tui.worker.guard.locked_fork import LockedFork
from mahtab_tui.worker.guard.plain_codecs import STANDARD_CODECS, NotTransferableError
from tests.integration.hostile_cells import CELLS, LATER
from tests.integration.kernels import RecordingHost
from tests.integration.ordinary_cells import ORDINARY, SETUP

TRIES = list(CELLS.items())
GROUP = 24
USER = """
import ctypes, mmap, numpy, sqlite3
from multiprocessing import shared_memory
from concurrent.futures import ThreadPoolExecutor
POOL = ThreadPoolExecutor(1); POOL.submit(len, '').result()
FILE = open('log', 'a'); DATABASE = sqlite3.connect('data.db'); DATABASE.execute('create table if not exists kept (a)'); DATABASE.commit()
MAPPED = numpy.memmap('mapped', mode='w+', dtype='u1', shape=4096); MAPPED[:] = 1; MAPPED.flush()
SHARED = shared_memory.SharedMemory(create=True, size=4096)
# Memory that is read-only at the moment, but whose files are open for writing.
for name in ('access', 'prot', 'memmap'): open(name, 'wb').write(b'x' * 4096)
FILES = [open(name, 'r+b') for name in ('access', 'prot', 'memmap')]
ACCESS = mmap.mmap(FILES[0].fileno(), 0, access=mmap.ACCESS_READ)
PROT = mmap.mmap(FILES[1].fileno(), 0, prot=mmap.PROT_READ)
READ_ONLY_MEMMAP = numpy.memmap(FILES[2], mode='r', dtype='u1')
ANONYMOUS, NAMED = mmap.mmap(-1, 4096), shared_memory.SharedMemory(create=True, size=4096)
PLACES = {
    'access': numpy.frombuffer(ACCESS, 'u1').ctypes.data, 'prot': numpy.frombuffer(PROT, 'u1').ctypes.data,
    'memmap': READ_ONLY_MEMMAP.ctypes.data, 'anonymous': ctypes.addressof(ctypes.c_char.from_buffer(ANONYMOUS)),
    'named': ctypes.addressof(ctypes.c_char.from_buffer(NAMED.buf)),
}
for name in ('anonymous', 'named'): ctypes.CDLL(None).mprotect(ctypes.c_void_p(PLACES[name]), ctypes.c_size_t(4096), mmap.PROT_READ)
MAPPED_DATABASE = sqlite3.connect('mapped.db'); MAPPED_DATABASE.execute('pragma mmap_size = 1000000')
MAPPED_DATABASE.execute('create table if not exists kept (a)'); MAPPED_DATABASE.execute('insert into kept values (?)', ('original text',)); MAPPED_DATABASE.commit(); MAPPED_DATABASE.execute('select * from kept').fetchall()
"""
DIGEST = """
import os, resource, signal
print(int(MAPPED.sum()), SHARED.buf[0], list(DATABASE.execute('select name from sqlite_master')), FILE.tell(), os.getcwd(), os.environ.get('MARK'),
    [ctypes.string_at(place, 8) for place in PLACES.values()], MAPPED_DATABASE.execute('select * from kept').fetchall(), __name__, len(globals()) > 3000, resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0), print, sorted, list)
"""

GROUPS = [
    pytest.param(first, marks=[pytest.mark.slow] if first else [])
    for first in range(0, len(TRIES), GROUP)
]

NEEDS = {
    "df.to_csv('out.csv')": "wanted to write out.csv",
    "import os\nos.remove('data.csv')": "wanted to remove data.csv",
    "import subprocess\nsubprocess.run(['ls', '-l'])": "wanted to make a process, which Linux refused; its own words: wanted to start ls -l",
    "import urllib.request\nurllib.request.urlopen('http://example.org')": "wanted to connect to the internet, which Linux refused; its own words: wanted to connect to example.org",
    "import csv as json": "wanted to keep json (the module csv), which is not plain data",
    "json = pd": "wanted to keep json (the module pandas), which is not plain data",
    "import importlib; other = importlib.import_module('csv')": "wanted to keep other (the module csv), which is not plain data",
    "open('/etc/passwd').read()": "wanted to read /etc/passwd",
    "try:\n    open('made', 'w')\nexcept OSError:\n    pass": "wanted to write made",
    "try:\n    open('/etc/passwd')\nexcept OSError:\n    pass": "wanted to read /etc/passwd",
    "import ctypes\nctypes.CDLL(None).unlink(b'data.csv')": "wanted to remove data.csv",
    "import ctypes\nctypes.CDLL(None).rename(b'data.csv', b'x')": "wanted to rename data.csv",
    "import ctypes\nctypes.CDLL(None).creat(b'made', 0o600)": "wanted to write made",
    "import ctypes\nctypes.CDLL(None).socket(2, 1, 0)": "wanted to connect to the internet",
    "import pyarrow, pyarrow.csv as c\ntry:\n    c.write_csv(pyarrow.table({'a': [1]}), 'made')\nexcept OSError:\n    pass": "wanted to write made",
    "import polars; polars.read_csv('/etc/passwd')": "wanted more than reading (Permission denied (os error 13): /etc/passwd)",
    "input('who?')": "wanted to call input()",
    "rlm('Who?', 'text')": "wanted to call rlm()",
    "try:\n    await arlm('Who?', 'text')\nexcept Exception:\n    pass": "wanted to call rlm()",
    "model = object()": "wanted to keep model (object), which is not plain data",
    "def load(): return 1": "wanted to keep load (function), which is not plain data",
    "del df": "wanted to delete df",
    "df = None": "wanted to replace df",
    "df = df.dropna()": "wanted to replace df",
    "globals()['df'] = 1": "wanted to replace df",
    "for df in (1, 2): pass": "wanted to replace df",
    "print = 5": "wanted to replace print",
    "import json as pd": "wanted to replace pd",
    "from os import remove as sorted": "wanted to keep sorted (builtin_function_or_method), which is not plain data",
    "MAPPED[0] = 7": "wrote to memory that it shares with a file, or crashed",
    "import os; os._exit(3)": "ended its process",
    "for i in range(1_001): globals()[f'name{i}'] = i": "makes more than 1,000 names",
    "for i in range(200_000): globals()[f'name{i}'] = object()": "makes more than 1,000 names",
    "numbers = list(range(30_000_000))": "makes more than 5,000,000 objects",
    "import numpy\nzeros = numpy.broadcast_to(0, 10**12)": "makes more than 1 GB of values",
    "import numpy\nparts = [numpy.zeros(50_000_000) for _ in range(3)]": "makes more than 1 GB of values",
    "import threading, time\nthreads = [threading.Thread(target=time.sleep, args=(9,)) for _ in range(300)]\nfor thread in threads: thread.start()": "wanted to start more than 256 threads",
    "import ctypes\nctypes.CDLL(None).fork()": "wanted to make a process",
}

OPEN_FILES = """
import logging, os, sqlite3, zipfile, pandas as pd
file, waiting, archive = open('file', 'w'), open('waiting', 'w'), zipfile.ZipFile('archive', 'w')
waiting.write('waits')
descriptor = os.open('descriptor', os.O_RDWR | os.O_CREAT)
pipe = os.pipe()
logger = logging.getLogger('log'); logger.addHandler(logging.FileHandler('log'))
database, write_ahead = sqlite3.connect('database'), sqlite3.connect('write_ahead', timeout=0.1)
write_ahead.execute('pragma journal_mode=wal').fetchall()
for connection in (database, write_ahead): connection.execute('create table t as select 7 a'); connection.commit()
"""
HIDDEN = {
    "file.write('a')": "wanted to write file",
    "print('a', file=file, flush=True)": "wanted to write file",
    "file.truncate(0)": "wanted to truncate file",
    "waiting.name": "",
    "archive.writestr('a', 'b')": "wanted to write archive",
    "os.write(descriptor, b'a')": "wanted to write descriptor",
    "os.pwrite(descriptor, b'a', 0)": "wanted to write descriptor",
    "os.write(pipe[1], b'a')": "wanted to write an open file",
    "os.write(99, b'a')": "",
    "logger.warning('a')": "wanted to write log",
    "os.setpriority(os.PRIO_PROCESS, 0, 1)": "wanted to change the priority",
    "pd.read_sql('insert into t values (9)', database)": "wanted more than reading (disk I/O error)",
    "database.executemany('insert into t values (?)', [(1,), (2,)])": "wanted more than reading (disk I/O error)",
    "database.executescript('insert into t values (5);')": "wanted more than reading (disk I/O error)",
    "with database: database.execute('insert into t values (5)')": "wanted more than reading (disk I/O error)",
    "pd.DataFrame({'a': [1]}).to_sql('u', database)": "wanted more than reading (disk I/O error)",
    "write_ahead.execute('insert into t values (5)')": "wanted more than reading (database is locked)",
    "sqlite3.connect('database').execute('insert into t values (5)')": "wanted more than reading (attempt to write a readonly database)",
    "import dbm.dumb; dbm.dumb.open('made', 'c')": "wanted to write made.dat",
    "os.mkfifo('made')": "wanted to make the special file made",
    "os.setxattr('file', 'user.a', b'1')": "wanted to change the attributes of file",
    "os.nice(1)": "wanted to change the priority",
    "os.sched_setaffinity(0, {0})": "wanted to choose the processors",
    "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))": "wanted to change a limit of the process",
    "import ctypes; ctypes.CDLL(None).chdir(b'/')": "wanted to go to the folder /",
    "import ctypes; ctypes.CDLL(None).chown(b'file', 0, 0)": "wanted to change the owner of file",
    "import ctypes; ctypes.CDLL(None).kill(os.getppid(), 10)": "wanted to send a signal",
    "import ctypes; ctypes.CDLL(None).kill(os.getppid(), 0)": "wanted to look whether a process runs",
    "os.kill(os.getppid(), 0)": "wanted to look whether a process runs",
    "os.killpg(99_999, 0)": "wanted to look whether a process runs",
    "import socket; socket.socket(38, socket.SOCK_SEQPACKET)": "wanted to use the system's encryption",
    "import socket; socket.socket(17, socket.SOCK_RAW)": "wanted to read and send the network's packets",
    "import socket; socket.socket(40, socket.SOCK_STREAM)": "wanted to connect to a virtual machine",
    "import socket; socket.socket(9, socket.SOCK_STREAM)": "wanted to make a socket of the family 9",
    "os.setuid(os.getuid())": "wanted to change the user",
    "import time; time.clock_settime(time.CLOCK_REALTIME, 0)": "wanted to set the clock",
    "import socket; socket.socket(socket.AF_UNIX)": "wanted to connect to another program",
    "from multiprocessing.shared_memory import SharedMemory; SharedMemory('made', True, 9)": "wanted to write /dev/shm/made",
    "import multiprocessing; multiprocessing.Lock()": "",
    "import pwd; pwd.getpwuid(0)": "",
    "'/'.join(['a', 'b']), '/home'": "",
    "import glob; glob.glob('/var/*')": "wanted to read /var",
    "list(os.walk('/home'))": "wanted to read /home",
    "import polars; polars.read_csv('/etc/passwd')": "wanted to read /etc/passwd",
    "import ctypes; ctypes.CDLL(None).open(b'/etc/passwd', 0)": "wanted to read /etc/passwd",
    "import pyarrow.csv; pyarrow.csv.read_csv('../outside')": "wanted to read ../outside",
}

LOST = {
    "pd.set_option('display.max_rows', 3)": "pandas options",
    "import sys; sys.path.append('x')": "sys.path",
    "import json; json.dumps = len": "json.dumps",
    "import json; json.dumps.__kwdefaults__['indent'] = 2": "json.dumps.__kwdefaults__",
    "import stat; stat.__class__ = type('M', (type(stat),), {})": "stat.__class__",
    "import builtins\nfor name in ('len',): setattr(builtins, name, print)\ndel name": "builtins.len",
    "import os; os.close(descriptor)": "descriptor 99",
    "import os; os.register_at_fork(before=len)": "os.register_at_fork",
    "import weakref; weakref.finalize(point, len) and None": "weakref.finalize",
    "import asyncio; asyncio.get_event_loop().call_later(9, len) and None": "asyncio tasks",
    "import asyncio; asyncio.create_task(asyncio.sleep(9)) and None": "asyncio tasks",
    "point.__class__ = type('Q', (), {})": "point",
    # Modules that the code itself loads.
    "import quopri; quopri.__dict__[''.join('zz')] = 1": "quopri.zz",
    "import plistlib\nfor name in ('load',): setattr(plistlib, name, len)\ndel name": "plistlib.load",
    "import timeit\ndef patch(module): module.other = 1\npatch(timeit); del patch": "timeit.other",
    "import importlib; other = importlib.import_module('netrc'); other.netrc = 3; del other": "netrc.netrc",
    "import symtable; symtable.symtable.__defaults__ = ()": "symtable.symtable.__defaults__",
    "import tracemalloc; tracemalloc.start()": "tracemalloc",
    "import mimetypes; mimetypes.common_types['.zz'] = 'a/b'": "mimetypes.common_types",
    "number: int = 3": "__annotations__",
    "if True:\n    for index in (1, 2): number: 'int'\ndel index": "__annotations__",
    "import builtins; builtins.oct = print": "builtins.oct",
    "import colorsys; colorsys.rgb_to_hsv = len": "colorsys.rgb_to_hsv",
    "import stringprep as s; setattr(s, 'in_table_a1', len)": "stringprep.in_table_a1",
    "from xml import dom; del dom.Node": "xml.dom.Node",
    "import sched as s; s.scheduler.run = len": "sched.scheduler.run",
    "import xml.sax.handler; xml.sax.feature_x = 5": "xml.sax.feature_x",
    f"import sched\nif 0: (lambda: {'-' * 900}1).x = 2\nsched.x = 3": "sched.x",
    "from json import decoder; decoder.scanner = 3": "json.decoder.scanner",
    "sys.modules['json'].loads = len": "json.loads",
    "__import__('json').load = len": "json.load",
    "__builtins__ = 5": "__builtins__",
    "del __builtins__": "__builtins__",
    "__builtins__.oct = print": "builtins.oct",
    "globals()['a b'] = 5": "globals()['a b']",
    "globals()[5] = 5": "globals()[5]",
    "globals()[Point] = 5": "globals()[type]",
    "globals()[10**5000] = 5": "globals()[int]",
    "globals()['a b' * 2_000_000] = 5": f"globals()['{'a b' * 29}a ",
    "del globals()['old name']": "globals()['old name']",
    "import decimal; decimal.getcontext().prec = 3": "decimal context",
    "import random; random.seed(3)": "random",
    "codecs.register(lambda name: None)": "codecs.register",
    # Functions and modules that an earlier cell has imported.
    "register_error('zz', len)": "codecs.register_error",
    "register_at_fork(before=len)": "os.register_at_fork",
    "addaudithook(lambda event, args: None)": "sys.addaudithook",
    "system.addaudithook(lambda event, args: None)": "sys.addaudithook",
    "sys.modules['other'] = decimal": "sys.modules",
    "numbers.Integral.register(Point) and None": "numbers.Integral",
    "logging.getLogger('mine').setLevel(10)": "logging",
    "urllib.request.install_opener(None or urllib.request.build_opener())": "urllib.request._opener",
    "import numpy as np; np.set_printoptions(precision=2)": "numpy.get_printoptions",
    "matplotlib.rcParams.update({'figure.dpi': 33})": "matplotlib.rcParams",
    "import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()": "threads",
}


def _forge(fields: dict[str, object], data: bytes = b"") -> str:
    """Return code that sends a report in place of its fork."""
    report: dict[str, object] = {
        "op": "done",
        "status": "ok",
        "pieces": [],
        "frames": [],
        "needs": "",
        "values": [],
        "modules": [],
        "deleted": [],
        "lost": [],
        "copied": [],
        "settings": [],
    }
    text = json.dumps(report | fields).encode()
    message = struct.pack("!QQ", len(text), len(data)) + text + data
    return (
        "import os, stat\n"
        "for descriptor in range(500, 510):\n"
        "    try: is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)\n"
        "    except OSError: is_socket = False\n"
        f"    if is_socket: os.write(descriptor, {message!r})\n"
    )


def _forge_messages(messages: bytes) -> str:
    """Return code that sends messages in place of its fork, and then waits without reading
    answers."""
    return (
        "import os, stat\n"
        "for descriptor in range(500, 510):\n"
        "    try: is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)\n"
        "    except OSError: is_socket = False\n"
        "    if is_socket:\n"
        f"        messages = {messages!r} * 3_000\n"
        "        while messages: messages = messages[os.write(descriptor, messages):]\n"
        "import time; time.sleep(1000)"
    )


def _library_object(description: tuple[object, ...]) -> bytes:
    """Return the part of a pickle that makes an object of a library."""
    # The first protocol with bytes, and the last without frames.
    return pickle.dumps(description, 3)[2:-1] + b"Q"


class UntouchedPlaces:
    """A folder that must stay as it is, and a port that nobody may connect to."""

    def __init__(self, folder: Path) -> None:
        (folder / "inside").mkdir(parents=True)
        (folder / "inside" / "file").write_text("kept")
        (folder / "inside" / "inside.py").write_text("open(__file__[:-9] + 'ran', 'w')")
        (folder / "kept").write_text("kept")
        self.folder = folder
        self.secret = folder.parent / "secret"
        self.secret.write_text("a secret text")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)

    @property
    def names(self) -> str:
        port = self.listener.getsockname()[1]
        created, unchanged, inside = (
            str(self.folder / name) for name in ("made", "kept", "inside")
        )
        return f"P, Q, D, PORT, SECRET = {created!r}, {unchanged!r}, {inside!r}, {port}, {str(self.secret)!r}"

    def seen(self) -> list[object]:
        return [(str(path), *_state(path)) for path in sorted(self.folder.rglob("*"))]

    def connected(self) -> bool:
        try:
            self.listener.accept()
        except BlockingIOError:
            return False
        return True


def _state(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    if not path.is_file():
        return (status.st_mode,)
    content = () if path.is_symlink() else (path.read_bytes(), os.listxattr(path))
    return status.st_mode, status.st_mtime_ns, *content


class LockedCells:
    def __init__(self, folder: Path) -> None:
        self.kernel = ProcessKernel(cwd=str(folder))
        self.kernel.start(RecordingHost())
        self._number = 0

    def run(self, code: str, lock: Lock | None = None) -> CellResult:
        self._number += 1
        return self.kernel.execute(
            code, cell=self._number, on_output=lambda kind, text: None, lock=lock
        )

    def value(self, code: str) -> str:
        return self.run(code).output


@pytest.fixture
def cells(project: Path) -> Iterator[LockedCells]:
    opened_cells = LockedCells(project)
    try:
        if opened_cells.kernel.lock_unavailable_reason:
            pytest.skip(opened_cells.kernel.lock_unavailable_reason)
        yield opened_cells
    finally:
        opened_cells.kernel.close()


@pytest.mark.sample(3)
@pytest.mark.parametrize("first", GROUPS)
def test_everything_the_lock_forbids_fails(first: int, tmp_path: Path) -> None:
    canaries = UntouchedPlaces(tmp_path / "project")
    cells = LockedCells(canaries.folder)
    setup = cells.run(canaries.names + USER)
    assert setup.status == "ok", setup.output
    digest = cells.value(DIGEST)
    names = cells.value("sorted(globals())")
    state_before = canaries.seen()
    failed: list[object] = []
    for attempt, code in TRIES[first : first + GROUP]:
        result = cells.run(code, "keep")
        cells.run(LATER)
        state_after = canaries.seen()
        digest_after = cells.value(DIGEST)
        if state_after != state_before or canaries.connected() or digest_after != digest:
            failed.append(
                (
                    attempt,
                    result.output,
                    [x for x in state_after if x not in state_before],
                    digest_after,
                )
            )
            state_before = state_after
            digest = digest_after
        new = cells.value(
            f"[(n, type(v).__name__) for n, v in globals().items() if n not in {names} and callable(v) and n in __builtins__.__dict__]"
        )
        if new not in ("[]\n", "") or "a secret text" in result.output:
            failed.append((attempt, result.output, new))
    cells.run("SHARED.close(); SHARED.unlink(); NAMED.unlink()")
    cells.kernel.close()
    canaries.listener.close()
    assert failed == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [12, pytest.param(len(ORDINARY), marks=pytest.mark.slow)])
def test_ordinary_read_only_code_runs_without_a_question(cells: LockedCells, count: int) -> None:
    Path("data.csv").write_text("city,price\nRome,1\nOslo,2\nRome,3\n")
    cells.run(SETUP)
    asking_codes = []
    for code in ORDINARY[:count]:
        result = cells.run(code, "keep")
        assert result.status == "ok" or result.needs, (code, result.output)
        if result.needs:
            asking_codes.append((code, result.needs))
    assert len(asking_codes) <= count * 6 // 61, asking_codes


def test_cell_needing_more_names_it_and_leaves_nothing(cells: LockedCells) -> None:
    Path("data.csv").write_text("a\n1\n")
    cells.run(
        "import numpy, pandas as pd; df = pd.DataFrame({'a': [1]}); MAPPED = numpy.memmap('mapped', mode='w+', dtype='u1', shape=4096)"
    )
    names = cells.value("sorted(globals())")
    assert {code: cells.run(f"new = 1\n{code}", "keep").needs for code in NEEDS} == NEEDS
    assert cells.value("sorted(globals())") == names
    assert sorted(path.name for path in Path().iterdir()) == ["data.csv", "mapped"]


def test_refusals_that_code_hides_are_named(cells: LockedCells) -> None:
    cells.run(OPEN_FILES)
    Path("../outside").write_text("a\n1\n")
    hidden = {code: f"try:\n    {code}\nexcept BaseException: pass" for code in HIDDEN}
    needs = {code: cells.run(attempt, "keep").needs for code, attempt in hidden.items()}
    needs = {code: clause.replace(f"{Path.cwd()}/", "") for code, clause in needs.items()}
    assert needs == HIDDEN
    assert cells.run("file.name, list(database.execute('select * from t'))", "keep").needs == ""
    reading = "import os\nends = os.pipe()\nsize = os.write(ends[1], b'abc')\nos.read(ends[0], 3)"
    assert cells.run(reading, "keep").output == "b'abc'\n"
    cells.run("file.close(); waiting.close()")
    assert (Path("file").read_text(), Path("waiting").read_text()) == ("", "waits")


def test_threads_that_end_are_not_counted(cells: LockedCells) -> None:
    code = "from concurrent.futures import ThreadPoolExecutor as Pool\ntotal = 0\nfor _ in range(100):\n    with Pool(4) as pool: total += sum(pool.map(len, ['a'] * 9))\ndel pool\ntotal"
    assert cells.run(code, "keep").output.startswith("900\n")


def test_many_names_of_the_user_are_compared_and_only_some_are_named(cells: LockedCells) -> None:
    cells.run("for i in range(5_000): globals()[f'name{i}'] = [i]")
    own_lists = "[value for name, value in globals().items() if name.startswith('name')]"
    changed = cells.run(f"for it in {own_lists}: it.append(1)\ndel it", "keep").output
    assert "`name19` and many more were not kept" in changed
    assert len(changed) < 500
    delete = "for name in [name for name in globals() if name.startswith('name')]: del globals()[name]\ndel name"
    assert cells.run(delete, "keep").needs == "deletes more than 1,000 names"
    assert cells.run("same = name4999", "keep").needs == ""
    assert cells.value("same is name4999") == "True\n"


def test_only_modules_that_the_code_imports_are_imported_in_the_kernel(cells: LockedCells) -> None:
    forged_report = _forge({"modules": ["colorsys", "sched"]})
    assert cells.run(f"{forged_report}\nimport sched", "keep").needs == ""
    assert cells.run("from os import path\nimport os.path as p", "keep").needs == ""
    assert cells.value("import sys; 'colorsys' in sys.modules, 'sched' in sys.modules") == (
        "(False, True)\n"
    )


FOLDERS = {
    "os.open('.git/hooks', os.O_RDONLY)": "pre-commit",
    "os.open('.git', os.O_RDONLY)": "hooks/pre-commit",
    "os.open('link', os.O_RDONLY)": "pre-commit",
    "os.open(os.path.basename(os.getcwd()) + '/.git/hooks', 0, dir_fd=os.open('..', 0))": "pre-commit",
    "os.open('.git/modules/sub', os.O_RDONLY)": "../../hooks/pre-commit",
    "os.open('.git/../.git/.', os.O_RDONLY)": "hooks/pre-commit",
}


def test_protected_files_are_not_changed_through_their_folders(
    cells: LockedCells, project: Path
) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("kept")
    (project / ".git" / "modules" / "sub").mkdir(parents=True)
    (project / "link").symlink_to(".git/hooks")
    for folder, path in FOLDERS.items():
        code = f"import os\nos.open({path!r}, os.O_WRONLY | os.O_TRUNC, dir_fd={folder})"
        assert "PermissionError" in cells.run(code, "guard").output, folder
    for folder in (".git", ".git/modules"):
        remove = f"import shutil; shutil.rmtree({folder!r})"
        assert "PermissionError" in cells.run(remove, "guard").output
    assert (project / ".git" / "modules" / "sub").is_dir()
    assert hook.read_text() == "kept"
    look = "os.close(os.open('.', os.O_RDONLY)); os.listdir('.git'); open('.git/hooks/pre-commit').read()"
    assert cells.run(look, "guard").output == "'kept'\n"


def test_a_lock_that_the_kernel_does_not_know_is_refused(cells: LockedCells) -> None:
    worker = cells.kernel._require()
    assert set(worker.hello.locks) == set(get_args(Lock))
    earlier = {"python": "3", "executable": "x", "cwd": "", "pid": 1}
    assert checked(KernelReady, earlier).locks == ("keep", "discard")

    # The kernel is older than the program.
    hello = worker.hello
    worker.hello = replace(hello, locks=("keep", "discard"))
    with pytest.raises(KernelError, match="cannot confine the cell in this way"):
        cells.run("1 + 1", "guard")
    assert cells.run("1 + 1", "keep").output == "2\n"

    # The program is newer than the kernel, and does not know that.
    worker.hello = replace(hello, locks=(*hello.locks, "newer"))
    result = cells.run("made = 1", cast("Lock", "newer"))
    assert "does not know how to confine the cell (newer)" in result.output
    worker.hello = hello
    assert cells.value("'made' in globals()") == "False\n"


def test_settings_that_a_fork_loses_are_named(cells: LockedCells) -> None:
    cells.run(
        "import codecs, json, logging, numbers, random, sys, decimal, threading, urllib.request, matplotlib\nclass Point: pass\npoint = Point()\nglobals()['old name'] = 1\nimport os; descriptor = os.dup2(os.open('/dev/null', 0), 99)\nimport sys as system\nfrom codecs import register_error\nfrom os import register_at_fork\nfrom sys import addaudithook\nfrom weakref import finalize; finalize(Point, len)"
    )
    new_library = cells.run("import pandas as pd; pd.set_option('display.max_rows', 3)", "keep")
    assert new_library.output == "ran apart: changes to `pandas options` were not kept\n"
    lines = {code: cells.run(code, "keep").output for code in LOST}
    assert lines == {
        code: f"ran apart: changes to `{label}` were not kept\n" for code, label in LOST.items()
    }
    assert cells.run("random.random() and None", "keep").output == ""


def test_a_finalizer_in_the_place_of_one_that_has_ended_is_named(cells: LockedCells) -> None:
    cells.run(
        "import weakref\nclass Point: pass\npoint = Point()\nfor _ in range(50): weakref.finalize(point, len)"
    )
    code = """
finalize = weakref.finalize
for finalizer in list(finalize._registry): finalizer.detach()
del finalizer
finalize(point, len)
del finalize
"""
    lost = cells.run(code, "keep").output
    assert "`weakref.finalize`" in lost


def test_many_keys_that_a_fork_loses_are_named_in_part(cells: LockedCells) -> None:
    many = cells.run("globals().update((f'key {i}', i) for i in range(300_000))", "keep")
    assert many.output.startswith("ran apart: changes to `globals()['key 0']`, ")


IN_PLACE = {
    "items += [3]": "items",
    "items *= 2": "items",
    "settings |= {'b': 2}": "settings",
    "numbers += 1": "numbers",
    "frame += 1": "frame",
    "def add():\n    global items\n    items += [4]\nadd()\ndel add": "items",
    "globals()['class'] = 1": "globals()['class']",
    "items = items": "",
}
"""Code that binds a name to its own object again, and what is changed in it."""


def test_objects_that_are_changed_and_bound_again_are_named(cells: LockedCells) -> None:
    cells.run(
        "import numpy, pandas\nitems, settings = [1, 2], {'a': 1}\nnumbers = numpy.arange(3)\nframe = pandas.DataFrame({'a': [1]})"
    )
    outputs = {code: cells.run(code, "keep").output for code in IN_PLACE}
    assert outputs == {
        code: f"ran apart: changes to `{label}` were not kept\n" if label else ""
        for code, label in IN_PLACE.items()
    }
    assert cells.value("items, settings") == "([1, 2], {'a': 1})\n"


def test_a_copy_that_changes_nothing_is_not_called_changed(cells: LockedCells) -> None:
    cells.run("import copy, pickle\nclass Point:\n    x = 1\npoint = Point()")
    for code in (
        "copy.copy(point).x",
        "copy.deepcopy(point).x",
        "len(pickle.dumps(point)) > 5",
        "import mimetypes; mimetypes.guess_type('a.csv')",
        "import decimal; decimal.Decimal(1) / 3",
        "import asyncio; asyncio.run(asyncio.sleep(0))",
    ):
        assert "ran apart" not in cells.run(code, "keep").output


def test_a_thread_that_waits_for_all_children_does_not_fail_a_locked_cell(
    cells: LockedCells,
) -> None:
    cells.run(
        "import os, threading, time\n"
        "def wait_for_children():\n"
        "    while True:\n"
        "        try: os.waitpid(-1, 0)\n"
        "        except OSError: time.sleep(0.001)\n"
        "threading.Thread(target=wait_for_children, daemon=True).start()"
    )
    for _ in range(10):
        assert cells.run("made = [1.5]; made", "keep").output == "[1.5]\n"
        assert cells.run("large = bytes(20_000); len(large)", "keep").output == "20000\n"


def test_a_missing_folder_or_descriptor_stops_one_cell_only(cells: LockedCells) -> None:
    limit_descriptors = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"
    cells.run("import os, resource; limits = resource.getrlimit(resource.RLIMIT_NOFILE)")
    cells.run("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')")
    for _ in range(3):
        assert "the working folder is missing" in cells.run("1 + 1", "keep").needs
    cells.run(f"os.chdir('/')\n{limit_descriptors}")
    for _ in range(3):
        assert "Too many open files" in cells.run("1 + 1", "keep").needs
    cells.run("resource.setrlimit(resource.RLIMIT_NOFILE, limits)")
    assert cells.run("1 + 1", "keep").output == "2\n"


def test_open_files_and_connections_are_readable_in_a_fork(cells: LockedCells) -> None:
    Path("lines").write_text("one\ntwo\n" + "x" * 20_000)
    cells.run(
        "import sqlite3; db = sqlite3.connect('data.db'); db.execute('create table t as select 7 a'); db.commit()"
    )
    cells.run("lines = open('lines'); first = lines.readline()")
    assert cells.run("db.execute('select * from t').fetchall()", "keep").output == "[(7,)]\n"
    assert cells.run("rest = lines.read(); len(rest)", "keep").output.startswith("20004\n")
    assert cells.value("lines.readline()") == "'two\\n'\n"
    needs = cells.run("db.execute('delete from t'); db.commit()", "keep").needs
    assert needs.startswith("wanted")
    assert cells.value("db.execute('select * from t').fetchall()") == "[(7,)]\n"


def test_read_only_code_rebinds_names_of_read_only_code_until_the_user_uses_them(
    cells: LockedCells,
) -> None:
    cells.run("total = 1", "keep")
    assert cells.run("total = 2", "keep").needs == ""
    assert cells.run("del total", "keep").needs == ""
    cells.run("total = [3]", "keep")
    cells.run("total.append(4)")
    assert cells.run("total = 5", "keep").needs == "wanted to replace total"
    assert cells.run("total = 5\ntotal", "discard").output.startswith("5\n")
    assert cells.value("total") == "[3, 4]\n"


def test_output_and_plain_data_return_and_changes_inside_objects_are_named(
    cells: LockedCells,
) -> None:
    cells.run("items, table = [1], {'a': 1}")
    cells.run("gone = 5", "keep")
    code = "print('a'); display(table); total = sum(items); items.append(2); del gone\nother = items\ntotal"
    result = cells.run(code, "keep")
    assert result.output == "a\n{'a': 1}\n1\nran apart: changes to `items` were not kept\n"
    assert [(change.name, change.change) for change in result.changes] == [
        ("gone", "deleted"),
        ("total", "added"),
        ("other", "added"),
    ]
    value = cells.value("total, items, other is items, 'gone' in globals()")
    assert value == "(1, [1], True, False)\n"
    cells.kernel.undo(3)
    assert cells.value("gone, 'total' in globals()") == "(5, False)\n"
    discarded = cells.run("new = 3; items.clear(); new", "discard").output
    assert discarded == "3\nran apart: changes to `items` were not kept; `new` was not kept\n"
    assert cells.value("'new' in globals(), items") == "(False, [1])\n"
    failed = cells.run("kept = 4\n1 / 0", "keep")
    assert (failed.status, failed.needs, failed.frames[-1].line) == ("error", "", 2)
    assert cells.value("kept") == "4\n"


@pytest.mark.timeout(40)
def test_a_fork_that_closes_its_channel_and_waits_is_ended(cells: LockedCells) -> None:
    code = "import os, time; os.closerange(3, 4096); time.sleep(1000)"
    assert cells.run(code, "keep").needs == "ended its process"
    assert cells.value("1") == "1\n"


@pytest.mark.timeout(40)
def test_a_fork_that_reads_no_answer_to_its_displays_is_ended(cells: LockedCells) -> None:
    fields = {"op": "display", "mime": "text/plain", "name": "", "action": "", "data_size": 0}
    text = json.dumps(fields).encode()
    code = _forge_messages(struct.pack("!QQ", len(text), 0) + text)
    assert cells.run(code, "keep").needs == "displays without waiting for the kernel"
    assert cells.value("1") == "1\n"


def test_output_without_end_does_not_hold_up_the_report_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork_observer, "TIME_LIMIT_S", 0.3)
    channel, fork_channel = socket.socketpair()
    # There is always something to read.
    output = os.open("/dev/zero", os.O_RDONLY)
    real_stdout = os.dup(1)
    null_device = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null_device, 1)
        fork_channel.send(struct.pack("!QQ", 2, 0) + b"{}")
        observer = fork_observer.ForkObserver(os.getpid(), channel, output, {}, "", keep=True)
        assert observer.follow().needs == "ran longer than 0 s"
    finally:
        os.dup2(real_stdout, 1)
        for descriptor in (output, real_stdout, null_device):
            os.close(descriptor)
        for end in (channel, fork_channel):
            end.close()


def test_threads_that_send_at_once_do_not_mix_their_messages() -> None:
    channel, fork_channel = socket.socketpair()
    nothing: Any = None
    fork = LockedFork(nothing, nothing, nothing, fork_channel.fileno(), keep=False)
    data = b"a" * 500_000
    threads = [threading.Thread(target=fork._send, args=({}, data)) for _ in range(8)]
    for thread in threads:
        thread.start()
    sent = channel.makefile("rb")
    for _ in threads:
        text_size, data_size = struct.unpack("!QQ", sent.read(16))
        assert (sent.read(text_size), data_size) == (b"{}", len(data))
        assert sent.read(data_size) == data
    for thread in threads:
        thread.join()
    for end in (sent, channel, fork_channel):
        end.close()
    os.close(fork._channel)


@pytest.mark.parametrize(
    "code",
    [
        "class X: pass\nX.__module__ = None; x = X(); x",
        "class X:\n    __class__ = property(lambda self: 1 / 0)\nx = X(); x",
        "class X:\n    @property\n    def __module__(self): raise SystemExit\nx = X(); 1",
        "import sys, io\nclass X(io.StringIO):\n    def flush(self): raise KeyboardInterrupt\nsys.stdout = X()",
    ],
)
def test_odd_objects_do_not_end_the_report(cells: LockedCells, code: str) -> None:
    assert "ended its process" not in cells.run(code, "keep").needs
    assert "ended its process" not in cells.run(code, "discard").needs


def _nested_key() -> bytes:
    """Return a dict's pickle, whose key is a tuple that contains a tuple twice, sixty times over."""
    key = b"K\1" + b"".join(b"q%c0h%ch%c\x86" % (level, level, level) for level in range(60))
    return b"\x80\2}" + key + b"Ns."


def test_only_reports_that_might_take_long_are_tried() -> None:
    data = _nested_key()
    assert not _are_surely_small([["value", "data", [0, len(data)]]], data)
    for value in ("a report", [1.5, {"per": None}], {"a": {1, 2}}):
        pickled = plain_pickle.Dumper().dump(value)
        assert _are_surely_small([["value", "data", [0, len(pickled)]]], pickled)


@pytest.mark.slow
def test_a_key_whose_hash_takes_for_ever_is_refused(cells: LockedCells) -> None:
    data = _nested_key()
    forged_report = _forge({"values": [["value", "data", [0, len(data)]]]}, data)
    assert cells.run(forged_report, "keep").needs == TOO_LARGE


def test_values_that_no_longer_share_objects_are_named(cells: LockedCells) -> None:
    cells.run("base = [0]")
    result = cells.run("a = b = []; nested = [base]; alone = [[1]]; same = base", "keep")
    clause = "`b`, `nested` were kept as copies that share nothing with other variables"
    assert result.output == f"ran apart: {clause}\n"
    assert cells.value("a is b, nested[0] is base, same is base") == "(False, False, True)\n"
    views = "import numpy\nnumbers = numpy.zeros(3); part = numbers[1:]"
    clause = "`part` was kept as a copy that shares nothing with other variables"
    assert clause in cells.run(views, "keep").output


def test_copies_of_objects_in_other_variables_are_named(cells: LockedCells) -> None:
    cells.run(
        "import numpy\nclass Box: pass\nbox = Box(); box.items = [1]; inner = numpy.zeros(3)\n"
        "outer = [[0], {'a': 1}, (set(),), bytearray(b'x'), numpy.zeros(2)]"
    )
    copies = (
        "in_list = [outer[0]]; first = outer[0]; plain = {'key': outer[1]}; members = outer[2][0]"
        "; raw = [outer[3]]; arrays = [outer[4]]; views = {'v': [inner[1:]]}; own = box.items"
    )
    new = "new = [[0], {'a': 1}, (set(),), bytearray(b'x'), numpy.zeros(2)[1:], outer[:0]]"
    names = "`in_list`, `first`, `plain`, `members`, `raw`, `arrays`, `views`, `own`"
    clause = f"{names} were kept as copies that share nothing with other variables"
    assert cells.run(f"{new}\n{copies}", "keep").output == f"ran apart: {clause}\n"


# An index of Python's memo of objects that needs 32 GB.
_HUGE_MEMO = b"\x80\x02Nr\xff\xff\xff\x7f."


def test_a_report_that_would_fill_the_kernels_memory_is_refused(cells: LockedCells) -> None:
    forged_report = _forge({"values": [["value", "data", [0, len(_HUGE_MEMO)]]]}, _HUGE_MEMO)
    assert cells.run(forged_report, "keep").needs == TOO_LARGE
    assert cells.value("'value' in globals()") == "False\n"


def test_a_forged_column_is_not_repeated_for_each_row(cells: LockedCells) -> None:
    cells.run("import pandas")
    # The number 5 in each row of a table that has ten billion rows.
    index = _library_object(("RangeIndex", 0, 10**10, 1, None, None))
    names = _library_object(("RangeIndex", 0, 1, 1, None, None))
    column = b"](X\5\0\0\0numpyK\5ta"
    table = b"(X\t\0\0\0DataFrame" + column + names + index + b"}NtQ"
    data = b"\x80\x02" + table + b"."
    forged_report = _forge({"values": [["table", "data", [0, len(data)]]]}, data)
    assert cells.run(forged_report, "keep").needs.startswith("sent results that cannot be read")
    assert cells.value("'table' in globals()") == "False\n"


@pytest.mark.parametrize(
    "dtype", ["O", "i4,O", {"names": ["a"], "formats": ["O"], "offsets": [0], "itemsize": 8}]
)
def test_a_forged_array_of_addresses_is_refused(dtype: object) -> None:
    size = pytest.importorskip("numpy").dtype(dtype).itemsize
    data = b"\x80\x02" + _library_object(("array", dtype, (1,), b"a" * size, None)) + b"."
    with pytest.raises(pickle.UnpicklingError, match="addresses are not plain data"):
        plain_pickle.load(data)


def test_a_forged_report_gives_no_name_of_a_module_to_another(cells: LockedCells) -> None:
    cells.run("import os")
    for row in (
        ["json", "module", ["struct"]],
        ["other", "module", ["os"]],
        ["statistics", "same", ["os"]],
    ):
        result = cells.run(_forge({"values": [row]}), "keep")
        assert result.needs == f"sent results that cannot be read (ValueError: {row[0]})"
    assert cells.run(_forge({"values": [["operating", "same", ["os"]]]}), "keep").needs == ""


def test_a_forged_reason_stands_after_what_the_system_has_refused(cells: LockedCells) -> None:
    hidden = "import ctypes\nctypes.CDLL(None).unlink(b'data.csv')\n"
    needs = cells.run(hidden + _forge({"needs": "wanted to read data.csv"}), "keep").needs
    assert (
        needs
        == "wanted to remove data.csv, which Linux refused; its own words: wanted to read data.csv"
    )


def test_many_names_of_both_kinds_are_said_to_be_more(cells: LockedCells) -> None:
    cells.run(
        "lists = [[i] for i in range(600)]; globals().update((f'old{i}', it) for i, it in enumerate(lists))"
    )
    lost = [f"old{i}" for i in range(600)] + [f"new{i}" for i in range(401)]
    output = cells.run(_forge({"lost": lost}), "keep").output
    assert output.count(" and many more were not kept") == 2


def test_a_forged_reason_is_one_short_line(cells: LockedCells) -> None:
    needs = cells.run(_forge({"needs": "wanted\n more" * 10_000}), "keep").needs
    assert needs.startswith("wanted more")
    assert len(needs) == 500
    assert "\n" not in needs


def test_only_names_are_reported_where_nothing_is_kept(cells: LockedCells) -> None:
    code = "import sched\nmodel = object()\nnumbers = list(range(30_000_000))\ndef load(): return 1"
    result = cells.run(code, "discard")
    assert (result.needs, result.output) == (
        "",
        "ran apart: `sched`, `model`, `numbers`, `load` were not kept\n",
    )
    assert cells.value("import sys; 'sched' in sys.modules") == "False\n"


def test_a_trial_ends_work_that_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial.ends_within_limits(lambda: 1 / 0)
    assert not trial.ends_within_limits(lambda: bytes(2**40))
    monkeypatch.setattr(trial, "TIMEOUT_S", 0.1)
    assert not trial.ends_within_limits(lambda: time.sleep(60))


def test_all_values_of_a_cell_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_OBJECTS", 5)
    monkeypatch.setattr(plain_pickle, "MAX_BYTES", 2**30)
    dumper = plain_pickle.Dumper()
    assert plain_pickle.load(dumper.dump([1, 2, 3])) == [1, 2, 3]
    with pytest.raises(plain_pickle.TransferTooLargeError, match="makes more than 5 objects"):
        dumper.dump([4])


def test_a_forged_report_does_not_change_a_singleton() -> None:
    pd = pytest.importorskip("pandas")
    attributes = pickle.dumps({"year": 5}, 2)[2:-1] + pickle.BUILD
    for name, singleton in (("NaT", pd.NaT), ("NA", pd.NA)):
        data = b"\x80\x02" + _library_object((name,))
        assert plain_pickle.load(data + b".") is singleton
        with pytest.raises(pickle.UnpicklingError, match="opcode 0x62 is not plain data"):
            plain_pickle.load(data + attributes + b".")
        assert "year" not in getattr(singleton, "__dict__", ())


def test_a_forged_report_gets_no_object_from_the_table_of_extensions() -> None:
    copyreg.add_extension("os", "getcwd", 0xF0)
    try:
        call = pickle.EXT1 + b"\xf0" + pickle.EMPTY_TUPLE + pickle.REDUCE + b"."
        # Python keeps the function for the next pickle.
        assert pickle.loads(call) == os.getcwd()
        with pytest.raises(pickle.UnpicklingError, match="opcode 0x82 is not plain data"):
            plain_pickle.load(call)
    finally:
        copyreg.remove_extension("os", "getcwd", 0xF0)


def test_bytes_of_arrays_in_one_value_are_counted_before_they_are_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr(plain_pickle, "MAX_BYTES", 1000)
    parts = [np.zeros(60), np.zeros(60), np.zeros(60)]
    with pytest.raises(plain_pickle.TransferTooLargeError):
        plain_pickle.Dumper().dump([*parts, object()])
    with pytest.raises(plain_pickle.TransferTooLargeError):
        plain_pickle.Dumper().dump([pd.DataFrame({str(i): parts[0] for i in range(3)}), object()])
    # A column of this name is not the size of its table.
    table = pd.DataFrame({"nbytes": [5, 6]})
    assert _transferred(table).equals(table)


def _transferred(value: Any) -> Any:
    return plain_pickle.load(plain_pickle.Dumper().dump(value))


def test_returned_tables_have_their_attributes() -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"mass": [1.5]})
    table.attrs["units"] = {"mass": "kg"}
    for value in (table, table["mass"]):
        assert _transferred(value).attrs == table.attrs


def test_returned_time_zones_have_their_names() -> None:
    assert _transferred(UTC) is UTC
    for zone in (timezone(timedelta(hours=1)), timezone(timedelta(0), "Z")):
        assert repr(_transferred(zone)) == repr(zone)


def test_returned_records_have_their_layout() -> None:
    np = pytest.importorskip("numpy")
    inner = np.dtype([("x", "u1"), ("y", "f8", (2,))], align=True)
    gaps = np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [4], "itemsize": 16})
    titled = np.dtype([(("a title", "a"), "i4")])
    for dtype in (np.dtype([("a", "i1"), ("b", inner, (3,))], align=True), gaps, titled):
        returned = _transferred(np.zeros(2, dtype))
        assert returned.dtype == dtype
        assert returned.dtype.fields == dtype.fields
        assert returned.dtype.isalignedstruct == dtype.isalignedstruct


def test_returned_columns_have_their_types() -> None:
    pd = pytest.importorskip("pandas")
    times = pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("UTC"))
    for column in (pd.Series(["a", "b"], dtype=object), pd.Series(["a", "b"]), times):
        assert _transferred(column).dtype == column.dtype
        assert _transferred(pd.Index(column)).dtype == column.dtype
        table = pd.DataFrame({"a": column})
        table.index = pd.Index(column, dtype=column.dtype)
        returned_table = _transferred(table)
        assert returned_table["a"].dtype == column.dtype
        assert returned_table.index.dtype == column.dtype
    for index in (pd.date_range("2020", periods=3, freq="D"), pd.timedelta_range("1h", periods=3)):
        assert _transferred(index).freq == index.freq


@pytest.mark.parametrize(
    "frequency",
    [
        "CustomBusinessDay(holidays=['2020-01-02'])",
        "DateOffset(months=1, days=2)",
        "DateOffset(days=1)",
        "Easter()",
    ],
)
def test_index_whose_frequency_has_no_name_is_not_returned(frequency: str) -> None:
    pd = pytest.importorskip("pandas")
    offset = eval(frequency, vars(pd.offsets))
    index = pd.date_range("2020", periods=3, freq=offset)
    with pytest.raises(NotTransferableError, match="DatetimeIndex with the frequency "):
        _transferred(pd.Series(1, index=index))
    assert _transferred(pd.bdate_range("2020", periods=3, freq="C")).freq == "C"


@pytest.mark.parametrize("item_type", ["V0", "S0", "U0"])
def test_arrays_of_empty_items_return(item_type: str) -> None:
    np = pytest.importorskip("numpy")
    array = np.zeros(3, [("a", item_type)])
    assert _transferred(array).dtype == array.dtype
    assert _transferred(array["a"]).dtype == item_type
    assert _transferred(array["a"]).shape == (3,)


def test_two_references_to_one_object_stay_that() -> None:
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    values: tuple[Any, ...] = (
        np.zeros(2),
        pd.Series([1]),
        pd.DataFrame({"a": [1]}),
        defaultdict(list),
        Counter(),
    )
    for value in values:
        first_value, second_value, values_by_name = _transferred([value, value, {"name": value}])
        assert first_value is second_value
        assert first_value is values_by_name["name"]


def test_an_object_in_itself_is_not_returned() -> None:
    np = pytest.importorskip("numpy")
    array = np.empty(1, object)
    array[0] = array
    values: defaultdict[str, Any] = defaultdict(list)
    values["self"] = [values]
    for value in (array, values):
        with pytest.raises(NotTransferableError, match="a value that contains itself"):
            _transferred(value)


def test_each_codec_is_found_by_its_own_name() -> None:
    names = [codec.name for codec in {*STANDARD_CODECS.values(), *all_library_codecs()}]
    assert len(names) == len(set(names))


def test_only_objects_of_a_helper_module_itself_are_lost(cells: LockedCells) -> None:
    setup = (
        "class Answer: pass\nanswer = Answer(); shown = str(answer)\nAnswer.__module__ = {module!r}"
    )
    assert cells.run(setup.format(module="re"), "keep").needs == ""
    needs = cells.run(setup.format(module="requests.models"), "keep").needs
    assert needs == "wanted to keep answer (Answer), which is not plain data"


def test_interpreter_modules_return_and_project_modules_ask(cells: LockedCells) -> None:
    Path("shop.py").write_text("open('made', 'w')")
    code = "import statistics as st\nfrom collections import Counter\nfrom datetime import datetime as dt"
    assert cells.run(code, "keep").needs == ""
    value = cells.value("st.mean([1, 3]), Counter('aa'), dt.__name__")
    assert value == "(2, Counter({'a': 2}), 'datetime')\n"
    assert cells.run("import shop", "keep").needs == "wanted to write made"
    Path("shop.py").write_text("x = 1")
    needs = cells.run("import shop", "keep").needs
    assert needs == "wanted to keep shop (the module shop), which is not plain data"


PRIVATE = (
    *("keys/id", ".ssh/id", ".mahtab/config.toml", "work/.env", "work/a/b/.env"),
    *("work/b/.ssh/id", "work/.netrc"),
)
"""Files; the first leads through a link to the second."""


def test_private_places_are_refused_even_if_the_project_contains_the_home_folder(
    home: Path,
) -> None:
    for name in (*PRIVATE[1:], "work/data"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("a secret text")
    (home / "keys").symlink_to(".ssh")
    cells = LockedCells(home.parent)
    try:
        if cells.kernel.lock_unavailable_reason:
            pytest.skip(cells.kernel.lock_unavailable_reason)
        for name in PRIVATE:
            result = cells.run(f"open({str(home / name)!r}).read()", "keep")
            assert result.needs.startswith("wanted to read"), name
            assert "a secret text" not in result.output
        assert "secret" in cells.run(f"open({str(home / 'work/data')!r}).read()", "keep").output
        for look in (
            "os.stat(PATH)",
            "os.path.exists(PATH)",
            "Path(PATH).stat()",
            "os.access(PATH, 4)",
        ):
            looking = f"import os\nfrom pathlib import Path\n{look}"
            private = looking.replace("PATH", repr(str(home / ".ssh/id")))
            assert cells.run(private, "keep").needs == f"wanted to look at {home / '.ssh/id'}"
            other = cells.run(looking.replace("PATH", repr(str(home / "work"))), "keep")
            assert (other.needs, other.status) == ("", "ok"), other.output
        secret_place = str(home / ".ssh/id")
        for look in (
            f"os.stat({f'/{secret_place}'!r})",
            f"os.stat({f'/proc/self/root{secret_place}'!r})",
            f"os.stat({str(home / 'keys/id')!r})",
            f"os.stat({str(home / 'work/../keys/id')!r})",
            f"os.stat('.ssh/id', dir_fd=os.open({str(home)!r}, os.O_PATH))",
        ):
            needs = cells.run(f"import os\n{look}", "keep").needs
            assert needs.startswith("wanted to look at"), look
        copy = "import os, shutil\nlen(os.stat in os.supports_follow_symlinks and shutil.__name__)"
        assert cells.run(copy, "keep").output == "6\n"
        deep = str(home / "work/a/b/.env").encode()
        native = f"import ctypes\nctypes.CDLL(None).open({deep!r}, 0)"
        assert cells.run(native, "keep").needs == f"wanted to read {os.fsdecode(deep)}"
    finally:
        cells.kernel.close()


def test_files_read_by_the_user_are_readable_and_an_interrupt_ends_the_fork(
    cells: LockedCells, home: Path
) -> None:
    (home / "far.txt").write_text("far away")
    read = f"open({str(home / 'far.txt')!r}).read()"
    assert cells.run(read, "keep").needs.startswith("wanted to read")
    cells.run(read)
    assert cells.run(read, "keep").output == "'far away'\n"
    output_pieces: list[str] = []

    def stop(kind: str, text: str) -> None:
        output_pieces.append(text)
        cells.kernel.interrupt()

    result = cells.kernel.execute(
        "print('begun')\nwhile True: pass", cell=90, on_output=stop, lock="keep"
    )
    assert (result.status, result.needs, output_pieces[0]) == ("interrupted", "", "begun\n")
    assert cells.value("1") == "1\n"
