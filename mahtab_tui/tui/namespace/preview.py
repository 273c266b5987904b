"""Reads the first lines of a variable's value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.inspector_client import TableArrangement
from mahtab_tui.tui.rows.row import fit_text

if TYPE_CHECKING:
    from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient

_MAX_PREVIEW_COLUMN_CELLS = 16
_PREVIEW_CHARS = 4_000


def read_preview(inspector: InspectorClient, name: str, height: int, width: int) -> list[str]:
    """Read the first lines of a variable's value. Waits for the kernel; raises `KernelError`."""
    try:
        opened = inspector.open((["name", name],))
        view = opened.views[0] if opened.views else ""
        if view == "table":
            lines = _table_preview(inspector, opened, height, width)
        elif view == "text":
            lines = inspector.text(opened.path, 0, _PREVIEW_CHARS).text.splitlines()[:height]
        else:
            page = inspector.children(opened.path, 0, height)
            lines = [f"{child.label}  {child.summary or child.type}" for child in page.children]
    finally:
        inspector.close()
    return [fit_text(one_line(line), width) for line in lines]


def _table_preview(
    inspector: InspectorClient, table: InspectedObject, height: int, width: int
) -> list[str]:
    """Return the first lines of a table: headings, and the cells below them."""
    # A column has at least about four cells.
    columns = range(min(table.columns, width // 4))
    headings = inspector.headings(table.path, columns)
    page = inspector.rows(table.path, 0, height - 1, columns, TableArrangement())
    lines = [""] * height
    for heading, cells in zip(headings, page.cells, strict=False):
        texts = [one_line(heading.name)]
        texts += [one_line("–" if cell is None else cell) for cell in cells]
        column_width = min(max(map(cell_len, texts)), _MAX_PREVIEW_COLUMN_CELLS)
        texts = [fit_text(text, column_width) for text in texts]
        if heading.right:
            texts = [text.rstrip().rjust(len(text)) for text in texts]
        lines = [f"{line}{text}  " for line, text in zip(lines, texts, strict=False)]
    return lines
