"""Notebooks that a session opens: what is read, shown and written back."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.handlers import DisplayHandler
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import Record, emit
from mahtab_tui.bus.setup import close_logging, setup_logging
from mahtab_tui.export.reading import CannotOpen, outputs_of, read_notebook
from mahtab_tui.export.saving import ChangedOutside, new_notebook
from mahtab_tui.export.saving import write as write_file
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.notebooks import NoSuchCell, Notebook
from tests.notebooks import PIXEL, notebooks, text_of, write
from tests.unit.test_export import cell as ran
from tests.waiting import wait_for

ALL = list(notebooks())


class Bench:
    """A notebook over a bus, without a session."""

    def __init__(
        self, path: Path, past: tuple[Record, ...] = (), secrets: tuple[str, ...] = (), kept: bool = False, everything: tuple[Record, ...] = ()
    ) -> None:
        self.log, _ = setup_logging()
        self.secrets = Secrets(lambda: secrets)
        self.shown = DisplayHandler()
        self.log.addHandler(self.shown)
        unused: Any = None
        file = replace(read_notebook(path) if path.exists() else new_notebook(path), kept=kept)
        self.notebook = Notebook(self.log, Inbox(self.log), unused, self.secrets, file, past, lambda: everything)
        self.log.addHandler(self.notebook)
        self.notebook._show() if not self.notebook._shown else None
        self.taken: list[Record] = []

    def happen(self, *happened: Record) -> None:
        for record in happened:
            emit(self.log, record)

    def records(self) -> tuple[Record, ...]:
        self.taken += self.shown.take()
        return tuple(self.taken)

    def close(self) -> None:
        close_logging(self.log)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    opened: list[Bench] = []

    def make(*arguments: Any, **options: Any) -> Bench:
        opened.append(Bench(*arguments, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def again(place: int, number: int, code: str, *outputs: tuple[str, str], **more: Any) -> list[Record]:
    """The records of a notebook's cell that runs."""
    return [record.changed(place=place) if hasattr(record, "place") else record for record in ran(number, code, *outputs, **more)]


def test_there_are_fifty_of_them() -> None:
    assert len(ALL) == 50


@pytest.mark.parametrize("number", range(len(ALL)))
def test_a_notebook_that_was_only_looked_at_stays_as_it_was(number: int, tmp_path: Path, bench: Callable[..., Bench]) -> None:
    for layout in range(3):
        path = write(ALL[number], tmp_path / f"{layout}.ipynb", layout)
        before, inode = path.read_bytes(), path.stat().st_ino
        it = bench(path)
        assert not it.notebook.save()
        assert path.stat().st_ino == inode
        it.notebook.save(over=True)
        assert json.loads(path.read_bytes()) == json.loads(before)
        if layout == 0:
            assert path.read_bytes() == before


@pytest.mark.parametrize("number", range(len(ALL)))
def test_only_the_outputs_of_what_ran_are_changed(number: int, tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = write(ALL[number], tmp_path / "it.ipynb")
    before = json.loads(path.read_bytes())
    code = [place for place, cell in enumerate(before["cells"], 1) if cell["cell_type"] == "code"][:2]
    it = bench(path)
    for count, place in enumerate(code, 7):
        source = "".join(before["cells"][place - 1]["source"])
        it.happen(*again(place, count, source, ("stdout", "new\n"), ("value", "8\n")))
    assert it.notebook.save() == bool(code)
    after = json.loads(path.read_bytes())
    for count, place in enumerate(code, 7):
        changed = after["cells"][place - 1]
        assert (changed.pop("execution_count"), [output["output_type"] for output in changed.pop("outputs")]) == (count, ["stream", "execute_result"])
        for name in ("execution_count", "outputs"):
            before["cells"][place - 1].pop(name)
    assert after == before


def story(tmp_path: Path) -> Path:
    return write(
        nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("x = 1"), nbformat.v4.new_code_cell("x + 1")]
        ),
        tmp_path / "it.ipynb",
    )


