"""Cells that damage their process or its connection, or never release the interpreter."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, KernelState, SaveTarget
from tests.integration.kernels import PATIENCE, Cells, running

DAMAGE = {
    "closes fd 1": "import os; os.close(1)",
    "closes fd 1 and 2 with text pending": "import os; print('pending'); os.close(1); os.close(2)",
    "closes small descriptors": "import os; os.closerange(0, 10)",
    "replaces sys.stdout": "import sys, io; sys.stdout = io.StringIO(); sys.stderr = None; print('lost')",
    "closes sys.stdout": "import sys; sys.stdout.close()",
    "deletes __builtins__": "del __builtins__",
    "replaces __builtins__": "__builtins__ = {}",
    "deletes a builtin": "import builtins; del builtins.isinstance, builtins.print",
    "empties builtins": "import builtins; builtins.__dict__.clear()",
    "installs a signal handler": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "blocks signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
    "lowers the recursion limit": "import sys; sys.setrecursionlimit(60)",
    "replaces __main__": "import sys; sys.modules['__main__'] = None",
    "sets a trace function": "import sys; sys.settrace(lambda *a: 1 / 0)",
    "clears its globals": "globals().clear()",
    "leaves the folder and removes it": "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "stops the loop": "import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(1)",
    "closes the loop": "import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_event_loop_policy()._local._loop.close()",
    "raises SystemExit": "raise SystemExit",
    "raises a string subclass's trap": "class E(BaseException):\n    def __str__(self): raise self\nraise E()",
    "runs out of memory": "x = [0] * (2 ** 60)",
}

BROKEN_LOOPS = (
    *("_ready = None", "_scheduled = None", "_thread_id = 5", "_csock.close()", "_ssock.close()"),
    *("_selector.unregister(loop._ssock)", "_selector = None", "call_soon = None"),
    *("call_soon_threadsafe = None", "create_future = None", "is_closed = None"),
    *("_write_to_self = lambda: None", "is_closed = exit", "create_future = exit"),
    "create_future = exit; sys.stderr.write = exit",
)
"""What code may do to the event loop, so that it does not wake or fails."""

REPLACED_BUILTINS = """
    BaseException Exception ImportError KeyError OSError StopIteration all any bool bytes callable compile dict
    eval exec filter frozenset getattr hasattr hash id int isinstance issubclass iter len list map max min next
    object open property range repr reversed set setattr sorted str sum super tuple vars zip
""".split()

BROKEN_MODULES = (
    *("sys.modules['asyncio'] = None", "sys.modules['asyncio'] = 5", "del sys.modules['asyncio']"),
    *("asyncio.events = None", "asyncio._set_running_loop = asyncio.new_event_loop = None"),
    *("asyncio.current_task = asyncio.all_tasks = asyncio.tasks.all_tasks = print",),
    *("sys.modules = {}", "sys.modules = None", "sys.modules['os'] = sys.modules['io'] = None"),
)
"""What code may do to modules that are loaded and that the kernel needs."""

REPLACED = """
    json.dumps json.loads json.JSONEncoder.encode json.decoder.JSONDecoder.decode
    json.encoder.c_make_encoder select.poll select.select struct.Struct struct.pack
    queue.SimpleQueue re.compile functools.partial ast.Module ast.AST ast.Name ast.parse
    ast.iter_child_nodes ast.PyCF_ONLY_AST collections.deque os.read os.write os.getcwd os.getpid
    os.fork os._exit os.killpg os.fstat os.path.expanduser threading.Thread threading.Timer
    threading.Lock _thread.interrupt_main _thread._count time.time time.monotonic
    time.perf_counter time.sleep signal.signal signal.getsignal signal.pthread_sigmask
    sys.getrecursionlimit sys.gettrace sys.settrace sys._getframe sys.exc_info sys.audit
    contextlib.suppress contextlib.nullcontext types.ModuleType traceback.TracebackException
    traceback.StackSummary gc.collect importlib.import_module importlib.machinery.PathFinder
    io.StringIO errno.EPIPE
""".split()

# Code that writes to every socket it finds.
WRITE = """
import json, os, stat, struct, sys
def sockets():
    for fd in range(3, 1100):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): yield fd
        except OSError: pass
def write(*datas):
    for fd in sockets():
        for data in datas:
            try: os.write(fd, data)
            except OSError: pass
