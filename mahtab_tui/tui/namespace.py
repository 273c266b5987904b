"""The namespace pane: every variable, and who last changed it."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.events import Click, Key, Resize
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import VARIABLE_COMMANDS
from mahtab_tui.tui.rows.row import (
    CURSOR_KEYS,
    Row,
    RowsView,
    Span,
    add_separators,
    fit_text,
    plain_strip,
)
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Change, Namespace, Record
    from mahtab_tui.kernel.inspector_client import InspectorClient
    from mahtab_tui.tui.session_port import SessionPort


class VariableRow(NamedTuple):
    name: str
    """Raw; draw `label` instead."""
    type: str
    summary: str
    kind: str
    change: str
    record: Namespace
    number: int
    uncertain: bool
    size: str = ""
    """Of an array, a table or a text of at least a tenth of a megabyte: ``18.4 MB``."""

    @property
    def label(self) -> str:
        return one_line(self.name)

    @property
    def has_fields(self) -> bool:
        return self.kind == "data" and self.summary.startswith("(")

    @property
    def value(self) -> str:
        """The summary; ``Order(id=7)`` if it lists an object's fields."""
        return f"{self.type}{self.summary}" if self.has_fields else self.summary

    @property
    def by(self) -> str:
        author = self.record.party or ""
        if not self.record.cell:
            return plain(author)
        mark = "❯" if author == "you" else "◈"
        return f"{mark} {self.record.cell}{'?' if self.uncertain else ''}"

    @property
    def is_special(self) -> bool:
        return self.kind != "data" or self.name.startswith("_")

    def matches(self, typed: str) -> bool:
        return typed.lower() in self.name.lower()


def to_row(record: Namespace, change: Change, number: int) -> VariableRow:
    """Return the row of a changed variable. number: counts the changes."""
    return VariableRow(
        name=change.name,
        type=plain(change.type or ""),
        summary=add_separators(plain(change.summary or "")),
        kind=change.kind or "data",
        change=change.change,
        record=record,
        number=number,
        uncertain=change.change == "perhaps",
        size=f"{change.size / BYTES_OF_A_MEGABYTE:,.1f} MB" if change.size else "",
    )


Sort = Literal["recency", "name", "type"]
SORTS: Mapping[Sort, Callable[[VariableRow], Any]] = {
    "recency": lambda row: -row.number,
    "name": lambda row: (row.name.lower(), row.name),
    "type": lambda row: (row.type.lower(), row.name.lower()),
}

PRIVATE = "⊘"

BYTES_OF_A_MEGABYTE = 1_000_000
_MEASURED_ROWS = 200
"""Rows whose texts decide how wide the columns are."""
_MAX_NAME_CELLS = 20
_MIN_NAME_CELLS = 8
_CELLS_BESIDE_NAME = 15
"""Cells that names leave to the other columns, unless they are very short."""
_MAX_TYPE_CELLS = 14
_SHORTEST_VALUE = 9
"""Cells to which values are cut before the types are left out."""
_MAX_VALUE_CELLS = 24
_MAX_FIELDS_CELLS = 16
"""Cells up to which values, and fields of objects, take precedence over types."""


class Columns(NamedTuple):
    """Widths in cells; 0 for a column that is left out. The names are the titles."""

    name: int
    value: int
    size: int
    type: int
    by: int

    @classmethod
    def fit(cls, rows: Sequence[VariableRow], width: int, marks: int) -> Columns:
        """Compute the widths.

        Args:
            rows: The variables that are shown.
            width: Cells of a line.
            marks: Cells before the names.
        """
        measured_rows = rows[:_MEASURED_ROWS]
        available = max(20, width - 5)  # without the spaces between the columns
        by = max([len("by"), *(cell_len(row.by) for row in measured_rows)])
        longest_name = max([len("name"), *(marks + cell_len(row.label) for row in measured_rows)])
        max_name = max(_MIN_NAME_CELLS, available - _CELLS_BESIDE_NAME)
        name = min(longest_name, _MAX_NAME_CELLS + marks, max_name)
        available -= name + by

        wanted_value = max([len("value"), *map(_wanted_value_cells, measured_rows)])
        longest_type = max([len("type"), *(cell_len(row.type) for row in measured_rows)])
        type_ = min(longest_type, _MAX_TYPE_CELLS)
        if available - type_ < min(wanted_value, _SHORTEST_VALUE):
            type_ = 0
            available += 1
        available -= type_

        # Sizes stand only where they cut no value.
        size = max((cell_len(row.size) for row in measured_rows), default=0)
        if available - size - 1 < wanted_value:
            size = 0
        if size:
            available -= size + 1
        return cls(name, max(4, available), size, type_, by)


