"""Undo keeps nothing alive that would have ended, and says what it could not compare or bring
back."""

from __future__ import annotations

import pytest

from tests.integration.kernels import Cells
from tests.integration.undo import undone


@pytest.mark.parametrize(
    ("setup", "change", "look", "expected"),
    [
        (
            "f = open('out.txt', 'w'); n = f.write('hello')",
            "del f",
            "open('out.txt').read()",
            "'hello'\n",
        ),
        (
            "f = open('out.txt', 'w'); n = f.write('hello')",
            "f = 5",
            "open('out.txt').read()",
            "'hello'\n",
        ),
        (
            "ended = []\nclass D:\n    def __del__(self): ended.append(1)\nbox = [D()]",
            "del box",
            "ended",
            "[1]\n",
        ),
        (
            "import weakref\nclass P: pass\np = P(); r = weakref.ref(p)",
            "del p",
            "r() is None",
            "True\n",
        ),
        (
            "ended = []\nclass D:\n    def __del__(self): ended.append(1)\n"
            "deep = [[[i] for i in range(100)] for _ in range(50)]; deep[-1][-1].append(D())",
            "del deep",
            "ended",
            "[1]\n",
        ),
        (
            "import tempfile, os; t = tempfile.NamedTemporaryFile(); name = t.name",
            "del t",
            "os.path.exists(name)",
            "False\n",
        ),
        (
            "import socket; s = socket.create_server(('127.0.0.1', 0)); p = s.getsockname()",
            "del s",
            "socket.create_server(p).close()",
            "",
        ),
    ],
)
def test_deleted_objects_are_finalised(
    cells: Cells, setup: str, change: str, look: str, expected: str
) -> None:
    cells.text(setup)
    cells.text(change)
    assert cells.text(look) == expected


def test_each_step_knows_the_previous_state_of_a_library(cells: Cells) -> None:
    cells.text("import textwrap\nclass P: pass\ntextwrap.one, textwrap.other = 1, P()")
    cells.text("textwrap.one; seen = []")
    cells.text("textwrap.one = 2")
    cells.text(
        "del textwrap.other; textwrap.other = P(); p = textwrap.other"
    )  # it may have the address of the other P
    done = undone(cells, "seen.append(textwrap.other is p)", "textwrap.one = 3; textwrap.other = 4")
    assert done.exact
    assert cells.text("textwrap.one, textwrap.other is p") == "(2, True)\n"


def test_finalised_file_is_named_and_an_object_is_restored(cells: Cells) -> None:
    done = undone(
        cells,
        "f = open('out.txt', 'w')\nclass D:\n    def __del__(self): pass\nd = D(); d.x = [1]",
        "del f, d",
    )
    assert [each.name for each in done.kept_as_is] == ["f"]
    assert cells.text("type(d) is D, d.x, 'f' in globals()") == "(True, [1], False)\n"


@pytest.mark.parametrize(
    ("setup", "change", "look"),
    [
        (
            "e = OSError(1, 'a'); i = ImportError('x', name='n')",
            "e.errno = 5; i.name = 'z'; e.__cause__ = i",
            "e.errno, i.name, e.__cause__",
        ),
        ("z = zip([1, 2, 3], 'abc'); next(z)", "next(z)", "list(__import__('copy').deepcopy(z))"),
        (
            "import collections",
            "collections.Counter.hello = 5; collections.Counter.update = None",
            "dir(collections.Counter)",
        ),
        ("import decimal", "decimal.getcontext().prec = 7", "decimal.getcontext().prec"),
        (
            "import signal, gc, sys, builtins",
            "signal.signal(10, signal.SIG_IGN); gc.disable()",
            "signal.getsignal(10), gc.isenabled()",
        ),
        (
            "import sys, builtins",
            "sys.excepthook = print; sys.setrecursionlimit(900); builtins.hi = 1",
            "sys.excepthook is print, hasattr(builtins, 'hi')",
        ),
        (
            "import os; os.umask(0o22)",
            "os.umask(0o77)",
            "open('/proc/self/status').read().split('Umask')[1][:8]",
        ),
        (
            "globals()[6] = [1]; v = [1]",
            "globals()[6].append(2); globals()[5] = 1; v.append(2)",
            "globals()[6], 5 in globals(), v",
        ),
    ],
)
def test_undo_restores_the_previous_state(cells: Cells, setup: str, change: str, look: str) -> None:
    cells.text(setup)
    before = cells.text(look)
    cells.text(change)
    done = cells.kernel.undo(cells.number)
    assert done.exact, done.kept_as_is
    assert cells.text(look) == before


@pytest.mark.parametrize(
    ("setup", "change", "name"),
    [
        ("import mmap; q = mmap.mmap(-1, 64)", "q[0] = 5", "q"),
        ("import zlib; h = {'h': zlib.compressobj()}", "h['h'].compress(b'a')", "h"),
        ("import itertools; i = itertools.cycle('abc')", "next(i)", "i"),
    ],
)
def test_unsupported_type_is_named(cells: Cells, setup: str, change: str, name: str) -> None:
    done = undone(cells, setup, change)
    assert [(each.name, each.reason.partition(":")[0]) for each in done.kept_as_is] == [
        (name, "not compared")
    ]


def test_thread_of_the_program_is_not_named(cells: Cells) -> None:
    start = "import sys, types; m = types.FunctionType((lambda: __import__('time').sleep(60)).__code__, {**globals(), '__package__': PACKAGE})"
    package = cells.text(
        "import threading; [t._target.__func__.__globals__['__package__'] for t in threading.enumerate() if hasattr(t, '_target') and t._target]"
    )
    cells.text(start.replace("PACKAGE", f"{package.strip()}[0]"))
    cells.text("v = [1]; threading.Thread(target=m, daemon=True).start()")
    assert cells.kernel.undo(cells.number).exact