def frame(body):
    return struct.pack('!I', len(body)) + body.encode()
def guessed(body):
    return struct.pack('!I', len(body)) + os.urandom(16) + body.encode()
"""
DONE: dict[str, object] = {"op": "done", "cell": 1, "status": "ok", "pieces": [["value", "forged"]]}

DISPLAY = {"mime": "text/html", "data": "forged", "text": "forged"}
CALL = {"op": "call", "id": 1}
FORGED: dict[str, dict[str, object]] = {
    "a done": DONE,
    "a done with a bad status": {**DONE, "status": "splendid"},
    "a done with nothing in it": {"op": "done"},
    "a done of no cell": {**DONE, "cell": [1]},
    "a ready": {"op": "ready", "python": "3", "executable": "/forged", "cwd": "/forged", "pid": 1},
    "a display with a list": {**CALL, "name": "display", "args": ["forged"]},
    "a display": {**CALL, "name": "display", "args": DISPLAY},
    "a call": {**CALL, "name": "input", "args": {"prompt": "forged"}},
    "a call without a name": {"op": "call", "id": {}},
    "a reply": {"op": "reply", "id": 1, "value": "forged"},
    "a cancel of an object": {"op": "cancelled", "id": {}},
    "a reply to a list": {"op": "reply", "id": []},
    "an unknown op": {"op": "forged"},
}

REAPER = """
import os, threading, time
def reap():
    while True:
        try: os.waitpid(-1, 0)
        except ChildProcessError: time.sleep(0.001)