def _wanted_value_cells(row: VariableRow) -> int:
    max_cells = _MAX_FIELDS_CELLS if row.has_fields else _MAX_VALUE_CELLS
    return min(cell_len(row.value), max_cells)


class VariableRows:
    """All variables. A `RowSource` of the shown ones, or of a sentence if there are none; call
    `arrange` after changing what is shown."""

    def __init__(self, *, opens: bool = True) -> None:
        self._rows: dict[str, VariableRow] = {}
        self._number = 0
        self._opens = opens
        self._layout: tuple[int, Palette] | None = None
        self._columns = Columns(0, 0, 0, 0, 0)
        self._sentence: list[str] = []
        self.shown: list[VariableRow] = []
        self.sort: Sort = "recency"
        self.filter = ""
        self.specials = False
        self.private: set[str] = set()
        self.watched: set[str] = set()

    def fold(self, records: Sequence[Record]) -> bool:
        from mahtab_tui.bus.records import Namespace, Private

        changed = False
        for record in records:
            if isinstance(record, Private):
                changed = True
                (self.private.add if record.private else self.private.discard)(record.name)
            elif isinstance(record, Namespace):
                changed = True
                self._fold_changes(record)
        if changed:
            self.arrange()
        return changed

    def _fold_changes(self, record: Namespace) -> None:
        if record.fresh:
            self._rows.clear()
        for change in record.changes:
            name = change.name
            row = to_row(record, change, self._number + 1)
            if row.change == "deleted":
                self._rows.pop(name, None)
            elif row.uncertain and (old_row := self._rows.get(name)) is not None:
                self._rows[name] = old_row._replace(
                    type=row.type, summary=row.summary, uncertain=True
                )
            else:
                self._number += 1
                self._rows[name] = row

    def arrange(self) -> None:
        self.shown = [
            row
            for row in self._rows.values()
            if row.name in self.watched
            or ((self.specials or not row.is_special) and row.matches(self.filter))
        ]
        self.shown.sort(key=SORTS[self.sort])
        # `df` typed in full means df, not pldf.
        wanted = self.filter.lower()
        self.shown.sort(key=lambda row: (row.name not in self.watched, row.name.lower() != wanted))
        if self._layout is not None:
            width, _ = self._layout
            marks = len(PRIVATE) + 1 if self.private else 0
            self._columns = Columns.fit(self.shown, width, marks)
            self._sentence = wrap(self._why_empty(), max(10, width - 2))

    def __contains__(self, name: str) -> bool:
        row = self._rows.get(name)
        return row is not None and row.change not in ("restoring", "absent")

    @property
    def created_count(self) -> int:
        return sum(
            bool(row.record.cell) and row.kind != "module" and not row.name.startswith("_")
            for row in self._rows.values()
        )

    @property
    def hidden_count(self) -> int:
        if self.specials:
            return 0
        return sum(row.is_special and row.matches(self.filter) for row in self._rows.values())

    def lay_out(self, width: int, palette: Palette) -> None:
        self._layout = width, palette
        self.arrange()

    def __len__(self) -> int:
        return len(self.shown) or len(self._sentence)

    def __getitem__(self, index: int) -> Row:
        assert self._layout is not None
        palette = self._layout[1]
        columns = self._columns
        if not self.shown:
            return Row([(self._sentence[index], palette.muted)])
        row = self.shown[index]
        mark = "● " * (row.name in self.watched) + f"{PRIVATE} " * (row.name in self.private)
        quiet = palette.muted if row.change in ("restoring", "absent") else None
        spans: list[Span] = [
            (fit_text(mark + row.label, columns.name) + " ", quiet or BOLD),
            (fit_text(self._value(row), columns.value) + " ", quiet or Style.null()),
        ]
        if columns.size:
            spans.append((f"{row.size:>{columns.size}} ", palette.muted))
        if columns.type:
            spans.append((fit_text(row.type, columns.type) + " ", palette.muted))
        by = fit_text(row.by, columns.by)
        is_user = row.record.party == "you"
        style = palette.muted
        if row.record.cell or is_user:  # else of an earlier kernel
            style = palette.author_style(is_user, row.record.guest)
        who, mark, rest = by.rpartition("?") if row.uncertain else (by, "", "")
        spans += [(who, style), (mark + rest, palette.muted)]
        return Row(spans)

    def _value(self, row: VariableRow) -> str:
        """Return the value, or the type of an object that does not describe itself."""
        return row.value if row.value or self._columns.type else row.type

    def _why_empty(self) -> str:
        if self.filter and not self.hidden_count:
            return "No name contains this. Esc ends the filter."
        if self.hidden_count:
            return f"Only modules, functions or names with _{' contain this' if self.filter else ''}. Ctrl+T shows them."
        opens = " Enter looks inside." if self._opens else ""
        return f"Variables appear here as they are made: type, size, and who made or changed them.{opens}"

    def title(self, filtering: bool, focused: bool) -> Row:
        assert self._layout is not None
        width, palette = self._layout
        bright = palette.person + BOLD if focused else palette.muted
        count = f"  {len(self.shown)}" if self._rows else ""
        parts = [(f"NAMESPACE{count}", bright)]
        if self.filter or filtering:
            parts.append((f"/ {self.filter}{'▏' if filtering else ''}", bright))
        if self._rows:
            parts.append((f"by {self.sort}", palette.muted))
        if self.hidden_count:
            parts.append((f"{self.hidden_count} hidden", palette.muted))
        between = "  ·  "
        if cell_len(between.join(text for text, _ in parts)) >= width:
            between = " · "
        return Row([piece for part in parts for piece in (part, (between, palette.muted))][:-1])

    def heads(self) -> Row:
        assert self._layout is not None
        line = ""
        if self._rows:
            titles = zip(Columns._fields, self._columns, strict=True)
            line = " ".join(fit_text(title, width) for title, width in titles if width)
        return Row([(line, self._layout[1].muted)])


