"""Results of a cell: output in order, values, tracebacks, changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.values import Status
from tests.integration.kernels import Cells


def test_last_expression_is_shown_and_stored_as_underscore(cells: Cells) -> None:
    result = cells.run("print('a')\n6 * 7")
    assert (result.output, result.kinds) == ("a\n42\n", (("stdout", 2), ("value", 3)))
    assert cells.text("_ + 1") == "43\n"


@pytest.mark.parametrize(
    "code", ["5;", "(1 +\n 4) ;  # hidden", "None", "x = 5", "'ä';", "", "# only a comment"]
)
def test_a_semicolon_none_and_statements_show_no_value(cells: Cells, code: str) -> None:
    assert cells.text(code) == ""
    assert cells.text("';'  # ;") == "';'\n"


def test_output_of_python_children_and_c_code_is_in_write_order(
    cells: Cells,
) -> None:
    code = """
import ctypes, os, subprocess, sys
print("1 out")
print("2 err", file=sys.stderr)
print("3 out")
os.system("echo 4 system")
print("5 out", end="; ")
subprocess.run(["sh", "-c", "echo 6 child; echo 7 child >&2"])
sys.stdout.write("8 out\\n")
os.write(1, b"")
if os.fork() == 0:
    print("9 fork")
    os._exit(0 if sys.stdout.flush() is None else 1)
os.wait()
ctypes.CDLL(None).puts(b"10 C")
"end"
"""
    lines = cells.text(code).replace("; ", "\n").splitlines()
    assert [line.split()[0] for line in lines] == [*"123456789", "10", "'end'"]


def test_output_streams_while_the_cell_still_runs(cells: Cells) -> None:
    go = Path("go")
    code = "import os, time\nprint('started')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('went on')"
    assert cells.run_until("started", go.touch, code).output == "started\nwent on\n"


def test_a_million_lines_arrive_whole(cells: Cells) -> None:
    assert cells.text("for i in range(1_000_000): print(i)") == "".join(
        f"{i}\n" for i in range(1_000_000)
    )


def test_endless_output_is_reduced_to_head_and_tail(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.kernel.cells.KEEP", 1000)
    result = cells.kernel.execute(
        "print('head'); print('x' * 1_000_000); print('tail')",
        cell=1,
        on_output=lambda kind, text: None,
    )
    assert result.output.startswith("head\nxxx")
    assert result.output.endswith("xxx\ntail\n")
    assert "\n… 998,011 characters left out …\n" in result.output
    assert sum(count for _, count in result.kinds) == len(result.output)


def test_undecodable_bytes_and_lone_surrogates_are_made_visible(cells: Cells) -> None:
    assert (
        cells.text(r"import os; os.write(1, b'a\xffb\n'); print('\ud800|\0|')")
        == "a\ufffdb\n\\ud800|\0|\n"
    )
    assert cells.text(r"'\ud800'") == "'\\ud800'\n"


def test_top_level_await_works_and_tasks_continue_between_cells(cells: Cells) -> None:
    assert (
        cells.text("import asyncio\nawait asyncio.sleep(0.001)\nawait asyncio.sleep(0, 'slept')")
        == "'slept'\n"
    )
    code = """
async def later():
    while not os.path.exists('go'): await asyncio.sleep(0.01)
    print('in the background')
async def begin():
    global task
    task = asyncio.create_task(later())
import os
await begin()
"""
    cells.run(code)
    Path("go").touch()
    assert "in the background" in cells.host.wait_for_late("background\n")
    assert cells.text("1 + 1") == "2\n"


def test_asyncio_run_works_in_a_plain_cell_before_and_after_an_await(cells: Cells) -> None:
    code = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 'ran'\nasyncio.run(f())"
    assert cells.text(code) == "'ran'\n"
    assert cells.text("await f()") == "'ran'\n"
    assert cells.text(code) == "'ran'\n"


def test_tasks_created_by_plain_code_can_be_awaited_there_and_later(
    cells: Cells,
) -> None:
    # asyncio is loaded by this very cell; `create_task` and `ensure_future` want a running loop.
    code = "import asyncio\nasync def f(): return 5\nt, u = asyncio.create_task(f()), asyncio.ensure_future(f())\nawait t"
    assert cells.text(code) == "5\n"
    assert cells.text("await u") == "5\n"
    assert cells.text("asyncio.create_task(f());") == ""
    assert cells.text("await asyncio.sleep(0)\nasyncio.current_task() is not None") == "True\n"
    assert (
        cells.text("asyncio.get_event_loop().run_until_complete(f()), asyncio.run(f())")
        == "(5, 5)\n"
    )
    assert cells.text("asyncio.run(f())\nasyncio.get_running_loop() is t.get_loop()") == "True\n"


def test_threads_and_children_of_a_cell_see_no_running_loop(cells: Cells) -> None:
    code = """
