"""Values that are more than text, `In`, `Out`, magics and help."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mahtab_tui.kernel.cells import pictures, pieces
from mahtab_tui.kernel.values import Display
from tests.integration.kernels import Cells

PNG = b"\x89PNG\r\n\x1a\n"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);"


def show(cells: Cells, code: str) -> list[Display]:
    return list(cells.run(code).displays)


def test_unshown_figure_appears_once_at_the_end_of_its_cell(
    cells: Cells,
) -> None:
    assert [display.mime for display in show(cells, PLOT)] == ["image/png"]
    assert show(cells, "1") == []
    assert len(show(cells, "figure, axes = plt.subplots()\nfigure")) == 1
    assert len(show(cells, "figure")) == 1


@pytest.mark.parametrize("backend", ["", "Agg", "svg"])
def test_figures_are_shown_between_earlier_and_later_output(cells: Cells, backend: str) -> None:
    start = "import matplotlib.pyplot as plt"
    if backend:
        start = f"import matplotlib\nmatplotlib.use('{backend}')\n{start}"
    assert backend.lower() in cells.text(f"{start}\nplt.get_backend().lower()")
    result = cells.run("plt.plot([1])\nprint('before')\nplt.show()\nprint('after')\nplt.plot([2]);")
    assert [kind for kind, _ in pieces(result)] == ["stdout", "display", "stdout", "display"]
    assert [base64.b64decode(data)[:8] for data in pictures(result)] == [PNG, PNG]
    assert cells.text("plt.get_fignums()") == "[]\n"


def test_frames_pillow_and_markdown_bring_their_own_format(cells: Cells) -> None:
    (frame,) = show(cells, "import pandas as pd\npd.DataFrame({'a': [1], 'b': ['[bold]']})")
    assert frame.mime == "text/html"
    assert "[bold]" in frame.data
    assert frame.text.split() == ["a", "b", "0", "1", "[bold]"]
    assert frame.data.endswith("<p>1 rows × 2 columns</p>\n</div>")
    (frame,) = show(cells, "pd.DataFrame({'a': range(1_000)})")
    assert frame.data.count("1000 rows × 1 columns") == 1
    with_option = "with pd.option_context('display.show_dimensions', False): display(pd.DataFrame({'a': [1]}))"
    assert "rows" not in show(cells, with_option)[0].data
    (picture,) = show(cells, "from PIL import Image\nImage.new('RGB', (4_000, 3_000))")
    assert base64.b64decode(picture.data)[:8] == PNG
    (words,) = show(cells, "class Words:\n    def _repr_markdown_(self): return '# Title'\nWords()")
    assert (words.mime, words.data) == ("text/markdown", "# Title")
    assert show(cells, "Words();") == []
    assert [
        kind for kind, _ in pieces(cells.run("display(Words(), 3, Words())\nprint('end')"))
    ] == ["display", "stdout", "display", "stdout"]


@pytest.mark.parametrize(
    "code",
    [
        "Image.frombytes('RGB', (3_200, 2_000), os.urandom(3 * 3_200 * 2_000))",
        "Image.frombytes('RGBA', (3_200, 2_000), os.urandom(4 * 3_200 * 2_000))",
        "plt.figure(figsize=(16, 16)).figimage(np.random.rand(1_600, 1_600, 3));",
        "plt.figure(figsize=(5_000, 5_000));",
    ],
)
def test_oversized_picture_is_shown_smaller(cells: Cells, code: str) -> None:
    (picture,) = show(
        cells,
        f"import os\nfrom PIL import Image\nimport matplotlib.pyplot as plt, numpy as np\n{code}",
    )
    data = base64.b64decode(picture.data)
    with Image.open(io.BytesIO(data)) as image:
        assert 500 < max(image.size) <= 3_100


def test_rich_output_is_coloured_text(cells: Cells) -> None:
    output = cells.text(
        "from rich.table import Table\ntable = Table('head')\ntable.add_row('[red]cell')\ntable"
    )
    assert "head" in output
    assert "\x1b[" in output


@pytest.mark.parametrize(
    "body",
    [
        "def _repr_html_(self): raise ValueError",
        "def _repr_html_(self): return 5",
        "def _repr_html_(self): return '<b>no table</b>'",
        "def _repr_html_(self): return '<table>' + 'x' * 400_000",
        "def _repr_png_(self): return 'not base64!'",
        "def _repr_png_(self): return b'x' * 6_000_000",
        "def _repr_markdown_(self): return None",
        "def _repr_mimebundle_(self, include, exclude): return {'text/plain': 'x'}",
        "def _repr_mimebundle_(self): return {}",
        "def __rich__(self): raise ValueError",
        "def __getattr__(self, name): return lambda *given, **named: '<table><tr><td>1</table>'",
    ],
)
def test_failing_rich_format_leaves_the_plain_one(cells: Cells, body: str) -> None:
    result = cells.run(
        f"import rich\nclass Odd:\n    {body}\n    def __repr__(self): return 'odd'\nOdd()"
    )
    assert (result.status, result.output, result.displays) == ("ok", "odd\n", ())


def test_model_displaying_too_much_is_stopped(cells: Cells) -> None:
    code = "class Long:\n    def _repr_markdown_(self): return 'short'\n    def __repr__(self): return 'x' * 20_000\nLong()"
    result = cells.run(code, limit=10_000)
    assert result.status == "error"
    assert "more than 10,000 characters" in result.output


def test_forked_child_prints_displays_as_text(cells: Cells) -> None:
    code = "class Words:\n    def _repr_markdown_(self): return '# Title'\n    def __repr__(self): return 'words'\n"
    result = cells.run(
        code
        + "import os\nchild = os.fork()\nif child == 0:\n    display(Words())\n    os._exit(0)\nos.waitpid(child, 0);"
    )
    assert (result.output, result.displays) == ("words\n", ())


def test_a_forged_display_is_text(cells: Cells) -> None:
    host = "import sys\ncall = sys.modules['mahtab_worker.control'].Host.call\n"
    result = cells.run(
        host
        + "call('display', {'mime': 'text/x-forged', 'data': 5})\ncall('display', {'text': 'as it is\\n'})"
    )
    assert (result.status, result.displays) == ("ok", ())
    assert "as it is" in result.output


def test_display_from_a_thread_between_cells_is_background_text(cells: Cells) -> None:
    words = "class Words:\n    def _repr_markdown_(self): return 'm'\n    def __repr__(self): return 'late'\n"
    cells.run(
        words
        + "import threading\ngo = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), display(Words()))).start()"
    )
    if "late" not in cells.run("go.set()").output:
        cells.host.wait_for_late("late")


ANSWERS: dict[str, Any] = {
    "ask": "# Findings\n\n- one\n- two",
    "rlm": {
        "text": "The answer is **42**.",
        "partial": False,
        "why": "",
        "usage": [1, 10, 0.0, 0.1],
        "spans": [],
        "packed": "",
    },
    "usage": "a  b\n1  2",
}


def test_tool_results_read_as_text_and_are_plain_str(cells: Cells) -> None:
    cells.host.answer = lambda name, args: ANSWERS[name]
    result = cells.run("answer = ask('what?')\nanswer")
    (shown,) = result.displays
    assert (shown.mime, shown.data) == ("text/markdown", ANSWERS["ask"])
    assert result.output == ANSWERS["ask"] + "\n"
    assert [display.data for display in show(cells, "rlm('what?', 'some text')")] == [
        "The answer is **42**."
    ]
    assert [display.data for display in show(cells, "display(answer)")] == [ANSWERS["ask"]]
    assert cells.text("type(answer) is str") == "True\n"
    assert cells.text("[answer]") == f"{[ANSWERS['ask']]!r}\n"
    assert cells.text("answer + '!'") == f"{ANSWERS['ask'] + '!'!r}\n"


def test_tool_results_are_displayed_verbatim(cells: Cells, project: Path) -> None:
    cells.host.answer = lambda name, args: ANSWERS[name]
    (project / "a.txt").write_text("one\ntwo\n")
    assert cells.text("read('a.txt')") == "     1  one\n     2  two\n"
    assert cells.text("grep('one\\ntwo', 't')") == "2: two\n"
    assert cells.text("peek('one\\ntwo', 5)") == "[characters 0 to 5 of 7]\none\nt\n"
    assert cells.text("usage()") == ANSWERS["usage"] + "\n"
    assert cells.text("'one\\ntwo'") == "'one\\ntwo'\n"
    cells.host.answer = lambda name, args: "7"
    assert cells.text("ask('how many?')") == "7\n"
    assert cells.text("'7'") == "'7'\n"


def test_help_is_shown_from_its_start(cells: Cells) -> None:
    (shown,) = show(cells, "len?")
    assert (shown.mime, shown.data) == ("text/plain", "")
    assert shown.text.startswith("len(obj, /)\n\nReturn the number")
    (shown,) = show(cells, "help(len)")
    assert shown.text.startswith("Help on built-in function len in module builtins:\n\nlen(")
    assert "\b" not in shown.text
    redirected = "import contextlib, io\nfile = io.StringIO()\nwith contextlib.redirect_stdout(file): help(len)\n"
    result = cells.run(redirected + "'Help on' in file.getvalue()")
    assert (result.displays, result.output) == ((), "True\n")


# `In`, `Out`, magics and help, as a person meets them in cells.


def test_inputs_and_outputs_are_stored(cells: Cells) -> None:
    cells.run("6 * 7")
    cells.run("'b'")
    assert cells.text("_, __, In[1], Out[1]") == "('b', 42, '6 * 7', 42)\n"
    assert cells.text("_[0], In[-1]") == "('b', '_[0], In[-1]')\n"
    assert cells.run("None").output == ""
    assert cells.text("sorted(Out)") == "[1, 2, 3, 4]\n"
    assert {variable.name for variable in cells.kernel.variables()} == set()


def test_time_magic_reports_the_duration_and_returns_the_value(cells: Cells) -> None:
    output = cells.text("%time sum(range(10))")
    assert output.startswith("took ")
    assert output.endswith("\n45\n")
    assert cells.text("%time x = 5\nx").endswith("\n5\n")
    assert cells.text("%%time\ny = 6\ny + 1").endswith("\n7\n")
    slept = "import asyncio\n%time await asyncio.sleep(0, 'slept')"
    assert cells.text(slept).endswith("\n'slept'\n")
    assert cells.text("%%time\nx = await asyncio.sleep(0, 2)\nx + 1").endswith("\n3\n")
    failed = cells.run("%time 1 / 0")
    assert failed.status == "error"
    assert "ZeroDivisionError" in failed.output
    assert "1 / 0" in failed.output


def test_expressions_in_braces_are_substituted_in_a_command(cells: Cells) -> None:
    cells.run("who = 'me'\ndef f(inner):\n    !echo {inner} {who.upper()}\n")
    assert cells.text("f('it')") == "it ME\n"
    assert cells.text("x = !echo {who}\nx") == "['me']\n"
    assert cells.text("!echo a b | awk '{print $2}'") == "b\n"
    assert (
        cells.text("!who=shell; echo ${who} {{who}} {nothing} {1/0}")
        == "shell {{who}} {nothing} {1/0}\n"
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
        "%store -r",
        "%xmode Verbose",
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


def test_variables_are_listed(cells: Cells) -> None:
    cells.run("import os\nn, text, _private = 1, 'abc', 2\ndef f(): ...")
    assert cells.text("%who") == "n  text\n"
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
        ("%%file a.txt\nwords\n", "wrote a.txt\n"),
        ("!printf words > a.txt\n%cat a.txt", "words"),
        ("%%script sh -s one\necho $1; exit 3", "one\nexit code 3\n"),
        ("%%python\nprint(6 * 7)", "42\n"),
        ("%sx echo words", "['words']\n"),
        ("x = !printf 'a\\nb'; exit 3\nx", "exit code 3\n['a', 'b']\n"),
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
    assert "function calls" in cells.text("%prun sorted(range(100))")
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
    assert cells.text("%%capture --no-stderr\nprint('a')") == ""
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


@pytest.mark.parametrize(
    "code", ["In = 1", "Out = 1", "Out.clear()", "In.clear()", "import builtins; del builtins.Out"]
)
def test_in_and_out_can_be_rebound_or_cleared(cells: Cells, code: str) -> None:
    cells.run(code)
    assert cells.text("40 + 2") == "42\n"
