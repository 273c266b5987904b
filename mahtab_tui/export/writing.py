"""Writes a session into a file whose ending says how. All are made from its notebook: pages by
nbconvert, texts by jupytext."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.annotations import Annotation
from mahtab_tui.export.quoting import SCHEMES, fenced, inert
from mahtab_tui.export.selection import NothingToExport, Selected

ENDINGS = (".ipynb", ".py", ".md", ".html")

_MOST_TAGS, _LONGEST = 5_000, 200_000
"""Tags and characters of a rich output in a page. Larger ones are shown as text: tags may be
nested, which takes time that grows with their square."""
_PAGE = """{%- extends 'lab/index.html.j2' -%}
{% block html_head_js %}<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">{% endblock %}
{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
"""
"""The template of JupyterLab without its scripts."""
_STYLES = re.compile(r"<style\b.*?(?:</style\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TAGS = frozenset(
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i li ol p pre span strong summary table tbody td tfoot th thead tr ul".split()
)


def rendered(selected: Selected, ending: str) -> str:
    """Return the text of a file with this ending, one of `ENDINGS`. Raises `NothingToExport`."""
    import nbformat

    from mahtab_tui.export.notebook import notebook

    if ending == ".ipynb":
        return str(nbformat.writes(notebook(selected))) + "\n"
    if ending == ".html":
        return _page(_without_controls(notebook(selected)), selected.title)
    import jupytext

    if ending == ".md":
        made = _without_controls(notebook(selected))
        made.cells = [each for cell in made.cells for each in _with_outputs(cell)]
        made.metadata = {
            "jupytext": {"notebook_metadata_filter": "-all", "cell_metadata_filter": "-all"}
        }
        return str(jupytext.writes(made, fmt="md"))
    made = notebook(
        selected._replace(
            entries=[entry for entry in selected.entries if not isinstance(entry, Annotation)]
        )
    )
    made.metadata = {"kernelspec": made.metadata.kernelspec}
    for cell in made.cells:
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)  # Python reads no file with a NUL in it
    return str(jupytext.writes(made, fmt="py:percent"))


def _without_controls(node: Any) -> Any:
    """Return a part of a notebook whose texts have no escape sequences and control characters."""
    if isinstance(node, dict):
        return type(node)({name: _without_controls(value) for name, value in node.items()})
    if isinstance(node, list):
        return [_without_controls(value) for value in node]
    return plain(node) if isinstance(node, str) else node


def _with_outputs(cell: Any) -> Iterator[Any]:
    """Return a cell and its outputs as cells of Markdown, since jupytext writes no outputs."""
    from nbformat.v4 import new_markdown_cell

    yield cell
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        text = (
            data.get("text/plain") or output.get("text") or "\n".join(output.get("traceback", ()))
        )
        if pictures := [
            f"![picture](data:{mime};base64,{data[mime]})"
            for mime in data
            if mime.startswith("image/")
        ]:
            yield new_markdown_cell(pictures[0])
        elif "text/markdown" in data:
            yield new_markdown_cell(inert(data["text/markdown"]))
        elif text.strip():
            yield new_markdown_cell(fenced(text, "text"))


def _page(notebook: Any, title: str) -> str:
    """Return a notebook as an HTML page that loads and runs nothing."""
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
            data["text/markdown"] = inert(data["text/markdown"])
    exporter = HTMLExporter(
        raw_template=_PAGE,
        sanitize_html=True,
        exclude_anchor_links=True,
        filters={"clean_html": _cleaned},
    )
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title or "A session"}})
    return str(page)


def _cleaned(html: object) -> str:
    """Return HTML without anything that a browser would load or run. nbconvert's own filter shows
    most tags as text."""
    import bleach

    attributes = {
        "*": ["class"],
        "a": ["href"],
        "td": ["colspan", "rowspan"],
        "th": ["colspan", "rowspan"],
    }
    return str(
        bleach.clean(
            _STYLES.sub("", str(html)), tags=_TAGS, attributes=attributes, protocols=SCHEMES
        )
    )


def write(selected: Selected, path: Path, *, over: bool = False) -> None:
    """Write the file in one step. Raises `OSError`; `FileExistsError` if it is there and not
    `over`."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    text = rendered(selected, path.suffix.lower())
    if not over and os.path.lexists(path):  # also a link that leads nowhere
        raise FileExistsError(f"{path} already exists.")
    replace_file(path, text)


def replace_file(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Write a file in one step: others see the old one or the new one, whole. A link stays one.
    Raises `OSError`."""
    path = Path(os.path.realpath(path))
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".mahtab-")
    except OSError as error:
        error.filename = str(path)  # not the name of the draft
        raise
    try:
        with os.fdopen(handle, "w", encoding=encoding, errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, _mode(path))
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _mode(path: Path) -> int:
    """Return the mode that the file has, or that a new one gets."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
