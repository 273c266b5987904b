"""Notebooks, exports and saved sessions in a real terminal."""

from __future__ import annotations

import signal
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.e2e.conftest import Start
from tests.notebooks import text_of, write
from tests.waiting import wait_for
from tests.warm import run_program


def made(project: Path, name: str = "it.ipynb") -> Path:
    cells = [
        new_markdown_cell("# The title\n\n<script>alert(1)</script> [red]no markup[/red]"),
        new_code_cell("x = 41", id="first", metadata={"tags": ["mine"]}),
        new_code_cell(
            "x + 1",
            outputs=[new_output("stream", text="\x1b]0;evil\x07stored \x1b[31mred\x1b[0m\n")],
        ),
    ]
    return write(new_notebook(cells=cells, metadata={"other": {"tool": 1}}), project / name)


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_notebook_is_opened_run_changed_saved_and_continued(start: Start, project: Path) -> None:
    path = made(project)
    screen = start("it.ipynb", "--model", "demo")
    screen.wait(r"it.ipynb: cells 1 to 3, as in the file. None of them has run here. /run\s+│?")
    screen.wait("runs them all")
    screen.wait("stored red")
    screen.wait(r"Cell 3 · notebook +not run")
    screen.wait(r"<script>alert\(1\)</script> \[red\]no markup\[/red\]")
    screen.idle()
    screen.enter("/save", "it.ipynb is already up to date.")
    screen.enter("/run to 2", r"In 1 · you · cell 2 of the notebook")
    screen.wait(r"Cell 2 · notebook +ran as In 1")
    screen.press("ctrl+o")
    screen.type("t")
    screen.press("up")
    screen.send("\x1br")  # Alt+R on cell 3
    screen.wait(r"In 2 · you · cell 3 of the notebook")
    screen.wait("▌ 42")
    screen.press("ctrl+q", pattern="Leave\\? You would lose the unsaved changes of it.ipynb")
    screen.press("escape", gone_pattern="Leave")
    screen.enter("/save", "Saved it.ipynb")
    saved = nbformat.read(path, as_version=4)
    assert [cell.get("execution_count") for cell in saved.cells] == [None, 1, 2]
    assert (saved.cells[1].id, saved.cells[1].metadata) == ("first", {"tags": ["mine"]})
    assert saved.metadata.other == {"tool": 1}
    screen.leave()

    again = start("--continue").idle()
    again.wait(r"Cell 3 · notebook +ran as In 2")
    again.enter("/run to 3", r"In 4 · you · cell 3 of the notebook")
    again.enter("/save")
    wait_for(lambda: nbformat.read(path, as_version=4).cells[2].execution_count == 4)
    again.leave()


def test_edited_cell_runs_as_the_same_cell_and_a_foreign_edit_stays(
    start: Start, project: Path
) -> None:
    path = made(project)
    screen = start("it.ipynb", "--model", "demo").idle()
    screen.wait(r"Cell 3 · notebook")
    screen.press("ctrl+o")
    screen.enter("t", "Run again")
    screen.type("e", "Enter runs it as this cell of the notebook")
    screen.press("ctrl+a")
    screen.enter("y = ", r"In 1 · you · cell [23] of the notebook")
    screen.wait("NameError")
    theirs = text_of(new_notebook(cells=[new_code_cell("theirs")]))
    path.write_text(theirs)
    screen.enter("/save", "Another program has changed it.ipynb, so this session is now saved in")
    screen.wait(r"\(2\)\.ipynb\.")
    assert path.read_text() == theirs
    assert "y = x + 1" in sources(project / "it (2).ipynb")
    screen.leave()


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["leave", "SIGTERM", "hangup"])
def test_notebook_is_updated_until_the_end(how: str, start: Start, project: Path) -> None:
    path = project / "kept.ipynb"
    screen = start("--notebook", "kept.ipynb")
    screen.wait("kept.ipynb has no cells yet. The file is kept up to date.")
    screen.idle()
    screen.enter("print('fir' + 'st')", "first")
    wait_for(lambda: path.exists() and len(sources(path)) == 1)
    screen.enter("print('las' + 't')", "▌ last")
    if how == "leave":
        screen.leave()
    elif how == "SIGTERM":
        screen.kill(signal.SIGTERM)
    else:
        screen.hang_up()
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert [output.text for cell in notebook.cells for output in cell.outputs] == [
        "first\n",
        "last\n",
    ]
    again = start("--continue").idle()
    again.enter("3 * 3")
    wait_for(lambda: sources(path)[2:] == ["3 * 3"])
    again.leave()