import asyncio, os, threading
def check():
    try: asyncio.get_running_loop()
    except RuntimeError: print(asyncio.run(asyncio.sleep(0, 'none runs')), flush=True)
thread = threading.Thread(target=check)
thread.start()
thread.join()
if os.fork() == 0:
    check()
    check()
    os._exit(0)
os.wait();
"""
    assert cells.text(code) == "none runs\n" * 3


def test_context_variables_set_by_a_cell_persist_in_the_next_one(cells: Cells) -> None:
    cells.run(
        "import asyncio, contextvars\nv = contextvars.ContextVar('v')\nawait asyncio.sleep(0)\nv.set(1);"
    )
    assert cells.text("v.get()") == "1\n"
    assert cells.text("v.set(2); await asyncio.sleep(0, v.get())") == "2\n"
    assert cells.text("v.get()") == "2\n"


def test_a_coroutine_that_is_never_awaited_is_reported_once_with_its_own_cell(cells: Cells) -> None:
    cells.run("import asyncio\nasync def f(): pass\nc = f()")
    cells.run("await asyncio.sleep(0)\nasyncio.run(f())")
    assert "awaited" not in cells.run("1 / 0").output  # that frees the coroutine
    assert (
        cells.text("f()\nawait c")
        == "In [4]:1: RuntimeWarning: coroutine 'f' was never awaited\n  f()\n"
    )


def test_spawned_processes_can_use_functions_and_classes_of_cells(cells: Cells) -> None:
    cells.run(
        """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing, os, threading
lock, base = threading.Lock(), 10
class Boxed:
    def __init__(self, value): self.value = base + value
