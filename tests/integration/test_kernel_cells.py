"""Results of a cell: output in order, values, tracebacks, changes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mahtab_tui.bus.values import Status
from tests.integration.kernels import Cells

WAIT = "import os, time\nprint('started')\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def test_last_expression_is_shown_and_stored(cells: Cells) -> None:
    result = cells.run("print('a')\n6 * 7")
    assert (result.output, result.kinds) == ("a\n42\n", (("stdout", 2), ("value", 3)))
    cells.expect("_ + 1", "43\n")
    cells.expect("';'  # ;", "';'\n")


@pytest.mark.parametrize(
    "code", ["5;", "(1 +\n 4) ;  # hidden", "None", "x = 5", "'ä';", "", "# only a comment"]
)
def test_semicolons_and_statements_show_no_value(cells: Cells, code: str) -> None:
    cells.expect(code, "")


def test_output_of_all_sources_is_in_write_order(cells: Cells) -> None:
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
    result = cells.run_until("started", Path("go").touch, f"{WAIT}print('went on')")
    assert result.output == "started\nwent on\n"


def test_a_million_lines_arrive_whole(cells: Cells) -> None:
    cells.expect("for i in range(1_000_000): print(i)", "".join(f"{i}\n" for i in range(1_000_000)))


def test_endless_output_is_reduced(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.kernel.terminal_output.MAX_HEAD_CHARS", 1000)
    result = cells.kernel.execute(
        "print('head'); print('x' * 1_000_000); print('tail')",
        cell=1,
        on_output=lambda kind, text: None,
    )
    assert result.output.startswith("head\nxxx")
    assert result.output.endswith("xxx\ntail\n")
    assert "\n… 998,011 characters left out …\n" in result.output
    assert sum(count for _, count in result.kinds) == len(result.output)


def test_undecodable_output_is_made_visible(cells: Cells) -> None:
    cells.expect(
        r"import os; os.write(1, b'a\xffb\n'); print('\ud800|\0|')", "a\ufffdb\n\\ud800|\0|\n"
    )
    cells.expect(r"'\ud800'", "'\\ud800'\n")


def test_tasks_continue_after_a_top_level_await(cells: Cells) -> None:
    cells.expect(
        "import asyncio\nawait asyncio.sleep(0.001)\nawait asyncio.sleep(0, 'slept')", "'slept'\n"
    )
    cells.run("""
import os
async def later():
    while not os.path.exists('go'): await asyncio.sleep(0.01)
    print('in the background')
async def begin():
    global task
    task = asyncio.create_task(later())
await begin()
""")
    Path("go").touch()
    assert "in the background" in cells.host.wait_for_late("background\n")
    cells.expect("1 + 1", "2\n")


def test_asyncio_run_works_before_and_after_an_await(cells: Cells) -> None:
    code = "import asyncio\nasync def f(): return await asyncio.sleep(0, 'ran')\nasyncio.run(f())"
    for cell_code in (code, "await f()", code):
        cells.expect(cell_code, "'ran'\n")


def test_tasks_of_plain_code_can_be_awaited_later(cells: Cells) -> None:
    # asyncio is loaded by this very cell; `create_task` and `ensure_future` want a running loop.
    code = "import asyncio\nasync def f(): return 5\nt, u = asyncio.create_task(f()), asyncio.ensure_future(f())\nawait t"
    cells.expect(code, "5\n")
    cells.expect("await u", "5\n")
    cells.expect("asyncio.create_task(f());", "")
    cells.expect("await asyncio.sleep(0)\nasyncio.current_task() is not None", "True\n")
    cells.expect("asyncio.get_event_loop().run_until_complete(f()), asyncio.run(f())", "(5, 5)\n")
    cells.expect("asyncio.run(f())\nasyncio.get_running_loop() is t.get_loop()", "True\n")


def test_threads_and_children_see_no_running_loop(cells: Cells) -> None:
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
    cells.expect(code, "none runs\n" * 3)


def test_context_variables_persist_between_cells(cells: Cells) -> None:
    cells.run("import asyncio, contextvars\nv = contextvars.ContextVar('v')")
    cells.run("await asyncio.sleep(0)\nv.set(1);")
    cells.expect("v.get()", "1\n")
    cells.expect("v.set(2); await asyncio.sleep(0, v.get())", "2\n")
    cells.expect("v.get()", "2\n")


def test_forgotten_coroutine_is_reported_once(cells: Cells) -> None:
    cells.run("import asyncio\nasync def f(): pass\nc = f()")
    cells.run("await asyncio.sleep(0)\nasyncio.run(f())")
    assert "awaited" not in cells.run("1 / 0").output  # that frees the coroutine
    cells.expect(
        "f()\nawait c", "In [4]:1: RuntimeWarning: coroutine 'f' was never awaited\n  f()\n"
    )


def test_spawned_processes_can_use_code_of_cells(cells: Cells) -> None:
    cells.run(
        """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing, threading
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
        cells.expect(code.format(method, calls), "True 12\n")