PREVIEW_WIDTH = 140
"""Width of the screen, in cells, from which the free part of the pane previews a variable."""
_PREVIEW_LINES = 5
"""Free lines from which there is a preview."""
_PREVIEW_COLUMN = 16
_PREVIEW_TEXT = 4_000
_PAUSE = 0.1

_PORT_ACTIONS = ("open", "rename", "mark_private", "delete", "copy_name")


class NamespacePane(RowsView, can_focus=True):
    BINDINGS = bindings(VARIABLE_COMMANDS, *CURSOR_KEYS, ("ctrl+s", "sort"), ("ctrl+t", "specials"))

    head = 2

    def __init__(self, port: SessionPort | None = None, *, id: str | None = None) -> None:
        """port: None if the list is read-only."""
        self._port = port
        self.variables = VariableRows(opens=port is not None)
        super().__init__(self.variables, id=id)
        self.set_reactive(NamespacePane.cursor, 0)
        self.filtering = False
        self._fetcher = Fetcher(self)
        self._preview: tuple[str, list[str]] = "", []
        """The previewed variable, and lines of its value."""

    def fold(self, records: Sequence[Record]) -> None:
        if self.variables.fold(records):
            self._show_rows()

    def _refresh_rows(self) -> None:
        self.variables.arrange()
        self._show_rows()

    def _show_rows(self) -> None:
        self.cursor = max(0, min(self.cursor, len(self.variables.shown) - 1))
        self.refresh_view()
        self._fetch_preview()

    def watch_cursor(self) -> None:
        self._fetch_preview()

    def on_resize(self, event: Resize) -> None:
        super().on_resize(event)
        self._fetch_preview()

    def _fetch_preview(self) -> None:
        port = self._port
        if port is None or not self.is_attached:
            return
        height = self.size.height - self.head - len(self.variables) - 2
        if self.app.size.width < PREVIEW_WIDTH or height < _PREVIEW_LINES:
            self._show_preview(("", []))
        elif (row := self._row_at_cursor) is not None:
            name = row.name
            width = self.width - 2
            self._fetcher.ask(
                "preview",
                lambda: (name, read_preview(port.session.open_inspector(), name, height, width)),
                self._show_preview,
                lambda _: self._show_preview(("", [])),
                pause=_PAUSE,
            )

    def _show_preview(self, preview: tuple[str, list[str]]) -> None:
        self._preview = preview
        self.refresh()

    def render_line(self, y: int) -> Strip:
        line = y - self.head - len(self.variables) - 1
        row = self._row_at_cursor
        name, lines = self._preview
        if line < 0 or self._laid_out is None or row is None or row.name != name:
            return super().render_line(y)
        muted = self._laid_out[1].muted
        preview = [(row.label, muted + BOLD), *((text, muted) for text in lines)]
        base = self.visual_style.rich_style
        return plain_strip(Row(preview[line : line + 1]), self.margin, self.width, base)

    def head_row(self, y: int) -> Row:
        rows = self.variables
        return rows.heads() if y else rows.title(self.filtering, self.has_focus)

    @property
    def marked_row(self) -> int:
        return super().marked_row if self.variables.shown else -1

    def action_filter(self) -> None:
        self.filtering = True
        self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        typed = character is not None and (character.isalnum() or character == "_")
        return self.filtering and typed

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and (self.filtering or self.variables.filter):
            self.filtering = False
            self._filter("")
        elif event.key == "backspace" and self.filtering:
            self._filter(self.variables.filter[:-1])
        elif self.check_consume_key(event.key, event.character):
            self._filter(f"{self.variables.filter}{event.character}")
        else:
            return
        event.stop()
        event.prevent_default()

    def on_blur(self) -> None:
        self.filtering = False
        super().on_blur()

    def _filter(self, text: str) -> None:
        self.variables.filter = text
        self._refresh_rows()
        if text:  # watched variables stay at the top, even if they do not match
            matches = [row.matches(text) for row in self.variables.shown]
            self.go_to(matches.index(True) if True in matches else 0)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        allowed = self._port is not None or action not in _PORT_ACTIONS
        return allowed and super().check_action(action, parameters)

    def on_click(self, event: Click) -> None:
        row = self.row_at(event.y)
        if event.y == 1:
            self.action_sort()
        elif row is not None and self.variables.shown:
            self.go_to(row)
            self.action_open()

    @property
    def _row_at_cursor(self) -> VariableRow | None:
        row = self.variables.shown[self.cursor] if self.variables.shown else None
        return None if row is None or row.name not in self.variables else row

    def action_open(self) -> None:
        if (row := self._row_at_cursor) is not None and self._port is not None:
            self._port.inspect_variable(row.name)
        elif self._port is not None and self.variables.shown:
            row = self.variables.shown[self.cursor]
            if row.change == "absent":
                self._port.rebuild(row.name, f"{row.label} was not restored: {row.summary}.")

    def action_rename(self) -> None:
        from mahtab_tui.tui.screens.dialog import Prompt, ask

        if (row := self._row_at_cursor) is None or (port := self._port) is None:
            return

        def chosen(new: str) -> None:
            name = unicodedata.normalize("NFKC", new)
            if new == row.name:
                return
            if not _is_name(new):
                problem = f"{new} is not a valid variable name."
            elif name in self.variables:
                problem = f"There is already a variable {new}; nothing was renamed."
            else:
                if row.name in self.variables.private:
                    port.mark_private(name, True)
                old = _variable_expression(row.name)
                port.run(f"{new} = {old}; del {old}")
                return
            self.app.notify(problem, severity="warning")

        ask(self.app, Prompt(f"New name for {row.label}", row.label), chosen)

    def action_mark_private(self) -> None:
        if (row := self._row_at_cursor) is not None and self._port is not None:
            self._port.mark_private(row.name, row.name not in self.variables.private)

    def action_delete(self) -> None:
        from mahtab_tui.tui.screens.dialog import confirm

        if (row := self._row_at_cursor) is not None and (port := self._port) is not None:
            question = f"Delete the variable {row.label}?"
            question += " Its value is lost if nothing else holds it."
            delete = partial(port.run, f"del {_variable_expression(row.name)}")
            confirm(self.app, question, delete, yes="Delete", no="Keep")

    def action_copy_name(self) -> None:
        from mahtab_tui.tui.external import copy

        if (row := self._row_at_cursor) is not None:
            copy(self.app, row.label)

    def action_watch_variable(self) -> None:
        if (row := self._row_at_cursor) is not None:
            self.variables.watched ^= {row.name}
            self._refresh_rows()
            if row in self.variables.shown:
                self.go_to(self.variables.shown.index(row))

    def action_sort(self) -> None:
        sorts = list(SORTS)
        self.variables.sort = sorts[(sorts.index(self.variables.sort) + 1) % len(sorts)]
        self._refresh_rows()

    def action_specials(self) -> None:
        self.variables.specials = not self.variables.specials
        self._refresh_rows()


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _variable_expression(name: str) -> str:
    return name if _is_name(name) else f"globals()[{name!r}]"


