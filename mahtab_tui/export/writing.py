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

from mahtab_tui.bus.conversation import Cell, Entry, Note
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.entries import ANNOTATIONS, NothingToExport, Selected
from mahtab_tui.export.notebook import (
    METADATA_OF_NEW,
    SCHEMES,
    cells,
    code_block,
    code_cell,
    make_inert,
    notebook,
)
from mahtab_tui.export.reading import HEADER, Node, NotebookFile, cell_source, content_digest
from mahtab_tui.system import replace_file

ENDINGS = (".ipynb", ".py", ".md", ".html")

_MOST_TAGS, _LONGEST = 5_000, 200_000
"""Nested tags take quadratic time."""
_PAGE = """{%- extends 'lab/index.html.j2' -%}
{% block html_head_js %}<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">{% endblock %}
{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
"""
"""JupyterLab's template without its scripts."""
_STYLES = re.compile(r"<style\b.*?(?:</style\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TAGS = frozenset(
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i li ol p pre span strong summary table tbody td tfoot th thead tr ul".split()
)


def render(selected: Selected, ending: str) -> str:
    """Return the content of a file with this suffix, one of `ENDINGS`. Raises `NothingToExport`."""
    if ending == ".ipynb":
        # A notebook is for others to run; what the program said here does not concern them.
        entries = [entry for entry in selected.entries if not isinstance(entry, Note)]
        return str(nbformat.writes(notebook(selected._replace(entries=entries)))) + "\n"
    if ending == ".html":
        return _page(_without_controls(notebook(selected)), selected.title)
    import jupytext

    if ending == ".md":
        made = _without_controls(notebook(selected))
        made.cells = [each for cell in made.cells for each in _with_outputs(cell)]
        filters = {"notebook_metadata_filter": "-all", "cell_metadata_filter": "-all"}
        made.metadata = {"jupytext": filters}
        return str(jupytext.writes(made, fmt="md"))
    entries = [entry for entry in selected.entries if not isinstance(entry, ANNOTATIONS)]
    made = notebook(selected._replace(entries=entries))
    made.metadata = {"kernelspec": made.metadata.kernelspec}
    for cell in made.cells:
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)  # Python reads no file that contains a NUL
    return str(jupytext.writes(made, fmt="py:percent"))


def _without_controls(node: Any) -> Any:
    if isinstance(node, dict):
        return type(node)({name: _without_controls(value) for name, value in node.items()})
    if isinstance(node, list):
        return [_without_controls(value) for value in node]
    return plain(node) if isinstance(node, str) else node


def _with_outputs(cell: Any) -> Iterator[Any]:
    from nbformat.v4 import new_markdown_cell

    yield cell
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        traceback = "\n".join(output.get("traceback", ()))
        text = data.get("text/plain") or output.get("text") or traceback
        picture = next((mime for mime in data if mime.startswith("image/")), "")
        if picture:
            yield new_markdown_cell(f"![picture](data:{picture};base64,{data[picture]})")
        elif "text/markdown" in data:
            yield new_markdown_cell(make_inert(data["text/markdown"]))
        elif text.strip():
            yield new_markdown_cell(code_block(text, "text"))


def _page(notebook: Any, title: str) -> str:
    try:
        from nbconvert import HTMLExporter
    except ImportError:
        raise NothingToExport("A web page needs nbconvert: install mahtab-tui[html].") from None
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        data = output.get("data", {})
        for mime in ("text/html", "text/markdown"):
            if mime in data and (data[mime].count("<") > _MOST_TAGS or len(data[mime]) > _LONGEST):
                del data[mime]
        if "text/markdown" in data:
            data["text/markdown"] = make_inert(data["text/markdown"])
    exporter = HTMLExporter(
        raw_template=_PAGE,
        sanitize_html=True,
        exclude_anchor_links=True,
        filters={"clean_html": _sanitize_html},
    )
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title or "A session"}})
    return str(page)


def _sanitize_html(html: object) -> str:
    """Remove all that a browser would load or run; nbconvert's filter shows most tags as text."""
    import bleach

    spans = ["colspan", "rowspan"]
    attributes = {"*": ["class"], "a": ["href"], "td": spans, "th": spans}
    text = _STYLES.sub("", str(html))
    return str(bleach.clean(text, tags=_TAGS, attributes=attributes, protocols=SCHEMES))