def test_what_was_run_and_asked_besides_comes_at_the_end(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    first = json.loads(path.read_bytes())["cells"]
    it = bench(path)
    it.happen(*again(2, 1, "x = 5"), *ran(2, "y = 2", ("value", "2\n")), records.UserChat("What is **y**?", turn=1))
    it.happen(records.AssistantChat("It is 2.", turn=1, step=0, party="demo"), records.UserReplIn("runs()", cell=3))
    assert it.notebook.unsaved
    assert it.notebook.save()
    assert not it.notebook.unsaved
    made = nbformat.read(path, as_version=4)
    nbformat.validate(made)
    assert [cell.source for cell in made.cells[:3]] == ["# Title", "x = 5", "x + 1"]
    assert [cell.id for cell in made.cells[:3]] == [cell["id"] for cell in first]
    assert [(cell.id, cell.cell_type, cell.source) for cell in made.cells[3:]] == [
        ("cell-2", "code", "y = 2"),
        ("question-1", "markdown", "**Question**\n\nWhat is **y**?"),
        ("answer-1-0", "markdown", "**Demo**\n\nIt is 2."),
    ]
    assert made.cells[4].metadata.mahtab.by == "user"
    assert not it.notebook.save()


def test_a_resumed_session_goes_on_with_its_notebook(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    it = bench(path)
    it.happen(*again(2, 1, "x = 5"), *ran(2, "y = 2"))
    it.notebook.save()
    it.happen(*ran(3, "z = 3"))
    later = bench(path, it.records())
    assert later.notebook.unsaved
    assert not later.records()  # its cells are not shown again
    later.happen(*ran(4, "w = 4"))
    later.notebook.save()
    made = nbformat.read(path, as_version=4)
    assert [cell.source for cell in made.cells] == ["# Title", "x = 5", "x + 1", "y = 2", "z = 3", "w = 4"]
    assert len({cell.id for cell in made.cells}) == 6
    assert not bench(path, (*it.records(), *later.records())).notebook.unsaved


def test_a_long_session_is_resumed_with_all_of_its_records(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    it = bench(path)
    it.happen(*ran(1, "early = 1"), *ran(2, "late = 2"))
    it.notebook.save()
    all_of_it = it.records()
    last = (*(record for record in all_of_it if isinstance(record, records.NotebookFile | records.NotebookWritten)), *all_of_it[-4:])
    later = bench(path, last, everything=all_of_it)
    later.happen(*ran(3, "last = 3"))
    later.notebook.save()
    assert [cell.source for cell in nbformat.read(path, as_version=4).cells][3:] == ["early = 1", "late = 2", "last = 3"]


def test_edits_of_another_program_are_never_overwritten_silently(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    it = bench(path)
    it.happen(*again(2, 1, "x = 1", ("stdout", "mine\n")))
    theirs = text_of(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("theirs")]))
    path.write_text(theirs)
    with pytest.raises(ChangedOutside):
        it.notebook.save()
    assert path.read_text() == theirs
    it.notebook.read_again()
    shown = [record for record in it.records() if isinstance(record, records.NotebookCell)][3:]
    assert [(record.place, record.text) for record in shown] == [(4, "theirs")]
    assert not it.notebook.save()
    with pytest.raises(NoSuchCell):
        it.notebook.run(2)
    it.happen(*again(4, 2, "theirs", ("stdout", "ran\n")), *ran(3, "new"))
    it.notebook.save()
    made = nbformat.read(path, as_version=4)
    assert [cell.source for cell in made.cells] == ["theirs", "new"]
    path.write_text(theirs)
    it.happen(*ran(4, "newer"))
    it.notebook.save(over=True)
    assert [cell.source for cell in nbformat.read(path, as_version=4).cells] == ["theirs", "new", "newer"]


def test_a_session_resumed_after_an_edit_shows_the_file_again(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    it = bench(path)
    it.happen(*ran(1, "mine = 1"))
    it.notebook.save()
    made = nbformat.read(path, as_version=4)
    made.cells.insert(0, nbformat.v4.new_code_cell("theirs"))
    write(made, path)
    later = bench(path, it.records())
    assert [record.place for record in later.records() if isinstance(record, records.NotebookCell)] == [4, 5, 6, 7, 8]
    assert not later.notebook.save()
    later.happen(*again(4, 2, "theirs", ("stdout", "1\n")))
    later.notebook.save()
    after = nbformat.read(path, as_version=4)
    assert [cell.source for cell in after.cells] == ["theirs", "# Title", "x = 1", "x + 1", "mine = 1"]


def test_a_file_that_is_gone_is_written_only_if_the_user_says_so(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    it = bench(path := story(tmp_path))
    path.unlink()
    it.happen(*ran(1, "x"))
    with pytest.raises(ChangedOutside):
        it.notebook.save()
    it.notebook.save(over=True)
    assert len(nbformat.read(path, as_version=4).cells) == 4


def test_secrets_and_private_variables_are_not_written(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    earlier = nbformat.v4.new_output("stream", text="earlier")
    path = write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("key = 'sk-of-the-file-1'"), nbformat.v4.new_code_cell("df", outputs=[earlier])]),
        tmp_path / "a.ipynb",
    )
    it = bench(path, secrets=("sk-of-the-file-1", "sk-of-the-user-2"))
    it.happen(*again(1, 1, "key = 'sk-of-the-file-1'", ("stdout", "sk-of-the-file-1\n")))
    it.happen(records.Private(name="df", private=True))
    begin, end, changes = again(2, 2, "df", ("value", "a secret\n"))
    it.happen(begin, end.changed(private=("df",)), changes, *ran(3, "k = 'sk-of-the-user-2'"))
    it.notebook.save()
    made = nbformat.read(path, as_version=4)
    assert made.cells[0].source == "key = 'sk-of-the-file-1'"  # it was there already
    assert "sk-of" not in str(made.cells[0].outputs) + str(made.cells[2:])
    assert (made.cells[1].source, made.cells[1].outputs) == ("df", [earlier])


def test_links_modes_and_line_ends_stay(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    path.chmod(0o640)
    link = tmp_path / "link.ipynb"
    link.symlink_to(path)
    it = bench(link)
    it.happen(*again(2, 1, "x = 1", ("stdout", "1\n")))
    it.notebook.save()
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n") > 10
    assert sorted(os.listdir(tmp_path)) == ["it.ipynb", "link.ipynb"]


def test_only_the_lines_of_what_ran_change(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a"), nbformat.v4.new_code_cell("b")])
    for indent, ends in (("   ", "\n"), ("\t", ""), (None, "")):
        path = tmp_path / "it.ipynb"
        path.write_text(json.dumps(made, indent=indent) + ends)
        it = bench(path)
        before = path.read_text().split("\n")
        it.happen(*again(2, 7, "b"))
        it.notebook.save()
        after = path.read_text().split("\n")
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert len(changed) == 1
        assert changed[0][0].replace("null", "7", 2).count("7") >= changed[0][1].count("7") > 0


@pytest.mark.parametrize(
    ("mark", "layout"),
    [
        ("\ufeff", {"indent": 1}),
        ("", {"indent": 1, "ensure_ascii": True}),
        ("", {"separators": (",", ":")}),
        ("\ufeff", {"separators": (", ", ": ")}),
    ],
)
def test_a_file_keeps_its_layout_however_another_program_has_written_it(mark: str, layout: Any, tmp_path: Path, bench: Callable[..., Bench]) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("'日 é 🎉 \x1b'"), nbformat.v4.new_code_cell("b")])
    path = tmp_path / "it.ipynb"
    before = mark + json.dumps(made, **{"ensure_ascii": False, **layout})
    path.write_text(before, "utf-8")
    it = bench(path)
    it.happen(*again(2, 7, "b"))
    it.notebook.save()
    after = path.read_text("utf-8")
    assert after.replace("7", "null") == before.replace("7", "null")
    assert "7" in after


def test_a_script_with_a_byte_order_mark_runs_and_keeps_it(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    for name in ("a.py", "b.md"):
        path = tmp_path / name
        path.write_text("\ufeffy = 2\n" if name == "a.py" else "\ufeff```python\ny = 2\n```\n", "utf-8")
        it = bench(path)
        assert [record.text.strip() for record in it.records() if isinstance(record, records.NotebookCell)] == ["y = 2"]
        before = path.read_text("utf-8")
        it.happen(*again(1, 1, "y = 7"))
        it.notebook.save()
        assert path.read_text("utf-8") == before.replace("2", "7")


def test_a_hidden_cell_takes_no_room_of_what_the_model_is_told(tmp_path: Path) -> None:
    prompt = PromptHandler()
    for place, text in ((1, "first"), (2, "x" * 900), (3, "y" * 900), (4, "last")):
        prompt.take(records.NotebookCell(text, place=place, kind="code"))
    assert "first" not in prompt.get_context(1_000)
    prompt.take(records.Hide(entry="place 2", hidden=True))
    assert "first" in prompt.get_context(1_000)


def test_cells_wait_behind_the_users_and_before_those_of_agents(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    inbox = Inbox(bench(story(tmp_path)).log)
    inbox.put_for("agent", "theirs", lambda: None, lambda: None)
    inbox.put("python", "mine")
    inbox.put_cells([("b", lambda: None), ("c", lambda: None)], lambda items: None)
    assert [item.text for item in (inbox.take("python") for _ in range(4)) if item is not None] == ["mine", "b", "c", "theirs"]


def test_old_formats_get_no_ids(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    old = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": []})
    it = bench(path := write(old, tmp_path / "a.ipynb"))
    it.happen(*ran(1, "x"))
    it.notebook.save()
    made = json.loads(path.read_bytes())
    assert (made["nbformat_minor"], "id" in made["cells"][0]) == (2, False)
    nbformat.validate(nbformat.from_dict(made))


def test_ids_that_the_file_has_are_not_given_again(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a", id="cell-1"), nbformat.v4.new_code_cell("b", id="cell-1-2")])
    it = bench(path := write(made, tmp_path / "a.ipynb"))
    it.happen(*ran(1, "x"))
    it.notebook.save()
    assert [cell.id for cell in nbformat.read(path, as_version=4).cells] == ["cell-1", "cell-1-2", "cell-1-3"]


# Kept up to date


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.session.notebooks.PAUSE", 0.01)


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def notices(it: Bench) -> list[str]:
    return [record.text for record in it.records() if isinstance(record, records.Notice)]


@pytest.mark.usefixtures("quick")
def test_a_new_notebook_grows_with_the_session(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = tmp_path / "new.ipynb"
    it = bench(path, kept=True)
    assert not path.exists()
    it.happen(*ran(1, "x = 1", ("stdout", "1\n")))
    wait_for(path.exists)
    assert sources(path) == ["x = 1"]
    made = nbformat.read(path, as_version=4)
    nbformat.validate(made)
    assert made.metadata.kernelspec.name == "python3"
    it.happen(*ran(2, "y = 2"), records.Hide(entry="cell 2", hidden=True), records.Undo("Undone.", cells=(1,), undone=True))
    wait_for(lambda: len(sources(path)) == 2 and nbformat.read(path, as_version=4).cells[0].metadata.mahtab.get("undone"))
    assert nbformat.read(path, as_version=4).cells[1].metadata.mahtab.hidden
    assert not it.notebook.unsaved
    assert sorted(os.listdir(tmp_path)) == ["new.ipynb"]


def test_what_has_not_been_written_yet_is_written_at_the_end_and_nothing_without_a_change(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    it = bench(path, kept=True)
    before = path.stat().st_mtime_ns
    it.notebook.flush()
    assert path.stat().st_mtime_ns == before
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
def test_a_folder_that_has_vanished_is_told_once_and_tried_again(
    tmp_path: Path, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Path] = []

    def counted(path: Path, text: str, known: str | None) -> str:
        attempts.append(path)
        return write_file(path, text, known)

    monkeypatch.setattr("mahtab_tui.export.saving.write", counted)
    folder = tmp_path / "there"
    folder.mkdir()
    it = bench(folder / "a.ipynb", kept=True)
    folder.rename(tmp_path / "gone")
    it.happen(*ran(1, "x"))
    wait_for(lambda: notices(it))
    it.happen(*ran(2, "y"))
    wait_for(lambda: len(attempts) > 3)
    assert it.notebook.unsaved
    assert notices(it) == ["a.ipynb cannot be written: No such file or directory."]
    (tmp_path / "gone").rename(folder)
    wait_for(lambda: notices(it)[1:] == ["a.ipynb is written again."])
    assert sources(folder / "a.ipynb") == ["x", "y"]


@pytest.mark.usefixtures("quick")
def test_a_file_that_another_program_has_changed_is_told_once_and_left_alone(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = story(tmp_path)
    it = bench(path, kept=True)
    path.write_text(text_of(nbformat.v4.new_notebook()))
    it.happen(*ran(1, "x"))
    wait_for(lambda: notices(it))
    it.happen(*ran(2, "y"))
    it.notebook.flush()
    assert notices(it) == ["Another program has changed it.ipynb, so it is not kept up to date any more. /save asks which to keep."]
    assert sources(path) == []
    it.notebook.save(over=True)
    it.happen(*ran(3, "z"))
    wait_for(lambda: "it.ipynb is written again." in notices(it))
    assert sources(path)[-3:] == ["x", "y", "z"]


def test_a_session_that_gets_a_notebook_later_has_all_of_it_in_it(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    it = bench(story(tmp_path))
    it.happen(*again(2, 1, "x = 5"), *ran(2, "y = 2"))
    later = bench(tmp_path / "later.ipynb", it.records(), kept=True)
    later.notebook.flush()
    assert sources(tmp_path / "later.ipynb") == ["x = 5", "y = 2"]
    assert sources(tmp_path / "it.ipynb") == ["# Title", "x = 1", "x + 1"]


# Scripts and Markdown


PERCENT = "# ---\n# jupyter:\n#   jupytext:\n#     text_representation:\n#       extension: .py\n#       format_name: percent\n# ---\n\n# %% [markdown]\n# # Title\n\n# %% tags=[\"a\"]\nx = 1\n\n# %%\nx + 1\n"  # fmt: skip
MARKDOWN = "# Title\n\nWords.\n\n```python\nx = 1\n```\n\n```\nno code\n```\n\nMore.\n"


def test_a_script_in_percent_format_has_cells_and_keeps_its_text(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = tmp_path / "it.py"
    path.write_text(PERCENT)
    it = bench(path)
    shown = [(record.kind, record.text) for record in it.records() if isinstance(record, records.NotebookCell)]
    assert shown == [("markdown", "# Title"), ("code", "x = 1"), ("code", "x + 1")]
    it.happen(*again(2, 1, "x = 1", ("stdout", "1\n")))
    assert not it.notebook.save()
    it.happen(*again(3, 2, "x + 2"), *ran(3, "new = 1"))
    it.notebook.save()
    assert path.read_text() == PERCENT.replace("x + 1", "x + 2") + "\n# %%\nnew = 1\n"


SPELT = [
    ("py", "#%%\nx = 1\n#%% title here\ny = 2\n\n\n\n#%%\nz = 3", "y = 2"),
    ("py", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n'''Doc.'''\nimport os\n\n# %% A\ny = 2\n", "y = 2"),
    ("py", "#!/usr/bin/env python\ny = 2\n# %%\nz = '#!'\n", "y = 2"),
    ("py", "# %%\n%time x\n!ls\n\n# %%\ny = 2\n# %%\n!pip\n", "y = 2"),
    ("md", "# T\n\n\n\ntext\n\n\n```python\n\ny = 2\n\n```\n\n\n\n\nend", "y = 2"),
    ("md", "- a\n  ```python\n  x = 1\n  ```\n\n```python\ny = 2\n```\ntext right after\n\n```py\nq\n```\n\n\n", "y = 2"),
]


@pytest.mark.parametrize(("ending", "text", "code"), SPELT)
def test_lines_that_the_user_did_not_touch_keep_their_spelling(
    ending: str, text: str, code: str, tmp_path: Path, bench: Callable[..., Bench]
) -> None:
    path = tmp_path / f"it.{ending}"
    path.write_text(text)
    it = bench(path)
    cells = {record.text.strip("\n"): record.place for record in it.records() if isinstance(record, records.NotebookCell)}
    it.happen(*again(cells[code], 1, it.notebook._source(cells[code]).replace("2", "7")))
    it.notebook.save()
    assert path.read_text() == text.replace("y = 2", "y = 7")
    it.happen(*ran(2, "added = 1"))
    it.notebook.save()
    assert path.read_text().startswith(text.replace("y = 2", "y = 7"))
    assert "added = 1" in path.read_text()


def test_a_header_is_kept_and_not_read(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    bomb = "".join(f"{letter}: &{letter} [{', '.join(['*' + before] * 9)}]\n" for before, letter in zip("abcdefghijkl", "bcdefghijklm", strict=True))
    text = f"---\na: &a [1]\n{bomb}jupyter:\n  x: *m\n---\n\n{MARKDOWN}"
    path = tmp_path / "it.md"
    path.write_text(text)
    it = bench(path)
    assert len(it.records()) == 4
    it.happen(*again(2, 1, "x = 2"))
    it.notebook.save()
    assert path.read_text() == text.replace("x = 1", "x = 2")


def test_a_script_with_very_many_cells_is_a_sentence(tmp_path: Path) -> None:
    for name, text in (("a.py", "# %%\n" * 6_000), ("b.md", "```python\n```\n" * 6_000), ("c.md", "x" * 3_000_000)):
        (tmp_path / name).write_text(text)
        with pytest.raises(CannotOpen, match=f"{name} is too large to be shown as cells. --load="):
            read_notebook(tmp_path / name)


def test_a_plain_script_is_one_cell(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = tmp_path / "it.py"
    path.write_text("import os\r\n\r\n\r\n# a comment\r\nprint(1)", newline="")
    it = bench(path)
    assert [record.text for record in it.records() if isinstance(record, records.NotebookCell)] == ["import os\n\n\n# a comment\nprint(1)"]
    assert not it.notebook.save()
    it.happen(*again(1, 1, "import os\nprint(2)"))
    it.notebook.save()
    assert path.read_bytes() == b"import os\r\nprint(2)"
    it.happen(*ran(2, "more"))
    it.notebook.save()
    assert [cell.source for cell in jupytext.read(path).cells] == ["import os\nprint(2)", "more"]


def test_code_in_markdown_can_be_run(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = tmp_path / "it.md"
    path.write_text(MARKDOWN)
    it = bench(path)
    shown = [(record.kind, record.text) for record in it.records() if isinstance(record, records.NotebookCell)]
    assert [kind for kind, _ in shown] == ["markdown", "code", "markdown"]
    it.happen(*again(2, 1, "x = 2"))
    it.notebook.save()
    assert path.read_text() == MARKDOWN.replace("x = 1", "x = 2")


# Files from anybody


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not a notebook: it is not valid JSON."),
        (b"\xff\xfe\x00", "is not a notebook: it is not valid JSON."),
        (b"[" * 100_000, "is not a notebook: it is not valid JSON."),
        (b'{"nbformat": 4, "cells": [], "n": ' + b"9" * 5_000 + b"}", "is not a notebook: it is not valid JSON."),
        ('{"nbformat": 4, "cells": []}'.encode("utf-16"), "is not a text in UTF-8."),
        (b"[]", "is not a notebook: it has no nbformat."),
        (b'{"nbformat": "4"}', "is not a notebook: it has no nbformat."),
        (b'{"nbformat": true}', "is not a notebook: it has no nbformat."),
        (b'{"nbformat": 3, "worksheets": []}', "has version 3 of the notebook format; only version 4 can be opened. jupyter nbconvert"),
        (b'{"nbformat": 5, "cells": []}', "has version 5 of the notebook format; only version 4 can be opened."),
        (b'{"nbformat": 4}', "is not a valid notebook: it has no list of cells."),
        (b'{"nbformat": 4, "cells": [3]}', "is not a valid notebook: its cell 1 has no known type or no source."),
        (b'{"nbformat": 4, "cells": [{"cell_type": [], "source": ""}]}', "its cell 1 has no known type or no source."),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "its cell 1 has no known type or no source."),
    ],
)
def test_what_is_no_notebook_is_a_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mit.ipynb"
    path.write_bytes(content)
    with pytest.raises(CannotOpen) as raised:
        read_notebook(path)
    assert sentence in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_bytes(b"x = '\xe4'")
    (tmp_path / "b.md").write_bytes(b"x\0")
    (tmp_path / "c.ipynb").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "d.py")
    sentences = {"a.py": "is not a text in UTF-8.", "b.md": "is not a text.", "c.ipynb": "is not a regular file.", "d.py": "is not a regular file.", "e.py": "There is no file"}  # fmt: skip
    for name, sentence in sentences.items():
        with pytest.raises(CannotOpen, match=sentence):
            read_notebook(tmp_path / name)
    monkeypatch.setattr("mahtab_tui.export.reading.MOST_BYTES", 2)
    with pytest.raises(CannotOpen, match="a notebook may have"):
        read_notebook(tmp_path / "a.py")


WRONG: list[Any] = [None, 3, math.inf, "x", [], [1], {}, {"a": {}}, [["x"]], True]


def test_fields_of_the_wrong_type_are_shown_harmlessly_and_kept(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    outputs: list[Any] = [*WRONG]
    for wrong in WRONG:
        outputs += [
            {"output_type": wrong},
            {"output_type": "stream", "text": wrong},
            {"output_type": "error", "ename": wrong, "evalue": wrong, "traceback": wrong},
            {"output_type": "display_data", "data": wrong},
            *({"output_type": "execute_result", "data": {mime: wrong}} for mime in ("text/plain", "text/html", "image/png", "x")),
        ]
    cells: list[Any] = [{"cell_type": "code", "source": "x", "outputs": outputs[start : start + 50]} for start in range(0, len(outputs), 50)]
    cells += [{"cell_type": "code", "source": "x", "outputs": wrong, "metadata": wrong, "id": wrong, "execution_count": wrong} for wrong in WRONG]
    path = tmp_path / "it.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": [], "metadata": 3, "cells": cells}))
    before = json.loads(path.read_bytes())
    it = bench(path)
    it.happen(*again(1, 1, "x", ("stdout", "1\n")), *ran(2, "new"))
    it.notebook.save()
    after = json.loads(path.read_bytes())
    assert after["cells"][1 : len(cells)] == before["cells"][1:]
    assert after["cells"][-1]["source"] == ["new"]


def test_long_outputs_are_shown_in_part(tmp_path: Path) -> None:
    cell = {"outputs": [{"output_type": "stream", "text": "x" * 3_000_000}, *({"output_type": "stream", "text": "y"} for _ in range(1_000))]}
    shown = list(outputs_of(cell))
    assert len(shown) == 2
    assert sum(len(output.text) for output in shown) < 1_100_000
    assert "characters are left out here" in shown[0].text
    assert len("".join(output.text for output in outputs_of(cell, whole=True))) == 3_001_000
    assert shown[-1].text == "… 801 more outputs are in the file\n"


def test_pictures_are_data_and_not_text(tmp_path: Path) -> None:
    values = [{"image/png": PIXEL}, {"image/png": "\x1b[2J"}, {"image/png": [PIXEL[:5] + "\n", PIXEL[5:]], "text/plain": "a"}]
    shown = list(outputs_of({"outputs": [{"output_type": "display_data", "data": data} for data in values]}))
    assert [(output.kind, output.text, output.data) for output in shown] == [
        ("display", "[image/png]\n", PIXEL),
        ("stdout", "[image/png]\n", ""),
        ("display", "a\n", PIXEL),
    ]


def test_surrogates_are_escaped_as_before(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    path = tmp_path / "it.ipynb"
    path.write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "markdown", "source": "\\ud800", "metadata": {}}]}')
    it = bench(path)
    it.happen(*ran(1, "x"))
    it.notebook.save()
    assert json.loads(path.read_bytes())["cells"][0]["source"] == "\ud800"


def test_a_logger_of_the_process_does_not_disturb(tmp_path: Path, bench: Callable[..., Bench]) -> None:
    it = bench(story(tmp_path))
    logging.getLogger("mahtab").info("a line of another library")
    assert not it.notebook.save()