threading.Thread(target=reap, daemon=True).start()
"""
UNDO_DAMAGE = {
    "ignores SIGCHLD": "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "waits for all children": REAPER,
    "replaces socketpair": "import socket, _socket; socket.socketpair = _socket.socketpair = None",
    "replaces pickle's classes": "import pickle; pickle.Pickler = pickle.Unpickler = pickle.dumps = pickle.loads = None",
    "replaces sysconfig's functions": "import sysconfig; sysconfig.get_path = None",
    "removes sys.excepthook": "import sys; sys.excepthook = None",
    "empties sys.modules": "import sys; sys.modules.clear()",
    "removes our modules": "import sys\nfor name in [name for name in sys.modules if 'mahtab' in name]: del sys.modules[name]",
    "empties the import system": "import sys; sys.meta_path.clear(); sys.path_hooks.clear(); sys.path.clear(); sys.path_importer_cache.clear()",
}

# Last words printed between the cells, and the code.
RAISED_BETWEEN_CELLS = {
    "ValueError: late": "import signal\ndef late(*_): raise ValueError('late')\nsignal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 1)",
    "SystemExit": "import os, signal, threading\ndef late(*_):\n    print('late'); raise SystemExit\nsignal.signal(signal.SIGTERM, late)\nthreading.Timer(1, os.kill, (os.getpid(), 15)).start()",
    "is set": "import ctypes, os, threading, time\nmain = ctypes.c_ulong(threading.main_thread().ident)\nclass late(Exception): pass\ndef set_late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(late)); print('is set')\nthreading.Thread(target=set_late).start()",
}

# `re` looks for signals now and then, but lets no other thread run.
MATCH = "re.match(r'(a+)+b', 'a' * 64)"
LARGE = "x = 1\n" * 50_000
"""300 KB: more than the socket takes by itself."""


@pytest.mark.sample(7)
@pytest.mark.parametrize("code", DAMAGE.values(), ids=DAMAGE)
def test_next_cell_works_after_a_damaging_one(cells: Cells, code: str) -> None:
    pid = cells.kernel.info().pid
    damaged = cells.run(code)
    assert damaged.status in (Status.OK, Status.ERROR)
    assert "print('pending')" not in code or "pending\n" in damaged.output
    result = cells.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nlen(repr([1, 2]))")
    assert (result.output, result.status) == ("out\nerr\n6\n", Status.OK)
    assert cells.interrupt_after("go", "print('go')\nwhile True: pass").status is Status.INTERRUPTED
    assert cells.kernel.info().pid == pid


def test_files_are_protected_after_a_cell_that_keeps_what_reads_commands_from_being_imported(
    cells: Cells,
) -> None:
    cells.text(
        "import os, sys\nclass Finder:\n    @staticmethod\n    def find_spec(name, *rest):\n"
        "        if 'protected' in name or 'command' in name: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Finder)"
    )
    attempt = "os.system('touch AGENTS.md')"
    result = cells.kernel.execute(attempt, cell=2, on_output=lambda kind, text: None, lock="guard")
    assert "AGENTS.md is protected" in result.output


@pytest.mark.parametrize("name", ["any", "bool"])
def test_files_are_protected_from_a_cell_that_replaces_builtins(cells: Cells, name: str) -> None:
    attempt = f"import builtins\nbuiltins.{name} = lambda *args: ()\nopen('AGENTS.md', 'w')"
    result = cells.kernel.execute(attempt, cell=1, on_output=lambda kind, text: None, lock="guard")
    assert "AGENTS.md is protected" in result.output


def test_a_kernel_adds_each_of_its_finders_once(cells: Cells) -> None:
    cells.text("import sys")
    cells.expect("len(sys.meta_path) - len(set(map(id, sys.meta_path)))", "0\n")


@pytest.mark.sample(3)
@pytest.mark.parametrize("damage", BROKEN_LOOPS)
def test_the_next_cell_runs_after_one_that_has_broken_the_event_loop(
    cells: Cells, damage: str
) -> None:
    cells.text("import asyncio\ntask = asyncio.create_task(asyncio.sleep(1000))")
    cells.text(f"import sys\nexit = sys.exit\nloop = asyncio.get_event_loop()\nloop.{damage}")
    assert cells.text("1 + 1").endswith("2\n")
    cells.expect("await asyncio.sleep(0, 5)", "5\n")


def test_asyncio_works_in_cells_after_one_that_has_removed_it_and_imported_it_again(
    cells: Cells,
) -> None:
    cells.text("import asyncio\nawait asyncio.sleep(0)")
    cells.text(
        "import sys\nfor name in [*sys.modules]:\n"
        "    if name.partition('.')[0] == 'asyncio': del sys.modules[name]\nimport asyncio"
    )
    for _ in range(2):
        cells.expect("asyncio.run(asyncio.sleep(0, 5))", "5\n")
        cells.expect("await asyncio.sleep(0, 5)", "5\n")


def test_an_event_loop_that_a_library_has_given_attributes_is_not_called_broken(
    cells: Cells,
) -> None:
    cells.run(
        "import asyncio\nloop = asyncio.get_event_loop()\ntype(loop).nested_runs = 0\n"
        "loop.nested_runs = 1\nasync def late():\n    await asyncio.sleep(0.2)\n    print('late')\n"
        "task = asyncio.create_task(late())"
    )
    cells.host.wait_for_late("late\n")
    cells.expect("asyncio.get_event_loop() is loop", "True\n")


@pytest.mark.parametrize(
    "replacement", ["lambda *args, **named: 1 / 0", "lambda *args, **named: 5"]
)
def test_an_event_loop_that_creates_no_tasks_is_replaced_after_one_error(
    cells: Cells, replacement: str
) -> None:
    cells.run(f"import asyncio\nasyncio.get_event_loop().create_task = {replacement}")
    error = cells.run("await asyncio.sleep(0, 5)")
    assert error.status is Status.ERROR
    assert "never awaited" not in error.output
    cells.expect("await asyncio.sleep(0, 5)", "5\n")


@pytest.mark.parametrize("place", ["asyncio.all_tasks", "asyncio.get_event_loop().is_closed"])
@pytest.mark.parametrize("replacement", ["None", "__import__('sys').exit"])
def test_a_cell_that_replaces_what_lists_tasks_succeeds(
    cells: Cells, place: str, replacement: str
) -> None:
    assert cells.text(f"import asyncio\n{place} = {replacement}\n1 + 1").endswith("2\n")
    assert cells.text("1 + 2").endswith("3\n")
    # The broken loop complains in any cell, when it is collected.
    assert cells.text("await asyncio.sleep(0, 5)").endswith("5\n")


@pytest.mark.parametrize("error", ["RuntimeError", "SystemExit"])
def test_an_event_loop_that_cannot_run_is_replaced_after_one_error(
    cells: Cells, error: str
) -> None:
    output = cells.text(
        "import asyncio\nloop = asyncio.get_event_loop()\ncalls = []\n"
        f"def run(*args):\n    calls.append(args)\n    raise {error}('broken')\n"
        "loop.run_until_complete = run\ntask = loop.create_task(asyncio.sleep(1000))"
    )
    if not output:  # else the loop has failed before the host read the last output
        cells.host.wait_for_late(f"{error}: broken")
    cells.expect("len(calls)", "1\n")
    cells.expect("await asyncio.sleep(0, 5)", "5\n")


def test_builtins_that_a_cell_replaces_are_used_by_that_cell_only(cells: Cells) -> None:
    cells.text("import asyncio, builtins")
    for name in REPLACED_BUILTINS:
        for value in ("None", "print"):
            cells.expect(f"builtins.{name} = {value}", "")
            error = cells.run(f"builtins.{name} = {value}\n1 / 0").output
            assert error.startswith("Traceback"), name
            assert error.endswith("ZeroDivisionError: division by zero\n"), name
    for name in ("eval", "isinstance", "len", "repr", "sorted"):
        cells.expect(f"builtins.{name} = print\n[1, 2]", "[1, 2]\n")


@pytest.mark.parametrize("damage", BROKEN_MODULES)
def test_cells_run_after_one_that_has_broken_modules(cells: Cells, damage: str) -> None:
    cells.text("import asyncio, sys\nasync def five(): return 5")
    pid = cells.kernel.info().pid
    cells.expect(damage, "")
    cells.expect("1 + 1", "2\n")
    cells.expect("await five()", "5\n")
    error = cells.run("1 / 0").output
    assert error.count("Traceback") == 1
    assert error.endswith("ZeroDivisionError: division by zero\n")
    assert cells.host.late.empty()
    assert cells.kernel.info().pid == pid


@pytest.mark.timeout(240)
def test_patched_library_affects_only_user_code(cells: Cells) -> None:
    pid = cells.kernel.info().pid
    restore = ""
    for name in REPLACED:
        module, _, attribute = name.rpartition(".")
        imports = f"import {name.partition('.')[0]}" + (f", {module}" if module.islower() else "")
        broken = "def broken(*a, **k): raise EOFError"
        cells.run(
            f"{restore}\n{imports}\nowner, before = {module}, {name}\n{broken}\n{name} = broken"
        )
        output = cells.run(f"print(owner.{attribute} is broken)\nx = [1, 2]\n1 / 0").output
        assert output.startswith("True\nTraceback"), name
        assert output.endswith("ZeroDivisionError: division by zero\n"), name
        assert "x" in cells.names(), name
        restore = f"owner.{attribute} = before"
    cells.expect(f"{restore}\nx", "[1, 2]\n")
    assert cells.kernel.info().pid == pid


@pytest.mark.parametrize(
    "name",
    ["time.monotonic", "select.poll", "threading.Timer", "_thread.interrupt_main", "os.killpg"],
)
def test_patched_library_can_be_interrupted(cells: Cells, name: str) -> None:
    code = f"import {name.partition('.')[0]}\n{name} = None\nprint('go')\nwhile True: pass"
    assert cells.interrupt_after("go", code).status is Status.INTERRUPTED
    cells.expect("1 + 1", "2\n")


def test_kernel_survives_a_broken_event_loop(cells: Cells) -> None:
    cells.run(
        "import asyncio, time\nawait asyncio.sleep(0)\nbefore, time.monotonic = time.monotonic, None"
    )
    assert cells.text("time.monotonic = before\n1 + 1").endswith("2\n")
    cells.expect("await asyncio.sleep(0, 3)", "3\n")


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ("raise ValueError('in repr')", "ValueError: in repr"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return 5", "__repr__ returned non-string"),
        ("return chr(0xd800) + chr(0)", "\ud800\0\n"),
        ("return type('S', (str,), {'__add__': None, '__str__': None})('sub')", "sub\n"),
        ("return repr(self)", "RecursionError"),
    ],
)
def test_misbehaving_repr_is_shown_as_it_is(cells: Cells, body: str, expected_text: str) -> None:
    result = cells.run(f"class A:\n    def __repr__(self): {body}\nA()")
    assert expected_text in result.output
    cells.expect("1 + 1", "2\n")


@pytest.mark.parametrize(
    ("name", "use", "status"),
    [("repr", "A()", Status.INTERRUPTED), ("str", "raise A", Status.ERROR)],
)
def test_endless_repr_or_str_can_be_interrupted(
    cells: Cells, name: str, use: str, status: Status
) -> None:
    code = f"class A(Exception):\n    def __{name}__(self):\n        print('go')\n        while True: pass\n{use}"
    assert cells.interrupt_after("go", code).status is status
    cells.expect("1 + 1", "2\n")


def test_sys_exit_ends_the_cell_but_not_the_kernel(cells: Cells) -> None:
    result = cells.run("import sys\nx = 1\nsys.exit(3)\nx = 2")
    assert (result.status, result.output) == (Status.OK, "SystemExit: 3\n")
    cells.expect("x", "1\n")


@pytest.mark.parametrize(
    "code",
    [
        "import os, threading, time\ndef late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late')\nthreading.Thread(target=late).start()",
        "import subprocess\np = subprocess.Popen('while [ ! -e go ]; do sleep 0.01; done; echo late', shell=True)",
    ],
)
def test_late_output_is_background_output(cells: Cells, code: str) -> None:
    assert cells.run(f"{code}\nprint('cell')").output == "cell\n"
    Path("go").touch()
    assert cells.host.wait_for_late("late\n") == "late\n"


def test_forked_child_leaving_its_cell_ends(cells: Cells) -> None:
    code = "import os\nprint('parent' * bool(os.wait()) if os.fork() else 'child')"
    cells.expect(code, "child\nparent\n")
    cells.expect("1 + 1", "2\n")


@pytest.mark.parametrize(("body", "code"), [("sys.exit(7)", 7), ("1 / 0", 1), ("pass", 0)])
def test_forked_child_has_its_exit_code(cells: Cells, body: str, code: int) -> None:
    cells.run(f"import os, sys\nif os.fork(): status = os.wait()[1]\nelse: {body}")
    cells.expect("os.WEXITSTATUS(status)", f"{code}\n")


def test_forked_child_forks_without_a_message(cells: Cells) -> None:
    code = """import os
