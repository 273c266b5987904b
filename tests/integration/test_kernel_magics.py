"""`In`, `Out`, magics and help, as a person meets them in cells."""

from __future__ import annotations

import builtins
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.inprocess import InProcessKernel
from tests.integration.kernels import Cells, RecordingHost


def test_inputs_and_outputs_are_stored(cells: Cells) -> None:
    cells.run("6 * 7")
    cells.run("'b'")
    assert cells.text("_, __, In[1], Out[1]") == "('b', 42, '6 * 7', 42)\n"
    assert cells.text("_[0], In[-1]") == "('b', '_[0], In[-1]')\n"
    assert cells.run("None").output == ""
    assert cells.text("sorted(Out)") == "[1, 2, 3, 4]\n"
    assert {variable.name for variable in cells.kernel.variables()} == set()


def test_internal_session_code_is_not_an_input(cells: Cells) -> None:
    cells.kernel.execute("'own'", cell=0, on_output=lambda kind, text: None)
    assert cells.text("In") == "['', 'In']\n"


def test_shell_command_output_becomes_a_list_of_lines(cells: Cells) -> None:
    assert cells.text("x = !printf 'a\\nb'\nx") == "['a', 'b']\n"
    assert cells.text("x = !printf a; exit 3\nx") == "exit code 3\n['a']\n"


def test_time_magic_reports_the_duration_and_returns_the_value(cells: Cells) -> None:
    output = cells.text("%time sum(range(10))")
    assert output.startswith("took ")
    assert output.endswith("\n45\n")
    assert cells.text("%time x = 5\nx").endswith("\n5\n")
    assert cells.text("%%time\ny = 6\ny + 1").endswith("\n7\n")


def test_time_magic_works_with_await(cells: Cells) -> None:
    assert cells.text("import asyncio\n%time await asyncio.sleep(0, 'slept')").endswith(
        "\n'slept'\n"
    )
    assert cells.text("%%time\nx = await asyncio.sleep(0, 2)\nx + 1").endswith("\n3\n")


def test_expressions_in_braces_are_substituted_in_a_command(cells: Cells) -> None:
    cells.run("who = 'me'\ndef f(inner):\n    !echo {inner} {who.upper()}\n")
    assert cells.text("f('it')") == "it ME\n"
    assert cells.text("x = !echo {who}\nx") == "['me']\n"
    assert cells.text("!echo a b | awk '{print $2}'") == "b\n"
    assert (
        cells.text("!who=shell; echo ${who} {{who}} {nothing} {1/0}")
        == "shell {{who}} {nothing} {1/0}\n"
    )


def test_time_magic_of_failing_code_locates_the_error(cells: Cells) -> None:
    result = cells.run("%time 1 / 0")
    assert (result.status, "ZeroDivisionError" in result.output, "1 / 0" in result.output) == (
        "error",
        True,
        True,
    )


def test_timeit_runs_the_code_many_times(cells: Cells) -> None:
    cells.run("n = 0\ndef f():\n    global n\n    n += 1\n")
    assert " per loop (of 2 runs with 3 loops each" in cells.text("%timeit -n 3 -r 2 f()")
    assert cells.text("n") == "6\n"
    assert "needs code" in cells.run("%timeit").output


def test_the_working_directory_changes(cells: Cells, project: Path) -> None:
    (project / "inner").mkdir()
    assert cells.text("%cd inner") == f"{project / 'inner'}\n"
    assert cells.kernel.info().cwd == str(project / "inner")
    assert "FileNotFoundError" in cells.run("%cd nowhere").output


def test_script_runs_and_its_names_stay(cells: Cells, project: Path) -> None:
    (project / "script.py").write_text(
        "import sys\nx = sys.argv[1:]\nif __name__ == '__main__':\n    print('main')\n", "utf-8"
    )
    assert cells.text("%run script.py a 'b c'\nx") == "main\n['a', 'b c']\n"
    (project / "script.py").write_text("y = 1\ndef f():\n    return 1 / 0\nf()\n", "utf-8")
    output = cells.run("%run script.py").output
    assert 'script.py", line 3' in output
    assert cells.text("y") == "1\n"