def read_preview(inspector: InspectorClient, name: str, height: int, width: int) -> list[str]:
    """Read the first lines of a variable's value. Waits for the kernel; raises `KernelError`."""
    try:
        opened = inspector.open((["name", name],))
        view = opened.views[0] if opened.views else ""
        if view == "table":
            from mahtab_tui.kernel.inspector_client import TableArrangement

            columns = range(min(opened.columns, width // 4))
            headings = inspector.headings(opened.path, columns)
            page = inspector.rows(opened.path, 0, height - 1, columns, TableArrangement())
            lines = [""] * height
            for heading, cells in zip(headings, page.cells, strict=False):
                column = (heading.name, *cells)
                texts = [one_line("–" if cell is None else cell) for cell in column]
                column_width = min(max(map(cell_len, texts)), _PREVIEW_COLUMN)
                texts = [fit_text(text, column_width) for text in texts]
                if heading.right:
                    texts = [text.rstrip().rjust(len(text)) for text in texts]
                lines = [f"{line}{text}  " for line, text in zip(lines, texts, strict=False)]
        elif view == "text":
            lines = inspector.text(opened.path, 0, _PREVIEW_TEXT).text.splitlines()[:height]
        else:
            children = inspector.children(opened.path, 0, height)[1]
            lines = [f"{child.label}  {child.summary or child.type}" for child in children]
    finally:
        inspector.close()
    return [fit_text(one_line(line), width) for line in lines]