if os.fork() == 0:
    if os.fork() == 0:
        print('below', flush=True); os._exit(0)
    os.wait(); os._exit(0)
os.wait()[1]"""
    cells.expect(code, "below\n0\n")


def test_forked_child_cannot_talk_to_the_session(cells: Cells) -> None:
    code = "import os\nif os.fork(): os.wait()\nelse: input('?')"
    assert "cannot reach the session" in cells.run(code).output
    assert cells.host.calls.empty()


def test_frames_on_small_descriptors_are_ignored(cells: Cells) -> None:
    code = """
import json, os, struct, subprocess, sys
body = json.dumps({"op": "done", "cell": 1, "status": "ok", "pieces": [["value", "forged"]], "changes": [], "duration": 0, "cwd": ""})
frame = struct.pack("!I", len(body)) + body.encode()
for fd in range(3, 40):
    try: os.write(fd, frame)
    except OSError: pass
child = '''
import os, sys
for fd in range(3, 1100):
    try: os.write(fd, bytes.fromhex(sys.argv[1])); print('open', fd)
    except OSError: pass
'''
subprocess.run([sys.executable, "-c", child, frame.hex()])
os.write(1, frame)
"""
    result = cells.run(code + "'end'")
    assert result.status is Status.OK
    assert result.kinds[-1] == ("value", len("'end'\n"))
    assert "open" not in result.output
    cells.expect("1 + 1", "2\n")


DONE |= {"changes": [], "frames": [], "duration": 0.0, "cwd": "/forged"}


def assert_died(cells: Cells, code: str, detail: str = "") -> None:
    """A cell ends with its kernel, and nothing that it forged arrives."""
    result = cells.run(code)
    assert (result.status, result.displays) == (Status.DIED, ())
    assert detail in result.detail
    assert "forged" not in result.output
    assert cells.host.calls.empty()
    assert cells.host.late.empty()
    cells.expect("1 + 1", "2\n")


@pytest.mark.sample(8)
@pytest.mark.timeout(180)
@pytest.mark.parametrize("wrapped", ["frame", "guessed"])
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_forged_frame_ends_its_cell_with_a_sentence(
    cells: Cells, forged: dict[str, object], wrapped: str
) -> None:
    pid_before = cells.kernel.info().pid
    assert_died(cells, f"{WRITE}\nwrite({wrapped}({json.dumps(forged)!r}))", "connection")
    info = cells.kernel.info()
    assert info.pid != pid_before
    assert info.cwd != "/forged"


@pytest.mark.timeout(180)
def test_writing_to_every_descriptor_forges_nothing(cells: Cells) -> None:
    code = f"""{WRITE}