@pytest.mark.thorough
def test_unreadable_notebook_of_a_continued_session_gives_a_notice(
    start: Start, project: Path
) -> None:
    path = made(project)
    screen = start("it.ipynb", "--model", "demo").idle()
    screen.enter("/run to 2", r"In 1 · you · cell 2 of the notebook")
    screen.leave()
    path.unlink()
    again = start("--continue")
    again.wait("The session's notebook cannot be opened. There is no file")
    again.idle()
    again.enter("/save", "This session has no notebook")
    again.leave()


@pytest.mark.thorough
def test_data_and_scripts_can_be_opened_together(start: Start, project: Path) -> None:
    (project / "tool.py").write_text("value = 5\n\n\ndef twice(): return 2 * value\n")
    (project / "data.csv").write_text("a,b\n1,2\n")
    screen = start("tool.py", "data.csv", "--load", "tool.py", "--model", "demo")
    screen.wait("tool.py: cell 1, as in the file")
    screen.wait(r"tool +str")
    screen.enter("/run", r"twice +function")
    screen.enter("/save", "Saved tool.py")
    screen.leave()


# Exports.


@pytest.mark.thorough
def test_session_is_exported_to_a_file(start: Start, project: Path) -> None:
    screen = start().idle()
    screen.enter("numbers = [3, 1, 2]; print('are ' + 'there')", "are there")
    screen.enter("`/export it.md", "Exported 1 cell to it.md")
    screen.enter("/export it.md", "already exists. Replace it?")
    screen.press("escape", gone_pattern="Replace it")
    screen.enter("/export numbers.py", "Exported 1 cell to numbers.py")
    screen.enter(
        "/export ~nobody-of-this-name/it.md", "cannot be written: No such file or directory."
    )
    screen.enter("/export it.txt", "The file's extension sets its format")
    screen.leave()
    assert "are there" in (project / "it.md").read_text()
    assert "numbers = [3, 1, 2]" in (project / "numbers.py").read_text()

    assert run_program("export", "-o", "it.html").stdout == "Exported 1 cell to it.html.\n"
    assert "<!DOCTYPE html>" in (project / "it.html").read_text()
    again = run_program("export", "-o", "it.html")
    assert again.returncode == 1
    assert again.stderr == "mahtab-tui: it.html already exists. --force replaces it.\n"
    assert run_program("export", "-o", "it.html", "--force").returncode == 0
    for arguments, code, sentence in (
        ((), 2, "Name the output with -o; its extension sets the format."),
        (("-o", "x.txt"), 2, "Name the output with -o; its extension sets the format."),
        (("zzzz", "-o", "x.md"), 1, "There is no session whose ID begins with 'zzzz'"),
        (("-o", "nowhere/x.md"), 1, "nowhere/x.md cannot be written: No such file or directory."),
    ):
        failed = run_program("export", *arguments)
        assert failed.returncode == code
        assert sentence in failed.stderr
        assert failed.stderr.count("\n") == 1


# Saved sessions.


@pytest.mark.thorough
def test_session_is_found_by_its_code_and_resumed(start: Start) -> None:
    screen = start().idle()
    screen.enter("harvest = 'ap' + 'ples'; print('many', harvest)", "many apples")
    screen.leave()
    assert "harvest = 'ap' + 'ples'" in run_program("sessions").stdout
    search_result = run_program("sessions", "search", "many", "app")
    assert (search_result.returncode, "many apples" in search_result.stdout) == (0, True)
    nothing = run_program("sessions", "search", "pears")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (1, 1)
    assert "needs a word" in run_program("sessions", "search", "*").stderr
    name = search_result.stdout[:8]
    screen = start().idle()
    screen.enter("/rename Too early", "Nothing of this session is saved yet")
    screen.enter("other = 1; print('here', other)", "here 1")
    screen.enter("/rename Another one", "This session is now called: Another one")
    screen.enter("/sessions", "2 in this folder")
    screen.wait("● .*Another one")
    screen.send("many appl", "1 found in this folder")
    screen.press("enter", pattern=f"Switch to session {name}")
    screen.press("y", pattern="1 variable restored")
    screen.enter("print('there', harvest)", "there apples")
    screen.enter("/sessions", "● .*harvest")
    screen.press("escape", gone_pattern="in this folder")
    screen.leave()
