"""Merges a session into the notebook, script or Markdown file that it has open."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import nbformat
from nbformat.v4.rwbase import split_lines

from mahtab_tui.bus.entries import Cell, Entry
from mahtab_tui.export.line_merge import preserve_lines
from mahtab_tui.export.notebook import NEW_METADATA, build_cells, code_cell
from mahtab_tui.export.reading import HEADER, FileFormat, LoadedNotebook, Node, cell_source
from mahtab_tui.export.selection import ExportedEntries

_SURROGATE = re.compile("[\ud800-\udfff]")


def new_notebook(path: Path) -> LoadedNotebook:
    """Return a notebook without cells, which is not written yet."""
    content = {"cells": [], "metadata": NEW_METADATA, "nbformat": 4, "nbformat_minor": 5}
    return LoadedNotebook(path.absolute(), "", content)


def merge_content(
    file: LoadedNotebook,
    run_cells: Mapping[int, Cell],
    additions: Sequence[Entry],
    selected: ExportedEntries,
    mask: Callable[[str], str],
) -> Node:
    """Return the content of a notebook after a session.

    Args:
        run_cells: The last runs of the file's cells, by the index of the cell.
        additions: The rest of the session, which becomes new cells at the end.
        mask: Masks secrets; a source that differs only by them stays as it is.
    """
    merged_cells: list[Node] = []
    for index, cell in enumerate(file.cells):
        if index in run_cells:
            cell = _updated_cell(cell, run_cells[index], selected, mask)
        merged_cells.append(cell)

    used_ids = {cell["id"] for cell in file.cells if isinstance(cell.get("id"), str)}
    new_cells = list(build_cells(selected._replace(entries=additions), used_ids))
    new_cells = _split_lines(new_cells)
    minor_version = file.content.get("nbformat_minor")
    if file.format != "ipynb":
        new_cells = [{**cell, "metadata": {}} for cell in new_cells]
    elif not isinstance(minor_version, int) or minor_version < 5:
        for cell in new_cells:
            del cell["id"]  # cells of earlier versions have none
    return {**file.content, "cells": [*merged_cells, *new_cells]}


def render_text(file: LoadedNotebook, content: Node) -> str:
    """Return a file's text with new content, in the file's own style."""
    if file.format != "ipynb":
        text = file.header + _preserve_file_lines(file, content)
    else:
        text = json.dumps(content, ensure_ascii=False, indent=file.style.indent)
        # UTF-8 has no lone surrogates; JSON writes them as escapes.
        if _SURROGATE.search(text):
            text = json.dumps(content, indent=file.style.indent)
        if file.style.ends_with_newline:
            text += "\n"
    if file.style.has_crlf:
        text = text.replace("\n", "\r\n")
    return text


def _updated_cell(
    cell: Node, run: Cell, selected: ExportedEntries, mask: Callable[[str], str]
) -> Node:
    """Return a cell of the file as it was last run; unchanged if the run is private."""
    if selected.is_private(run):
        return cell
    (updated,) = _split_lines([code_cell(run, selected)])
    source = cell_source(cell)
    if mask(source).strip("\n") == run.code.strip("\n"):
        updated["source"] = cell["source"]
    else:
        # Keep the line ends at the end, and the form: a text or a list of lines.
        line_ends = source[len(source.rstrip("\n")) :]
        code = run.code.rstrip("\n") + line_ends
        is_text = isinstance(cell["source"], str)
        updated["source"] = code if is_text else code.splitlines(keepends=True)
    return {**cell, **updated}


def _split_lines(new_cells: list[Node]) -> list[Node]:
    """Return cells with their texts as lists of lines, as Jupyter stores them."""
    node = split_lines(nbformat.from_dict({"cells": new_cells}))
    cells: list[Node] = json.loads(json.dumps(node.cells, sort_keys=True))
    return cells


def _preserve_file_lines(file: LoadedNotebook, content: Node) -> str:
    """Return new content as text, with the lines of the file where nothing has changed."""
    if file.format == "script":
        return _render_cells(file.format, content)
    new_text = HEADER.sub("", _render_cells(file.format, content), count=1)
    read_text = HEADER.sub("", _render_cells(file.format, file.content), count=1)
    return preserve_lines(file.text, read_text, new_text)


def _render_cells(file_format: FileFormat, content: Node) -> str:
    """Return the cells of a notebook in a text format. Raises `OSError`."""
    import jupytext

    cells = content["cells"]
    metadata = content["metadata"]
    if file_format == "script" and len(cells) <= 1:
        return cell_source(cells[0]) if cells else ""
    # A script that got more cells needs marks between them.
    if file_format == "script":
        file_format = "py:percent"
        metadata = {"jupytext": {"notebook_metadata_filter": "-all"}}
    text_cells = [{**cell, "source": cell_source(cell)} for cell in cells]
    node = nbformat.from_dict({**content, "metadata": metadata, "cells": text_cells})
    try:
        return str(jupytext.writes(node, fmt=file_format))
    except Exception:  # a library processing untrusted cells
        raise OSError(errno.EINVAL, "its cells cannot be written as text") from None