standard = {{os.fstat(fd).st_ino for fd in (1, 2)}}
for data in (frame({json.dumps(DONE)!r}), b'garbage', guessed({json.dumps(FORGED["a display"])!r})):
    for fd in range(3, 1100):
        try:
            if os.fstat(fd).st_ino not in standard: os.write(fd, data)
        except OSError: pass
"""
    assert_died(cells, code)


def test_code_cannot_forge_its_result(cells: Cells) -> None:
    code = f"""
import sys
frame = sys._getframe()
while not hasattr(frame.f_locals.get('self'), 'channel'):
    frame = frame.f_back
frame.f_locals['self'].channel.send({DONE!r})
"""
    assert_died(cells, code)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [1, 4, 19, 0])
def test_incomplete_forged_frame_ends_its_cell(cells: Cells, count: int) -> None:
    data = f"(struct.pack('!I', 100_000_000) + bytes(100))[:{count}]" if count else "b'no frame'"
    assert_died(cells, f"{WRITE}\nwrite({data})", "connection")


@pytest.mark.timeout(180)
def test_frame_between_cells_ends_the_kernel(cells: Cells) -> None:
    later = f"time.sleep(0.2), write(frame({json.dumps(DONE)!r}))"
    cells.run(
        f"{WRITE}\nimport threading, time\nthreading.Thread(target=lambda: ({later})).start()"
    )
    assert "connection" in cells.host.wait_for_state(KernelState.DEAD)
    cells.expect("1 + 1", "2\n")


@pytest.mark.sample(3)
@pytest.mark.parametrize("code", UNDO_DAMAGE.values(), ids=UNDO_DAMAGE)
def test_undo_and_saving_work_after_a_damaging_cell(tmp_path: Path, code: str) -> None:
    target = SaveTarget(str(tmp_path / "variables"), "00" * 32, 100)
    with running(ProcessKernel(keep=target)) as cells:
        pid = cells.kernel.info().pid
        # More than a step keeps alive, so that undo must make some of it again.
        cells.text("v = [1]; many = [[i] for i in range(20_000)]; del v[:]")
        cells.run(code)
        cells.text("v.append(2); many.clear(); import gc; gc.collect()")
        assert cells.kernel.undo(cells.number).exact
        cells.expect("v, len(many), many[-1]", "([], 20000, [19999])\n")
        with suppress(KernelError):
            cells.kernel.keep((), (), PATIENCE)
        cells.expect("v", "[]\n")
        assert cells.kernel.info().pid == pid


@pytest.mark.parametrize(("last_words", "code"), RAISED_BETWEEN_CELLS.items())
@pytest.mark.parametrize("loop", ["", "import asyncio; await asyncio.sleep(0)\n"])
def test_error_between_cells_is_shown_and_nothing_is_lost(
    cells: Cells, last_words: str, code: str, loop: str
) -> None:
    cells.text(f"{loop}x = [1]")
    pid = cells.kernel.info().pid
    cells.run(code)
    Path("go").touch()
    cells.host.wait_for_late(f"{last_words}\n")
    assert cells.run("1 + 1").output.endswith("2\n")
    cells.expect("x", "[1]\n")
    assert cells.kernel.info().pid == pid


def test_failing_fork_of_a_save_is_an_error_of_the_save(tmp_path: Path) -> None:
    target = SaveTarget(str(tmp_path / "variables"), "00" * 32, 100)
    with running(ProcessKernel(keep=target)) as cells:
        cells.text("x = 1\nimport resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))")
        pid = cells.kernel.info().pid
        error = cells.kernel.keep((), (), PATIENCE).error
        assert error == "the kernel cannot be forked (Too many open files)"
        cells.expect("x", "1\n")
        assert cells.kernel.info().pid == pid


@pytest.mark.parametrize("count", [1_100, 40])
def test_kernel_works_with_many_and_with_few_descriptors(project: Path, count: int) -> None:
    """1,100 that are open, or at most 40."""
    code = (
        "import os; opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]"
        if count > 1_000
        else f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({count}, {count}))"
    )
    with running(ProcessKernel(undo_steps=5)) as cells:
        cells.text(f"v = [1]\n{code}")
        for number in range(8):
            cells.text(f"v.append({number})")
        assert cells.kernel.undo(cells.number).exact
        cells.expect("len(v)", "8\n")
        locked = cells.kernel.execute(
            "sum(v)", cell=99, on_output=lambda kind, text: None, lock="keep"
        )
        assert locked.output == "22\n"


def test_forked_child_whose_cell_is_broken_ends(cells: Cells) -> None:
    """It must not go on as a second kernel."""
    cells.run("import os\npid = os.fork()\nif pid == 0:\n    raise SystemExit(3)")
    cells.expect("os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "3\n")


def in_time(work: Callable[[], object]) -> None:
    """Run work that must not wait for the kernel."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it waits for the kernel"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "code",
    [
        "os.closerange(3, 1100)",
        "[os.close(fd) for fd in sockets()]",
        "[os.dup2(os.open('/dev/null', os.O_RDWR), fd) for fd in sockets()]",
        "import socket\n[socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR) for fd in sockets()]",
        "import threading\nthreading.Thread(target=lambda: [os.read(fd, 3) for fd in sockets()], daemon=True).start()\ninput()",
    ],
)
def test_closed_connection_ends_the_kernel(cells: Cells, code: str) -> None:
    cells.host.answer = lambda name, args: "a line"
    statuses: list[Status] = []

    def run() -> None:
        for source in (f"{WRITE}\n{code}", "1 + 1", "1 + 1", "1 + 1"):
            statuses.append(cells.run(source).status)

    in_time(run)
    assert len(statuses) == 4
    assert set(statuses) <= {Status.DIED, Status.OK}
    assert statuses.count(Status.DIED) <= 1


