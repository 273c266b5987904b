"""The variables as rows, folded from records, sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.row import Row, Span, add_separators, fit_text
from mahtab_tui.tui.theme import BOLD, Palette

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Namespace, Record
    from mahtab_tui.bus.values import Change

Sort = Literal["recency", "name", "type"]
SORTS: Mapping[Sort, Callable[[VariableRow], Any]] = {
    "recency": lambda row: -row.change_number,
    "name": lambda row: (row.name.lower(), row.name),
    "type": lambda row: (row.type.lower(), row.name.lower()),
}
PRIVATE_MARK = "⊘"
BYTES_PER_MB = 1_000_000
MEASURED_ROWS = 200
"""Rows whose texts decide how wide the columns are."""
_MAX_NAME_CELLS = 20
_MIN_NAME_CELLS = 8
_OTHER_COLUMNS_CELLS = 15
"""Cells that names leave to the other columns, unless they are very short."""
_MAX_TYPE_CELLS = 14
_MIN_VALUE_CELLS = 9
"""Cells to which values are cut before the types are left out."""
_MAX_VALUE_CELLS = 24
_MAX_FIELDS_CELLS = 16
"""Up to these widths, values and fields of objects take precedence over types."""


class VariableRow(NamedTuple):
    """A variable, as the newest record describes it."""

    name: str
    """Raw; draw `label` instead."""
    type: str
    summary: str
    kind: str
    change: str
    record: Namespace
    change_number: int
    """Counts the changes of all variables: the newest has the largest number."""
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
        if self.has_fields:
            return f"{self.type}{self.summary}"
        return self.summary

    @property
    def by(self) -> str:
        author = self.record.party or ""
        if not self.record.cell:
            return plain(author)
        mark = "❯" if author == "you" else "◈"
        text = f"{mark} {self.record.cell}"
        return f"{text}?" if self.uncertain else text

    @property
    def is_special(self) -> bool:
        return self.kind != "data" or self.name.startswith("_")

    def matches(self, typed: str) -> bool:
        return typed.lower() in self.name.lower()


def to_row(record: Namespace, change: Change, change_number: int) -> VariableRow:
    """Return the row of a changed variable. change_number: counts the changes."""
    variable = change.described
    return VariableRow(
        name=change.name,
        type=plain(variable.type),
        summary=add_separators(plain(variable.summary)),
        kind=variable.kind,
        change=change.change,
        record=record,
        change_number=change_number,
        uncertain=change.change == "perhaps",
        size=f"{variable.size / BYTES_PER_MB:,.1f} MB" if variable.size else "",
    )


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
        measured_rows = rows[:MEASURED_ROWS]
        # The spaces between the columns are not available.
        available = max(20, width - 5)
        by = max([len("by"), *(cell_len(row.by) for row in measured_rows)])
        longest_name = max([len("name"), *(marks + cell_len(row.label) for row in measured_rows)])
        max_name = max(_MIN_NAME_CELLS, available - _OTHER_COLUMNS_CELLS)
        name = min(longest_name, _MAX_NAME_CELLS + marks, max_name)
        available -= name + by

        wanted_value = max([len("value"), *map(_wanted_value_cells, measured_rows)])
        longest_type = max([len("type"), *(cell_len(row.type) for row in measured_rows)])
        type_ = min(longest_type, _MAX_TYPE_CELLS)
        if available - type_ < min(wanted_value, _MIN_VALUE_CELLS):
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
    """All variables. A `RowSource` of the visible ones, or of a sentence if there are none; call
    `arrange` after changing what is visible."""

    def __init__(self, *, opens: bool = True) -> None:
        self._rows: dict[str, VariableRow] = {}
        self._change_count = 0
        self._opens = opens
        self._layout: tuple[int, Palette] | None = None
        self._columns = Columns(0, 0, 0, 0, 0)
        self._sentence: list[str] = []
        self.visible: list[VariableRow] = []
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
                if record.private:
                    self.private.add(record.name)
                else:
                    self.private.discard(record.name)
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
            row = to_row(record, change, self._change_count + 1)
            if row.change == "deleted":
                self._rows.pop(name, None)
            elif row.uncertain and name in self._rows:
                # Who made the variable stays.
                self._rows[name] = self._rows[name]._replace(
                    type=row.type, summary=row.summary, uncertain=True
                )
            else:
                self._change_count += 1
                self._rows[name] = row

    def arrange(self) -> None:
        self.visible = [row for row in self._rows.values() if self._is_visible(row)]
        self.visible.sort(key=SORTS[self.sort])
        # Watched variables come first. `df` typed in full means df, not pldf.
        typed_name = self.filter.lower()
        self.visible.sort(
            key=lambda row: (row.name not in self.watched, row.name.lower() != typed_name)
        )
        if self._layout is not None:
            width, _ = self._layout
            marks = len(PRIVATE_MARK) + 1 if self.private else 0
            self._columns = Columns.fit(self.visible, width, marks)
            self._sentence = wrap(self._empty_sentence(), max(10, width - 2))

    def _is_visible(self, row: VariableRow) -> bool:
        if row.name in self.watched:
            return True
        if row.is_special and not self.specials:
            return False
        return row.matches(self.filter)

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
        self._layout = (width, palette)
        self.arrange()

    def __len__(self) -> int:
        return len(self.visible) or len(self._sentence)

    def __getitem__(self, index: int) -> Row:
        assert self._layout is not None
        _, palette = self._layout
        columns = self._columns
        if not self.visible:
            return Row([(self._sentence[index], palette.muted)])
        row = self.visible[index]
        label = row.label
        if row.name in self.private:
            label = f"{PRIVATE_MARK} {label}"
        if row.name in self.watched:
            label = f"● {label}"
        # A variable that is not there yet is drawn without emphasis.
        is_missing = row.change in ("restoring", "absent")
        name_style = palette.muted if is_missing else BOLD
        value_style = palette.muted if is_missing else Style.null()
        spans: list[Span] = [
            (fit_text(label, columns.name) + " ", name_style),
            (fit_text(self._value(row), columns.value) + " ", value_style),
        ]
        if columns.size:
            spans.append((f"{row.size:>{columns.size}} ", palette.muted))
        if columns.type:
            spans.append((fit_text(row.type, columns.type) + " ", palette.muted))
        return Row([*spans, *self._author_spans(row, palette)])

    def _author_spans(self, row: VariableRow, palette: Palette) -> list[Span]:
        is_user = row.record.party == "you"
        style = palette.muted
        # Without a cell, the variable is of an earlier kernel.
        if row.record.cell or is_user:
            style = palette.author_style(is_user, row.record.guest)
        author = fit_text(row.by, self._columns.by)
        mark = ""
        if row.uncertain:
            # The question mark and the padding after it are muted.
            author, question_mark, padding = author.rpartition("?")
            mark = question_mark + padding
        return [(author, style), (mark, palette.muted)]

    def _value(self, row: VariableRow) -> str:
        """Return the value, or the type of an object that does not describe itself."""
        if row.value or self._columns.type:
            return row.value
        return row.type

    def _empty_sentence(self) -> str:
        if self.hidden_count:
            match = " contain this" if self.filter else ""
            return f"Only modules, functions or names with _{match}. Ctrl+T shows them."
        if self.filter:
            return "No name contains this. Esc ends the filter."
        sentence = (
            "Variables appear here as they are made: type, size, and who made or changed them."
        )
        if self._opens:
            sentence += " Enter looks inside."
        return sentence

    def title(self, filtering: bool, focused: bool) -> Row:
        assert self._layout is not None
        width, palette = self._layout
        title_style = palette.person + BOLD if focused else palette.muted
        count = f"  {len(self.visible):,}" if self._rows else ""
        parts = [(f"NAMESPACE{count}", title_style)]
        if self.filter or filtering:
            cursor = "▏" if filtering else ""
            parts.append((f"/ {self.filter}{cursor}", title_style))
        if self._rows:
            parts.append((f"by {self.sort}", palette.muted))
        if self.hidden_count:
            parts.append((f"{self.hidden_count:,} hidden", palette.muted))

        separator = "  ·  "
        if cell_len(separator.join(text for text, _ in parts)) >= width:
            separator = " · "
        spans: list[Span] = []
        for part in parts:
            if spans:
                spans.append((separator, palette.muted))
            spans.append(part)
        return Row(spans)

    def column_titles(self) -> Row:
        assert self._layout is not None
        _, palette = self._layout
        line = ""
        if self._rows:
            columns = zip(Columns._fields, self._columns, strict=True)
            line = " ".join(fit_text(title, width) for title, width in columns if width)
        return Row([(line, palette.muted)])
