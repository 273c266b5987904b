"""Cells that were written for IPython and notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.inprocess import InProcessKernel
from tests.integration.kernels import Cells, running

WITHOUT_IPYTHON = (
    "import sys\nsys.path[:] = [folder for folder in sys.path if 'site-packages' not in folder]"
)
IMPORT = "from IPython.display import display, clear_output, update_display, HTML, Markdown, Image"


@pytest.fixture(params=["installed", "absent"])
def notebook(cells: Cells, request: pytest.FixtureRequest) -> Cells:
    """A kernel in which a cell has imported IPython's displays."""
    if request.param == "absent":
        cells.run(WITHOUT_IPYTHON)
    assert cells.text(IMPORT) == ""
    return cells


def test_ipython_displays_are_shown(notebook: Cells) -> None:
    result = notebook.run(
        "display(Markdown('# Title'), HTML('<table><tr><td>1</td></tr></table>'))"
    )
    assert [display.mime for display in result.displays] == ["text/markdown", "text/html"]
    notebook.expect("display(HTML('<b>a &amp; b</b>'), 7)", "a & b\n7\n")
    notebook.expect("display(HTML('<script>x</script>1 < 2 and 3 > 2'))", "1 < 2 and 3 > 2\n")
    long_reference = "&#" + "1" * 5000
    notebook.expect(f"display(HTML({long_reference!r}))", f"{long_reference}\n")
    png = "import base64\ndata = base64.b64decode('iVBORw0KGgo=')\nopen('dot.png', 'wb').write(data)\n"
    for image in ("Image(data)", "Image('dot.png')", "Image(filename='dot.png')"):
        (display,) = notebook.run(f"{png}{image}").displays
        assert display.mime == "image/png"


def test_data_by_type_show_their_words_or_say_that_they_cannot_be_shown(notebook: Cells) -> None:
    notebook.text("from IPython.display import display")
    chart = "{'application/vnd.plotly.v1+json': {}, 'text/html': '<script>1</script>'}"
    note = "<application/vnd.plotly.v1+json, which a terminal cannot show>\n"
    notebook.expect(f"display({chart}, raw=True)", note)
    notebook.expect("display({'text/html': '<p>some <b>words</b>'}, raw=True)", "some words\n")
    notebook.expect("display({'text/html': '<script>1</script>'}, raw=True)", "")
    notebook.expect("display({'text/html': '<p>1', 'text/plain': 'one'}, raw=True)", "one\n")


def test_a_display_is_updated_in_its_place(notebook: Cells) -> None:
    notebook.expect(
        "first = display('a 1', display_id=True)\nsecond = display('b 1', display_id='b')\nprint('end')\n"
        "first.update('a 2')\nupdate_display('b 2', display_id='b')\nfirst.update('a 3')",
        "'a 3'\n'b 2'\nend\n",
    )
    result = notebook.run(
        "h = display(Markdown('one'), display_id=True)\nh.update(Markdown('two'))"
    )
    assert [display.data for display in result.displays] == ["two"]
    assert result.rewritten
    notebook.expect("h = __builtins__.display(1, display_id=True)\nh.update(2)", "2\n")
    notebook.expect("h.update('in a later cell')", "'in a later cell'\n")


def test_output_is_cleared(notebook: Cells) -> None:
    notebook.expect("for n in range(3):\n    clear_output(wait=True)\n    print(n)", "2\n")
    notebook.expect("print(1)\nclear_output()", "")
    notebook.expect("print(1)\nclear_output(wait=True)", "1\n")
    notebook.expect("print(1)\nclear_output(wait=True)\n5", "5\n")
    result = notebook.run(
        "for n in range(3):\n    clear_output(wait=True)\n    display(Markdown(str(n)))\nprint('end')"
    )
    assert [display.data for display in result.displays] == ["2"]
    assert result.output.endswith("end\n")


def test_get_ipython_runs_what_exported_notebooks_call(cells: Cells, project: Path) -> None:
    cells.run("from IPython import get_ipython as theirs\nshell = get_ipython()\nname = 'x y'")
    cells.expect("shell is theirs() is not None", "True\n")
    cells.expect("shell.system('echo $name')\nshell.getoutput('echo $name')", "x y\n['x y']\n")
    cells.expect("shell.run_line_magic('pwd', '')", f"{str(project)!r}\n")
    cells.expect("shell.run_cell_magic('bash', '-s {name[0]}', 'echo $1')", "x\n")
    cells.expect(
        "shell.magic('%pwd') == shell.user_ns['shell'].ev('shell.magic(\"pwd\")')", "True\n"
    )
    cells.expect("shell.run_cell('y = 3\\n!echo in\\ny + 1')", "in\n4\n")
    cells.expect("shell.push({'z': 5})\nshell.ex('z += 1')\nz, shell.config", "(6, {})\n")


