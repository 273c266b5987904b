"""Writes a notebook that was read: what did not run stays exactly as it was."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import nbformat
from nbformat.v4.rwbase import split_lines

from mahtab_tui.export.entries import Cell, Entry
from mahtab_tui.export.notebook import METADATA_OF_NEW, cells, code_cell
from mahtab_tui.export.reading import HEADER, Node, NotebookFile, digest, source_of
from mahtab_tui.export.selection import Selected
from mahtab_tui.export.writing import replace_file

_MARK = "\ufeff"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST = 3_000
"""Lines of texts that are compared: it may take time that grows with their square."""


def new_notebook(path: Path) -> NotebookFile:
    """Return a notebook without cells, for a file that does not exist yet."""
    return NotebookFile(
        path.absolute(),
        "",
        {"cells": [], "metadata": METADATA_OF_NEW, "nbformat": 4, "nbformat_minor": 5},
    )


def content_of(
    file: NotebookFile,
    ran: Mapping[int, Cell],
    besides: Sequence[Entry],
    selected: Selected,
    told: Callable[[str], str],
) -> Node:
    """Return the notebook with the cells that ran, and with what was said and run besides at its
    end.

    ran: the last run of each cell, by its index in the file. told: covers what must not be written,
    as it was covered in the entries.
    """
    made = [
        _after(cell, ran[index], selected, told) if index in ran else cell
        for index, cell in enumerate(file.cells)
    ]
    taken = {id for cell in file.cells if isinstance(id := cell.get("id"), str)}
    new = _split(list(cells(selected._replace(entries=besides), taken)))
    if file.form != "ipynb":
        new = [{**cell, "metadata": {}} for cell in new]
    elif not (
        isinstance(minor := file.content.get("nbformat_minor"), int) and minor >= 5
    ):  # its cells have no ids
        new = [{name: value for name, value in cell.items() if name != "id"} for cell in new]
    return {**file.content, "cells": [*made, *new]}


def text_of(file: NotebookFile, content: Node) -> str:
    """Return the text of the file with this content, laid out as the file was."""
    style = file.style
    if file.form != "ipynb":
        text = file.header + _respelled(file, content)
    else:
        separators = (
            "," if style.indent is not None or not style.spaced else ", ",
            ": " if style.spaced else ":",
        )
        text = (
            json.dumps(
                content, ensure_ascii=style.escaped, indent=style.indent, separators=separators
            )
            + "\n" * style.ends
        )
        if _SURROGATE.search(text):
            text = (
                json.dumps(content, indent=style.indent, separators=separators) + "\n" * style.ends
            )
    return _MARK * style.mark + (text.replace("\n", "\r\n") if style.windows else text)


def digest_of(path: Path) -> str:
    """Return the digest of a file as it is now; empty if there is none. Raises `OSError`."""
    try:
        return digest(path.read_bytes())
    except FileNotFoundError:
        return ""


def free_name(path: Path) -> Path:
    """Return the first of ``name (2).ipynb``, ``name (3).ipynb`` and so on that does not exist."""
    names = (
        path.with_name(f"{path.stem} ({number}){path.suffix}") for number in itertools.count(2)
    )
    return next(name for name in names if not os.path.lexists(name))


def write_text(path: Path, text: str, encoding: str = "utf-8") -> str:
    """Write a file in one step and return its digest. Characters that its encoding lacks become
    ``?``. Raises `OSError`."""
    replace_file(path, text, encoding)
    return digest(text.encode(encoding, "replace"))


def _after(cell: Node, run: Cell, selected: Selected, told: Callable[[str], str]) -> Node:
    """Return a cell of the file as it is after it ran."""
    new = _split([code_cell(run, selected)])[0]
    source = source_of(cell)
    if told(source).strip("\n") == run.code.strip("\n"):
        new["source"] = cell["source"]
    else:
        code = run.code.rstrip("\n") + source[len(source.rstrip("\n")) :]
        new["source"] = code if isinstance(cell["source"], str) else code.splitlines(keepends=True)
    return {**cell, **new}


def _split(new: list[Node]) -> list[Node]:
    """Return cells with their texts as lists of lines, as Jupyter writes them."""
    notebook = split_lines(nbformat.from_dict({"cells": new}))
    split: list[Node] = json.loads(json.dumps(notebook.cells, sort_keys=True))
    return split


def _respelled(file: NotebookFile, content: Node) -> str:
    """Return the text after the header; lines of what has not changed stay as they were."""
    if file.form == "script":
        return _as_text(file.form, content)
    now, read = (
        HEADER.sub("", _as_text(file.form, each), count=1) for each in (content, file.content)
    )
    return respelled(file.text, read, now)


def _as_text(form: str, content: Node) -> str:
    import jupytext

    made = content["cells"]
    if form == "script" and len(made) <= 1:
        return source_of(made[0]) if made else ""
    metadata = (
        {"jupytext": {"notebook_metadata_filter": "-all"}}
        if form == "script"
        else content["metadata"]
    )
    notebook = nbformat.from_dict(
        {
            **content,
            "metadata": metadata,
            "cells": [{**cell, "source": source_of(cell)} for cell in made],
        }
    )
    try:
        return str(jupytext.writes(notebook, fmt="py:percent" if form == "script" else form))
    except Exception:  # a library over cells from anybody
        raise OSError(errno.EINVAL, "its cells cannot be written as text") from None


def respelled(original: str, read: str, now: str) -> str:
    """Return `now` with the lines of `original` wherever it has not changed since.

    original: as the author wrote it. read: the same, as the library writes it after it was read.
    now: as the library writes it after a change.
    """
    if now == read:
        return original
    theirs, before, after = (text.splitlines(keepends=True) for text in (original, read, now))
    if theirs == before or max(len(theirs), len(before), len(after)) > _MOST:
        return now
    spelt = SequenceMatcher(None, before, theirs, autojunk=False).get_opcodes()

    def as_theirs(start: int, end: int) -> list[str]:
        lines: list[str] = []
        for tag, first, last, their_first, their_last in spelt:
            within = start <= first and last <= end and (first < end or first == len(before))
            if tag != "equal" and within:
                lines += theirs[their_first:their_last]
            else:
                lines += before[max(start, first) : min(end, last)]
        return lines

    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return "".join(
        line
        for tag, start, end, first, last in changes
        for line in (as_theirs(start, end) if tag == "equal" else after[first:last])
    )
