"""The source of a frame: where it comes from, and which of its lines is meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.tui.external import line_arguments
from mahtab_tui.tui.screens.output import frame_cell, is_file, read_code


def marked(file: str, line: int, cell: str | None = None) -> str:
    """The line of a frame's source that is meant."""
    code = read_code(
        TracebackFrame(file, line, "f", 1), lambda number: cell if number == 7 else None
    )
    return "none" if code.line is None else code.text[code.line.start : code.line.stop]


def test_the_line_of_a_file_and_of_a_cell_is_found(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_bytes("# -*- coding: latin-1 -*-\r\nx = 'é'\r\n\r\ny = 2".encode("latin-1"))
    assert [marked(str(file), line) for line in (1, 2, 3, 4, 5, 0)] == [
        "# -*- coding: latin-1 -*-",
        "x = 'é'",
        "",
        "y = 2",
        "none",
        "none",
    ]
    assert marked("In [7]", 1, "\n") == marked("In [7]", 1, "") == ""
    assert marked("In [7]", 2, "a = 1\r\nb = 2") == "b = 2"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("In [8]", "The code of cell 8 was not kept."),
        ("<string>", "This frame is in no file, and its source was not kept."),
        ("/no/such/file.py", "The file cannot be read: No such file or directory."),
        ("/tmp", "The file cannot be read: Is a directory."),
        ("/dev/zero", "This is not a regular file."),
        ("/a\0b", "No file can have this name."),
    ],
)
def test_missing_source_is_explained_in_a_sentence(file: str, message: str) -> None:
    with pytest.raises(KernelError) as error:
        marked(file, 1)
    assert str(error.value) == message
    assert not is_file(TracebackFrame(file, 1, "f", 1))


def test_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KernelError, match="not a regular file"):
        marked(str(tmp_path / "pipe"), 1)


def test_unknown_encoding_is_read_as_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("# coding: klingon\nx = 'é'\n")
    assert marked(str(file), 2) == "x = 'é'"


@pytest.mark.parametrize(
    "file", ["In []", "In [x]", "In [1", "In [²]", "In [12345678901]", "xIn [1]"]
)
def test_names_that_only_resemble_cells_are_not_cells(file: str) -> None:
    assert frame_cell(TracebackFrame(file, 1, "f", 1)) is None


@pytest.mark.parametrize(
    ("editor", "line", "words"),
    [
        ("vim", 3, ["+3", "/x.py"]),
        ("/usr/bin/nano", 3, ["+3", "/x.py"]),
        ("/opt/code", 3, ["--goto", "/x.py:3"]),
        ("hx", 3, ["/x.py:3"]),
        ("vim", 0, ["/x.py"]),
    ],
)
def test_editor_opens_at_the_line(editor: str, line: int, words: list[str]) -> None:
    assert line_arguments(editor, "/x.py", line) == words
