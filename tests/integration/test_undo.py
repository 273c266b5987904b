"""Undo in a kernel process, also at its limits."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import KernelState
from tests.integration.kernels import Cells, interpreters, running
from tests.integration.undo import assert_undone, kinds, undone, without_value_numbers
from tests.tables import rows
from tests.waiting import alive, descendants, wait_for

CHANGES = r"""
v = [1, [2], 'x'] | v[1].append(3); v.pop(0) | v
v = {'a': {'b': 1}} | v['a']['b'] = 2; v['c'] = 3 | v
v = {1, 2} | v.add(3); v.discard(1) | v
v = bytearray(b'abc') | v[0] = 0; v += b'x' | v
v = [-1, 0.0, 1, True] | v[:] = [-2, -0.0, True, 1] | v
import collections\nv = collections.deque([1, 2], maxlen=5) | v.appendleft(0) | v
import collections\nv = collections.defaultdict(list, a=[1]) | v['b'].append(1); v.default_factory = None | v, v.default_factory
import collections\nv = collections.OrderedDict(a=1, b=2) | v.move_to_end('a') | list(v.items())
class C: pass\nv = C(); v.x = [1] | v.x.append(2); v.y = 1 | vars(v)
class C:\n    __slots__ = ('x', 'y')\nv = C(); v.x = 1 | v.x = 2; v.y = 3 | v.x, hasattr(v, 'y')
class C:\n    n = 1\n    def f(self): return 1\nv = C() | C.n = 2; C.f = lambda self: 2; C.g = 3 | v.n, v.f(), hasattr(C, 'g')
def v(x, y=1):\n    return x + y | v.__defaults__ = (5,); v.tag = 1; v.__code__ = (lambda x, y: 0).__code__ | v(1), vars(v)
def make():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n    return count\nv = make() | v(); v() | v.__closure__[0].cell_contents
v = [1]; w = {'v': v}; f = lambda: v | v.append(2); w['v'] = [7]; del v | v is w['v'] is f(), v, id(v)
v = [[1]]; v.append(v); inner = v[0] | del v[0]; v.append(5); inner.append(9) | v[0] is inner, v[1] is v, len(v), inner
class C: pass\nv = [{'k': [1, 2]}, C()]; v[1].x = v[0]['k'] | v.clear(); import gc; gc.collect(); junk = [[i] for i in range(1000)] | v[0], v[1].x is v[0]['k']
import os; os.environ['A'] = '1' | os.environ['A'] = '2'; os.environ['B'] = '3' | os.environ['A'], os.getenv('B'), os.system('exit ${B:-0}')
import os; os.makedirs('inner') | os.chdir('inner') | os.path.basename(os.getcwd()) == 'inner'
import sys | sys.path.insert(0, '/nowhere'); sys.path = ['/elsewhere'] | '/nowhere' in sys.path, '/elsewhere' in sys.path
import random; random.seed(1) | x = random.random() | random.getstate()[1][5:9], random.getstate()[1][-1]
import random; r = random.Random(1) | x = r.random() | r.getstate()[1][-1]
import warnings | warnings.simplefilter('error') | warnings.filters[0]
import math, json | math.pi = 3; setattr(math, 'new', 1); del math.tau; json.decoder.x = 1 | math.pi, hasattr(math, 'new'), math.tau, hasattr(json.decoder, 'x')
from decimal import Decimal; a = [Decimal(1000)] | a[0] += 1; a[0] += 1 | a
import enum\nclass E(enum.Enum):\n    A = 1 | E.A.note = 1; E.extra = 2 | hasattr(E.A, 'note'), hasattr(E, 'extra')
import collections\nP = collections.namedtuple('P', 'x y'); p = P([1], 2) | p.x.append(3); p = p._replace(y=5) | p
import functools; f = functools.partial(max, [1], key=abs); g = f.args[0] | g.append(-5); f.keywords['key'] = None | f.args, f.keywords
v = [memoryview(bytearray(b'abc'))] | v[0][0] = 0 | bytes(v[0])
class C: pass\nc = C() | class C:\n    new = 1\nc.__class__ = C | hasattr(c, 'new'), type(c) is C
import collections | collections.Counter.hello = 5; collections.Counter.update = None | dir(collections.Counter)
import decimal | decimal.getcontext().prec = 7 | decimal.getcontext().prec
import decimal | decimal.DefaultContext.prec = 5; decimal.ExtendedContext.traps[decimal.Inexact] = True | decimal.DefaultContext.prec, decimal.Context().prec, decimal.ExtendedContext.traps[decimal.Inexact]
import os | os.environ['BOTH'] = 'a'; os.putenv('ONLY_C', '1'); os.unsetenv('HOME') | os.system('exit ${ONLY_C:-0}'), os.system('test -n "$HOME"'), os.getenv('BOTH')
import os, time; os.environ['TZ'] = 'UTC'; time.tzset() | os.environ['TZ'] = 'EST5EDT'; time.tzset() | time.localtime(0).tm_hour, time.tzname
import sys, json | sys.modules['none'] = 5; sys.modules['json'] = None; del sys.modules['json.decoder'] | 'none' in sys.modules, sys.modules['json'] is json, 'json.decoder' in sys.modules
import collections.abc\nclass P: pass | collections.abc.Sequence.register(P); issubclass(P, collections.abc.Collection) | issubclass(P, collections.abc.Sequence), issubclass(P, collections.abc.Collection)
import abc\nclass A(abc.ABC): pass\nclass P: pass\nclass Q: pass\nA.register(Q) | A.register(P); isinstance(P(), A) | isinstance(P(), A), isinstance(Q(), A)
import copyreg\nclass P: pass | copyreg.pickle(P, lambda p: (P, ())) | P in copyreg.dispatch_table
import gc; called = lambda *a: None | gc.callbacks.append(called) | called in gc.callbacks
import linecache | linecache.cache['made'] = (1, None, ['a'], 'made') | linecache.getline('made', 1)
import signal | signal.setitimer(signal.ITIMER_REAL, 1000); signal.pthread_sigmask(signal.SIG_BLOCK, {10}) | signal.getitimer(signal.ITIMER_REAL)[0] > 0, signal.pthread_sigmask(signal.SIG_BLOCK, [])
import asyncio; await asyncio.sleep(0) | loop = asyncio.get_event_loop(); loop.set_debug(True); loop.set_exception_handler(print); loop.slow_callback_duration = 9; del loop | (lambda loop: (loop.get_debug(), loop.get_exception_handler(), loop.slow_callback_duration))(asyncio.get_event_loop())
import threading | threading.current_thread().name = 'mine' | threading.main_thread().name
import csv | csv.field_size_limit(5) | csv.field_size_limit()
import csv; csv.register_dialect('mine', delimiter=';') | csv.register_dialect('mine', delimiter='|'); csv.register_dialect('new'); csv.unregister_dialect('unix') | csv.get_dialect('mine').delimiter, csv.list_dialects()
import mimetypes; mimetypes.init() | import mimetypes; mimetypes.add_type('a/b', '.zzz') | mimetypes.guess_type('x.zzz'), mimetypes.guess_extension('a/b')
import reprlib, json, calendar | reprlib.aRepr.maxlist = 2; json._default_encoder.item_separator = ';'; calendar.setfirstweekday(6) | reprlib.repr([1, 2, 3]), json.dumps([1, 2]), calendar.firstweekday()
import xml.etree.ElementTree as ET, xml.dom | ET.register_namespace('zz', 'http://zz'); xml.dom.registerDOMImplementation('zz', len) | ET._namespace_map.get('http://zz'), 'zz' in xml.dom.domreg.registered
import faulthandler, tracemalloc, sys, threading | faulthandler.enable(); tracemalloc.start(); threading.setprofile(print); threading.settrace(print) | faulthandler.is_enabled(), tracemalloc.is_tracing(), threading._profile_hook, threading._trace_hook
import sys; profile = lambda *a: None | sys.setprofile(profile); sys.set_coroutine_origin_tracking_depth(3) | sys.getprofile() is None, sys.get_coroutine_origin_tracking_depth()
import logging\nclass L(logging.Logger): pass | logging.addLevelName(7, 'SEVEN'); logging.setLoggerClass(L); logging.setLogRecordFactory(dict) | logging.getLevelName(7), logging.getLoggerClass() is L, logging.getLogRecordFactory() is dict
import logging; logger = logging.getLogger('mine') | logging.getLogger('mine').setLevel(10); logger.addHandler(logging.NullHandler()); logging.getLogger('asyncio').setLevel(10) | logger.level, logger.handlers, logging.getLogger('asyncio').level
import shutil, encodings.aliases, http.client, urllib.parse | shutil.unregister_archive_format('zip'); shutil.register_unpack_format('zz', ['.zz'], len); encodings.aliases.aliases['zz'] = 'utf_8'; http.client.responses.clear(); urllib.parse.uses_netloc.append('zz') | dict(shutil.get_archive_formats()).keys(), len(shutil.get_unpack_formats()), 'zz' in encodings.aliases.aliases, len(http.client.responses), urllib.parse.uses_netloc[-1]
import email.charset, doctest, gettext, zoneinfo | email.charset.add_charset('zz'); doctest.register_optionflag('ZZ'); gettext.textdomain('zz'); gettext.bindtextdomain('zz', '/zz'); zoneinfo.reset_tzpath(['/zz']) | 'zz' in email.charset.CHARSETS, 'ZZ' in doctest.OPTIONFLAGS_BY_NAME, gettext.textdomain(), gettext._localedirs, zoneinfo.TZPATH == ('/zz',)
import sqlite3, multiprocessing, asyncio\nclass P: pass | sqlite3.register_adapter(P, len); sqlite3.register_converter('ZZ', len); multiprocessing.set_start_method('spawn', force=True) | (P, sqlite3.PrepareProtocol) in sqlite3.adapters, 'ZZ' in sqlite3.converters, multiprocessing.get_start_method()
import textwrap, keyword | textwrap.fill.__defaults__ = (5,); textwrap.fill.tag = 1; keyword.kwlist[:] = [] | textwrap.fill.__defaults__, hasattr(textwrap.fill, 'tag'), len(keyword.kwlist)
import json, xml.dom | json.dumps.__kwdefaults__['indent'] = 2; xml.dom.__class__ = type('M', (type(xml.dom),), {}) | json.dumps([1]), type(xml.dom).__name__
import logging, warnings; logger = 5; logging.getLogger('apart') | logging.getLogger('apart').setLevel(10); logging.getLogger('new').addHandler(logging.NullHandler()); logging.basicConfig(level=10); logging.captureWarnings(True); logging.disable(10) | logging.getLogger('apart').level, logging.getLogger('new').handlers, logging.root.level, warnings.showwarning.__module__, logging.root.manager.disable
import sys, json | sys.modules['other'] = json | 'other' in sys.modules
import sys | sys.path_importer_cache['zz'] = None | 'zz' in sys.path_importer_cache
import urllib.request as request, webbrowser, copyreg | request.install_opener(request.build_opener()); webbrowser.register('zz', None); copyreg.add_extension('zz', 'zz', 99) | request._opener, 'zz' in webbrowser._browsers, ('zz', 'zz') in copyreg._extension_registry
def f(x: int): pass | f.__annotations__['y'] = str | f.__annotations__
def f(x: int): pass | f.__annotations__ = {} | f.__annotations__
class C: pass | C.__name__ = 'D'; C.__qualname__ = 'E'; C.__hash__ = None | C.__name__, C.__qualname__, C.__hash__ is None
import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def run(self): pass | A.__abstractmethods__ = frozenset(); a = A() | A.__abstractmethods__
class C:\n    @property\n    def size(self): 'one' | C.size.__doc__ = 'two' | C.size.__doc__
import linecache, json | linecache.lazycache('lazy.py', vars(json)); None | 'lazy.py' in linecache.cache
import sys, builtins | sys.excepthook = print; sys.setrecursionlimit(900); builtins.hi = 1 | sys.excepthook is print, hasattr(builtins, 'hi')
v = type('C', (), {5: 1}) | v.n = 2 | hasattr(v, 'n')
globals()[6] = [1]; v = [1] | globals()[6].append(2); globals()[5] = 1; v.append(2) | globals()[6], 5 in globals(), v
"""
"""Rows: set-up, change, and the expression whose value the undo restores."""


def test_rebound_deleted_and_added_names_are_restored(cells: Cells) -> None:
    done = undone(cells, "a = 1\nb = [1]\nkept = b", "a = 2\ndel b\nc = 3")
    assert kinds(done) == {"a": "rebound", "b": "added", "c": "deleted"}
    assert done.exact
    assert cells.text("a, b, b is kept, 'c' in globals()") == "(1, [1], True, False)\n"


@pytest.mark.sample(20)
@pytest.mark.parametrize(("setup", "change", "look"), rows(CHANGES))
def test_changes_are_undone(cells: Cells, setup: str, change: str, look: str) -> None:
    assert_undone(cells, setup, change, look)


def test_undo_of_an_earlier_cell_undoes_the_later_ones_too(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    first_cell = cells.number + 1
    for number in (2, 3, 4):
        cells.text(f"v.append({number}); n = {number}")
        cells.text("n + 1")
    assert kinds(cells.kernel.undo(first_cell)) == {"v": "changed", "n": "rebound"}
    assert cells.text("v, n") == "([1], 1)\n"


def test_names_of_a_module_that_begin_with_underscores_are_restored(cells: Cells) -> None:
    Path("project_module.py").write_text("'text'\n__all__ = ['x']\n__version__ = '1'\nx = 1\n")
    assert_undone(
        cells,
        "import project_module as m",
        "m.__version__ = '2'; m.__all__.append('y'); m.__doc__ = m.__name__ = 'n'; m.__getattr__ = len",
        "m.__version__, m.__all__, m.__doc__, m.__name__, hasattr(m, '__getattr__')",
    )


def test_the_module_of_a_class_is_restored(cells: Cells) -> None:
    assert undone(cells, "class C: pass", "C.__module__ = 'elsewhere'").exact
    assert cells.text("C.__module__") == "'__main__'\n"


def test_a_running_thread_does_not_make_an_undo_inexact(cells: Cells) -> None:
    wait = "import threading; thread = threading.Thread(target=threading.Event().wait, daemon=True)"
    cells.text(f"{wait}; thread.start(); waiting = threading.Thread(target=len)")
    assert undone(cells, "v = [1]", "v.append(2)").exact


def test_default_timeout_of_sockets_does_not_end_checkpoints(cells: Cells) -> None:
    cells.text("import socket; socket.setdefaulttimeout(30); v = [1]")
    cells.text("v.append(2)")
    assert cells.kernel.undo(cells.number).not_restored == ()
    assert cells.text("v") == "[1]\n"


def test_code_of_the_session_itself_does_not_move_the_state_before_a_cell(cells: Cells) -> None:
    cells.run("items = [1]")
    cells.run("items.append(2)")
    last_cell = cells.number
    own_code = "print(len(items)); __import__('importlib').invalidate_caches()"
    cells.kernel.execute(own_code, cell=0, on_output=lambda kind, text: None)
    cells.kernel.undo(last_cell)
    assert cells.text("items") == "[1]\n"


def test_cells_after_a_compressed_file_was_closed_are_undone(cells: Cells, tmp_path: Path) -> None:
    cells.text(f"import gzip; file = gzip.open({str(tmp_path / 'z')!r}, 'wt'); numbers = [1]")
    cells.text("file.close()")
    cells.text("numbers.append(2)")
    cells.kernel.undo(cells.number)
    assert cells.text("numbers") == "[1]\n"


def test_no_code_of_the_users_runs_in_place_of_the_logging_library(cells: Cells) -> None:
    setup = """
