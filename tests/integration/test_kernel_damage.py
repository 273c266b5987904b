"""Damage that cells may do to the process around them: the next cell works as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.values import Status
from tests.integration.kernels import Cells

DAMAGE = {
    "closes fd 1": "import os; os.close(1)",
    "closes fd 1 and 2 with text pending": "import os; print('pending'); os.close(1); os.close(2)",
    "points fd 1 elsewhere": "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
    "closes small descriptors": "import os; os.closerange(0, 10)",
    "replaces sys.stdout": "import sys, io; sys.stdout = io.StringIO(); sys.stderr = None; print('lost')",
    "closes sys.stdout": "import sys; sys.stdout.close()",
    "closes sys.stderr": "import sys; sys.stderr.close()",
    "deletes sys.stdout": "import sys; del sys.stdout",
    "deletes __builtins__": "del __builtins__",
    "replaces __builtins__": "__builtins__ = {}",
    "rebinds print": "import builtins; builtins.print = None",
    "rebinds input and repr": "import builtins; builtins.input = builtins.repr = builtins.len = None",
    "deletes a builtin": "import builtins; del builtins.isinstance, builtins.print",
    "empties builtins": "import builtins; builtins.__dict__.clear()",
    "installs a signal handler": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "blocks signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
    "lowers the recursion limit": "import sys; sys.setrecursionlimit(60)",
    "replaces __main__": "import sys; sys.modules['__main__'] = None",
    "sets a trace function": "import sys; sys.settrace(lambda *a: 1 / 0)",
    "deletes the displayhook": "import sys; del sys.displayhook",
    "clears its globals": "globals().clear()",
    "leaves the folder and removes it": "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "stops the loop": "import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(1)",
    "closes the loop": "import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_event_loop_policy()._local._loop.close()",
    "raises SystemExit": "raise SystemExit",
    "raises GeneratorExit": "raise GeneratorExit",
    "raises a string subclass's trap": "class E(BaseException):\n    def __str__(self): raise self\nraise E()",
    "runs out of memory": "x = [0] * (2 ** 60)",
    "empties linecache": "import linecache; linecache.cache.clear(); 1 / 0",
    "switches the collector": "import gc; gc.collect(); gc.unfreeze(); gc.collect()",
}


@pytest.mark.parametrize("code", DAMAGE.values(), ids=DAMAGE.keys())
def test_next_cell_works_after_a_damaging_one(cells: Cells, code: str) -> None:
    pid = cells.kernel.info().pid
    assert cells.run(code).status in (Status.OK, Status.ERROR)
    result = cells.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nlen(repr([1, 2]))")
    assert (result.output, result.status) == ("out\nerr\n6\n", Status.OK)
    assert cells.interrupt_after("go", "print('go')\nwhile True: pass").status is Status.INTERRUPTED
    assert cells.kernel.info().pid == pid


REPLACED = (
    *(
        "json.dumps",
        "json.loads",
        "json.JSONEncoder.encode",
        "json.decoder.JSONDecoder.decode",
        "json.encoder.c_make_encoder",
    ),
    *(
        "select.poll",
        "select.select",
        "struct.Struct",
        "struct.pack",
        "queue.SimpleQueue",
        "re.compile",
        "functools.partial",
    ),
    *(
        "ast.Module",
        "ast.AST",
        "ast.Name",
        "ast.parse",
        "ast.iter_child_nodes",
        "ast.PyCF_ONLY_AST",
        "collections.deque",
    ),
    *(
        "os.read",
        "os.write",
        "os.getcwd",
        "os.getpid",
        "os.fork",
        "os._exit",
        "os.killpg",
        "os.fstat",
        "os.path.expanduser",
    ),
    *(
        "threading.Thread",
        "threading.Timer",
        "threading.Lock",
        "_thread.interrupt_main",
        "_thread._count",
    ),
    *(
        "time.time",
        "time.monotonic",
        "time.perf_counter",
        "time.sleep",
        "signal.signal",
        "signal.getsignal",
        "signal.pthread_sigmask",
    ),
    *(
        "sys.getrecursionlimit",
        "sys.gettrace",
        "sys.settrace",
        "sys._getframe",
        "sys.exc_info",
        "sys.audit",
    ),
    *(
        "contextlib.suppress",
        "contextlib.nullcontext",
        "types.ModuleType",
        "traceback.TracebackException",
        "traceback.StackSummary",
    ),
    *(
        "gc.collect",
        "importlib.import_module",
        "importlib.machinery.PathFinder",
        "io.StringIO",
        "errno.EPIPE",
    ),
)


@pytest.mark.timeout(240)
def test_monkeypatched_library_functions_affect_only_the_users_code(cells: Cells) -> None:
    pid, restore = cells.kernel.info().pid, ""
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
        assert "x" in {variable.name for variable in cells.kernel.variables()}, name
        restore = f"owner.{attribute} = before"
    assert cells.text(f"{restore}\nx") == "[1, 2]\n"
    assert cells.kernel.info().pid == pid


@pytest.mark.parametrize(
    "name",
    ["time.monotonic", "select.poll", "threading.Timer", "_thread.interrupt_main", "os.killpg"],
)
def test_code_that_patched_a_library_function_can_be_interrupted(cells: Cells, name: str) -> None:
    code = f"import {name.partition('.')[0]}\n{name} = None\nprint('go')\nwhile True: pass"
    assert cells.interrupt_after("go", code).status is Status.INTERRUPTED
    assert cells.text("1 + 1") == "2\n"


def test_broken_event_loop_fails_and_the_kernel_continues(cells: Cells) -> None:
    cells.run(
        "import asyncio, time\nawait asyncio.sleep(0)\nbefore, time.monotonic = time.monotonic, None"
    )
    assert cells.text("time.monotonic = before\n1 + 1").endswith("2\n")
    assert cells.text("await asyncio.sleep(0, 3)") == "3\n"


def test_output_before_closing_fd_1_is_not_lost(cells: Cells) -> None:
    assert "pending\n" in cells.run("import os; print('pending'); os.close(1); os.close(2)").output


def test_users_name_shadowing_a_builtin_is_respected(cells: Cells) -> None:
    cells.run("def print(text): __builtins__.print('mine:', text)")
    assert cells.text("print('hello')") == "mine: hello\n"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("raise ValueError('in repr')", "ValueError: in repr"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return 5", "__repr__ returned non-string"),
        ("return chr(0xd800) + chr(0)", "\ud800\0\n"),
        ("return type('S', (str,), {'__add__': None, '__str__': None})('sub')", "sub\n"),
        ("return repr(self)", "RecursionError"),
    ],
    ids=["raises", "exits", "no string", "surrogate", "subclass", "recursion"],
)
def test_misbehaving_repr_is_shown_as_it_is(cells: Cells, body: str, wanted: str) -> None:
    result = cells.run(f"class A:\n    def __repr__(self): {body}\nA()")
    assert wanted in result.output
    assert cells.text("1 + 1") == "2\n"


def test_endless_repr_can_be_interrupted(cells: Cells) -> None:
    code = "class A:\n    def __repr__(self):\n        print('go')\n        while True: pass\nA()"
    assert cells.interrupt_after("go", code).status is Status.INTERRUPTED


def test_endless_exception_text_can_be_interrupted(cells: Cells) -> None:
    code = "class E(Exception):\n    def __str__(self):\n        print('go')\n        while True: pass\nraise E"
    assert "E" in cells.interrupt_after("go", code).output
    assert cells.text("1 + 1") == "2\n"


def test_sys_exit_ends_the_cell_but_not_the_kernel(cells: Cells) -> None:
    result = cells.run("import sys\nx = 1\nsys.exit(3)\nx = 2")
    assert (result.status, result.output) == (Status.OK, "SystemExit: 3\n")
    assert cells.text("x") == "1\n"


def test_threads_printing_after_their_cell_give_background_output(cells: Cells) -> None:
    result = cells.run(
        "import threading\nthreading.Timer(0.05, print, ['from a thread']).start()\nprint('cell')"
    )
    assert result.output == "cell\n"
    assert cells.host.wait_for_late("from a thread\n") == "from a thread\n"


def test_children_printing_after_their_cell_give_background_output(cells: Cells) -> None:
    wait = "while [ ! -e go ]; do sleep 0.01; done; echo from a child"
    cells.run(f"import subprocess\np = subprocess.Popen(['sh', '-c', {wait!r}])")
    Path("go").touch()
    assert cells.host.wait_for_late("from a child\n") == "from a child\n"


def test_forked_child_leaving_its_cell_ends(cells: Cells) -> None:
    code = "import os, sys\npid = os.fork()\nprint('child' if pid == 0 else 'parent' * bool(os.waitpid(pid, 0)))"
    assert cells.text(code) == "child\nparent\n"
    assert cells.text("1 + 1") == "2\n"


@pytest.mark.parametrize(("body", "code"), [("sys.exit(7)", 7), ("1 / 0", 1), ("pass", 0)])
def test_exit_code_of_a_forked_child_follows_its_code(cells: Cells, body: str, code: int) -> None:
    source = f"import os, sys\npid = os.fork()\nif pid == 0:\n    {body}\nelse:\n    status = os.waitpid(pid, 0)[1]"
    cells.run(source)
    assert cells.text("os.WEXITSTATUS(status)") == f"{code}\n"


def test_forked_child_cannot_talk_to_the_session(cells: Cells) -> None:
    code = "import os\npid = os.fork()\nif pid == 0:\n    input('?')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')"
    assert "cannot reach the session" in cells.run(code).output
    assert cells.host.calls.empty()


def test_multiprocessing_works(cells: Cells) -> None:
    code = "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool:\n    r = pool.map(abs, [-1, -2])\nr"
    assert cells.text(code) == "[1, 2]\n"
    code = (
        "with multiprocessing.get_context('spawn').Pool(1) as pool:\n    r = pool.map(abs, [-3])\nr"
    )
    assert cells.text(code) == "[3]\n"


def test_frames_written_to_small_or_inherited_descriptors_are_ignored(cells: Cells) -> None:
    code = """
