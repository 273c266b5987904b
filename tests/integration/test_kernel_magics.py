"""`In`, `Out`, magics and help."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kernels import Cells, show


def test_inputs_and_outputs_are_stored(cells: Cells) -> None:
    cells.run("6 * 7")
    cells.run("'b'")
    cells.expect("_, __, In[1], Out[1]", "('b', 42, '6 * 7', 42)\n")
    cells.expect("_[0], In[-1]", "('b', '_[0], In[-1]')\n")
    cells.expect(
        "_1, _2, _i1, _i, _ii", "(42, 'b', '6 * 7', '_[0], In[-1]', '_, __, In[1], Out[1]')\n"
    )
    assert cells.run("None").output == ""
    cells.expect("sorted(Out)", "[1, 2, 3, 4, 5]\n")
    assert cells.names() == set()


def test_time_magic_reports_duration_and_value(cells: Cells) -> None:
    cells.run("import asyncio")
    for code, value in (
        ("%time sum(range(10))", "45"),
        ("%time x = 5\nx", "5"),
        ("%%time\ny = 6\ny + 1", "7"),
        ("%time await asyncio.sleep(0, 'slept')", "'slept'"),
        ("%%time\nx = await asyncio.sleep(0, 2)\nx + 1", "3"),
    ):
        output = cells.text(code)
        assert output.startswith("took ")
        assert output.endswith(f"\n{value}\n")
    failed = cells.run("%time 1 / 0")
    assert failed.status == "error"
    assert "ZeroDivisionError" in failed.output
    assert "1 / 0" in failed.output


def test_commands_substitute_expressions(cells: Cells) -> None:
    cells.run("who = 'me'\ndef f(inner):\n    !echo {inner} {who.upper()}\n")
    cells.expect("f('it')", "it ME\n")
    cells.expect("x = !echo {who}\nx", "['me']\n")
    cells.expect("!echo a b | awk '{print $2}'", "b\n")
    cells.expect("!who=shell; echo ${who} {{who}} {nothing} {1/0}", "shell {who} {nothing} {1/0}\n")
    cells.expect("!echo {{{who}}} {{{{who}}}} '{{$who}}' {{}}", "{me} {{who}} {$who} {}\n")
    cells.expect("!echo 3 | awk '{if ($1 > 2) {print \"more\"}}'", "more\n")


def test_dollar_names_are_pythons_before_they_are_the_shells(
    cells: Cells,
) -> None:
    cells.run(
        "import os, types\nos.environ['ONLY_ENV'] = 'env'\nold = 'python'\npoint = types.SimpleNamespace(x=3)\n"
        "def f(inner):\n    !echo $inner $old\n"
    )
    for code, output in (
        ("!echo rm -rf $old/*", "rm -rf python/*"),
        ('!echo "$old" "{old}"', "python python"),
        ("!echo '$old' \\$old", "$old $old"),
        ("!echo $point.x $old.txt $old.title", "3 python.txt python.title"),
        ("!old=shell; echo $$old $old", "shell python"),
        ("!old=shell; echo ${old} $${old}", "shell shell"),
        ("!echo $ONLY_ENV ${ONLY_ENV} ${nothing:-none}", "env env none"),
        ("!for word in a b; do echo $word; done", "a\nb"),
        ("!{ echo $old; }", "python"),
        ("!for word in a; do echo {{$word}}; done", "{a}"),
        ("!echo a a | sed -E 's/a{1}/b/g'", "b b"),
        ('!bash -c "echo a{1,2}"', "a1 a2"),
        ('!echo "{old!r}" {old[:2]!s} {old[2]!a}', "'python' py t"),
        ("!echo 3 4 | awk '{print}'", "3 4"),
        ("f('local')", "local python"),
        ("%ls -d $old {old}", ""),
    ):
        result = cells.run(code)
        assert output in result.output, code
        assert "NameError" not in result.output
    cells.expect("!!echo $old", "['python']\n")
    cells.expect("x = !echo $old\nx", "['python']\n")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("!echo rm -rf $nothing/*", "neither Python nor the environment has a variable 'nothing'"),
        ("x = !echo $nothing", "Write $$nothing for a variable that the shell sets."),
        ("%cd $nothing", "neither Python nor the environment has a variable 'nothing'"),
        ("!echo rm -rf ${old}/*", "the shell has no variable 'old'. Write $old or {old}"),
        ("!echo ${nothing%/}", "the environment has no variable 'nothing'"),
        ("!{ rm -rf $nothing/*; }", "neither Python nor the environment has a variable 'nothing'"),
    ],
)
def test_a_name_that_nothing_sets_does_not_reach_the_shell(
    cells: Cells, code: str, sentence: str
) -> None:
    output = cells.run(f"old = 'python'\n{code}").output
    assert "NameError" in output
    assert sentence in output


def test_arguments_of_magics_substitute_names(cells: Cells, project: Path) -> None:
    (project / "inner").mkdir()
    cells.run("name = 'inner'\nimport os\nos.environ['HERE'] = os.getcwd()")
    cells.expect("%cd $name", f"{project / 'inner'}\n")
    cells.expect("%cd $HERE", f"{project}\n")
    cells.expect("%cd -", f"{project / 'inner'}\n")
    cells.expect("%cd -0", f"{project}\n")
    assert "no such earlier folder" in cells.run("%cd -77").output
    cells.expect("%%bash -s $name {len(name)}\necho $1 $2 {$name}", "inner 5 {}\n")
    cells.expect("%%writefile $name/note.txt\n$name", "wrote inner/note.txt\n")
    assert (project / "inner" / "note.txt").read_text() == "$name\n"
    cells.run("%env COPY=$name.txt")
    cells.expect("os.environ['COPY']", "'inner.txt'\n")
    assert "took" in cells.text("%time {'a': 1}['a'] and '$name'")


def test_script_cells_take_arguments_and_variables_for_output(cells: Cells) -> None:
    cells.expect("%%bash -s 1 'two words'\necho $2; cat", "two words\n")
    cells.expect("%%bash --no-raise-error -eu\nfalse\necho no", "exit code 1\n")
    cells.expect("%%bash --out printed --err wrong\necho a; echo b >&2", "")
    cells.expect("printed, wrong", "('a\\n', 'b\\n')\n")
    cells.expect("%%script --out printed sh -s x\necho $1", "")
    cells.expect("printed", "'x\\n'\n")
    assert "`!command &` runs it in the background" in cells.run("%%bash --bg\nls").output
    cells.expect("%%sx\necho a\necho b", "['a', 'b']\n")


@pytest.mark.parametrize("magic", ["bash", "sh", "script sh", "python"])
def test_a_script_cell_that_fails_raises_an_error(cells: Cells, magic: str) -> None:
    code = "raise SystemExit(3)" if magic == "python" else "exit 3"
    failed = cells.run(f"%%{magic}\n{code}")
    assert failed.status == "error"
    name = magic.partition(" ")[0]
    assert (
        f"CalledProcessError: Command '%%{name}' returned non-zero exit status 3" in failed.output
    )
    cells.expect("_exit_code", "3\n")


def test_exit_code_of_the_last_command_is_known(cells: Cells) -> None:
    cells.expect("!exit 3\n_exit_code", "exit code 3\n3\n")
    cells.expect("x = !true\n_exit_code", "0\n")


def test_timed_and_captured_cells_may_run_commands(cells: Cells) -> None:
    assert cells.text("%%time\n!echo timed\n%pwd").startswith("timed\n")
    cells.expect("%%capture\n%pwd\nx = !echo captured", "")
    cells.expect("x", "['captured']\n")


def test_first_line_of_a_timed_cell_only_prepares_it(cells: Cells) -> None:
    cells.run("made = 0; timed = 0")
    cells.run("%%timeit -n 5 -r 2 global made; made += 1\nglobal timed\ntimed += 1")
    cells.expect("made, timed", "(2, 10)\n")
    cells.expect(
        "t = %timeit -qo -n 5 -r 2 pass\nt.loops, t.repeat, len(t.all_runs)", "(5, 2, 2)\n"
    )
    assert " per loop (of 2 runs" in cells.text("t")
    assert cells.run("0 < t.best <= t.average <= t.worst").output == "True\n"


def test_timeit_runs_the_code_many_times(cells: Cells) -> None:
    cells.run("n = 0\ndef f():\n    global n\n    n += 1\n")
    assert " per loop (of 2 runs with 3 loops each" in cells.text("%timeit -n 3 -r 2 f()")
    cells.expect("n", "6\n")
    assert "needs code" in cells.run("%timeit").output
    cells.run("import time\nt = %timeit -qco -n 1 -r 1 time.sleep(0.2)")
    cells.expect("t.best < 0.2", "True\n")  # sleeping takes no time of the processor


def test_timed_code_keeps_its_strings_and_commands(cells: Cells) -> None:
    cells.expect(
        "%%timeit -q -n 1 -r 1 texts = []\ntexts.append('''a\nb''')\nprint(texts)", "['a\\nb']\n"
    )
    assert cells.text("%timeit -q -n 1 -r 2 !echo timed") == "timed\ntimed\n"


def test_the_working_directory_changes(cells: Cells, project: Path) -> None:
    (project / "inner").mkdir()
    cells.expect("%cd inner", f"{project / 'inner'}\n")
    assert cells.kernel.info().cwd == str(project / "inner")
    assert "FileNotFoundError" in cells.run("%cd nowhere").output


def test_script_runs_and_its_names_stay(cells: Cells, project: Path) -> None:
    (project / "script.py").write_text(
        "import sys\nx = sys.argv[1:]\nif __name__ == '__main__':\n    print('main')\n", "utf-8"
    )
    cells.expect("%run script.py a 'b c'\nx", "main\n['a', 'b c']\n")
    (project / "script.py").write_text("y = 1\ndef f():\n    return 1 / 0\nf()\n", "utf-8")
    assert 'script.py", line 3' in cells.run("%run script.py").output
    cells.expect("y", "1\n")


def test_a_script_uses_the_same_modules_as_cells(cells: Cells, project: Path) -> None:
    (project / "script.py").write_text("import json, sys, helper\nhelper.mode = 'fast'\n", "utf-8")
    (project / "helper.py").write_text("mode = ''\n", "utf-8")
    cells.run("%run script.py")
    cells.expect("type(sys).__name__, sys.modules['json'] is json", "('module', True)\n")
    cells.expect("import helper as own_helper; own_helper.mode", "'fast'\n")


def test_a_script_runs_with_the_options_of_ipython(cells: Cells, project: Path) -> None:
    (project / "script.py").write_text(
        "from typing import get_type_hints\nimport __main__, sys\n"
        "class Node:\n    after: 'Node'\n"
        "has_hints = __name__ != '__main__' or get_type_hints(Node) == {'after': Node}\n"
        "print(__name__, globals().get('outer'), sys.argv[1:], has_hints)\n",
        "utf-8",
    )
    (project / "package").mkdir()
    (project / "package" / "__init__.py").touch()
    (project / "package" / "part.py").write_text("print(__name__, __package__)\npart = 5", "utf-8")
    (project / "a.csv").touch()
    cells.run("outer = 7")
    cells.expect("%run script", "__main__ None [] True\n")
    cells.expect("%run -i script.py x", "__main__ 7 ['x'] True\n")
    cells.expect("__name__, '__file__' in globals()", "('__main__', False)\n")
    cells.expect("%run -n script.py *.csv *.txt", "script None ['a.csv', '*.txt'] True\n")
    cells.expect("%run -G script.py *.csv", "__main__ None ['*.csv'] True\n")
    cells.expect("%run -m package.part\npart", "__main__ package\n5\n")
    assert "\ntook " in cells.text("%run -t script.py")
    assert "Ordered by: internal time" in cells.text("%run -p script.py")
    assert "write breakpoint() into the script" in cells.run("%run -d script.py").output
    assert "%run does not take -z" in cells.run("%run -z script.py").output


def test_post_mortem_uses_the_input_line(cells: Cells) -> None:
    cells.run("def f(secret):\n    return 1 / 0\n")
    assert "nothing to debug" in cells.run("%debug").output
    cells.run("f(42)")
    answers = iter(["p secret + 1", "q"])
    cells.host.answer = lambda name, args: next(answers)
    assert "43" in cells.text("%debug")


def test_pip_magic_runs_the_kernels_pip(cells: Cells) -> None:
    output = cells.text("%pip --version")
    assert "pip " in output
    assert "python" in output


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "%tiem x",
            "There is no %tiem. Did you mean %time or %timeit or %system? %lsmagic lists all.",
        ),
        (
            "%%tiem x",
            "There is no %%tiem. Did you mean %%time or %%timeit or %%system? %lsmagic lists all.",
        ),
        ("%bash x", "There is no %bash. Did you mean %%bash? %lsmagic lists all."),
        ("%%who\nx", "There is no %%who. Did you mean %who? %lsmagic lists all."),
        ("%qqq", "There is no %qqq. %lsmagic lists all."),
    ],
)
def test_unknown_magic_error_names_the_nearest(cells: Cells, code: str, sentence: str) -> None:
    output = cells.run(code).output
    assert output.splitlines()[-1] == f"UnknownMagicError: {sentence}"
    assert "magic_commands" not in output


@pytest.mark.parametrize("line", ["%matplotlib inline", "%matplotlib"])
def test_notebook_backend_prints_nothing(cells: Cells, line: str) -> None:
    cells.expect(f"{line}\n1", "1\n")


def test_values_fit_the_size_of_the_screen(cells: Cells) -> None:
    code = "{'first': 'a' * 20, 'second': 'b' * 20}"
    cells.kernel.set_size(40, 20)
    cells.expect(code, f"{{'first': '{'a' * 20}',\n 'second': '{'b' * 20}'}}\n")
    cells.kernel.set_size(100, 20)
    assert cells.text(code).count("\n") == 1


def test_magics_work_without_percent_sign(cells: Cells, project: Path) -> None:
    (project / "notes").mkdir()
    (project / "notes" / "a.txt").write_text("words")
    cells.expect("pwd", f"{str(project)!r}\n")
    cells.expect("ls", "notes/\n")
    cells.expect(f"cat {project}/notes/a.txt", "words")
    cells.expect(f"ls /{str(project).lstrip('/')}", "notes/\n")
    cells.expect("cd notes", f"{project / 'notes'}\n")
    cells.expect("cd ..", f"{project}\n")
    cells.expect("ls -1 notes", "a.txt\n")
    cells.run("n = 1")
    cells.expect("who", "n\n")
    cells.expect("who int", "n\n")
    cells.expect("who str", "There are no variables.\n")
    assert "took" in cells.text("time n + 1")


def test_a_name_hides_the_magic_without_percent_sign(cells: Cells) -> None:
    cells.run("who = 1")
    cells.expect("who", "1\n")
    cells.run("import time")
    cells.expect("time - 1 if 0 else 2", "2\n")
    assert "magic command" in cells.run("x = 1\npwd").output
    assert "NameError" in cells.run("ls + 1").output
    assert "SyntaxError" in cells.run("save =").output


def test_inputs_are_saved_to_a_file(cells: Cells, project: Path) -> None:
    cells.run("x = 1")
    cells.run("y = 2\nz = 3")
    cells.expect("%save work 1-2", "wrote 2 cells to work.py\n")
    assert (project / "work.py").read_text() == "x = 1\ny = 2\nz = 3\n"
    assert "work.py exists: %save -f" in cells.run("%save work 1").output
    cells.expect("%save -a work.py 1", "wrote 1 cell to work.py\n")
    assert (project / "work.py").read_text().endswith("z = 3\nx = 1\n")
    assert "has run no cell 99" in cells.run("%save other 99").output
    assert "needs a file and the numbers" in cells.run("%save other").output
    assert not (project / "other.py").exists()


def test_names_are_reset_after_a_question(cells: Cells) -> None:
    cells.run("x = 1\ndef f(): ...")
    cells.host.answer = lambda name, args: "n"
    assert "Nothing was deleted." in cells.text("%reset")
    cells.host.answer = lambda name, args: "y"
    assert "Delete all 2 names?" in cells.text("%reset")
    cells.expect("%whos", "There are no variables.\n")
    cells.run("x = 1")
    cells.host.answer = lambda name, args: "n"
    assert "Delete the only name?" in cells.text("%reset")
    cells.expect("%reset -f\n'x' in globals()", "False\n")


@pytest.mark.parametrize(
    "line",
    [
        "%matplotlib qt",
        "%config TerminalInteractiveShell.editing_mode = 'vi'",
        "%store -r",
        "%xmode Verbose",
        "%pdb on",
    ],
)
def test_ignored_magic_prints_one_muted_line(cells: Cells, line: str) -> None:
    result = cells.run(f"kept = 41\n{line}\nkept + 1")
    warning, value, after_value = result.output.split("\n")
    assert (result.status, value, after_value) == ("ok", "42", "")
    assert warning.startswith(f"\x1b[2m{line} ")
    assert warning.endswith(".\x1b[22m")


def test_autoreload_works_as_in_ipython(
    cells: Cells, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("away") / "elsewhere.py"
    for file in (project / "mine.py", away):
        file.write_text("def f(): return 1\n")
    cells.run(f"import sys; sys.path.append({str(away.parent)!r})")
    cells.expect(
        "%load_ext autoreload\n%autoreload 2\n%aimport mine\nfrom elsewhere import f\nmine.f(), f()",
        "(1, 1)\n",
    )

    def change(number: int) -> None:
        for file in (project / "mine.py", away):
            file.write_text(f"def f(): return {number}\n")
            os.utime(file, (number, number))

    change(2)
    assert cells.text("mine.f(), f()").endswith("\n(2, 2)\n")
    cells.run("%aimport -mine")
    change(3)
    assert cells.text("mine.f(), f()").endswith("\n(2, 3)\n")
    cells.run("%autoreload 0\n%aimport mine")
    change(4)
    cells.expect("mine.f(), f()", "(2, 3)\n")
    assert cells.text("%autoreload\nmine.f(), f()").endswith("\n(4, 4)\n")
    assert "takes 1, 2 or 3 (on)" in cells.run("%autoreload 7").output


def test_run_magic_runs_a_notebook(cells: Cells, project: Path) -> None:
    notebook = project / "nb.ipynb"
    sources = [
        "import asyncio\ny = x + 1",
        ["%pwd\n", "z = await asyncio.sleep(0, y)\n", "print('z is', z)\n", "z"],
        "1 / 0",
        "late = 1",
    ]
    content: list[Any] = [{"cell_type": "markdown", "source": "# not code ="}]
    content += [{"cell_type": "code", "source": source} for source in sources]
    notebook.write_text(json.dumps({"nbformat": 4, "cells": content}))
    cells.run("x = 1")
    output = cells.run("%run nb.ipynb").output
    assert output.startswith("z is 2\nTraceback")
    assert "nb.ipynb, code cell 3" in output
    cells.expect("x, y, z, 'late' in globals()", "(1, 2, 2, False)\n")
    notebook.write_text("not JSON")
    assert "nb.ipynb is not a notebook" in cells.run("%run nb.ipynb").output


def test_variables_are_listed(cells: Cells) -> None:
    cells.run("import os\nn, text, _private = 1, 'abc', 2\ndef f(): ...")
    cells.expect("%who", "n  text\n")
    cells.expect("%whos", "n     int  1\ntext  str  'abc'\n")
    cells.expect("%who_ls", "['n', 'text']\n")
    cells.run("del n, text")
    cells.expect("%whos", "There are no variables.\n")
    assert "%pip install" in cells.text("%lsmagic")


def test_env_magic_hides_secrets(cells: Cells) -> None:
    cells.run("%env MAHTAB_TEST=a b=c\nimport os")
    cells.expect("%env MAHTAB_TEST", "'a b=c'\n")
    cells.expect(
        "%set_env MAHTAB_API_KEY 123\nos.environ['MAHTAB_API_KEY']",
        "env: MAHTAB_API_KEY=<hidden>\n'123'\n",
    )
    for name, value in (
        ("MYSQL_PWD", "hunter2"),
        ("GH_PAT", "hunter2"),
        ("SLACK_WEBHOOK_URL", "https://h/hunter2"),
        ("HTTPS_PROXY", "http://u:hunter2@p"),
    ):
        cells.run(f"os.environ[{name!r}] = {value!r}")
    listed = cells.text("%env PWD=/x\n%env")
    assert "hunter2" not in listed
    lines = listed.splitlines()
    assert any(line.startswith("PWD=") and "hidden" not in line for line in lines)
    for line in ("HTTPS_PROXY=http://<hidden>@p", "MAHTAB_TEST=a b=c", "MAHTAB_API_KEY=<hidden>"):
        assert line in lines
    assert "the environment has no NOTHING_LIKE_IT" in cells.run("%env NOTHING_LIKE_IT").output


def test_history_magic_lists_inputs(cells: Cells) -> None:
    cells.run("x = 1\ny = 2")
    cells.expect("%history", "x = 1\ny = 2\n%history\n")
    assert cells.text("%hist -n").startswith("1:\nx = 1\ny = 2\n2: %history\n")


def test_file_and_script_magics_work(cells: Cells, project: Path) -> None:
    notes = project / "notes.txt"
    cells.expect("%%writefile notes.txt\na {b}\n\nc", "wrote notes.txt\n")
    assert notes.read_text() == "a {b}\n\nc\n"
    cells.expect("%%writefile -a notes.txt\nd", "added to notes.txt\n")
    for code, problem in (
        ("%%writefile\nd", "needs a file"),
        ("%%writefile notes.txt\n", "the text below it"),
        ("%bash echo", "There is no %bash."),
        ("%%who\nx", "There is no %%who."),
    ):
        assert problem in cells.run(code).output
    assert notes.read_text() == "a {b}\n\nc\nd\n"
    cells.expect("%ls notes*", "notes.txt\n")
    cells.expect("name = 'notes.txt'\n%ls {name}", "notes.txt\n")
    cells.expect("%pwd", f"{str(project)!r}\n")
    code = "%%bash\nfor x in 1 2; do\n  echo {$x}\ndone"
    cells.expect(code, "{1}\n{2}\n")


@pytest.mark.parametrize(
    ("code", "prints"),
    [
        ("%mkdir made\n%cp -r made other\n%ls -1", "made/\nother/\n"),
        ("%%file a.txt\nwords\n", "wrote a.txt\n"),
        ("!printf words > a.txt\n%cat a.txt", "words"),
        ("%%script --no-raise-error sh -s one\necho $1; exit 3", "one\nexit code 3\n"),
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
    cells.expect(code, prints)


def test_cells_of_html_and_markdown_are_shown(cells: Cells) -> None:
    for magic, kind in (("html", "html"), ("markdown", "markdown"), ("latex", "markdown")):
        (display,) = show(cells, f"%%{magic}\n<b>x</b>")
        assert (display.mime, "<b>x</b>" in display.data) == (f"text/{kind}", True)


def test_profiling_and_pylab_magics_work(cells: Cells) -> None:
    assert "function calls" in cells.text("%prun sorted(range(100))")
    assert "function calls" in cells.text("%%prun\nx = 1\nsorted([x])")
    assert "Ordered by: cumulative time" in cells.text("%%prun -s cumtime\nx = 1\nsorted([x])")
    cells.expect("%prun -q sum([1, 2])", "3\n")
    output = cells.run("ran = False\n%prun -s slowest exec('ran = True', globals())\nran").output
    assert "ValueError: %prun -s does not know 'slowest', only " in output
    assert ", cumtime," in output
    cells.expect("ran", "False\n")
    cells.expect("stats = %prun -qr sum([1, 2])\ntype(stats).__name__", "'Stats'\n")
    cells.expect(
        "%pylab inline\nplt.__name__, np.pi == pi, sum([1, 2])", "('matplotlib.pyplot', True, 3)\n"
    )


def test_capture_magic_stores_printed_output(cells: Cells) -> None:
    cells.expect(
        "%%capture printed\nimport sys\nprint('a')\nprint('b', file=sys.stderr)\nx = 1\nx", ""
    )
    cells.expect("printed.stdout, printed.stderr, x", "('a\\n', 'b\\n', 1)\n")
    cells.expect("printed.show()", "a\nb\n")
    cells.expect("%%capture --no-stdout printed\nprint('a')", "a\n")
    cells.expect("%%capture --no-stderr\nprint('a')", "")
    figure = "import matplotlib.pyplot as plt\nfigure = plt.figure()"
    assert show(cells, f"%%capture printed\n{figure}\ndisplay(figure)\nplt.plot([1])") == []
    assert len(show(cells, "printed.show()")) == 2
    clear = "from IPython.display import clear_output\ndisplay(1)\nclear_output(wait=True)"
    cells.run(f"%%capture printed\n{clear}")
    cells.expect("[output.text for output in printed.outputs]", "['1\\n']\n")
    cells.run(f"%%capture printed\n{clear}\ndisplay(2)\ndisplay(3)")
    cells.expect("[output.text for output in printed.outputs]", "['2\\n', '3\\n']\n")
    assert "does not take --no" in cells.run("%%capture --no\n1").output
    assert "ZeroDivisionError" in cells.run("%%capture printed\nprint('so far')\n1 / 0").output
    cells.expect("print(printed)", "so far\n\n")
    assert "takes at most one name" in cells.run("%%capture a b\n1").output


def test_help_and_source_magics_work(cells: Cells) -> None:
    cells.run('def f(a, b: int = 3) -> str:\n    """Say it."""\n    return str(a)\n')
    output = cells.text("f?")
    assert output.startswith("f(a, b: int = 3) -> str\n\nSay it.")
    assert "return str(a)" not in output
    assert "return str(a)" in cells.text("f??")
    assert cells.text("nothing?").startswith("Cannot show help for `nothing`")
    assert cells.text("x = {'a': 1}\nx['a']?").startswith("x['a']: int  1")


@pytest.mark.parametrize(
    "code", ["In = 1", "Out = 1", "Out.clear()", "In.clear()", "import builtins; del builtins.Out"]
)
def test_in_and_out_can_be_rebound_or_cleared(cells: Cells, code: str) -> None:
    cells.run(code)
    cells.expect("40 + 2", "42\n")