def test_the_shell_takes_what_that_of_ipython_takes(cells: Cells, project: Path) -> None:
    cells.run("shell = get_ipython()\none = 1")
    cells.expect("shell.magic(' %pwd')", f"{str(project)!r}\n")
    cells.expect(
        "def push():\n    a = 1\n    b = 2\n    shell.push('a b')\n    shell.push(['b'])\n"
        "push()\na, b",
        "(1, 2)\n",
    )
    assert "NameError: name 'missing' is not defined" in cells.run("shell.push('missing')").output
    cells.expect("shell.run_cell('one', store_history=False, silent=True)", "1\n")
    assert "TypeError" in cells.run("shell.run_cell('one', slient=True)").output
    number = cells.number
    cells.expect("shell.execution_count", f"{number + 1}\n")
    cells.expect("shell.events.register('pre_execute', print)", "")


def test_each_kernel_of_a_process_has_its_own_shell_and_aliases() -> None:
    for number in range(2):
        with running(InProcessKernel({"number": number})) as cells:
            cells.expect("get_ipython().user_ns['number']", f"{number}\n")
            cells.expect("%alias", "")
            cells.run("%alias greet echo hello")
            cells.expect(
                "import asyncio\nget_ipython().run_cell('await asyncio.sleep(0, number)')",
                f"{number}\n",
            )


def test_libraries_do_not_see_a_notebook(cells: Cells) -> None:
    cells.run(
        WITHOUT_IPYTHON
        + "\nopen('lib.py', 'w').write('try: import IPython; seen = True\\nexcept ImportError: seen = False')"
    )
    cells.expect("sys.path.insert(0, '')\nimport lib\nlib.seen", "False\n")
    cells.run(IMPORT)
    assert (
        "Audio needs IPython, which is not installed"
        in cells.run("import IPython.display\nIPython.display.Audio").output
    )


def test_progress_bars_of_notebooks_are_those_of_terminals(cells: Cells) -> None:
    output = cells.text(
        "from tqdm.notebook import tqdm, trange\nfor _ in tqdm(range(3)): pass\nsum(trange(3))"
    )
    assert "100%" in output
    assert output.endswith("\n3\n")


def test_widgets_say_what_they_need(cells: Cells, project: Path) -> None:
    (project / "ipywidgets.py").write_text("")
    cells.expect(
        "import sys; sys.path.insert(0, '')\nimport ipywidgets",
        "\x1b[2mipywidgets draws in a browser: here, widgets are shown as text.\x1b[22m\n",
    )


def test_missing_widgets_are_only_an_error(cells: Cells) -> None:
    output = cells.run(
        "import sys\nsys.path[:] = [path for path in sys.path if 'site-packages' not in path]\n"
        "import ipywidgets"
    ).output
    assert "No module named 'ipywidgets'" in output
    assert "draws in a browser" not in output


def test_a_widget_does_not_clear_the_output_of_its_cell(cells: Cells, project: Path) -> None:
    folder = project / "ipywidgets"
    folder.mkdir()
    code = "from IPython.display import clear_output\ndef interact(): clear_output(wait=True)"
    (folder / "__init__.py").write_text("from .interaction import interact")
    (folder / "interaction.py").write_text(code)
    cells.run("import sys; sys.path.insert(0, ''); import IPython.display, ipywidgets")
    result = cells.run("print(1)\nipywidgets.interact()\nprint(2)")
    assert result.output == "1\n2\n"


def test_names_are_found_by_wildcards(cells: Cells) -> None:
    cells.run("import json\ndumb = 1; _dump = 2")
    assert cells.text("json.*load*?") == "json.load\njson.loads\n"
    assert cells.text("?json.dump*") == "json.dump\njson.dumps\n"
    assert cells.text("du*?") == "dumb\n"
    assert cells.text("_du*?") == "_dump\n"
    assert cells.text("*nosuch*?") == "No name matches *nosuch*.\n"
    assert cells.text("%psearch *int") == "breakpoint\nint\nprint\n"
    assert "only be in the last name" in cells.run("js*.loads?").output
    cells.expect("2 *3", "6\n")


def test_help_about_magic_commands(cells: Cells) -> None:
    for code in ("%timeit?", "?%timeit", "%%timeit?", "?%%timeit"):
        assert cells.text(code).startswith("%timeit CODE: "), code
    assert "F10 has the settings" in cells.text("%config?")
    assert "There is no %nosuch" in cells.text("%nosuch?")
    assert "%lsmagic lists the magic commands" in cells.text("?")


def test_calls_without_parentheses(cells: Cells) -> None:
    cells.run("def f(*values): return values")
    cells.expect(",f a b", "('a', 'b')\n")
    cells.expect(";f a 'b'", "(\"a 'b'\",)\n")
    cells.expect("/f 1,2", "(1, 2)\n")
    cells.expect("/f", "()\n")
    cells.expect("x = [1\n, 2]\nx", "[1, 2]\n")


