"""Writes a session or a notebook to a file."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4.rwbase import split_lines

from mahtab_tui.bus.entries import Cell, Entry, Note
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.entries import ANNOTATIONS, ExportedEntries, NothingToExport
from mahtab_tui.export.notebook import (
    NEW_METADATA,
    SAFE_SCHEMES,
    build_cells,
    build_notebook,
    code_block,
    code_cell,
    make_inert,
)
from mahtab_tui.export.reading import HEADER, LoadedNotebook, Node, cell_source, content_digest
from mahtab_tui.system import replace_file

ENDINGS = (".ipynb", ".py", ".md", ".html")

MAX_TAGS = 5_000
MAX_MARKUP_CHARS = 200_000
"""Longer values are left out of pages: nested tags take quadratic time."""
MAX_COMPARED_LINES = 3_000
ALLOWED_TAGS = frozenset(
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i li ol p pre span strong summary table tbody td tfoot th thead tr ul".split()
)
PAGE_TEMPLATE = """{%- extends 'lab/index.html.j2' -%}
{% block html_head_js %}<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">{% endblock %}
{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
"""
"""JupyterLab's template without its scripts."""
_STYLES = re.compile(r"<style\b.*?(?:</style\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def render(selected: ExportedEntries, ending: str) -> str:
    """Return the content of a file with this suffix, one of `ENDINGS`. Raises `NothingToExport`."""
    if ending == ".ipynb":
        # A notebook is for others to run; what the program said here does not concern them.
        entries = [entry for entry in selected.entries if not isinstance(entry, Note)]
        node = build_notebook(selected._replace(entries=entries))
        return str(nbformat.writes(node)) + "\n"
    if ending == ".html":
        return _render_page(_without_controls(build_notebook(selected)), selected.title)
    if ending == ".md":
        return _render_markdown(selected)
    return _render_script(selected)


def _render_markdown(selected: ExportedEntries) -> str:
    import jupytext

    node = _without_controls(build_notebook(selected))
    cells: list[Any] = []
    for cell in node.cells:
        cells.append(cell)
        cells += _output_cells(cell)
    node.cells = cells
    filters = {"notebook_metadata_filter": "-all", "cell_metadata_filter": "-all"}
    node.metadata = {"jupytext": filters}
    return str(jupytext.writes(node, fmt="md"))


def _render_script(selected: ExportedEntries) -> str:
    import jupytext

    entries = [entry for entry in selected.entries if not isinstance(entry, ANNOTATIONS)]
    node = build_notebook(selected._replace(entries=entries))
    node.metadata = {"kernelspec": node.metadata.kernelspec}
    for cell in node.cells:
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)  # Python reads no file that contains a NUL
    return str(jupytext.writes(node, fmt="py:percent"))


def _without_controls(node: Any) -> Any:
    if isinstance(node, dict):
        return type(node)({name: _without_controls(value) for name, value in node.items()})
    if isinstance(node, list):
        return [_without_controls(value) for value in node]
    return plain(node) if isinstance(node, str) else node


def _output_cells(cell: Any) -> Iterator[Any]:
    """Yield a Markdown cell for each output of a cell."""
    from nbformat.v4 import new_markdown_cell

    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        traceback = "\n".join(output.get("traceback", ()))
        text = data.get("text/plain") or output.get("text") or traceback
        picture_mime = next((mime for mime in data if mime.startswith("image/")), "")
        if picture_mime:
            address = f"data:{picture_mime};base64,{data[picture_mime]}"
            yield new_markdown_cell(f"![picture]({address})")
        elif "text/markdown" in data:
            yield new_markdown_cell(make_inert(data["text/markdown"]))
        elif text.strip():
            yield new_markdown_cell(code_block(text, "text"))


def _render_page(notebook: Any, title: str) -> str:
    """Return a web page that loads and runs nothing. Raises `NothingToExport`."""
    try:
        from nbconvert import HTMLExporter
    except ImportError:
        raise NothingToExport("A web page needs nbconvert: install mahtab-tui[html].") from None

    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            _make_data_inert(output.get("data", {}))
    exporter = HTMLExporter(
        raw_template=PAGE_TEMPLATE,
        sanitize_html=True,
        exclude_anchor_links=True,
        filters={"clean_html": _sanitize_html},
    )
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title or "A session"}})
    return str(page)


def _make_data_inert(data: dict[str, str]) -> None:
    """Remove long markup from the forms of a value, and make its Markdown inert."""
    for mime in ("text/html", "text/markdown"):
        markup = data.get(mime, "")
        if markup.count("<") > MAX_TAGS or len(markup) > MAX_MARKUP_CHARS:
            del data[mime]
    if "text/markdown" in data:
        data["text/markdown"] = make_inert(data["text/markdown"])


def _sanitize_html(html: object) -> str:
    """Remove all that a browser would load or run; nbconvert's filter shows most tags as text."""
    import bleach

    cell_spans = ["colspan", "rowspan"]
    attributes = {"*": ["class"], "a": ["href"], "td": cell_spans, "th": cell_spans}
    return str(
        bleach.clean(
            _STYLES.sub("", str(html)),
            tags=ALLOWED_TAGS,
            attributes=attributes,
            protocols=SAFE_SCHEMES,
        )
    )