def write(selected: Selected, path: Path, *, over: bool = False) -> None:
    """Write the file atomically. Raises `OSError`; `FileExistsError` if it exists and `over` is
    False."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    text = render(selected, path.suffix.lower())
    if not over and os.path.lexists(path):  # also matches a broken link
        raise FileExistsError(f"{path} already exists.")
    replace_file(path, text)


_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST = 3_000


def new_notebook(path: Path) -> NotebookFile:
    content = {"cells": [], "metadata": METADATA_OF_NEW, "nbformat": 4, "nbformat_minor": 5}
    return NotebookFile(path.absolute(), "", content)


def merge_content(
    file: NotebookFile,
    ran: Mapping[int, Cell],
    additions: Sequence[Entry],
    selected: Selected,
    mask: Callable[[str], str],
) -> Node:
    """Return the notebook with the cells that ran (by index), and the rest of the session at its
    end."""
    made = [
        _updated_cell(cell, ran[index], selected, mask) if index in ran else cell
        for index, cell in enumerate(file.cells)
    ]
    ids = {id for cell in file.cells if isinstance(id := cell.get("id"), str)}
    new = _split(list(cells(selected._replace(entries=additions), ids)))
    if file.form != "ipynb":
        new = [{**cell, "metadata": {}} for cell in new]
    elif not (isinstance(minor := file.content.get("nbformat_minor"), int) and minor >= 5):
        # Its cells have no ids.
        new = [{name: value for name, value in cell.items() if name != "id"} for cell in new]
    return {**file.content, "cells": [*made, *new]}


def render_text(file: NotebookFile, content: Node) -> str:
    if file.form != "ipynb":
        text = file.header + _preserve_file_lines(file, content)
    else:
        text = json.dumps(content, ensure_ascii=False, indent=file.style.indent)
        if _SURROGATE.search(text):
            text = json.dumps(content, indent=file.style.indent)
        text += "\n" * file.style.ends
    return text.replace("\n", "\r\n") if file.style.windows else text


def file_digest(path: Path) -> str:
    """Return the digest of a file's current content; empty if there is no file. Raises
    `OSError`."""
    try:
        return content_digest(path.read_bytes())
    except FileNotFoundError:
        return ""


def free_name(path: Path) -> Path:
    count = itertools.count(2)
    names = (path.with_name(f"{path.stem} ({number}){path.suffix}") for number in count)
    return next(name for name in names if not os.path.lexists(name))


def write_text(path: Path, text: str, encoding: str = "utf-8") -> str:
    """Write a file, with escapes for what the encoding lacks; returns its digest."""
    if encoding != "utf-8":
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    replace_file(path, text, encoding=encoding)
    return content_digest(text.encode(encoding, "replace"))


def _updated_cell(cell: Node, run: Cell, selected: Selected, mask: Callable[[str], str]) -> Node:
    new = _split([code_cell(run, selected)])[0]
    source = cell_source(cell)
    if mask(source).strip("\n") == run.code.strip("\n"):
        new["source"] = cell["source"]
    else:
        code = run.code.rstrip("\n") + source[len(source.rstrip("\n")) :]
        new["source"] = code if isinstance(cell["source"], str) else code.splitlines(keepends=True)
    return {**cell, **new}


def _split(new: list[Node]) -> list[Node]:
    notebook = split_lines(nbformat.from_dict({"cells": new}))
    split: list[Node] = json.loads(json.dumps(notebook.cells, sort_keys=True))
    return split


def _preserve_file_lines(file: NotebookFile, content: Node) -> str:
    form, texts = file.form, (content, file.content)
    if form == "script":
        return _as_text(form, content)
    now, read = (HEADER.sub("", _as_text(form, each), count=1) for each in texts)
    return preserve_lines(file.text, read, now)


def _as_text(form: str, content: Node) -> str:
    import jupytext

    made = content["cells"]
    if form == "script" and len(made) <= 1:
        return cell_source(made[0]) if made else ""
    metadata = content["metadata"]
    if form == "script":
        form, metadata = "py:percent", {"jupytext": {"notebook_metadata_filter": "-all"}}
    cells = [{**cell, "source": cell_source(cell)} for cell in made]
    notebook = nbformat.from_dict({**content, "metadata": metadata, "cells": cells})
    try:
        return str(jupytext.writes(notebook, fmt=form))
    except Exception:  # a library processing untrusted cells
        raise OSError(errno.EINVAL, "its cells cannot be written as text") from None


def preserve_lines(original: str, read: str, now: str) -> str:
    """Return `now` with the lines of `original` where nothing has changed. read: the original as
    the library writes it."""
    if now == read:
        return original
    source, before, after = (text.splitlines(keepends=True) for text in (original, read, now))
    if source == before or max(len(source), len(before), len(after)) > _MOST:
        return now
    opcodes = SequenceMatcher(None, before, source, autojunk=False).get_opcodes()

    def source_lines(start: int, end: int) -> list[str]:
        lines: list[str] = []
        for tag, first, last, source_first, source_last in opcodes:
            within = start <= first and last <= end and (first < end or first == len(before))
            if tag != "equal" and within:
                lines += source[source_first:source_last]
            else:
                lines += before[max(start, first) : min(end, last)]
        return lines

    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return "".join(
        line
        for tag, start, end, first, last in changes
        for line in (source_lines(start, end) if tag == "equal" else after[first:last])
    )
