"""Sessions and notebooks that are run again, in real kernels: what is the same, and what is
safe."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

from mahtab_tui.bus.masking import MASK
from mahtab_tui.cli.main import app
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.checking import check as check_module
from mahtab_tui.session.checking.check import (
    Check,
    CheckReport,
    notebook_check,
    session_check,
    unprotected_reason,
)
from mahtab_tui.session.checking.check_folder import (
    CheckError,
    checks_folder,
    remove_abandoned_folders,
)
from mahtab_tui.session.checking.comparison import Comparison, Judgement, compare_outcomes
from mahtab_tui.session.checking.fresh_run import CheckStopped
from mahtab_tui.session.checking.project_copy import ProjectCopy
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.forks import forked_store
from mahtab_tui.store.resume import find_session, new_store
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.store.session_list import SessionRow
from tests.waiting import wait_for

confined = pytest.mark.skipif(bool(unprotected_reason()), reason="files cannot be protected here")
TIMEOUT_S = 60.0


class CheckedSession:
    """A session that is open, and saved in a folder; a new one, or a copy of another."""

    def __init__(self, project: Path, row: SessionRow | None = None) -> None:
        opened = new_store(project) if row is None else forked_store(row, variables=True)
        store = opened.store
        kernel = ProcessKernel(keep=save_target(store.session, 200))
        self.session = Session(
            load_settings(),
            kernel,
            HeadlessFrontend(),
            store=store,
            past=opened.past,
            name="test",
            by_program=True,
        )
        self.session.start()
        self._store = store

    def run(self, *codes: str) -> CheckedSession:
        for code in codes:
            self.session.cells.run(code)
        return self

    def close(self) -> SessionRow:
        self.session.close()
        return find_session(self._store.session, None)


@pytest.fixture
def saved_session(project: Path) -> Callable[..., CheckedSession]:
    return lambda *codes: CheckedSession(project).run(*codes)


def run(check: Check, **options: float) -> CheckReport:
    report = check.run(lambda text: None, **options)
    assert list(checks_folder().iterdir()) == [], "nothing is left behind"
    return report


def checked(row: SessionRow) -> dict[str, Comparison]:
    report = run(session_check(row, load_settings()))
    return {comparison.name: comparison for comparison in report.comparisons}


def verdicts(comparisons: dict[str, Comparison]) -> dict[str, str]:
    return {name: comparison.verdict for name, comparison in comparisons.items()}


def write_notebook(path: Path, *cells: object) -> Path:
    nbformat.write(new_notebook(cells=list(cells)), str(path))
    return path


def cell(code: str, *outputs: object) -> object:
    return new_code_cell(code, execution_count=1, outputs=list(outputs))


def value(text: str) -> object:
    return new_output("execute_result", data={"text/plain": text}, execution_count=1)


def check_notebook(path: Path, **options: float) -> dict[str, Comparison]:
    report = run(notebook_check(path, load_settings()), **options)
    return {comparison.name: comparison for comparison in report.comparisons}


def test_results_and_variables_that_hold_are_the_same(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    (project / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    row = saved_session(
        "import pandas as pd\ndf = pd.read_csv('rows.csv')\ndf",
        "total = int(df.a.sum()); names = {'x', 'y', 'z', ('t', 1)}; total",
        "1 / 0",
        "def f(): return total",
        "print(f(), open('rows.csv').read())",
    ).close()
    comparisons = checked(row)
    assert verdicts(comparisons) == {
        **{f"In {number}": "same" for number in range(1, 6)},
        **dict.fromkeys(("df", "total", "names"), "same"),
    }


def test_a_changed_file_shows_both_results_and_the_variable(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    (project / "n.txt").write_text("3")
    row = saved_session(
        "n = int(open('n.txt').read())", "print('a'); print(n); print('z')", "'still'"
    ).close()
    (project / "n.txt").write_text("4")
    comparisons = checked(row)
    assert verdicts(comparisons) == {
        "In 1": "same",
        "In 2": "different",
        "In 3": "same",
        "n": "different",
    }
    assert (comparisons["In 2"].before, comparisons["In 2"].now) == ("3", "4")
    assert (comparisons["n"].before, comparisons["n"].now) == ("int 3", "int 4")


def test_a_value_that_is_only_described_alike_is_different(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    (project / "n.txt").write_text("3")
    row = saved_session("import numpy as np; a = np.zeros(50); a[7] = int(open('n.txt').read())")
    saved = row.close()
    (project / "n.txt").write_text("4")
    comparison = checked(saved)["a"]
    assert comparison.verdict == "different"


def test_chance_addresses_and_times_are_not_comparable(
    saved_session: Callable[..., CheckedSession],
) -> None:
    row = saved_session(
        "import random, time, datetime\nr = random.random()\nr",
        "object()",
        "%time 1",
        "print(datetime.date.today(), 'rest')",
        "random.seed(1); s = random.random(); s",
        "list(map(str, [time.time_ns()]))",
        "r + 1",
    ).close()
    comparisons = checked(row)
    assert verdicts(comparisons) == {
        "In 1": "not comparable",
        "In 2": "not comparable",
        "In 3": "not comparable",
        "In 4": "same",
        "In 5": "same",
        "In 6": "not comparable",
        "In 7": "not comparable",
        "r": "not comparable",
        "s": "same",
    }
    assert comparisons["In 2"].reason == "memory addresses differ; the rest is the same"
    assert comparisons["In 3"].reason.startswith("measured times differ")
    assert "chance" in comparisons["In 1"].reason


def test_undone_and_hidden_cells_do_not_count(saved_session: Callable[..., CheckedSession]) -> None:
    it = saved_session("x = 1", "'hidden'", "x = 2", "x")
    it.session.undo.undo(3)
    it.session.entries.hide("cell 2", hidden=True)
    it.run("x")
    assert verdicts(checked(it.close())) == {"In 1": "same", "In 5": "same", "x": "same"}


def test_only_cells_that_ran_since_a_reset_count(
    saved_session: Callable[..., CheckedSession],
) -> None:
    open_session = saved_session("x = 1", "print(x)")
    open_session.session.cells.reset_kernel()
    open_session.run("y = 2", "'x' in globals()")
    row = open_session.close()

    report = run(session_check(row, load_settings()))

    assert verdicts({comparison.name: comparison for comparison in report.comparisons}) == {
        **dict.fromkeys(("In 3", "In 4", "y"), "same")
    }
    assert list(report.remarks) == [
        "Not checked: 2 cells have run before the kernel was reset, and left nothing in it."
    ]


def test_nothing_is_checked_if_no_cell_has_run_since_a_reset(
    saved_session: Callable[..., CheckedSession],
) -> None:
    open_session = saved_session("x = 1")
    open_session.session.cells.reset_kernel()
    row = open_session.close()
    with pytest.raises(CheckError, match="none has run since the kernel was reset that was not"):
        session_check(row, load_settings())


def test_a_check_says_which_cells_it_lacks_because_they_have_not_ended(
    saved_session: Callable[..., CheckedSession],
) -> None:
    it = saved_session("x = 1")
    it.session.submit("python", "import time; time.sleep(1000)")
    check = it.session.new_check()
    assert "1 cell has not ended yet: what is missing of it was not compared." in run(check).remarks
    it.close()


def test_an_open_session_is_only_read(saved_session: Callable[..., CheckedSession]) -> None:
    it = saved_session("x = [1, 2]", "x")
    it.session.namespace_store.save(TIMEOUT_S)
    row = find_session(it.session.saved_id, None)
    assert set(verdicts(checked(row)).values()) == {"same"}
    assert it.session.cells.run("x.append(3); x").output == "[1, 2, 3]\n"
    it.session.namespace_store.save(TIMEOUT_S)
    assert set(verdicts(checked(find_session(row.id, None))).values()) == {"same"}
    it.close()


def test_variables_that_have_changed_since_they_were_saved_are_not_comparable(
    saved_session: Callable[..., CheckedSession], tmp_path: Path
) -> None:
    it = saved_session("x = 1; y = 1", "x")
    it.session.namespace_store.save(TIMEOUT_S)
    target = save_target(it.session.saved_id, 0)
    assert target is not None
    earlier_folder = shutil.copytree(target.folder, tmp_path / "earlier")
    row = it.run("x = 2").close()
    # As after a crash: what was not saved by then is lost.
    shutil.rmtree(target.folder)
    shutil.copytree(earlier_folder, target.folder)
    comparisons = checked(row)
    assert verdicts(comparisons) == {
        **{f"In {number}": "same" for number in (1, 2, 3)},
        "x": "not comparable",
        "y": "same",
    }
    assert comparisons["x"].reason == "it has changed since it was saved"


def test_variables_that_were_saved_again_are_the_same(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    it = saved_session("x = 5; y = [1]; z = 1")
    it.session.namespace_store.save(TIMEOUT_S)
    it.run("x = 5; y.append(2); y.pop()", "z = 2")
    it.session.undo.undo(3)
    row = it.close()
    copy = CheckedSession(project, row)
    wait_for(lambda: len(copy.session.kernel.variables()) == 3)
    assert verdicts(checked(copy.run("x").close())) == {
        **{f"In {number}": "same" for number in (1, 2, 4)},
        **dict.fromkeys("xyz", "same"),
    }


def test_private_values_are_not_shown(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    (project / "n.txt").write_text("31415")
    it = saved_session("n = int(open('n.txt').read())")
    it.session.private.mark("n", True)
    row = it.run("print(n)").close()
    (project / "n.txt").write_text("27182")
    comparisons = checked(row)
    assert [comparisons[name].verdict for name in ("In 2", "n")] == ["different", "different"]
    text = str(comparisons)
    assert "31415" not in text
    assert "27182" not in text


def test_what_rests_on_a_cell_that_cannot_run_is_not_comparable(
    saved_session: Callable[..., CheckedSession],
) -> None:
    row = saved_session(
        "import sys\nname = 'Ada' if 'answer' in globals() else ask_name()",
        "try: typed = input()\nexcept EOFError: typed = 'end'",
        "len(typed)",
        "length = len(typed)",
    ).close()
    comparisons = checked(row)
    assert comparisons["In 1"].verdict == "same", "it fails in the same way"
    assert comparisons["In 2"].reason == "it reads input"
    assert comparisons["length"].reason == "it rests on In 2, which did not run in full"
    assert "failed" not in verdicts(comparisons).values()


def test_without_protection_nothing_runs_unless_the_user_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_module, "unavailable_reason", lambda: "needs Linux")
    write_notebook(project / "n.ipynb", cell("open('ran', 'w').close()"))
    refused = CliRunner().invoke(app, ["check", "n.ipynb"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "preventing that needs Linux. --unprotected runs them." in refused.stderr
    allowed = CliRunner().invoke(app, ["check", "n.ipynb", "--unprotected"])
    assert (allowed.exit_code, allowed.stdout) == (0, "Cell 1       same\n1 same.\n")
    assert not (project / "ran").exists(), "it runs in a copy all the same"


@confined
def test_files_outside_the_copy_stay_as_they_are(project: Path, tmp_path: Path) -> None:
    (project / "data.txt").write_text("mine")
    (project / "folder").mkdir()
    (project / "link").symlink_to(project / "data.txt")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    attacks = [
        f"open({str(project / 'data.txt')!r}, 'w')",
        f"import os; os.remove({str(project / 'data.txt')!r})",
        f"os.rename({str(project / 'folder')!r}, 'gone')",
        f"import shutil; shutil.rmtree({str(project)!r})",
        f"os.truncate({str(elsewhere)!r}, 0)",
        f"import subprocess; subprocess.run('echo evil > {elsewhere}; rm -rf {project}', shell=True)",
        f"os.chdir({str(project)!r}); open('data.txt', 'a').write('evil')",
        f"os.link({str(project / 'data.txt')!r}, 'same'); open('same', 'w').write('evil')",
        f"if os.fork() == 0: open({str(elsewhere)!r}, 'w').write('evil'); os._exit(0)\nos.wait()",
        f"os.open({str(elsewhere)!r}, os.O_RDONLY | os.O_TRUNC)",
    ]
    path = write_notebook(
        tmp_path / "n.ipynb",
        cell("open('data.txt', 'w').write('changed'); open('link').read()", value("'changed'")),
        *(cell(attack) for attack in attacks),
    )
    comparisons = check_notebook(path)
    assert comparisons["Cell 1"].verdict == "same", "a link into the project leads into the copy"
    assert comparisons["Cell 2"].reason == (
        f"it changes {project / 'data.txt'}, which is outside the copy"
    )
    assert elsewhere.read_text() == "mine"
    assert (project / "data.txt").read_text() == "mine"
    assert sorted(entry.name for entry in project.iterdir()) == sorted(
        ("data.txt", "folder", "link", "elsewhere", "n.ipynb")
    )


def processes_in(folder: str) -> list[str]:
    pids: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if folder.encode() in Path("/proc", pid, "environ").read_bytes():
                pids.append(pid)
        except OSError:
            continue
    return pids


def test_hostile_cells_leave_no_process(project: Path, tmp_path: Path) -> None:
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(1000)\n    os._exit(0)\nos.wait()"
    path = write_notebook(
        tmp_path / "n.ipynb",
        cell(daemon),
        cell("print('x' * 60_000_000)"),
        cell("1", value("1")),
        cell("import os; os.kill(os.getpid(), 9)"),
        cell("2", value("2")),
    )
    comparisons = check_notebook(path)
    assert comparisons["Cell 2"].verdict == "different", comparisons["Cell 2"].reason
    assert len(comparisons["Cell 2"].now) < 1_000
    assert comparisons["Cell 3"].verdict == "same"
    assert comparisons["Cell 4"].verdict == "failed"
    assert comparisons["Cell 5"].reason == "it did not run, because Cell 4 has ended the kernel"
    # A process that was killed takes a moment to end.
    wait_for(lambda: processes_in(str(checks_folder())) == [])


def test_a_cell_that_does_not_end_is_stopped_and_the_next_one_runs(
    project: Path, tmp_path: Path
) -> None:
    path = write_notebook(
        tmp_path / "n.ipynb", cell("while True:\n    pass"), cell("1", value("1"))
    )
    comparisons = check_notebook(path, timeout=5.0)
    assert comparisons["Cell 1"].reason == "it did not end within 5 s"
    assert comparisons["Cell 2"].verdict == "same"


def test_a_cell_that_ignores_its_interrupt_ends_with_the_kernel(
    project: Path, tmp_path: Path
) -> None:
    stubborn = "import time\nwhile True:\n    try:\n        while True: time.sleep(0.05)\n    except KeyboardInterrupt: pass"
    path = write_notebook(tmp_path / "n.ipynb", cell(stubborn), cell("1", value("1")))
    comparisons = check_notebook(path, timeout=0.5)
    assert comparisons["Cell 1"].reason == "it did not end within 0.5 s"
    assert comparisons["Cell 2"].reason == "it did not run, because Cell 1 has ended the kernel"


def test_a_check_that_is_stopped_before_it_begins_runs_nothing(
    project: Path, tmp_path: Path
) -> None:
    path = write_notebook(tmp_path / "n.ipynb", cell("open('ran', 'w')"))
    check = notebook_check(path, load_settings())
    check.stop()
    texts: list[str] = []
    with pytest.raises(CheckStopped):
        check.run(texts.append)
    assert texts == ["copying the folder"]
    assert list(checks_folder().iterdir()) == []


@pytest.mark.usefixtures("project")
def test_cells_have_what_the_startup_file_binds(home: Path, tmp_path: Path) -> None:
    startup = home / ".mahtab" / "startup.py"
    startup.parent.mkdir(exist_ok=True)
    startup.write_text("scale = 2")
    path = write_notebook(tmp_path / "n.ipynb", cell("scale", value("2")))
    assert check_notebook(path)["Cell 1"].verdict == "same"
    startup.write_text("1 / 0")
    with pytest.raises(CheckError, match="begins failed: ZeroDivisionError: division by zero"):
        run(notebook_check(path, load_settings()))


def test_the_copy_is_called_by_the_name_of_the_folder(project: Path, tmp_path: Path) -> None:
    output = new_output("stream", text=f"{project}\n")
    path = write_notebook(tmp_path / "n.ipynb", cell("import os; print(os.getcwd())", output))
    assert check_notebook(path)["Cell 1"].verdict == "same"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(1000)"])
def test_stopping_leaves_nothing(project: Path, tmp_path: Path, code: str) -> None:
    check = notebook_check(write_notebook(tmp_path / "n.ipynb", cell(code)), load_settings())
    is_running = threading.Event()

    def note_start(text: str) -> None:
        if text.startswith("Cell 1"):
            is_running.set()

    def stop() -> None:
        is_running.wait(TIMEOUT_S)
        check.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(CheckStopped):
        check.run(note_start)
    thread.join()
    assert list(checks_folder().iterdir()) == []
    wait_for(lambda: processes_in(str(checks_folder())) == [])


def test_a_notebook_is_compared_by_its_text_and_exceptions(project: Path, tmp_path: Path) -> None:
    error = new_output(
        "error",
        ename="ZeroDivisionError",
        evalue="division by zero",
        traceback=["---------", "Cell In[4], line 1", "----> 1 1/0", "ZeroDivisionError: …"],
    )
    bar = "100%|██████████| 3/3 [00:00<00:00, 2.5it/s]\n"
    path = write_notebook(
        tmp_path / "n.ipynb",
        new_markdown_cell("# Title"),
        cell("x = 20; x", value("20")),
        cell("x + 1", value("22")),
        cell("1/0", error),
        cell("nope", value("3")),
        new_code_cell("never = 1"),
        cell(
            "print('100%|##########| 3/3 [00:01<00:00, 9.9it/s]')", new_output("stream", text=bar)
        ),
    )
    comparisons = check_notebook(path)
    assert verdicts(comparisons) == {
        "Cell 2": "same",
        "Cell 3": "different",
        "Cell 4": "same",
        "Cell 5": "failed",
        "Cell 6": "not comparable",
        "Cell 7": "not comparable",
    }
    assert (comparisons["Cell 3"].before, comparisons["Cell 3"].now) == ("22", "21")
    assert comparisons["Cell 5"].now == "NameError: name 'nope' is not defined"
    assert comparisons["Cell 7"].reason.startswith("progress bars differ")


@pytest.mark.usefixtures("project")
def test_errors_of_a_notebook_are_the_same_in_whatever_form_they_are_stored(
    tmp_path: Path,
) -> None:
    def failed(code: str, name: str, message: str) -> object:
        lines = ["-----------", "Cell In[4], line 1", f"{name}: {message}"]
        return cell(code, new_output("error", ename=name, evalue=message, traceback=lines))

    no_json = "Expecting value: line 1 column 1 (char 0)"
    path = write_notebook(
        tmp_path / "n.ipynb",
        failed("assert 1 > 2", "AssertionError", ""),
        failed("import json; json.loads('x')", "JSONDecodeError", no_json),
        failed("x = = 2", "SyntaxError", "invalid syntax (1234.py, line 1)"),
        failed("raise ValueError('a\\nb')", "ValueError", "a\nb"),
        # Notebooks that this program exports have the first line of a message.
        failed("raise ValueError('a\\nb')", "ValueError", "a"),
        failed(
            "raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", "g (1 sub-exception)"
        ),
        failed("{}['k']", "KeyError", "'j'"),
        failed("{}['k']", "IndexError", "'k'"),
    )
    *alike, other_message, other_class = verdicts(check_notebook(path)).values()
    assert set(alike) == {"same"}
    assert (other_message, other_class) == ("different", "different")


@pytest.mark.usefixtures("project")
def test_values_that_jupyter_writes_in_another_way_are_not_different(tmp_path: Path) -> None:
    streams = (
        new_output("stream", name="stdout", text="out\n"),
        new_output("stream", name="stderr", text="err\n"),
    )
    picture = {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": "iVBORw0KGgo="}
    html = {"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>x</b>"}
    show_html = "class H:\n    def _repr_html_(self): return '<b>x</b>'\ndisplay(H())"
    path = write_notebook(
        tmp_path / "n.ipynb",
        cell("type(1), len", value("(int, <function len(obj, /)>)")),
        cell("class A: pass\nA", value("__main__.A")),
        cell("def f(x): pass\nf", value("<function __main__.f(x)>")),
        cell("A()", value("<__main__.A at 0x7f6735a27710>")),
        cell("list(range(40))", value("[" + ",\n ".join(map(str, range(40))) + "]")),
        cell("import sys; print('err', file=sys.stderr); print('out')", *streams),
        cell(show_html, new_output("display_data", data=html)),
        cell("len?"),
        cell(
            "class P:\n    def _repr_png_(self): return b'x'\nP()",
            new_output("display_data", data=picture),
        ),
        cell("list(range(3))", value("[0,\n 1,\n 3]")),
        cell("type(1)", value("str")),
        cell("print('a')", streams[0], new_output("display_data", data={"application/x": "1"})),
        cell("print('[1/2]')", new_output("stream", text="[1/2]\n")),
        cell("%%writefile mod.py\nx = 1", new_output("stream", text="Writing mod.py\n")),
        cell("import mod; mod.x", value("1")),
        cell(
            r"import re; re.compile('\d+\n', re.I)",
            value(r"re.compile(r'\d+\n', re.IGNORECASE|re.UNICODE)"),
        ),
        cell("[].append", value("<function list.append(object, /)>")),
        cell("re.compile('a')", value("re.compile(r'b', re.UNICODE)")),
    )
    comparisons = check_notebook(path)
    reasons = {name: it.reason for name, it in comparisons.items() if it.verdict != "same"}
    assert reasons == {
        "Cell 4": "memory addresses differ; the rest is the same",
        "Cell 5": "line breaks differ; the rest is the same",
        "Cell 6": "positions of lines differ; the rest is the same",
        "Cell 7": "the file has no text of what the cell displayed",
        "Cell 8": "the file has no help",
        "Cell 9": "another program may have drawn its pictures or tables; the text is the same",
        "Cell 10": "",
        "Cell 11": "",
        "Cell 12": "the file has no text of what the cell displayed",
        "Cell 14": "each program has its own words for %%writefile",
        "Cell 18": "",
    }
    assert comparisons["Cell 10"].verdict == "different"
    assert comparisons["Cell 11"].verdict == "different"


@pytest.mark.usefixtures("project")
def test_secrets_in_the_results_of_a_notebook_are_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_secret = "print('sk-proj-' + 'a1b2' * 6)"
    secret = f"sk-proj-{'a1b2' * 6}"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    path = write_notebook(
        tmp_path / "n.ipynb",
        cell(print_secret, new_output("stream", text=f"{secret}\n")),
        cell("print('other')", new_output("stream", text=f"{secret}\n")),
    )
    comparisons = check_notebook(path)
    assert comparisons["Cell 1"].verdict == "same"
    assert (comparisons["Cell 2"].before, comparisons["Cell 2"].now) == (MASK, "other")


@pytest.mark.usefixtures("project")
def test_what_rests_on_input_in_a_notebook_is_not_comparable(tmp_path: Path) -> None:
    path = write_notebook(
        tmp_path / "n.ipynb",
        cell("%%time\n%pwd\nname = input()"),
        cell("!true\nsize = len(name); size", value("4")),
        cell("size + 1", value("5")),
        cell("other = 1; other", value("2")),
    )
    comparisons = check_notebook(path)
    assert verdicts(comparisons) == {
        **dict.fromkeys(("Cell 1", "Cell 2", "Cell 3"), "not comparable"),
        "Cell 4": "different",
    }
    assert comparisons["Cell 3"].reason == "it rests on Cell 1, which did not run in full"


@pytest.mark.usefixtures("project")
def test_numbers_that_only_look_like_addresses_are_compared(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "n.ipynb", cell("hex(0xabcdef12)", value("'0xabcdef13'")))
    assert check_notebook(path)["Cell 1"].verdict == "different"


def test_what_the_copy_contains(project: Path) -> None:
    (project / "inner" / "locked").mkdir(parents=True)
    (project / "inner" / "locked" / "file").write_text("x")
    (project / "inner" / "locked").chmod(0o555)
    (project / "inner" / "script").write_text("y")
    (project / "inner" / "script").chmod(0o754)
    (project / ".git").mkdir()
    (project / "__pycache__").mkdir()
    (project / "env" / "bin").mkdir(parents=True)
    (project / "env" / "bin" / "python").write_text("")
    (project / "env" / "pyvenv.cfg").write_text("")
    os.mkfifo(project / "pipe")
    with open(project / "large", "wb") as large:
        large.truncate(200 * 2**20)
    (project / "out").symlink_to("../elsewhere")
    (project / "dangling").symlink_to("nowhere")
    (project / "absolute").symlink_to(project / "inner")

    copy = ProjectCopy(str(project))
    try:
        copy.fill(links=True, is_stopped=lambda: False)
        path = Path(copy.path)
        assert not str(path).startswith(str(project))
        assert (path / "inner" / "locked" / "file").read_text() == "x"
        assert (path / "inner" / "locked").stat().st_mode & 0o777 == 0o555
        assert (path / "inner" / "script").stat().st_mode & 0o777 == 0o754
        assert (path / "absolute").readlink() == path / "inner"
        assert (path / "out").readlink() == project.parent / "elsewhere"
        assert str((path / "dangling").readlink()) == "nowhere"
        assert not (path / "__pycache__").exists()
        assert sorted(copy.linked) == [".git", "env", "large"]
        assert copy.left_out == ["pipe (it is not a regular file)"]
        assert copy.describe() == (
            "Not copied, can only be read: .git, env, large."
            " Left out of the copy: pipe (it is not a regular file)."
        )
    finally:
        copy.remove()
    assert not Path(copy.folder).exists()
    assert (project / "inner" / "locked" / "file").exists()


def test_the_copy_of_a_home_folder_is_without_our_own(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    (project / "data").touch()
    copy = ProjectCopy(str(project))
    try:
        assert Path(copy.folder).is_relative_to(project / ".mahtab")
        copy.fill(links=True, is_stopped=lambda: False)
        assert os.listdir(copy.path) == ["data"]
        assert copy.describe() == ""
    finally:
        copy.remove()


@pytest.mark.parametrize(("text", "verdict"), [("1", "same"), ("2", "different")])
def test_what_is_not_copied_is_said_once(
    project: Path, tmp_path: Path, text: str, verdict: str
) -> None:
    os.mkfifo(project / "pipe")
    path = write_notebook(tmp_path / "n.ipynb", cell("1", value(text)))
    report = run(notebook_check(path, load_settings()))
    assert [comparison.verdict for comparison in report.comparisons] == [verdict]
    assert list(report.remarks) == ["Left out of the copy: pipe (it is not a regular file)."]


def test_a_second_run_repeats_no_remarks_and_changes_no_report(
    project: Path, tmp_path: Path
) -> None:
    os.mkfifo(project / "pipe")
    path = write_notebook(tmp_path / "n.ipynb", cell("1", value("1")))
    check = notebook_check(path, load_settings())
    check.add_remark("First.")
    first_report = run(check)
    check.add_remark("Second.")
    second_report = run(check)
    omission = "Left out of the copy: pipe (it is not a regular file)."
    assert list(first_report.remarks) == ["First.", omission]
    assert list(second_report.remarks) == ["First.", "Second.", omission]


def test_a_check_that_is_stopped_while_it_compares_has_no_report(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = notebook_check(
        write_notebook(tmp_path / "n.ipynb", cell("1", value("1"))), load_settings()
    )

    def stop_and_compare(*outcomes: Any, **options: Any) -> Judgement:
        check.stop()
        return compare_outcomes(*outcomes, **options)

    monkeypatch.setattr(check_module, "compare_outcomes", stop_and_compare)
    with pytest.raises(CheckStopped):
        run(check)


def test_without_protection_no_link_leads_out_of_the_copy(project: Path) -> None:
    (project / ".git").write_text("gitdir: /elsewhere")
    (project / "out").symlink_to("../elsewhere")
    (project / "inner").symlink_to("large")
    with open(project / "large", "wb") as large:
        large.truncate(200 * 2**20)
    copy = ProjectCopy(str(project))
    try:
        copy.fill(links=False, is_stopped=lambda: False)
        assert sorted(os.listdir(copy.path)) == ["inner", "large"]
        assert Path(copy.path, "inner").stat().st_size == 200 * 2**20
        assert not Path(copy.path, "large").is_symlink()
        assert sorted(copy.left_out) == [
            ".git (it is not copied)",
            "out (it leads out of the folder)",
        ]
    finally:
        copy.remove()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_a_project_that_is_too_large_is_not_copied_in_part(
    project: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("mahtab_tui.session.checking.project_copy.MAX_FILES", 3)
    for number in range(5):
        make(project / f"{number}")
    path = write_notebook(project / "n.ipynb", cell("open('ran', 'w')"))
    with pytest.raises(
        CheckError, match=r"has more than 3 files and folders: too much for a copy. Nothing"
    ):
        run(notebook_check(path, load_settings()))
    assert list(checks_folder().iterdir()) == []


def test_copies_of_killed_programs_are_removed(project: Path) -> None:
    pid = os.fork()
    if pid == 0:
        ProjectCopy(str(project))
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(checks_folder().iterdir())) == 1
    copy = ProjectCopy(str(project))
    assert [str(path) for path in checks_folder().iterdir()] == [copy.folder]
    copy.remove()


def test_another_program_does_not_take_a_new_copy_for_abandoned(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def flock_late(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        remove_abandoned_folders()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_late)
    copy = ProjectCopy(str(project))
    assert Path(copy.folder).exists()
    assert remove_abandoned_folders() == 0
    copy.remove()


def test_a_full_disk_leaves_no_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "makedirs", fail)
    with pytest.raises(CheckError, match="cannot be used: No space left on device"):
        ProjectCopy(str(project))
    assert list(checks_folder().iterdir()) == []


def test_folders_that_cannot_be_read_are_removed_and_originals_left_alone(project: Path) -> None:
    original = project / "original"
    original.mkdir(mode=0o500)
    copy = ProjectCopy(str(project))
    locked = Path(copy.path, "locked")
    (locked / "inner").mkdir(parents=True)
    (locked / "inner" / "link").symlink_to(original)
    locked.chmod(0)
    copy.remove()
    assert not Path(copy.folder).exists()
    assert original.stat().st_mode & 0o777 == 0o500


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is not"),
        (
            '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
            "The file has no cell",
        ),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(project: Path, content: str, sentence: str) -> None:
    (project / "n.ipynb").write_text(content)
    with pytest.raises(CheckError, match=sentence):
        notebook_check(project / "n.ipynb", load_settings())


def test_calls_that_a_check_does_not_make_are_named(project: Path, tmp_path: Path) -> None:
    path = write_notebook(
        tmp_path / "n.ipynb",
        cell("print(search_code('x'))"),
        cell("try: ask('why?')\nexcept RuntimeError: pass"),
        cell("print('text')", new_output("stream", text="text\n")),
        cell("_out(3)", value("text")),
        cell("secret = 5; private('secret')"),
        cell("exit()\nprint('not reached')"),
        cell("1", value("1")),
    )
    comparisons = check_notebook(path)
    assert comparisons["Cell 1"].reason == "it calls search_code()"
    assert comparisons["Cell 2"].reason == "it asks a model"
    assert {comparisons[f"Cell {number}"].verdict for number in range(3, 8)} == {"same"}


def test_a_variable_whose_cell_fails_names_that_cell(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    (project / "n.txt").write_text("3")
    it = saved_session("n = int(open('n.txt').read())", "gone = 1")
    it.session.entries.hide("cell 2", hidden=True)
    row = it.close()
    (project / "n.txt").unlink()
    comparisons = checked(row)
    assert comparisons["n"].reason == "In 1 does not make it any more"
    assert comparisons["gone"].reason == "no cell that counts makes it"


def test_saved_variables_that_cannot_be_read_are_named_by_where_they_are(
    saved_session: Callable[..., CheckedSession],
) -> None:
    row = saved_session("n = 1").close()
    target = save_target(row.id, 0)
    assert target is not None
    (Path(target.folder) / "index.json").write_text("damaged")
    (remark,) = run(session_check(row, load_settings())).remarks
    assert remark.startswith(f"Variables were not compared: The variables in {target.folder} are")
    (Path(target.folder) / "gone").symlink_to("nowhere")
    (remark,) = run(session_check(row, load_settings())).remarks
    assert remark == (
        f"Variables were not compared: {target.folder} cannot be copied:"
        " some of its files cannot be read."
    )


def test_the_folder_of_copies_is_not_copied_into_itself(home: Path) -> None:
    project = checks_folder().parent
    project.mkdir(parents=True, exist_ok=True)
    (project / "n.txt").write_text("3")
    copy = ProjectCopy(str(project))
    try:
        copy.fill(links=True, is_stopped=lambda: False)
        assert "n.txt" in os.listdir(copy.path)
        assert checks_folder().name not in os.listdir(copy.path)
    finally:
        copy.remove()


def test_a_file_that_has_changed_since_is_named(
    saved_session: Callable[..., CheckedSession], project: Path
) -> None:
    (project / "n.txt").write_text("3")
    (project / "other.txt").write_text("3")
    (project / "same.txt").write_text("5")
    row = saved_session("print(open('n.txt').read(), open('same.txt').read())").close()
    (project / "n.txt").write_text("3")
    report = run(session_check(row, load_settings()))
    assert list(report.remarks) == [], "the result is the same"
    (project / "n.txt").write_text("4")
    (project / "other.txt").write_text("4")
    # Parts of other words.
    for name in ("o", "read", "txt", "open"):
        (project / name).touch()
    report = run(session_check(row, load_settings()))
    assert list(report.remarks) == ["n.txt has changed since In 1, which names it, ran."]