def box(value): return Boxed(value)
def unbox(boxed): return boxed.value
def locks(value): return lock.locked()"""
    )
    code = "with ProcessPoolExecutor(1, multiprocessing.get_context('{}')) as pool: print({})"
    # A class goes there and comes back as itself, although one function uses what cannot be sent.
    calls = "isinstance(pool.submit(box, 1).result(), Boxed), pool.submit(unbox, Boxed(2)).result()"
    for method in ("spawn", "forkserver"):
        assert cells.text(code.format(method, calls)) == "True 12\n"


def test_traceback_shows_the_cells_lines_and_no_internal_frames(cells: Cells) -> None:
    cells.run("def half(x):\n    return x / 0")
    result = cells.run("print('before')\nhalf(3)")
    assert result.status is Status.ERROR
    assert [kind for kind, _ in result.kinds] == ["stdout", "traceback"]
    assert "    half(3)\n" in result.output
    assert "    return x / 0\n" in result.output
    assert result.output.endswith("ZeroDivisionError: division by zero\n")
    assert "worker" not in result.output
    assert result.output.count("File ") == 2


def test_error_ends_with_a_useful_hint(cells: Cells) -> None:
    cells.run("import pandas\ntitanic = pandas.DataFrame({'Fare': [1]})")
    result = cells.run("titanic['fare']")
    assert result.output.endswith(
        "KeyError: 'fare'\nHint: there is no column 'fare'. Did you mean 'Fare'? Columns of titanic: Fare\n"
    )
    assert result.kinds == (("traceback", len(result.output)),)
    lines = result.output.split("\n")
    assert "frames in pandas" in lines[-1 - result.frames[-1].row]
    hint = "Hint: there is no file 'x.csv'. The table is loaded already: titanic ("
    assert hint in cells.run("pandas.read_csv('x.csv')").output


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("x = = 1", "SyntaxError"),
        ("def f(:\n  pass", "    def f(:"),
        ("return 5", "outside function"),
        ("print('ran'); x = (1", "SyntaxError"),
        ("a\0b", "null bytes"),
        ("'\ud800'", "surrogates not allowed"),
        ("-" * 100_000 + "1", "Error"),
        ("  indented", "IndentationError"),
    ],
    ids=["assignment", "parameters", "return", "half", "NUL", "surrogate", "deep", "indent"],
)
def test_invalid_python_is_an_error_and_none_of_it_runs(
    cells: Cells, code: str, wanted: str
) -> None:
    result = cells.run(code)
    assert result.status is Status.ERROR
    assert wanted in result.output
    assert "Traceback" not in result.output
    assert "ran" not in result.output.replace("print('ran')", "")
    assert cells.text("1 + 1") == "2\n"


def test_changes_name_bound_and_deleted_names_even_after_a_failure(cells: Cells) -> None:
    assert {c.name: c.change for c in cells.run("x = 1\ny = 2\n1 / 0").changes} == {
        "x": "added",
        "y": "added",
    }
    assert {c.name: c.change for c in cells.run("x = ['new']\ndel y").changes} == {
        "x": "rebound",
        "y": "deleted",
    }
    failed = cells.run("x[0] = 2\n1 / 0")
    assert [(c.name, c.change) for c in failed.changes] == [("x", "changed")]
    assert cells.run("1 + 1").changes == ()


def test_cells_have_their_own_main_module(cells: Cells) -> None:
    assert cells.text("__name__") == "'__main__'\n"
    assert cells.text("import sys; vars(sys.modules['__main__']) is globals()") == "True\n"
    assert (
        cells.text("class A: ...\nimport pickle; type(pickle.loads(pickle.dumps(A()))) is A")
        == "True\n"
    )
    assert cells.text("sys.argv, sys.path[0]") == "([''], '')\n"


def test_variables_and_details_are_available_while_a_cell_runs(cells: Cells) -> None:
    seen: list[str] = []

    def look() -> None:
        seen.extend(variable.name for variable in cells.kernel.variables())
        seen.append(cells.kernel.inspect("answer").text)
        Path("go").touch()

    import threading

    code = "import os, time\nanswer = 42\nprint('started')\nwhile not os.path.exists('go'): time.sleep(0.01)"
    # On a thread of its own: `run_until` calls back on the thread that reads the answers.
    assert cells.run_until("started", threading.Thread(target=look).start, code).status is Status.OK
    assert "answer" in seen
    assert seen[-1] == "42"


def test_screen_width_and_colour_reach_the_code(cells: Cells) -> None:
    cells.kernel.set_size(117, 33)
    assert cells.text("import shutil; tuple(shutil.get_terminal_size())") == "(117, 33)\n"
    assert (
        cells.text("import os; os.environ['FORCE_COLOR'], 'NO_COLOR' in os.environ")
        == "('1', False)\n"
    )


def test_shells_and_pandas_use_the_screen_width_unless_the_user_sets_one(cells: Cells) -> None:
    cells.kernel.set_size(117, 33)
    assert cells.text("!echo $COLUMNS") == "117\n"
    table = cells.text("import pandas as pd\nprint(pd.DataFrame([range(10_000, 10_030)]))")
    assert 100 < max(map(len, table.splitlines())) <= 117
    cells.kernel.set_size(60, 33)
    table = cells.text("print(pd.DataFrame([range(10_000, 10_030)]))")
    assert max(map(len, table.splitlines())) <= 60
    cells.run("pd.set_option('display.width', 70)\nimport pandas.testing")
    assert cells.text("pd.get_option('display.width')") == "70\n"


def test_working_directory_can_change_and_a_missing_one_is_an_error(cells: Cells) -> None:
    Path("inner").mkdir()
    Path("inner/mine.py").write_text("x = 'mine'")
    assert cells.kernel.change_directory("inner").endswith("inner")
    assert cells.text("import mine; mine.x") == "'mine'\n"
    with pytest.raises(Exception, match="No such file"):
        cells.kernel.change_directory("nowhere")
    assert cells.kernel.info().cwd.endswith("inner")


def test_omitted_frames_of_a_traceback_map_to_no_line(cells: Cells) -> None:
    assert [
        (frame.line, frame.row) for frame in cells.run("raise ValueError('x' * 5_000_000)").frames
    ] == [(1, 0)]
    assert [(frame.line, frame.row) for frame in cells.run("raise ValueError").frames] == [(1, 3)]


def test_future_imports_of_one_cell_apply_to_the_next(cells: Cells) -> None:
    cells.run("from __future__ import annotations")
    assert cells.text("def f(x: undefined): ...\nf.__annotations__") == "{'x': 'undefined'}\n"


def test_source_of_functions_of_cells_is_found(cells: Cells) -> None:
    cells.run("def f():\n    return 'here'")
    assert (
        cells.text("import inspect; print(inspect.getsource(f))")
        == "def f():\n    return 'here'\n\n"
    )