def test_post_mortem_uses_the_input_line(cells: Cells) -> None:
    cells.run("def f(secret):\n    return 1 / 0\n")
    assert "nothing to debug" in cells.run("%debug").output
    cells.run("f(42)")
    answers = iter(["p secret + 1", "q"])
    cells.host.answer = lambda name, args: next(answers)
    assert "43" in cells.text("%debug")


def test_packages_are_installed_into_the_kernel_s_environment(cells: Cells) -> None:
    output = cells.text("%pip --version")
    assert "pip " in output
    assert "python" in output


def test_unknown_magic_error_lists_the_known_ones(cells: Cells) -> None:
    output = cells.run("%nonsense x").output
    assert "There is no %nonsense." in output
    assert all(f"%{name}" in output for name in ("time", "timeit", "cd", "run", "debug", "pip"))
    assert "magic_commands" not in output


@pytest.mark.parametrize(
    "line",
    [
        "%matplotlib inline",
        "%config InlineBackend.figure_format = 'retina'",
        "%load_ext tensorboard",
        "%store -r",
        "%reset -f",
        "%xmode Verbose",
        "%precision 3",
        "%pdb on",
    ],
)
def test_ignored_notebook_magic_prints_one_muted_line_and_the_cell_runs(
    cells: Cells, line: str
) -> None:
    result = cells.run(f"kept = 41\n{line}\nkept + 1")
    warning, value, rest = result.output.split("\n")
    assert (result.status, value, rest) == ("ok", "42", "")
    assert warning.startswith(f"\x1b[2m{line} ")
    assert warning.endswith(".\x1b[22m")


