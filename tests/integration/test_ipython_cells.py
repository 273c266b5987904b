"""Cells that were written for IPython and notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kernels import Cells

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
    shown = notebook.run("display(Markdown('# Title'), HTML('<table><tr><td>1</td></tr></table>'))")
    assert [display.mime for display in shown.displays] == ["text/markdown", "text/html"]
    notebook.expect("display(HTML('<b>a &amp; b</b>'), 7)", "a & b\n7\n")
    png = "import base64\ndata = base64.b64decode('iVBORw0KGgo=')\nopen('dot.png', 'wb').write(data)\n"
    for image in ("Image(data)", "Image('dot.png')", "Image(filename='dot.png')"):
        (display,) = notebook.run(f"{png}{image}").displays
        assert display.mime == "image/png"


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