def test_threads_can_spawn_processes_at_the_same_time(cells: Cells) -> None:
    cells.run(
        """
import multiprocessing, threading
def double(number): return 2 * number
context = multiprocessing.get_context("spawn")
processes = [context.Process(target=double, args=(number,)) for number in range(4)]
threads = [threading.Thread(target=process.start) for process in processes]"""
    )
    cells.expect(
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "for process in processes: process.join()\n"
        "print([process.exitcode for process in processes])",
        "[0, 0, 0, 0]\n",
    )


def test_traceback_shows_only_cell_frames(cells: Cells) -> None:
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
    ("code", "error"),
    [
        ("x = = 1", "SyntaxError"),
        ("def f(:\n  pass", "    def f(:"),
        ("return 5", "outside function"),
        ("print('ran'); x = (1", "SyntaxError"),
        ("a\0b", "null bytes"),
        ("'\ud800'", "surrogates not allowed"),
        ("-" * 100_000 + "1", "Error"),
        ("x = 1\n  indented", "IndentationError"),
    ],
)
def test_none_of_invalid_python_runs(cells: Cells, code: str, error: str) -> None:
    result = cells.run(code)
    assert result.status is Status.ERROR
    assert error in result.output
    assert "Traceback" not in result.output
    assert "ran" not in result.output.replace("print('ran')", "")
    cells.expect("1 + 1", "2\n")


def test_changes_are_reported_even_after_a_failure(cells: Cells) -> None:
    for code, changes in (
        ("x = 1\ny = 2\n1 / 0", {"x": "added", "y": "added"}),
        ("x = ['new']\ndel y", {"x": "rebound", "y": "deleted"}),
        ("x[0] = 2\n1 / 0", {"x": "changed"}),
        ("1 + 1", {}),
    ):
        assert {variable.name: variable.change for variable in cells.run(code).changes} == changes


@pytest.mark.parametrize(
    ("code", "changed_names"),
    [
        ("x = missing", ""),
        ("x: int = missing", ""),
        ("x = (\n    missing\n)", ""),
        ("1 / 0\nx = y = 3", ""),
        ("x = await missing()", ""),
        ("@missing\ndef x(): pass", ""),
        ("y = 3\nx = missing", "y"),
        ("for x in [3, 0]:\n    1 / x", "x"),
        ("x, y = 3, missing", "x y"),
    ],
)
def test_cell_that_fails_has_not_changed_what_it_did_not_reach(
    cells: Cells, code: str, changed_names: str
) -> None:
    cells.run("x, y = [1], [2]")
    result = cells.run(code)
    assert result.status is Status.ERROR
    assert {change.name for change in result.changes} == set(changed_names.split())


def test_columns_that_came_or_went_are_named(cells: Cells) -> None:
    pytest.importorskip("pandas")
    cells.run("import pandas as pd\ndf = pd.DataFrame({'a': [1], 'b': [2]})")
    for code, columns in (
        ("df['z'] = 3", "+ column `z`"),
        ("del df['a'], df['b']", "− columns `a`, `b`"),
        ("df = df.rename(columns={'z': 'y'})", "+ column `y`, − column `z`"),
        ("df.loc[0, 'y'] = 9", "column `y`"),
        ("df.loc[0, 'y'] = 9", ""),
    ):
        (change,) = cells.run(code).changes
        assert change.columns == columns


def test_columns_with_new_types_or_values_are_named(cells: Cells) -> None:
    pytest.importorskip("pandas")
    cells.run(
        "import pandas as pd\n"
        "orders = pd.DataFrame({'date': ['2026-01-02', '2026-01-03'], 'price': [1, 2], 'n': [3, 4]})"
    )
    for code, changed in (
        ("orders['date'] = pd.to_datetime(orders['date'])", "column `date`: str → datetime64[us]"),
        ("orders['price'] = orders['price'] * 2", "column `price`"),
        ("orders['price'] = orders['price'] * 1", ""),
        (
            "orders = orders.astype({'price': float, 'n': float})",
            "columns `price`, `n`: int64 → float64",
        ),
        ("orders = orders.set_index('date')", "− column `date`, index: range → `date`"),
        ("orders = orders * 2", ""),
        ("orders = orders.head(1)", ""),
    ):
        (change,) = cells.run(code).changes
        assert (change.name, change.columns) == ("orders", changed)


