"""Preview of the variable at the cursor, in the free part of the namespace pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.panes.namespace.variable_rows import Preview
from mahtab_tui.tui.rows.row import fitted

if TYPE_CHECKING:
    from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient, ObjectPath

_COLUMN = 16
"""Cells of a table's column at most."""
_TEXT = 4_000
"""Characters of a text that are fetched."""


def preview_of(look: InspectorClient, name: str, height: int, width: int) -> Preview:
    """Fetch what a variable begins with; waits for the kernel. Raises `KernelError`."""
    path: ObjectPath = (["name", name],)
    try:
        opened = look.open(path)
        kind = opened.views[0] if opened.views else ""
        if kind == "table":
            lines = _table(look, opened, height, width)
        elif kind == "text":
            lines = look.text(opened.path, 0, _TEXT).text.splitlines()[:height]
        else:
            children = look.children(opened.path, 0, height)[1]
            lines = [f"{each.label}  {each.summary or each.type}" for each in children]
    finally:
        look.close()
    return Preview(name, tuple(fitted(one_line(line), width).rstrip() for line in lines))


def _table(look: InspectorClient, opened: InspectedObject, height: int, width: int) -> list[str]:
    """Return the first rows of the first columns, as many as fit."""
    from mahtab_tui.kernel.inspector_client import TableArrangement  # no part of the first picture

    columns = range(min(opened.columns, width // 4))
    headings = look.headings(opened.path, columns)
    cells = look.rows(opened.path, 0, max(1, height - 1), columns, TableArrangement()).cells
    lines = [""] * (1 + max(map(len, cells), default=0))
    for heading, values in zip(headings, cells, strict=False):
        texts = [
            one_line(heading.name),
            *("–" if text is None else one_line(text) for text in values),
        ]
        room = min(max(map(cell_len, texts)), _COLUMN)
        if cell_len(lines[0]) + room > width:
            break
        shown = [fitted(text, room) for text in texts]
        if heading.right:
            shown = [text.rstrip().rjust(len(text)) for text in shown]
        lines = [f"{line}{text}  " for line, text in zip(lines, shown, strict=False)]
    return lines
