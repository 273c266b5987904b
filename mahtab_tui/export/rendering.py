"""Renders a session as a notebook, script, Markdown or page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nbformat

from mahtab_tui.bus.entries import Note
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.entries import ANNOTATIONS
from mahtab_tui.export.markdown import code_block, make_inert
from mahtab_tui.export.notebook import build_notebook
from mahtab_tui.export.page import render_page
from mahtab_tui.export.selection import ExportedEntries

ENDINGS = (".ipynb", ".py", ".md", ".html")


def render(selected: ExportedEntries, ending: str) -> str:
    """Return the content of a file with this suffix, one of `ENDINGS`. Raises `NothingToExport`."""
    if ending == ".ipynb":
        # A notebook is for others to run; what the program said here does not concern them.
        entries = [entry for entry in selected.entries if not isinstance(entry, Note)]
        node = build_notebook(selected._replace(entries=entries))
        return str(nbformat.writes(node)) + "\n"
    if ending == ".html":
        return render_page(_without_controls(build_notebook(selected)), selected.title)
    if ending == ".md":
        return _render_markdown(selected)
    return _render_script(selected)


def _render_markdown(selected: ExportedEntries) -> str:
    """Return a Markdown file, with the outputs of cells below their code."""
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
    """Return a script with `# %%` marks, without outputs and notes."""
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
    """Return a notebook without the control characters in its texts."""
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
