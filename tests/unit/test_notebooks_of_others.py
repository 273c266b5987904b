"""Scripts and Markdown as notebooks, and hostile files."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import jupytext
import pytest

from mahtab_tui.export.reading import MAX_TEXT_CHARS, NotebookError, cell_outputs, read_notebook
from tests.notebooks import PIXEL
from tests.unit.opened_notebook import OpenNotebook, again
from tests.unit.test_export import cell as ran

PERCENT = "# ---\n# jupyter:\n#   jupytext:\n#     text_representation:\n#       extension: .py\n#       format_name: percent\n# ---\n\n# %% [markdown]\n# # Title\n\n# %% tags=[\"a\"]\nx = 1\n\n# %%\nx + 1\n"  # fmt: skip
MARKDOWN = "# Title\n\nWords.\n\n```python\nx = 1\n```\n\n```\nno code\n```\n\nMore.\n"

SPELT = [
    ("py", "#%%\nx = 1\n#%% title here\ny = 2\n\n\n\n#%%\nz = 3", "y = 2"),
    (
        "py",
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n'''Doc.'''\nimport os\n\n# %% A\ny = 2\n",
        "y = 2",
    ),
    ("py", "#!/usr/bin/env python\ny = 2\n# %%\nz = '#!'\n", "y = 2"),
    ("py", "# %%\n%time x\n!ls\n\n# %%\ny = 2\n# %%\n!pip\n", "y = 2"),
    ("md", "# T\n\n\n\ntext\n\n\n```python\n\ny = 2\n\n```\n\n\n\n\nend", "y = 2"),
    (
        "md",
        "- a\n  ```python\n  x = 1\n  ```\n\n```python\ny = 2\n```\ntext right after\n\n```py\nq\n```\n\n\n",
        "y = 2",
    ),
]

NO_JSON = "is not a notebook: it is not valid JSON."
OTHER_VERSION = "is not a notebook of version 4 of the format."
BAD_CELL = "is not a valid notebook: its cell 1 has no known type or no source."

WRONG: list[Any] = [None, 3, math.inf, "x", [], [1], {}, {"a": {}}, [["x"]], True]


def test_percent_script_has_cells_and_keeps_its_text(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = tmp_path / "it.py"
    path.write_text(PERCENT)
    it = open_notebook(path)
    cells = [(record.kind, record.text) for record in it.cells()]
    assert cells == [("markdown", "# Title"), ("code", "x = 1"), ("code", "x + 1")]
    it.happen(*again(2, 1, "x = 1", ("stdout", "1\n")))
    assert not it.notebook.save()
    it.happen(*again(3, 2, "x + 2"), *ran(3, "new = 1"))
    it.notebook.save()
    assert path.read_text() == PERCENT.replace("x + 1", "x + 2") + "\n# %%\nnew = 1\n"


@pytest.mark.parametrize(("ending", "text", "code"), SPELT)
def test_untouched_lines_keep_their_spelling(
    ending: str, text: str, code: str, tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = tmp_path / f"it.{ending}"
    path.write_text(text)
    it = open_notebook(path)
    cells = {record.text.strip("\n"): record.position for record in it.cells()}
    it.happen(*again(cells[code], 1, it.notebook._source(cells[code]).replace("2", "7")))
    it.notebook.save()
    assert path.read_text() == text.replace("y = 2", "y = 7")
    it.happen(*ran(2, "added = 1"))
    it.notebook.save()
    assert path.read_text().startswith(text.replace("y = 2", "y = 7"))
    assert "added = 1" in path.read_text()


def test_header_is_preserved_without_being_parsed(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    bomb = "".join(
        f"{letter}: &{letter} [{', '.join(['*' + previous_letter] * 9)}]\n"
        for previous_letter, letter in zip("abcdefghijkl", "bcdefghijklm", strict=True)
    )
    text = f"---\na: &a [1]\n{bomb}jupyter:\n  x: *m\n---\n\n{MARKDOWN}"
    path = tmp_path / "it.md"
    path.write_text(text)
    it = open_notebook(path)
    assert len(it.records()) == 4
    it.happen(*again(2, 1, "x = 2"))
    it.notebook.save()
    assert path.read_text() == text.replace("x = 1", "x = 2")


def test_script_with_too_many_cells_gives_one_sentence(tmp_path: Path) -> None:
    for name, text in (
        ("a.py", "# %%\n" * 6_000),
        ("b.md", "```python\n```\n" * 6_000),
        ("c.md", "x" * 3_000_000),
    ):
        (tmp_path / name).write_text(text)
        message = f"{name} is too large to be shown as cells. --load="
        with pytest.raises(NotebookError, match=message):
            read_notebook(tmp_path / name)


def test_a_script_with_a_long_first_line_keeps_its_line_ends(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    path = tmp_path / "it.py"
    comment = f"# {'x' * 3_000}"
    path.write_text(f"{comment}\r\nprint(1)", newline="")
    it = open_notebook(path)
    it.happen(*again(1, 1, f"{comment}\nprint(2)"))
    it.notebook.save()
    assert path.read_bytes() == f"{comment}\r\nprint(2)".encode()


def test_a_plain_script_is_one_cell(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    path = tmp_path / "it.py"
    path.write_text("import os\r\n\r\n\r\n# a comment\r\nprint(1)", newline="")
    it = open_notebook(path)
    assert [record.text for record in it.cells()] == ["import os\n\n\n# a comment\nprint(1)"]
    assert not it.notebook.save()
    it.happen(*again(1, 1, "import os\nprint(2)"))
    it.notebook.save()
    assert path.read_bytes() == b"import os\r\nprint(2)"
    it.happen(*ran(2, "more"))
    it.notebook.save()
    assert [cell.source for cell in jupytext.read(path).cells] == ["import os\nprint(2)", "more"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", NO_JSON),
        (b"\xff\xfe\x00", "is not UTF-8 text."),
        (b"[" * 100_000, NO_JSON),
        (b'{"nbformat": 4, "cells": [], "n": ' + b"9" * 5_000 + b"}", NO_JSON),
        ('{"nbformat": 4, "cells": []}'.encode("utf-16"), "is not UTF-8 text."),
        (b"[]", OTHER_VERSION),
        (b'{"nbformat": "4", "cells": []}', OTHER_VERSION),
        (b'{"nbformat": 3, "worksheets": []}', OTHER_VERSION),
        (b'{"nbformat": 4}', OTHER_VERSION),
        (b'{"nbformat": 4, "cells": [3]}', BAD_CELL),
        (b'{"nbformat": 4, "cells": [{"cell_type": [], "source": ""}]}', BAD_CELL),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', BAD_CELL),
    ],
)
def test_invalid_notebook_gives_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mit.ipynb"
    path.write_bytes(content)
    with pytest.raises(NotebookError) as raised:
        read_notebook(path)
    assert sentence in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unreadable_file_gives_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_bytes(b"x = '\xe4'")
    (tmp_path / "b.md").write_bytes(b"x\0")
    (tmp_path / "c.ipynb").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "d.py")
    sentences = {"a.py": "is not UTF-8 text.", "b.md": "is not a text file.", "c.ipynb": "is not a regular file.", "d.py": "is not a regular file.", "e.py": "There is no file"}  # fmt: skip
    for name, sentence in sentences.items():
        with pytest.raises(NotebookError, match=sentence):
            read_notebook(tmp_path / name)
    monkeypatch.setattr("mahtab_tui.export.reading.MAX_FILE_BYTES", 2)
    with pytest.raises(NotebookError, match="a notebook may be at most"):
        read_notebook(tmp_path / "a.py")


def test_script_without_cells_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n" * (MAX_TEXT_CHARS // 6 + 1))
    with pytest.raises(NotebookError, match="is too large to be shown as cells"):
        read_notebook(path)
    path.write_text("x = 1\n" * 100 + "```\n" * 20_000)
    assert len(read_notebook(path).cells) == 1


def test_notebook_whose_bytes_are_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    cell = b'{"cell_type": "code", "source": "\xed\xa0\x80", "metadata": {}, "outputs": []}'
    path.write_bytes(b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [%s]}' % cell)
    with pytest.raises(NotebookError, match="is not UTF-8 text"):
        read_notebook(path)


def test_fields_of_the_wrong_type_are_displayed_and_preserved(
    tmp_path: Path, open_notebook: OpenNotebook
) -> None:
    outputs: list[Any] = [*WRONG]
    for wrong in WRONG:
        outputs += [
            {"output_type": wrong},
            {"output_type": "stream", "text": wrong},
            {"output_type": "error", "ename": wrong, "evalue": wrong, "traceback": wrong},
            {"output_type": "display_data", "data": wrong},
            *(
                {"output_type": "execute_result", "data": {mime: wrong}}
                for mime in ("text/plain", "text/html", "image/png", "x")
            ),
        ]
    code = {"cell_type": "code", "source": "x"}
    cells: list[Any] = [
        code | {"outputs": outputs[start : start + 50]} for start in range(0, len(outputs), 50)
    ]
    fields = ("outputs", "metadata", "id", "execution_count")
    cells += [code | dict.fromkeys(fields, wrong) for wrong in WRONG]
    path = tmp_path / "it.ipynb"
    notebook = {"nbformat": 4, "nbformat_minor": [], "metadata": 3, "cells": cells}
    path.write_text(json.dumps(notebook))
    notebook_before = json.loads(path.read_bytes())
    it = open_notebook(path)
    it.happen(*again(1, 1, "x", ("stdout", "1\n")), *ran(2, "new"))
    it.notebook.save()
    notebook_after = json.loads(path.read_bytes())
    assert notebook_after["cells"][1 : len(cells)] == notebook_before["cells"][1:]
    assert notebook_after["cells"][-1]["source"] == ["new"]


def test_long_outputs_are_shown_partially(tmp_path: Path) -> None:
    texts = ["x" * 3_000_000, *"y" * 1_000]
    outputs = [{"output_type": "stream", "text": text} for text in texts]
    shown_outputs = list(cell_outputs({"outputs": outputs}))
    assert len(shown_outputs) == 2
    assert sum(len(output.text) for output in shown_outputs) < 1_100_000
    assert "characters are left out here" in shown_outputs[0].text
    assert shown_outputs[-1].text == "… 801 more outputs are in the file\n"


def test_pictures_are_data_and_not_text(tmp_path: Path) -> None:
    values = [
        {"image/png": PIXEL},
        {"image/png": "\x1b[2J"},
        {"image/png": [PIXEL[:5] + "\n", PIXEL[5:]], "text/plain": "a"},
    ]
    outputs = [{"output_type": "display_data", "data": data} for data in values]
    shown_outputs = list(cell_outputs({"outputs": outputs}))
    assert [(output.kind, output.text, output.data) for output in shown_outputs] == [
        ("display", "[image/png]\n", PIXEL),
        ("stdout", "[image/png]\n", ""),
        ("display", "a\n", PIXEL),
    ]


def test_surrogates_are_escaped_like_before(tmp_path: Path, open_notebook: OpenNotebook) -> None:
    path = tmp_path / "it.ipynb"
    cell = '{"cell_type": "markdown", "source": "\\ud800", "metadata": {}}'
    path.write_text(f'{{"nbformat": 4, "nbformat_minor": 5, "metadata": {{}}, "cells": [{cell}]}}')
    it = open_notebook(path)
    it.happen(*ran(1, "x"))
    it.notebook.save()
    assert json.loads(path.read_bytes())["cells"][0]["source"] == "\ud800"