def test_autoreload_reloads_changed_modules_as_in_ipython(
    cells: Cells, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("away") / "elsewhere.py"
    for file in (project / "mine.py", away):
        file.write_text("def f(): return 1\n")
    cells.run(f"import sys; sys.path.append({str(away.parent)!r})")
    assert (
        cells.text(
            "%load_ext autoreload\n%autoreload 2\n%aimport mine\nfrom elsewhere import f\nmine.f(), f()"
        )
        == "(1, 1)\n"
    )

    def change(number: int) -> None:
        for file in (project / "mine.py", away):
            file.write_text(f"def f(): return {number}\n")
            os.utime(file, (number, number))

    change(2)
    assert cells.text("mine.f(), f()").endswith("\n(2, 2)\n")
    cells.run("%autoreload 0")
    change(3)
    assert cells.text("mine.f(), f()") == "(2, 2)\n"
    assert cells.text("%autoreload\nmine.f(), f()").endswith("\n(3, 3)\n")
    assert "takes 2 (on)" in cells.run("%autoreload 7").output


def test_run_runs_the_cells_of_a_notebook_in_the_namespace(cells: Cells, project: Path) -> None:
    sources = [
        "import asyncio\ny = x + 1",
        ["%pwd\n", "z = await asyncio.sleep(0, y)\n", "print('z is', z)\n", "z"],
        "1 / 0",
        "late = 1",
    ]
    notebook: dict[str, Any] = {
        "nbformat": 4,
        "cells": [{"cell_type": "markdown", "source": "# not code ="}],
    }
    notebook["cells"] += [{"cell_type": "code", "source": source} for source in sources]
    (project / "nb.ipynb").write_text(json.dumps(notebook))
    cells.run("x = 1")
    result = cells.run("%run nb.ipynb")
    assert result.output.startswith("z is 2\nTraceback")
    assert "nb.ipynb, code cell 3" in result.output
    assert cells.text("x, y, z, 'late' in globals()") == "(1, 2, 2, False)\n"
    (project / "nb.ipynb").write_text("not JSON")
    assert "nb.ipynb is not a notebook" in cells.run("%run nb.ipynb").output
    (project / "r.ipynb").write_text(
        json.dumps({**notebook, "metadata": {"kernelspec": {"language": "R"}}})
    )
    assert "r.ipynb is a notebook for R" in cells.run("%run r.ipynb").output


def test_variables_are_listed(cells: Cells) -> None:
    cells.run("import os\nn, text, _private = 1, 'abc', 2\ndef f(): ...")
    assert cells.text("%who") == "n  text\n"
    assert cells.text("%who str") == "text\n"
    assert cells.text("%whos") == "n     int  1\ntext  str  'abc'\n"
    assert cells.text("%who_ls") == "['n', 'text']\n"
    cells.run("del n, text")
    assert cells.text("%whos") == "There are no variables.\n"
    assert "%pip install" in cells.text("%lsmagic")


def test_env_magic_reads_and_sets_variables_and_hides_secrets(cells: Cells) -> None:
    cells.run("%env MAHTAB_TEST=a b=c")
    assert cells.text("%env MAHTAB_TEST") == "'a b=c'\n"
    assert (
        cells.text("import os\n%set_env MAHTAB_API_KEY 123\nos.environ['MAHTAB_API_KEY']")
        == "env: MAHTAB_API_KEY=<hidden>\n'123'\n"
    )
    hidden = {
        "MYSQL_PWD": "hunter2",
        "GH_PAT": "hunter2",
        "SLACK_WEBHOOK_URL": "https://h/hunter2",
        "HTTPS_PROXY": "http://u:hunter2@p",
    }
    cells.run(f"os.environ.update({hidden!r})")
    assert "hunter2" not in cells.text("%env")
    assert "HTTPS_PROXY=http://<hidden>@p" in cells.text("%env").splitlines()
    assert any(
        line.startswith("PWD=") and "hidden" not in line
        for line in cells.text("%env PWD=/x\n%env").splitlines()
    )
    listed = cells.text("%env").splitlines()
    assert "MAHTAB_TEST=a b=c" in listed
    assert "MAHTAB_API_KEY=<hidden>" in listed
    assert "the environment has no NOTHING_LIKE_IT" in cells.run("%env NOTHING_LIKE_IT").output


def test_history_magic_lists_inputs(cells: Cells) -> None:
    cells.run("x = 1\ny = 2")
    assert cells.text("%history") == "x = 1\ny = 2\n%history\n"
    assert cells.text("%hist -n").startswith("1: x = 1\ny = 2\n2: %history\n")


def test_file_and_script_magics_work(cells: Cells, project: Path) -> None:
    assert cells.text("%%writefile notes.txt\na {b}\n\nc") == "wrote notes.txt\n"
    assert (project / "notes.txt").read_text() == "a {b}\n\nc\n"
    assert cells.text("%%writefile -a notes.txt\nd") == "added to notes.txt\n"
    assert (project / "notes.txt").read_text() == "a {b}\n\nc\nd\n"
    assert "needs a file" in cells.run("%%writefile\nd").output
    assert "the text below it" in cells.run("%%writefile notes.txt\n").output
    assert (project / "notes.txt").read_text().endswith("d\n")
    assert cells.text("%ls notes*") == "notes.txt\n"
    assert cells.text("name = 'notes.txt'\n%ls {name}") == "notes.txt\n"
    assert cells.text("%pwd") == f"{str(project)!r}\n"
    assert (
        cells.text("%%bash\nfor x in 1 2; do\n  echo {$x}\ndone\nexit 3")
        == "{1}\n{2}\nexit code 3\n"
    )
    assert "There is no %bash." in cells.run("%bash echo").output
    assert "There is no %%who." in cells.run("%%who\nx").output


@pytest.mark.parametrize(
    ("code", "prints"),
    [
        ("%mkdir made\n%cp -r made other\n%ls", "made\nother\n"),
        ("%%writefile a.txt\nwords\n", "wrote a.txt\n"),
        ("%%file a.txt\nwords\n", "wrote a.txt\n"),
        ("%%writefile a.txt\nwords", "wrote a.txt\n"),
        ("!printf words > a.txt\n%cat a.txt", "words"),
        ("%%script sh -s one\necho $1; exit 3", "one\nexit code 3\n"),
        ("%%python\nprint(6 * 7)", "42\n"),
        ("%sx echo words", "['words']\n"),
        (
            "%%javascript\nalert(1)",
            "\x1b[2m%%javascript does nothing here: a terminal cannot run or draw it.\x1b[22m\n",
        ),
    ],
)
def test_more_notebook_magics_work(cells: Cells, project: Path, code: str, prints: str) -> None:
    assert cells.text(code) == prints


def test_cells_of_html_and_markdown_are_shown(cells: Cells) -> None:
    for magic, mime in (
        ("html", "text/html"),
        ("markdown", "text/markdown"),
        ("latex", "text/markdown"),
    ):
        (shown,) = cells.run(f"%%{magic}\n<b>x</b>").displays
        assert (shown.mime, "<b>x</b>" in shown.data) == (mime, True)


def test_profiling_and_pylab_magics_work(cells: Cells) -> None:
    assert "function calls" in cells.text("%prun -l 5 sorted(range(100))")
    assert "function calls" in cells.text("%%prun\nx = 1\nsorted([x])")
    assert (
        cells.text("%pylab inline\nplt.__name__, np.pi == pi, sum([1, 2])")
        == "('matplotlib.pyplot', True, 3)\n"
    )


def test_capture_magic_stores_printed_output(cells: Cells) -> None:
    assert (
        cells.text(
            "%%capture printed\nimport sys\nprint('a')\nprint('b', file=sys.stderr)\nx = 1\nx"
        )
        == ""
    )
    assert cells.text("printed.stdout, printed.stderr, x") == "('a\\n', 'b\\n', 1)\n"
    assert cells.text("printed.show()") == "a\nb\n"
    assert (
        cells.text("%%capture --no-stderr\nprint('a')\nimport sys\nprint('b', file=sys.stderr)")
        == "b\n"
    )
    assert "ZeroDivisionError" in cells.run("%%capture printed\nprint('so far')\n1 / 0").output
    assert cells.text("print(printed)") == "so far\n\n"
    assert "takes at most one name" in cells.run("%%capture a b\n1").output


def test_help_and_source_magics_work(cells: Cells) -> None:
    cells.run('def f(a, b: int = 3) -> str:\n    """Say it."""\n    return str(a)\n')
    output = cells.text("f?")
    assert output.startswith("f(a, b: int = 3) -> str\n\nSay it.")
    assert "return str(a)" not in output
    assert "return str(a)" in cells.text("f??")
    assert cells.text("len?").startswith("len(obj, /)\n\nReturn the number of items")
    assert cells.text("nothing?").startswith("There is no nothing")
    assert cells.text("x = {'a': 1}\nx['a']?").startswith("x['a']: int  1")


def test_embedded_kernel_adds_the_names_and_removes_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(builtins, "Out", raising=False)  # tests of a session may have left it
    kernel = InProcessKernel({})
    kernel.start(RecordingHost())
    try:
        assert Cells(kernel, RecordingHost()).text("1 + 1\n") == "2\n"
        assert hasattr(builtins, "Out")
    finally:
        kernel.close()
    assert not hasattr(builtins, "Out")


@pytest.mark.parametrize(
    "code", ["In = 1", "Out = 1", "Out.clear()", "In.clear()", "import builtins; del builtins.Out"]
)
def test_in_and_out_can_be_rebound_or_cleared(cells: Cells, code: str) -> None:
    cells.run(code)
    assert cells.text("40 + 2") == "42\n"