def test_a_cell_copied_from_inside_a_block_runs(cells: Cells) -> None:
    cells.expect("    for n in [1]:\n        print(n)\n    n + 1", "1\n2\n")
    assert "    boom\n    ^" not in cells.run("  boom").output
    assert "IndentationError" in cells.run("x = 1\n  y = 2").output


def test_earlier_inputs_are_listed_and_run_again(cells: Cells, project: Path) -> None:
    cells.run("a = 1")
    cells.run("a += 1\na")
    cells.expect("%history", "a = 1\na += 1\na\n%history\n")
    cells.expect("%history -n 1-2", "1: a = 1\n2:\na += 1\na\n")
    cells.expect("%history -o 2", "a += 1\na\n2\n")
    cells.expect("%history -o -l 2 1-2", "a = 1\na += 1\na\n2\n")
    cells.expect("%history -l 1", "%history -l 1\n")
    cells.expect("%history -g =*1 ", "a = 1\na += 1\na\n%history -g =*1 \n")
    cells.expect("%history -f kept.py 1", "wrote kept.py\n")
    assert (project / "kept.py").read_text() == "a = 1\n"
    assert "Ctrl+R searches" in cells.run("%history ~1/1").output
    assert "has run no cell 77" in cells.run("%history 77").output

    cells.expect("%rerun 1-2", "2\n")
    cells.run("%macro again 2")
    cells.expect("again", "3\n")
    cells.expect("%macro", "['again']\n")
    cells.expect("print(again)", "a += 1\na\n")
    cells.run("a += 10")
    cells.run("%rerun")
    cells.expect("a", "23\n")


def test_commands_get_other_names(cells: Cells) -> None:
    cells.run("%alias say echo first %s then %s\n%alias e echo\n%alias all echo <%l>")
    cells.run("word = 'w'")
    cells.expect("say a $word", "first a then w\n")
    cells.expect("%e {word}", "w\n")
    assert "say needs 2 arguments" in cells.run("say a").output
    cells.expect("say %s b", "first %s then b\n")
    cells.expect("%alias e", "e: echo\n")
    cells.run("%unalias e")
    assert "There is no %e" in cells.run("%e 1").output
    cells.run("%alias_magic t timeit")
    assert "with 2 loops each" in cells.text("%t -n2 -r2 1")
    assert "with 2 loops each" in cells.text("%%t -n2 -r2\n1")


def test_floats_have_the_precision_that_was_asked_for(cells: Cells) -> None:
    cells.expect("%precision 2\n3.14159", "floats are written as 3.14\n3.14\n")
    cells.expect("[3.14159, 1, '3.14159']", "[3.14, 1, '3.14159']\n")
    cells.expect("%precision %.1e\n1234.5", "floats are written as 3.1e+00\n1.2e+03\n")
    cells.expect("%precision\n3.14159", "floats are as Python's\n3.14159\n")


def test_names_are_deleted(cells: Cells) -> None:
    cells.run("tmp1 = tmp2 = other = 1")
    cells.run("%xdel other")
    assert cells.names() == {"tmp1", "tmp2"}
    cells.run("%reset_selective -f ^tmp\\d")
    assert cells.names() == set()


def test_magics_of_notebooks_run_or_name_what_to_use(cells: Cells, project: Path) -> None:
    cells.expect("%config InlineBackend.figure_format = 'retina'", "")
    cells.expect("%matplotlib inline", "")
    for code, sentence in (
        ("%recall 1", "Ctrl+R searches them"),
        ("%load x.py", "%pycat FILE shows the file"),
        ("%autocall 1", "write the parentheses"),
        ("%logstart", "/export writes it"),
        ("%%debug\nx", "write breakpoint()"),
        ("%sc x=ls", "name = !command"),
    ):
        assert sentence in cells.text(code)
    assert "write breakpoint()" in cells.run("%debug f()").output
    cells.run("1 / 0")
    assert "ZeroDivisionError" in cells.text("%tb")
    (project / "inner").mkdir()
    cells.expect("%pushd inner", f"{project / 'inner'}\n")
    cells.expect("%popd", f"{project}\n")
    cells.expect("%ls", "inner/\n")
    assert "inner/" in cells.text("%ldir")
    cells.expect("%lf", "")
    (project / "code.py").write_text("x = 1\n", "utf-8")
    (display,) = cells.run("%pycat code.py").displays
    assert (display.mime, display.data) == ("text/markdown", "```python\nx = 1\n```")


def test_profiles_take_the_options_of_ipython(cells: Cells) -> None:
    assert "Ordered by: cumulative time" in cells.text("%prun -s cumulative -l 1 sum([1])")
    assert "reduced from" in cells.text("%prun -l 1 sum([1])")
    assert "for a file use cProfile" in cells.run("%prun -D out.prof sum([1])").output