import logging, sys
class Logging:
    def __getattr__(self, name):
        raise RuntimeError(f'{name} was asked for')
sys.modules['logging'] = Logging()
v = [1]
"""
    assert_undone(cells, setup, "v.append(2)", "v")
    cells.text("sys.modules['logging'] = logging")


def test_redo_works_until_another_cell_runs(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    cells.text("v.append(2); n = 2")
    cells.text("v.append(3); n = 3")
    last_cell = cells.number
    cells.kernel.undo(last_cell)
    cells.kernel.undo(last_cell - 1)
    assert [step.cell for step in cells.kernel.undo_steps()] == [last_cell - 2]
    cells.kernel.redo()
    cells.kernel.redo()
    assert [step.cell for step in cells.kernel.undo_steps()] == [
        last_cell - 2,
        last_cell - 1,
        last_cell,
    ]
    with pytest.raises(KernelError, match="nothing to redo"):
        cells.kernel.redo()
    cells.kernel.undo(last_cell)
    assert cells.text("v, n") == "([1, 2], 2)\n"
    with pytest.raises(KernelError, match="nothing to redo"):
        cells.kernel.redo()


def test_preview_changes_nothing_and_matches_the_undo(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    cells.text("v.append(2); n = 2; m = 3")
    preview = cells.kernel.preview_undo(cells.number)
    change = preview.changes[0]
    assert change.before is not None
    assert change.variable is not None
    summaries = change.before.summary, change.variable.summary
    assert (change.change, *summaries) == ("changed", "2 items", "1 item")
    assert [(variable.name, variable.summary) for variable in cells.kernel.variables()] == [
        ("v", "2 items"),
        ("n", "2"),
        ("m", "3"),
    ]
    assert without_value_numbers(cells.kernel.undo(cells.number)) == preview


def test_impossible_undo_gives_one_sentence(cells: Cells) -> None:
    cells.text("v = 1")
    with pytest.raises(KernelError, match="Cell 99 cannot be undone"):
        cells.kernel.undo(99)
    cells.kernel.undo(1)
    with pytest.raises(KernelError, match="Cell 1 cannot be undone"):
        cells.kernel.undo(1)
    cells.kernel.reset()
    assert cells.kernel.undo_steps() == ()
    with pytest.raises(KernelError, match="cannot be undone"):
        cells.kernel.undo(2)


def test_undo_while_a_cell_runs_is_refused(cells: Cells) -> None:
    cells.text("v = 1")
    refusals: list[str] = []

    def undo() -> None:
        with pytest.raises(KernelError, match="A cell is running") as refusal:
            cells.kernel.undo(1)
        refusals.append(str(refusal.value))
        cells.kernel.interrupt()

    cells.run_until("go", undo, "print('go', flush=True)\nimport time\ntime.sleep(60)")
    assert len(refusals) == 1
    assert cells.text("v") == "1\n"


@pytest.fixture
def small(project: Path) -> Iterator[Cells]:
    with running(ProcessKernel(undo_steps=5, undo_memory=20)) as cells:
        yield cells


def test_killed_checkpoint_is_reported_and_the_rest_can_be_undone(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    cells.text("v.append(2); n = 2")
    last_cell = cells.number
    for pid in descendants(cells.kernel.info().pid):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(KernelError, match="Nothing was changed"):
        cells.kernel.undo(last_cell)
    preview = cells.kernel.preview_undo(last_cell)
    assert [change.name for change in preview.changes] == ["n"]
    assert not preview.exact
    assert "Changes inside objects stay" in preview.not_restored[0].reason
    cells.kernel.undo(last_cell)
    assert cells.text("v, n") == "([1, 2], 1)\n"


def test_no_checkpoint_survives_its_kernel(cells: Cells) -> None:
    for number in range(4):
        cells.text(f"v = [{number}]; print(v)")
    pids = descendants(cells.kernel.info().pid)
    assert len(pids) == 4
    os.kill(cells.kernel.info().pid, signal.SIGKILL)
    cells.host.wait_for_state(KernelState.DEAD)
    wait_for(lambda: not any(map(alive, pids)))
    with pytest.raises(KernelError):
        cells.kernel.undo(1)


def test_kernel_killed_during_an_undo_gives_one_sentence(cells: Cells) -> None:
    cells.text(
        "class Slow:\n    def __hash__(self):\n        import time\n        if slow: print('hashing', flush=True); time.sleep(60)\n        return 1\nslow = False\nv = {Slow(): 1}"
    )
    cells.text("v[1] = 2; slow = True")

    def kill() -> None:
        cells.host.wait_for_late("hashing")
        cells.kernel.kill()

    with ThreadPoolExecutor() as pool:
        pool.submit(kill)
        with pytest.raises(KernelError):
            cells.kernel.undo(cells.number)
    assert cells.text("1 + 1") == "2\n"


def test_hanging_reconstruction_is_stopped_and_nothing_changes(cells: Cells) -> None:
    cells.text(
        "class Slow:\n    def __hash__(self):\n        while slow: pass\n        return 1\nslow = False\nv = {Slow(): 1}; n = 1"
    )
    cells.text("v[1] = 2; slow = True; n = 2")
    with pytest.raises(KernelError, match="did not end in time"):
        cells.kernel.undo(cells.number)
    assert cells.text("slow = False\nlen(v), n") == "(2, 2)\n"


@pytest.mark.thorough
def test_a_hundred_steps_respect_the_count_and_memory_limits(small: Cells) -> None:
    small.text("v = bytearray(8_000_000); w = [0]")
    for number in range(100):
        small.text(f"v[:] = bytes([{number}]) * 8_000_000; w.append({number})")
    small.kernel.preview_undo(small.number)  # it waits for its turn: by then the kernel has settled
    steps = small.kernel.undo_steps()
    assert 1 <= len(steps) <= 4
    assert sum(step.bytes for step in steps) < 40_000_000
    oldest = steps[0].cell
    with pytest.raises(KernelError, match="can no longer be undone, because"):
        small.kernel.undo(oldest - 1)
    small.kernel.undo(oldest)
    assert small.text("v[0], len(w)") == f"({oldest - 3}, {oldest - 1})\n"


def test_arrays_referenced_only_by_steps_count(small: Cells) -> None:
    pytest.importorskip("numpy")
    small.text("import numpy as np")
    for _ in range(6):
        small.text("v = np.ones(1_000_000)")
    assert len(small.kernel.undo_steps()) <= 4


def test_checkpoints_use_no_descriptors_that_a_cell_might_close_and_open(cells: Cells) -> None:
    cells.text("import os; x = [1]")
    low = "{int(fd) for fd in os.listdir('/proc/self/fd') if int(fd) < 200}"
    cells.text(f"before = {low}")
    for number in range(3):
        cells.text(f"x.append({number})")
    assert cells.text(f"{low} - before") == "set()\n"


def test_an_undo_says_nothing_of_the_kernels_own_descriptors(cells: Cells) -> None:
    cells.text("import os; x = [1]")
    cells.text("x.append(2); numbers = [int(fd) for fd in os.listdir('/proc/self/fd')]")
    cells.text("x.append(numbers); os.write")
    for _ in range(2):
        assert cells.kernel.undo(cells.number).not_restored == ()
        assert cells.kernel.redo().not_restored == ()


def test_failing_fork_leaves_undo_of_names(cells: Cells) -> None:
    limit_descriptors = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"
    cells.text(f"import resource\n{limit_descriptors}\nv = [1]; n = 1")
    done = undone(cells, "n = 1", "v.append(2); n = 2")
    assert kinds(done) == {"n": "rebound"}
    assert "could not be forked" in done.not_restored[0].reason
    assert cells.text("v, n") == "([1, 2], 1)\n"


def test_interrupted_undo_leaves_nothing_halfway(cells: Cells) -> None:
    cells.text("many = {i: [i] for i in range(20_000)}; n = 1")
    cells.text("for each in many.values(): each.append(1)\nn = 2")
    stop = threading.Event()

    def interrupt() -> None:
        while not stop.is_set():
            os.killpg(cells.kernel.info().pid, signal.SIGINT)
            stop.wait(0.05)

    with ThreadPoolExecutor() as pool:
        pool.submit(interrupt)
        try:
            cells.kernel.undo(cells.number)
        finally:
            stop.set()
    assert cells.text("n, sum(map(len, many.values()))") == "(1, 20000)\n"


def test_pipes_and_ports_are_closed(cells: Cells) -> None:
    cells.text(
        "import socket, subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)"
    )
    assert cells.text("p.stdin.write(b'x')\np.stdin.close()\np.wait(20)") == "0\n"
    cells.text("s = socket.create_server(('127.0.0.1', 0)); address = s.getsockname()")
    refused = cells.run("s.close(); socket.create_connection(address, 5)")
    assert "ConnectionRefusedError" in refused.output


def test_disabled_undo_stores_nothing() -> None:
    with running(ProcessKernel(undo_steps=0)) as cells:
        cells.text("v = [1]; v.append(2)")
        assert cells.kernel.undo_steps() == ()
        assert descendants(cells.kernel.info().pid) == []
        with pytest.raises(KernelError, match="Undo is off"):
            cells.kernel.undo(1)


def test_embedded_kernel_restores_names_and_explains_the_rest() -> None:
    namespace = {"v": [1], "n": 1}
    with running(InProcessKernel(namespace)) as cells:
        cells.text("v.append(2); n = 2; m = 3")
        done = cells.kernel.undo(1)
        assert kinds(done) == {"n": "rebound", "m": "deleted"}
        assert [entry.reason for entry in done.not_restored] == [
            "Changes inside objects stay: the kernel cannot be forked, because it runs inside the program that opened this session."
        ]
        assert namespace["v"] == [1, 2]
        cells.kernel.redo()
        assert namespace["n"] == 2


@pytest.mark.parametrize("python", interpreters())
def test_every_python_version_supports_undo(python: str) -> None:
    look = "c.x, sorted(d), vars(c).keys(), random.getstate()[1][-1], os.environ.get('A'), C.__dict__.get('new')"
    with running(ProcessKernel(python)) as cells:
        cells.text(
            "import os, random\nclass C:\n    def __init__(self): self.x = [1]\nc = C(); d = {'c': c}; random.seed(1); g = (i for i in [1, 2]); it = iter([1, 2]); next(it)"
        )
        output_before = cells.text(look)
        cells.text(
            "c.x.append(2); c.y = 1; d['e'] = 1; C.new = 5; os.environ['A'] = 'b'; random.random(); next(g); next(it)"
        )
        done = cells.kernel.undo(cells.number)
        assert [entry.name for entry in done.not_restored] == ["g", "it"]
        assert cells.text(look) == output_before
