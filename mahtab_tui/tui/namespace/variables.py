"""The variables as rows, folded from records, sorted and filtered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.row import NARROW_FOCUS_MARK, Row, Span, fit_text, focus_words
from mahtab_tui.tui.theme import BOLD, Palette

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Namespace, Private, Record
    from mahtab_tui.bus.values import Change, Variable

Sort = Literal["recency", "name", "type"]
SORTS: Mapping[Sort, Callable[[VariableRow], Any] | None] = {
    "recency": None,
    "name": lambda row: (row.name.lower(), row.name),
    "type": lambda row: (row.type.lower(), row.name.lower()),
}
"""The keys by which rows are sorted; None if the newest comes first, as they are kept."""
PRIVATE_MARK = "⊘"
WATCHED_MARK = "●"
BYTES_PER_MB = 1_000_000
MAX_FOLDED_CHANGES = 10_000
"""Changes that are folded at once, so that keys are not held up."""
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
    """A variable, as the newest record describes it. Its texts are made only when they are drawn,
    because a cell may change very many variables."""

    last_change: Change
    record: Namespace
    uncertain: bool = False

    @property
    def name(self) -> str:
        """Raw; draw `label` instead."""
        return self.last_change.name

    @property
    def change(self) -> str:
        """The kind of the last change."""
        return self.last_change.change

    @property
    def variable(self) -> Variable:
        return self.last_change.described

    @property
    def label(self) -> str:
        return one_line(self.name)

    @property
    def type(self) -> str:
        return plain(self.variable.type)

    @property
    def summary(self) -> str:
        # Not needed before the first picture.
        from mahtab_tui.bus.change_lines import add_separators

        return add_separators(plain(self.variable.summary))

    @property
    def size(self) -> str:
        """The size of an array, a table or a text of at least a tenth of a megabyte: ``18.4
        MB``."""
        size_bytes = self.variable.size
        return f"{size_bytes / BYTES_PER_MB:,.1f} MB" if size_bytes else ""

    @property
    def has_fields(self) -> bool:
        return self.variable.kind == "data" and self.summary.startswith("(")

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
        change = self.last_change
        return change.described.kind != "data" or change.name.startswith("_")

    def matches(self, typed: str) -> bool:
        return typed.lower() in self.name.lower()


def _with_uncertain_change(row: VariableRow, change: Change) -> VariableRow:
    """Return the row of a variable that has perhaps changed. Who made it stays."""
    described = change.described
    variable = replace(
        row.variable, type=described.type, summary=described.summary, size=described.size
    )
    return row._replace(last_change=replace(row.last_change, variable=variable), uncertain=True)


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
        """The rows by name; the variable that was changed last is the last one."""
        self._waiting: deque[Namespace | Private] = deque()
        """Records that are not folded yet, because there were very many changes."""
        self._folded_changes = 0
        """Changes of the first of them that are folded already."""
        self._opens = opens
        self._layout: tuple[int, Palette] | None = None
        self._columns = Columns(0, 0, 0, 0, 0)
        self._sentence: list[str] = []
        self.visible: list[VariableRow] = []
        self.hidden_count = 0
        """Variables that are left out because they are special."""
        self.sort: Sort = "recency"
        self.filter = ""
        self.specials = False
        self.private: set[str] = set()
        self.watched: set[str] = set()

    def fold(self, records: Sequence[Record]) -> bool:
        """Take records, and the next part of what waits. Return whether all is taken and something
        is drawn differently now."""
        from mahtab_tui.bus.records import Namespace, Private

        self._waiting += (record for record in records if isinstance(record, Namespace | Private))
        has_changes = bool(self._waiting)
        free_changes = MAX_FOLDED_CHANGES
        while self._waiting and free_changes > 0:
            record = self._waiting[0]
            if isinstance(record, Private):
                self._fold_privacy(record)
            else:
                free_changes -= self._fold_part(record, free_changes)
                if self._folded_changes < len(record.changes):
                    break
            self._waiting.popleft()
            self._folded_changes = 0
        is_changed = has_changes and not self.is_behind
        if is_changed:
            self.arrange()
        return is_changed

    @property
    def is_behind(self) -> bool:
        """Whether changes wait, which the next calls of `fold` take."""
        return bool(self._waiting)

    def _fold_privacy(self, record: Private) -> None:
        if record.private:
            self.private.add(record.name)
        else:
            self.private.discard(record.name)

    def _fold_part(self, record: Namespace, max_changes: int) -> int:
        """Fold the next changes of a record, which is the first that waits. Return how many these
        are."""
        start = self._folded_changes
        if record.fresh and start == 0:
            self._rows.clear()
        changes = record.changes[start : start + max_changes]
        self._folded_changes += len(changes)
        rows = self._rows
        for change in changes:
            name = change.name
            kind = change.change
            if kind == "deleted":
                rows.pop(name, None)
            elif kind == "perhaps" and name in rows:
                rows[name] = _with_uncertain_change(rows[name], change)
            else:
                rows.pop(name, None)
                rows[name] = VariableRow(change, record, kind == "perhaps")
        return len(changes)

    def arrange(self) -> None:
        """Choose the visible variables, sort them, and fit the columns to them."""
        rows = list(reversed(self._rows.values()))
        if self.filter:
            rows = [row for row in rows if row.matches(self.filter) or row.name in self.watched]
        self.visible = rows
        if not self.specials:
            self.visible = [row for row in rows if not row.is_special or row.name in self.watched]
        self.hidden_count = len(rows) - len(self.visible)

        sort_key = SORTS[self.sort]
        if sort_key is not None:
            self.visible.sort(key=sort_key)
        if self.watched or self.filter:
            # Watched variables come first. `df` typed in full means df, not pldf.
            typed_name = self.filter.lower()
            self.visible.sort(
                key=lambda row: (row.name not in self.watched, row.name.lower() != typed_name)
            )

        if self._layout is not None:
            width, _ = self._layout
            marks = ""
            if self.private:
                marks += f"{PRIVATE_MARK} "
            if self.watched:
                marks += f"{WATCHED_MARK} "
            self._columns = Columns.fit(self.visible, width, cell_len(marks))
            self._sentence = wrap(self._empty_sentence(), max(10, width - 2))

    def __contains__(self, name: str) -> bool:
        row = self._rows.get(name)
        return row is not None and row.change not in ("restoring", "absent")

    @property
    def created_count(self) -> int:
        return sum(
            bool(row.record.cell) and row.variable.kind != "module" and not row.name.startswith("_")
            for row in self._rows.values()
        )

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
            label = f"{WATCHED_MARK} {label}"
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
        """Draw who made or changed a variable, in their colour."""
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
        """Return the title of the pane: how many variables there are, the filter, the order."""
        assert self._layout is not None
        width, palette = self._layout
        title_style = palette.person + BOLD if focused else palette.muted
        count = f"  {len(self.visible):,}" if self._rows else ""
        parts = [(f"NAMESPACE{count}{focus_words(focused)}", title_style)]
        if self.filter or filtering:
            cursor = "▏" if filtering else ""
            parts.append((f"/ {self.filter}{cursor}", title_style))
        if self._rows:
            parts.append((f"by {self.sort}", palette.muted))
        if self.hidden_count:
            parts.append((f"{self.hidden_count:,} hidden", palette.muted))

        narrow_width = cell_len(" · ".join(text for text, _ in parts))
        if focused and narrow_width > width:
            parts[0] = (f"NAMESPACE{count}{NARROW_FOCUS_MARK}", title_style)
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