def write(selected: ExportedEntries, path: Path, *, over: bool = False) -> None:
    """Write a file atomically, in the format that its suffix names.

    Args:
        over: Replace the file if it exists.

    Raises:
        OSError: It cannot be written; `FileExistsError` if it exists.
        NothingToExport: A package for the format is missing.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    text = render(selected, path.suffix.lower())
    if not over and os.path.lexists(path):  # also matches a broken link
        raise FileExistsError(f"{path} already exists.")
    replace_file(path, text)


def new_notebook(path: Path) -> LoadedNotebook:
    """Return a notebook without cells, which is not written yet."""
    content = {"cells": [], "metadata": NEW_METADATA, "nbformat": 4, "nbformat_minor": 5}
    return LoadedNotebook(path.absolute(), "", content)


def merge_content(
    file: LoadedNotebook,
    ran: Mapping[int, Cell],
    additions: Sequence[Entry],
    selected: ExportedEntries,
    mask: Callable[[str], str],
) -> Node:
    """Return the content of a notebook after a session.

    Args:
        ran: The cells of the file that ran, by their index.
        additions: The rest of the session, which becomes new cells at the end.
        mask: Masks secrets; a source that differs only by them stays as it is.
    """
    merged_cells: list[Node] = []
    for index, cell in enumerate(file.cells):
        if index in ran:
            cell = _updated_cell(cell, ran[index], selected, mask)
        merged_cells.append(cell)

    used_ids = {cell["id"] for cell in file.cells if isinstance(cell.get("id"), str)}
    new_cells = list(build_cells(selected._replace(entries=additions), used_ids))
    new_cells = _split_lines(new_cells)
    minor_version = file.content.get("nbformat_minor")
    if file.form != "ipynb":
        new_cells = [{**cell, "metadata": {}} for cell in new_cells]
    elif not isinstance(minor_version, int) or minor_version < 5:
        for cell in new_cells:
            del cell["id"]  # cells of earlier versions have none
    return {**file.content, "cells": [*merged_cells, *new_cells]}


def render_text(file: LoadedNotebook, content: Node) -> str:
    """Return a file's text with new content, in the file's own style."""
    if file.form != "ipynb":
        text = file.header + _preserve_file_lines(file, content)
    else:
        text = json.dumps(content, ensure_ascii=False, indent=file.style.indent)
        # UTF-8 has no lone surrogates; JSON writes them as escapes.
        if _SURROGATE.search(text):
            text = json.dumps(content, indent=file.style.indent)
        if file.style.ends:
            text += "\n"
    return text.replace("\n", "\r\n") if file.style.windows else text


def file_digest(path: Path) -> str:
    """Return the digest of a file's current content; empty if there is no file. Raises
    `OSError`."""
    try:
        return content_digest(path.read_bytes())
    except FileNotFoundError:
        return ""


def free_name(path: Path) -> Path:
    """Return a path beside another at which there is no file: ``name (2).ipynb``."""
    for number in itertools.count(2):
        candidate = path.with_name(f"{path.stem} ({number}){path.suffix}")
        if not os.path.lexists(candidate):
            return candidate
    raise AssertionError  # there is always a larger number


def write_text(path: Path, text: str, encoding: str = "utf-8") -> str:
    """Write a file, with escapes for what the encoding lacks; returns its digest."""
    if encoding != "utf-8":
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    replace_file(path, text, encoding=encoding)
    return content_digest(text.encode(encoding, "replace"))


def _updated_cell(
    cell: Node, run: Cell, selected: ExportedEntries, mask: Callable[[str], str]
) -> Node:
    """Return a cell of the file as it was last run."""
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
    if file.form == "script":
        return _render_cells(file.form, content)
    new_text = HEADER.sub("", _render_cells(file.form, content), count=1)
    read_text = HEADER.sub("", _render_cells(file.form, file.content), count=1)
    return preserve_lines(file.text, read_text, new_text)


def _render_cells(form: str, content: Node) -> str:
    """Return the cells of a notebook in a text format. Raises `OSError`."""
    import jupytext

    cells = content["cells"]
    metadata = content["metadata"]
    if form == "script" and len(cells) <= 1:
        return cell_source(cells[0]) if cells else ""
    # A script that got more cells needs marks between them.
    if form == "script":
        form = "py:percent"
        metadata = {"jupytext": {"notebook_metadata_filter": "-all"}}
    text_cells = [{**cell, "source": cell_source(cell)} for cell in cells]
    node = nbformat.from_dict({**content, "metadata": metadata, "cells": text_cells})
    try:
        return str(jupytext.writes(node, fmt=form))
    except Exception:  # a library processing untrusted cells
        raise OSError(errno.EINVAL, "its cells cannot be written as text") from None


def preserve_lines(original: str, read: str, now: str) -> str:
    """Return a new text with the lines of the original where nothing has changed.

    Args:
        original: The file's text, which the user has formatted.
        read: The same content, as the library writes it.
        now: The new content, as the library writes it.
    """
    if now == read:
        return original
    original_lines = original.splitlines(keepends=True)
    read_lines = read.splitlines(keepends=True)
    new_lines = now.splitlines(keepends=True)
    line_count = max(len(original_lines), len(read_lines), len(new_lines))
    if original_lines == read_lines or line_count > MAX_COMPARED_LINES:
        return now

    formatting = SequenceMatcher(None, read_lines, original_lines, autojunk=False).get_opcodes()

    def lines_as_formatted(start: int, end: int) -> Iterator[str]:
        """Yield unchanged lines, as the user has formatted them."""
        for tag, first, last, original_first, original_last in formatting:
            # Lines that only the original has lie between two others: they belong to the later.
            is_within = start <= first and last <= end and (first < end or first == len(read_lines))
            if tag != "equal" and is_within:
                yield from original_lines[original_first:original_last]
            else:
                yield from read_lines[max(start, first) : min(end, last)]

    pieces: list[str] = []
    changes = SequenceMatcher(None, read_lines, new_lines, autojunk=False).get_opcodes()
    for tag, start, end, new_start, new_end in changes:
        if tag == "equal":
            pieces += lines_as_formatted(start, end)
        else:
            pieces += new_lines[new_start:new_end]
    return "".join(pieces)