def test_kernel_whose_cell_goes_on_without_a_connection_says_why_it_ends(cells: Cells) -> None:
    close = "import time\n[os.close(fd) for fd in sockets()]\ntime.sleep(1000)"
    assert_died(cells, f"{WRITE}\n{close}", "code in it closed its connection to the session")


def complete(cells: Cells, code: str) -> None:
    with pytest.raises(KernelError, match="does not answer"):
        cells.kernel.complete(code, len(code))


Result = Callable[[], CellResult]
Start = Callable[..., Result]


@pytest.fixture
def start(cells: Cells) -> Iterator[Start]:
    """Begin a cell on another thread."""
    pool = ThreadPoolExecutor(1)

    def start(code: str, caught: str = "raise") -> Result:
        cell_started = threading.Event()
        source = f"import re, time\ntry:\n    print('go', flush=True)\n    {code}\nexcept KeyboardInterrupt:\n    {caught}"
        running = pool.submit(cells.run_until, "go", cell_started.set, source)
        assert cell_started.wait(PATIENCE)
        return lambda: running.result(PATIENCE)

    yield start
    pool.shutdown()


@pytest.mark.timeout(180)
def test_completion_does_not_block_interrupts(cells: Cells, start: Start) -> None:
    result = start(MATCH)
    in_time(lambda: complete(cells, LARGE + "os.pa"))
    for _ in range(10):
        in_time(lambda: complete(cells, LARGE))
    in_time(lambda: cells.kernel.set_size(100, 30))
    in_time(lambda: cells.kernel.set_reload(False))
    in_time(cells.kernel.interrupt)
    cell_result = result()
    assert cell_result.status is Status.INTERRUPTED
    assert cell_result.output.endswith("KeyboardInterrupt\n")
    cells.expect("import os; os.environ['COLUMNS']", "'100'\n")  # messages that waited are read


@pytest.mark.timeout(180)
def test_starved_cell_receives_an_interrupt_once(cells: Cells, start: Start) -> None:
    # The control thread reads of the interrupt only when the cell sleeps.
    result = start(MATCH, "time.sleep(1.5); print('cleaned up')")
    threads_before = threading.active_count()
    in_time(lambda: [cells.kernel.interrupt() for _ in range(1_000)])
    assert threading.active_count() <= threads_before + 2
    cell_result = result()
    assert (cell_result.status, cell_result.output) == (Status.OK, "go\ncleaned up\n")


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("code", "end"), [("7 ** (7 ** 11)", "kill"), (MATCH, "close")])
def test_kernel_of_unresponsive_code_can_be_ended(
    cells: Cells, start: Start, code: str, end: str
) -> None:
    result = start(code)
    in_time(lambda: complete(cells, LARGE))
    if end == "kill":
        in_time(cells.kernel.interrupt)
    in_time(getattr(cells.kernel, end))
    assert result().status is Status.KILLED
    if end == "kill":
        cells.expect("1 + 1", "2\n")
