"""Notebooks that a session opens and updates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from mahtab_tui.bus import records
from mahtab_tui.export.merging import render_text
from mahtab_tui.export.reading import read_notebook
from mahtab_tui.export.writing import write_text as write_file
from tests.notebooks import notebooks, text_of, write
from tests.unit.opened_notebook import OpenNotebook, again, notices, write_notebook_file
from tests.unit.test_export import cell as ran
from tests.waiting import wait_for

# Notebooks that a session opens: what is read, shown and written back.

ALL = list(notebooks())


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def sources(path: Path) -> list[str]:
    return [cell.source for cell in read(path).cells]


@pytest.mark.parametrize("number", range(len(ALL)))
def test_viewed_notebook_stays_unchanged(
    number: int, tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    for layout in range(3):
        path = write(ALL[number], tmp_path / f"{layout}.ipynb", layout)
        bytes_before = path.read_bytes()
        inode = path.stat().st_ino
        it = open_notebook(path)
        assert not it.notebook.save()
        assert path.stat().st_ino == inode
        text = render_text(it.notebook._file.loaded, it.notebook._file._build_content())
        assert json.loads(text) == json.loads(bytes_before)
        if layout == 0:
            assert text.encode() == bytes_before


@pytest.mark.parametrize("number", range(len(ALL)))
def test_only_outputs_of_executed_cells_change(
    number: int, tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write(ALL[number], tmp_path / "it.ipynb")
    notebook_before = json.loads(path.read_bytes())
    cells = enumerate(notebook_before["cells"], 1)
    code = [index for index, cell in cells if cell["cell_type"] == "code"][:2]
    it = open_notebook(path)
    for count, index in enumerate(code, 7):
        source = "".join(notebook_before["cells"][index - 1]["source"])
        it.happen(*again(index, count, source, ("stdout", "new\n"), ("value", "8\n")))
    assert bool(it.notebook.save()) == bool(code)
    notebook_after = json.loads(path.read_bytes())
    for count, index in enumerate(code, 7):
        changed = notebook_after["cells"][index - 1]
        assert changed.pop("execution_count") == count
        outputs = [output["output_type"] for output in changed.pop("outputs")]
        assert outputs == ["stream", "execute_result"]
        for name in ("execution_count", "outputs"):
            notebook_before["cells"][index - 1].pop(name)
    assert notebook_after == notebook_before


def test_extra_cells_and_questions_are_appended_at_the_end(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    original_cells = json.loads(path.read_bytes())["cells"]
    it = open_notebook(path)
    it.happen(
        *again(2, 1, "x = 5"),
        *ran(2, "y = 2", ("value", "2\n")),
        records.UserChat("What is **y**?", turn=1),
    )
    it.happen(
        records.AssistantChat("It is 2.", turn=1, step=0, party="demo"),
        records.UserReplIn("runs()", cell=3),
    )
    assert it.notebook.unsaved
    assert it.notebook.save()
    assert not it.notebook.unsaved
    notebook = read(path)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells[:3]] == ["# Title", "x = 5", "x + 1"]
    assert [cell.id for cell in notebook.cells[:3]] == [cell["id"] for cell in original_cells]
    assert [(cell.id, cell.cell_type, cell.source) for cell in notebook.cells[3:]] == [
        ("cell-2", "code", "y = 2"),
        ("question-1", "markdown", "**Question**\n\nWhat is **y**?"),
        ("answer-1-0", "markdown", "**Demo**\n\nIt is 2."),
    ]
    assert not it.notebook.save()


def test_resumed_session_continues_its_notebook(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    it = open_notebook(path)
    it.happen(*again(2, 1, "x = 5"), *ran(2, "y = 2"))
    it.notebook.save()
    it.happen(*ran(3, "z = 3"))
    later = open_notebook(path, it.records())
    assert later.notebook.unsaved
    assert not later.records()  # its cells are not shown again
    later.happen(*ran(4, "w = 4"))
    later.notebook.save()
    notebook = read(path)
    assert sources(path) == ["# Title", "x = 5", "x + 1", "y = 2", "z = 3", "w = 4"]
    assert len({cell.id for cell in notebook.cells}) == 6
    assert not open_notebook(path, (*it.records(), *later.records())).notebook.unsaved


def test_long_session_is_resumed_with_all_its_records(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    it = open_notebook(path)
    it.happen(*ran(1, "early = 1"), *ran(2, "late = 2"))
    it.notebook.save()
    everything = it.records()
    kinds = records.NotebookOpened | records.NotebookWritten
    latest_records = (
        *(record for record in everything if isinstance(record, kinds)),
        *everything[-4:],
    )
    later = open_notebook(path, latest_records, everything=everything)
    later.happen(*ran(3, "last = 3"))
    later.notebook.save()
    assert sources(path)[3:] == ["early = 1", "late = 2", "last = 3"]


def test_session_resumed_after_a_foreign_edit_shows_the_file_again(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    it = open_notebook(path)
    it.happen(*ran(1, "mine = 1"))
    it.notebook.save()
    notebook = read(path)
    notebook.cells.insert(0, new_code_cell("theirs"))
    write(notebook, path)
    later = open_notebook(path, it.records())
    assert [record.position for record in later.cells()] == [4, 5, 6, 7, 8]
    assert not later.notebook.save()
    later.happen(*again(4, 2, "theirs", ("stdout", "1\n")))
    later.notebook.save()
    assert sources(path) == ["theirs", "# Title", "x = 1", "x + 1", "mine = 1"]


def test_deleted_file_is_written_again(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    it = open_notebook(path := write_notebook_file(tmp_path))
    path.unlink()
    it.happen(*ran(1, "x"))
    assert it.notebook.save() == "Saved it.ipynb."
    assert len(read(path).cells) == 4


def test_secrets_and_private_variables_are_not_written(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    earlier = new_output("stream", text="earlier")
    key = new_code_cell("key = 'sk-of-the-file-1'")
    cells = [key, new_code_cell("df", outputs=[earlier])]
    path = write(new_notebook(cells=cells), tmp_path / "a.ipynb")
    it = open_notebook(path, secrets=("sk-of-the-file-1", "sk-of-the-user-2"))
    it.happen(*again(1, 1, "key = 'sk-of-the-file-1'", ("stdout", "sk-of-the-file-1\n")))
    it.happen(records.Private(name="df", private=True))
    begin, end = again(2, 2, "df", ("value", "a secret\n"))
    it.happen(begin, end.changed(private=("df",)), *ran(3, "k = 'sk-of-the-user-2'"))
    it.notebook.save()
    notebook = read(path)
    assert notebook.cells[0].source == "key = 'sk-of-the-file-1'"  # it was there already
    assert "sk-of" not in str(notebook.cells[0].outputs) + str(notebook.cells[2:])
    assert (notebook.cells[1].source, notebook.cells[1].outputs) == ("df", [earlier])


def test_links_modes_and_line_ends_are_preserved(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    path.chmod(0o640)
    link = tmp_path / "link.ipynb"
    link.symlink_to(path)
    it = open_notebook(link)
    it.happen(*again(2, 1, "x = 1", ("stdout", "1\n")))
    it.notebook.save()
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n") > 10
    assert sorted(os.listdir(tmp_path)) == ["it.ipynb", "link.ipynb"]


def test_only_lines_of_executed_cells_change(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    notebook = new_notebook(cells=[new_code_cell("a"), new_code_cell("b")])
    for indent, ends in (("   ", "\n"), ("\t", ""), (None, "")):
        path = tmp_path / "it.ipynb"
        path.write_text(json.dumps(notebook, indent=indent) + ends)
        it = open_notebook(path)
        lines_before = path.read_text().split("\n")
        it.happen(*again(2, 7, "b"))
        it.notebook.save()
        lines_after = path.read_text().split("\n")
        changed = [
            (old, new) for old, new in zip(lines_before, lines_after, strict=True) if old != new
        ]
        assert len(changed) == 1
        assert changed[0][0].replace("null", "7", 2).count("7") >= changed[0][1].count("7") > 0


@pytest.mark.parametrize(
    "metadata", [{"kernelspec": {"name": "ir", "language": "R"}}, {"language_info": {"name": "R"}}]
)
def test_notebook_in_another_language_warns_before_its_first_run(
    tmp_path: Path, open_notebook: OpenNotebook, metadata: dict[str, Any]
) -> None:
    notebook = new_notebook(cells=[new_code_cell("x <- 1")]) | {"metadata": metadata}
    it = open_notebook(write(notebook, tmp_path / "it.ipynb", 2))
    [opened] = [record for record in it.records() if isinstance(record, records.NotebookOpened)]
    assert opened.text.endswith("It is for r, not for Python.")
    assert not it.notebook.confirmed


def test_script_is_opened_and_saved_in_its_declared_encoding(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = tmp_path / "it.py"
    path.write_bytes("# -*- coding: latin-1 -*-\n# %%\nx = 'ü'\n".encode("latin-1"))
    it = open_notebook(path)
    it.happen(*again(1, 1, "x = 'ö'"))
    it.notebook.save()
    assert path.read_bytes() == "# -*- coding: latin-1 -*-\n# %%\nx = 'ö'\n".encode("latin-1")
    assert not it.notebook.save()
    it.happen(*again(1, 2, "x = '€'"))
    it.notebook.save()
    assert path.read_text("latin-1").endswith(r"x = '\u20ac'" + "\n")
    assert not it.notebook.save()


@pytest.mark.parametrize("encoding", ["hex", "punycode", "utf-16", "none"])
def test_declared_encoding_that_is_none_is_ignored(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "it.py"
    path.write_text(f"# coding: {encoding}\nx = 'ü'\n", "utf-8")
    assert read_notebook(path).style.encoding == "utf-8"


def test_a_script_with_a_byte_order_mark_runs(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    for name, text in (("a.py", "y = 2\n"), ("b.md", "```python\ny = 2\n```\n")):
        path = tmp_path / name
        path.write_text(f"\ufeff{text}", "utf-8")
        it = open_notebook(path)
        assert [record.text.strip() for record in it.cells()] == ["y = 2"]
        it.happen(*again(1, 1, "y = 7"))
        it.notebook.save()
        assert path.read_text("utf-8") == text.replace("2", "7")


def test_old_formats_get_no_cell_ids(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    old = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": []})
    it = open_notebook(path := write(old, tmp_path / "a.ipynb"))
    it.happen(*ran(1, "x"))
    it.notebook.save()
    notebook = json.loads(path.read_bytes())
    assert (notebook["nbformat_minor"], "id" in notebook["cells"][0]) == (2, False)
    nbformat.validate(nbformat.from_dict(notebook))


def test_existing_cell_ids_are_not_reused(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    notebook = new_notebook(cells=[new_code_cell("a", id=id) for id in ("cell-1", "cell-1-2")])
    it = open_notebook(path := write(notebook, tmp_path / "a.ipynb"))
    it.happen(*ran(1, "x"))
    it.notebook.save()
    assert [cell.id for cell in read(path).cells] == ["cell-1", "cell-1-2", "cell-1-3"]


# Notebooks that are updated during the session.


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.session.notebook_autosave.WRITE_DELAY_S", 0.01)


@pytest.mark.usefixtures("quick")
def test_new_notebook_grows_with_the_session(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    path = tmp_path / "new.ipynb"
    it = open_notebook(path, saved=True)
    assert not path.exists()
    it.happen(*ran(1, "x = 1", ("stdout", "1\n")))
    wait_for(path.exists)
    assert sources(path) == ["x = 1"]
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    it.happen(*ran(2, "y = 2"), records.Hide(entry="cell 1", hidden=True))
    wait_for(lambda: sources(path) == ["x = 1", "y = 2"])
    assert not it.notebook.unsaved
    assert sorted(os.listdir(tmp_path)) == ["new.ipynb"]


def test_pending_changes_are_written_at_the_end_and_only_if_any(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    it = open_notebook(path, saved=True)
    modified_ns = path.stat().st_mtime_ns
    it.notebook.flush()
    assert path.stat().st_mtime_ns == modified_ns
    it.happen(*ran(1, "x"))
    it.notebook.flush()  # as when a signal ends the program
    assert len(sources(path)) == 4
    it.happen(*ran(2, "y"))
    it.notebook.end()
    written = path.stat().st_mtime_ns
    it.notebook.end()
    it.close()
    assert path.stat().st_mtime_ns == written
    assert len(sources(path)) == 5


@pytest.mark.usefixtures("quick")
def test_vanished_folder_is_reported_once_and_retried(
    tmp_path: Path, open_notebook: OpenNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Path] = []

    def counted(path: Path, *arguments: Any) -> str:
        attempts.append(path)
        return write_file(path, *arguments)

    monkeypatch.setattr("mahtab_tui.export.writing.write_text", counted)
    folder = tmp_path / "there"
    folder.mkdir()
    it = open_notebook(folder / "a.ipynb", saved=True)
    folder.rename(tmp_path / "gone")
    it.happen(*ran(1, "x"))
    wait_for(lambda: notices(it))
    it.happen(*ran(2, "y"))
    wait_for(lambda: len(attempts) > 3)
    assert it.notebook.unsaved
    assert notices(it) == ["a.ipynb cannot be written: No such file or directory."]
    (tmp_path / "gone").rename(folder)
    wait_for(lambda: not it.notebook.unsaved)
    assert sources(folder / "a.ipynb") == ["x", "y"]


@pytest.mark.usefixtures("quick")
def test_notebook_continues_in_a_new_file_after_a_foreign_change(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = write_notebook_file(tmp_path)
    second = tmp_path / "it (2).ipynb"
    third = tmp_path / "it (3).ipynb"
    it = open_notebook(path, saved=True)
    theirs = text_of(new_notebook())
    path.write_text(theirs)
    second.symlink_to(tmp_path / "nowhere")
    it.happen(*ran(1, "x"))
    wait_for(lambda: notices(it))
    it.happen(*ran(2, "y"))
    it.notebook.flush()
    assert notices(it) == [
        "Another program has changed it.ipynb, so this session is now saved in it (3).ipynb."
    ]
    assert path.read_text() == theirs
    assert not second.exists()
    assert sources(third)[-2:] == ["x", "y"]
    later = open_notebook(third, it.records())
    later.happen(*ran(3, "z"))
    later.notebook.save()
    assert sources(third) == ["# Title", "x = 1", "x + 1", "x", "y", "z"]


def test_late_notebook_contains_the_whole_session(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    it = open_notebook(write_notebook_file(tmp_path))
    it.happen(*again(2, 1, "x = 5"), *ran(2, "y = 2"))
    later = open_notebook(tmp_path / "later.ipynb", it.records(), saved=True)
    later.notebook.flush()
    assert sources(tmp_path / "later.ipynb") == ["x = 5", "y = 2"]
    assert sources(tmp_path / "it.ipynb") == ["# Title", "x = 1", "x + 1"]
