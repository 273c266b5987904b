"""`In`, `Out`, magics and help, as a person meets them in cells."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

from mahtab_tui.kernel.inprocess import InProcessKernel
from tests.integration.kernels import Cells, RecordingHost


def test_inputs_and_outputs_are_kept(cells: Cells) -> None:
    cells.run("6 * 7")
    cells.run("'b'")
    assert cells.text("_, __, In[1], Out[1]") == "('b', 42, '6 * 7', 42)\n"
    assert cells.text("_[0], In[-1]") == "('b', '_[0], In[-1]')\n"
    assert cells.run("None").output == ""
    assert cells.text("sorted(Out)") == "[1, 2, 3, 4]\n"
    assert {variable.name for variable in cells.kernel.variables()} == set()


def test_the_sessions_own_code_is_no_input(cells: Cells) -> None:
    cells.kernel.execute("'own'", cell=0, origin="user", on_output=lambda kind, text: None)
    assert cells.text("In") == "['', 'In']\n"


def test_what_a_command_prints_becomes_lines(cells: Cells) -> None:
    assert cells.text("x = !printf 'a\\nb'\nx") == "['a', 'b']\n"
    assert cells.text("x = !printf a; exit 3\nx") == "exit code 3\n['a']\n"


def test_time_says_how_long_and_gives_the_value(cells: Cells) -> None:
    output = cells.text("%time sum(range(10))")
    assert output.startswith("took ")
    assert output.endswith("\n45\n")
    assert cells.text("%time x = 5\nx").endswith("\n5\n")
    assert cells.text("%%time\ny = 6\ny + 1").endswith("\n7\n")


def test_what_awaits_is_timed_too(cells: Cells) -> None:
    assert cells.text("import asyncio\n%time await asyncio.sleep(0, 'slept')").endswith("\n'slept'\n")
    assert cells.text("%%time\nx = await asyncio.sleep(0, 2)\nx + 1").endswith("\n3\n")


def test_expressions_in_braces_are_filled_into_a_command(cells: Cells) -> None:
    cells.run("who = 'me'\ndef f(inner):\n    !echo {inner} {who.upper()}\n")
    assert cells.text("f('it')") == "it ME\n"
    assert cells.text("x = !echo {who}\nx") == "['me']\n"
    assert cells.text("!echo a b | awk '{print $2}'") == "b\n"
    assert cells.text("!who=shell; echo ${who} {{who}} {nothing} {1/0}") == "shell {{who}} {nothing} {1/0}\n"


def test_time_of_what_fails_says_where(cells: Cells) -> None:
    result = cells.run("%time 1 / 0")
    assert (result.status, "ZeroDivisionError" in result.output, "1 / 0" in result.output) == ("error", True, True)


def test_timeit_runs_it_many_times(cells: Cells) -> None:
    cells.run("n = 0\ndef f():\n    global n\n    n += 1\n")
    assert " per loop (of 2 runs with 3 loops each" in cells.text("%timeit -n 3 -r 2 f()")
    assert cells.text("n") == "6\n"
    assert "wants code" in cells.run("%timeit").output


def test_the_working_directory_changes(cells: Cells, project: Path) -> None:
    (project / "inner").mkdir()
    assert cells.text("%cd inner") == f"{project / 'inner'}\n"
    assert cells.kernel.info().cwd == str(project / "inner")
    assert "FileNotFoundError" in cells.run("%cd nowhere").output


def test_a_script_runs_and_its_names_stay(cells: Cells, project: Path) -> None:
    (project / "script.py").write_text("import sys\nx = sys.argv[1:]\nif __name__ == '__main__':\n    print('main')\n", "utf-8")
    assert cells.text("%run script.py a 'b c'\nx") == "main\n['a', 'b c']\n"
    (project / "script.py").write_text("y = 1\ndef f():\n    return 1 / 0\nf()\n", "utf-8")
    output = cells.run("%run script.py").output
    assert 'script.py", line 3' in output
    assert cells.text("y") == "1\n"


def test_post_mortem_goes_through_the_input_line(cells: Cells) -> None:
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


def test_an_unknown_magic_says_so_and_lists_what_there_is(cells: Cells) -> None:
    output = cells.run("%matplotlib inline").output
    assert "There is no %matplotlib." in output
    assert all(f"%{name}" in output for name in ("time", "timeit", "cd", "run", "debug", "pip"))
    assert "habits" not in output


def test_help_and_source(cells: Cells) -> None:
    cells.run('def f(a, b: int = 3) -> str:\n    """Say it."""\n    return str(a)\n')
    output = cells.text("f?")
    assert output.startswith("f(a, b: int = 3) -> str\n\nSay it.")
    assert "return str(a)" not in output
    assert "return str(a)" in cells.text("f??")
    assert cells.text("len?").startswith("len(obj, /)\n\nReturn the number of items")
    assert cells.text("nothing?").startswith("There is no nothing")
    assert cells.text("x = {'a': 1}\nx['a']?").startswith("x['a']: int  1")


def test_the_embedding_kernel_has_them_and_takes_them_away(project: Path) -> None:
    kernel = InProcessKernel(RecordingHost(), {})
    kernel.start()
    try:
        assert Cells(kernel, RecordingHost()).text("1 + 1\n") == "2\n"
        assert hasattr(builtins, "Out")
    finally:
        kernel.close()
    assert not hasattr(builtins, "Out")


@pytest.mark.parametrize("code", ["In = 1", "Out = 1", "Out.clear()", "In.clear()", "import builtins; del builtins.Out"])
def test_the_names_can_be_taken_for_other_things(cells: Cells, code: str) -> None:
    cells.run(code)
    assert cells.text("40 + 2") == "42\n"