def test_no_column_of_a_table_that_was_only_read_is_named(cells: Cells) -> None:
    pytest.importorskip("pandas")
    cells.run("import pandas as pd\ndf = pd.DataFrame({'a': [1.5, None], 'b': ['x', None]})")
    cells.run("df['z'] = [1.5, 2.5]")
    # Both bring the numbers of a table together in new memory.
    changes = cells.run("df._consolidate_inplace(); df.fillna(0); df.describe()").changes
    assert all(change.columns == "" for change in changes)


def test_changed_keys_of_a_dict_are_named(cells: Cells) -> None:
    cells.run("settings = {'rate': 1, 'name': 'a', 3: 0}")
    for code, changed in (
        ("settings['rate'] = 'high'", "key `rate`: int → str"),
        ("settings['name'] = 'b'", "key `name`"),
        ("settings['new'] = 1; del settings['name']", "+ key `new`, − key `name`"),
        ("settings[3] = 1", ""),
    ):
        (change,) = cells.run(code).changes
        assert (change.name, change.columns) == ("settings", changed)


def test_large_values_have_a_size(cells: Cells) -> None:
    pytest.importorskip("pandas")
    cells.run(
        "import numpy as np, pandas as pd\nbig, small = np.zeros(1_000_000), np.zeros(10)\n"
        "df, text = pd.DataFrame({'x': np.zeros(50_000)}), 'x' * 300_000"
    )
    sizes = {variable.name: variable.size for variable in cells.kernel.variables()}
    assert (sizes["big"], sizes["small"]) == (8_000_000, 0)
    assert sizes["df"] == 400_000
    assert sizes["text"] >= 300_000


def test_cells_have_their_own_main_module(cells: Cells) -> None:
    cells.expect("__name__", "'__main__'\n")
    cells.expect("import sys; vars(sys.modules['__main__']) is globals()", "True\n")
    cells.expect(
        "class A: ...\nimport pickle; type(pickle.loads(pickle.dumps(A()))) is A", "True\n"
    )
    cells.expect("sys.argv, sys.path[0]", "([''], '')\n")


def test_details_are_available_while_a_cell_runs(cells: Cells) -> None:
    details: list[str] = []

    def look() -> None:
        details.extend(cells.names())
        details.append(cells.kernel.inspect("answer").text)
        Path("go").touch()

    # On a thread of its own: `run_until` calls back on the thread that reads the answers.
    begin = threading.Thread(target=look).start
    assert cells.run_until("started", begin, f"answer = 42\n{WAIT}").status is Status.OK
    assert "answer" in details
    assert details[-1] == "42"


def test_screen_width_and_colour_reach_the_code(cells: Cells) -> None:
    cells.kernel.set_size(117, 33)
    cells.expect("import shutil; tuple(shutil.get_terminal_size())", "(117, 33)\n")
    cells.expect("import os; os.environ['FORCE_COLOR'], 'NO_COLOR' in os.environ", "('1', False)\n")


def test_shells_and_pandas_use_the_screen_width(cells: Cells) -> None:
    cells.run("import pandas as pd")
    for least, width in ((100, 117), (0, 60)):
        cells.kernel.set_size(width, 33)
        cells.expect("!echo $COLUMNS", f"{width}\n")
        table = cells.text("print(pd.DataFrame([range(10_000, 10_030)]))")
        assert least < max(map(len, table.splitlines())) <= width
    cells.run("pd.set_option('display.width', 70)\nimport pandas.testing")
    cells.expect("pd.get_option('display.width')", "70\n")


def test_working_directory_changes(cells: Cells) -> None:
    Path("inner").mkdir()
    Path("inner/mine.py").write_text("x = 'mine'")
    assert cells.kernel.change_directory("inner").endswith("inner")
    cells.expect("import mine; mine.x", "'mine'\n")
    with pytest.raises(Exception, match="No such file"):
        cells.kernel.change_directory("nowhere")
    assert cells.kernel.info().cwd.endswith("inner")


@pytest.mark.parametrize(("args", "row"), [("", 3), ("('x' * 5_000_000)", 0)])
def test_omitted_frame_maps_to_no_line(cells: Cells, args: str, row: int) -> None:
    (frame,) = cells.run(f"raise ValueError{args}").frames
    assert (frame.line, frame.row) == (1, row)


def test_first_cells_load_no_module_to_compare_values(cells: Cells) -> None:
    cells.run("import os, sys\ndef double(number): return 2 * number\nprice = 3\nprices = [3, 4]")
    cells.expect("{'datetime', 'decimal', 'hashlib', 'pathlib'} & {*sys.modules}", "set()\n")


def test_source_and_future_imports_persist(cells: Cells) -> None:
    cells.run("from __future__ import annotations\nimport inspect\ndef f():\n    return 'here'")
    cells.expect("def g(x: undefined): ...\ng.__annotations__", "{'x': 'undefined'}\n")
    cells.expect("print(inspect.getsource(f))", "def f():\n    return 'here'\n\n")
