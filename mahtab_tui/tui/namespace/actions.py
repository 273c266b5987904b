"""Actions on the variable at the cursor, and its preview."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.app import App

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.namespace.rows import Preview
from mahtab_tui.tui.port import NamespacePort
from mahtab_tui.tui.rows.row import fit_text
from mahtab_tui.tui.screens.dialog import Confirm, Prompt

if TYPE_CHECKING:
    from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient, ObjectPath


def rename_variable(
    app: App[Any], port: NamespacePort, name: str, used: Callable[[str], bool], *, private: bool
) -> None:
    """Ask for a new name, and rename the variable. used: returns whether a name is taken. private:
    whether the variable is private."""

    def chosen(new: str | None) -> None:
        if not new or new == name:
            return
        normalized = unicodedata.normalize("NFKC", new)
        if not _is_name(new):
            problem = f"{new} is not a valid variable name."
        elif used(normalized):
            problem = f"There is already a variable {new}; nothing was renamed."
        else:
            if private:
                port.mark_private(normalized, True)
            port.run(f"{new} = {_variable_expression(name)}; del {_variable_expression(name)}")
            return
        app.notify(problem, severity="warning")

    app.push_screen(Prompt(f"New name for {one_line(name)}", one_line(name)), chosen)


def delete_variable(app: App[Any], port: NamespacePort, name: str) -> None:
    """Delete the variable, after confirmation."""

    def sure(yes: bool | None) -> None:
        if yes:
            port.run(f"del {_variable_expression(name)}")

    app.push_screen(
        Confirm(
            f"Delete the variable {one_line(name)}? Its value is lost if nothing else holds it.",
            yes="Delete",
            no="Keep",
        ),
        sure,
    )


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _variable_expression(name: str) -> str:
    """Return code that evaluates to a variable. Needed because code may put any text into the
    namespace as a name."""
    return name if _is_name(name) else f"globals()[{name!r}]"


_COLUMN = 16
"""Maximum cells of a table's column."""
_TEXT = 4_000
"""Characters of a text to fetch."""


def load_preview(inspector: InspectorClient, name: str, height: int, width: int) -> Preview:
    """Fetch the start of a variable's value; waits for the kernel. Raises `KernelError`."""
    path: ObjectPath = (["name", name],)
    try:
        opened = inspector.open(path)
        kind = opened.views[0] if opened.views else ""
        if kind == "table":
            lines = _table_lines(inspector, opened, height, width)
        elif kind == "text":
            lines = inspector.text(opened.path, 0, _TEXT).text.splitlines()[:height]
        else:
            children = inspector.children(opened.path, 0, height)[1]
            lines = [f"{each.label}  {each.summary or each.type}" for each in children]
    finally:
        inspector.close()
    return Preview(name, tuple(fit_text(one_line(line), width).rstrip() for line in lines))


def _table_lines(
    inspector: InspectorClient, opened: InspectedObject, height: int, width: int
) -> list[str]:
    """Return the first rows, with as many columns as fit."""
    from mahtab_tui.kernel.inspector_client import TableArrangement  # loaded late

    columns = range(min(opened.columns, width // 4))
    headings = inspector.headings(opened.path, columns)
    cells = inspector.rows(opened.path, 0, max(1, height - 1), columns, TableArrangement()).cells
    lines = [""] * (1 + max(map(len, cells), default=0))
    for heading, values in zip(headings, cells, strict=False):
        texts = [
            one_line(heading.name),
            *("–" if text is None else one_line(text) for text in values),
        ]
        room = min(max(map(cell_len, texts)), _COLUMN)
        if cell_len(lines[0]) + room > width:
            break
        shown = [fit_text(text, room) for text in texts]
        if heading.right:
            shown = [text.rstrip().rjust(len(text)) for text in shown]
        lines = [f"{line}{text}  " for line, text in zip(lines, shown, strict=False)]
    return lines