import json, os, struct, subprocess, sys
done = {"op": "done", "cell": 1, "status": "ok", "pieces": [["value", "forged"]], "changes": [], "duration": 0, "cwd": ""}
body = json.dumps(done)
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
    assert cells.text("1 + 1") == "2\n"


def test_garbage_on_the_real_connection_ends_only_the_kernel(
    cells: Cells,
) -> None:
    code = """
import os, socket, stat
for fd in range(3, 1100):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b"garbage, not a frame")
    except OSError: pass
"""
    result = cells.run(code)
    assert result.status is Status.DIED
    assert "connection" in result.detail
    assert cells.text("1 + 1") == "2\n"


def test_limited_output_stops_a_cell_with_advice(cells: Cells) -> None:
    result = cells.run("print('x' * 9_999)\nprint('more')\nprint('never')", limit=10_000)
    assert (result.status, result.output[:10_000]) == (Status.ERROR, "x" * 9_999 + "\n")
    assert "OutputLimitError: more than 10,000 characters" in result.output
    assert "peek" in result.output
    assert "grep" in result.output
    assert cells.run("print('x' * 9_999)", limit=10_000).status is Status.OK


def test_output_limit_counts_stderr_and_the_value_too(cells: Cells) -> None:
    result = cells.run(
        "import sys\nprint('x' * 500)\nsys.stderr.write('y' * 500);\n'z' * 500", limit=1000
    )
    assert result.status is Status.ERROR
    assert result.kinds[0] == ("stdout", 1000)


@pytest.mark.parametrize(
    "code", ["import os; os.system('yes')", "import os\nwhile True: os.write(1, b'x' * 1000)"]
)
def test_children_and_descriptors_respect_the_output_limit_too(cells: Cells, code: str) -> None:
    result = cells.run(code, limit=10_000)
    assert result.status is Status.ERROR
    assert result.kinds[0] == ("stdout", 10_000)
    assert "OutputLimitError" in result.output
    assert cells.text("1 + 1") == "2\n"
