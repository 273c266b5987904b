"""The rows of the pane of variables: folded from records, sorted and filtered.

A cell may change very many variables. So changes are folded a part at a time, and the texts of a row
are made only when it is drawn.
"""

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
"""The key functions that sort the rows. None leaves the newest first."""
PRIVATE_MARK = "⊘"
WATCHED_MARK = "●"
BYTES_PER_MB = 1_000_000
MAX_FOLDED_CHANGES = 10_000
"""At most this many changes are folded at once, so that keys are not held up."""
MEASURED_ROWS = 200
"""The texts of this many rows decide how wide the columns are."""

# Widths of columns, in cells.
_MIN_LINE_CELLS = 20
"""Columns are laid out for at least this width, even if the pane is narrower."""
_COLUMN_GAPS_CELLS = 5
"""The gaps between the columns, and an edge."""
_MAX_NAME_CELLS = 20
_MIN_NAME_CELLS = 8
_OTHER_COLUMNS_CELLS = 15
"""Names leave this width to the other columns, unless the pane is very narrow."""
_MAX_TYPE_CELLS = 14
_SHORT_VALUE_CELLS = 9
"""Types are left out if they do not leave this width to values that need it."""
_MIN_VALUE_CELLS = 4
_MAX_VALUE_CELLS = 24
"""Sizes are left out if they do not leave this width to values that need it."""
_MAX_FIELDS_CELLS = 16
"""The same for values that list the fields of an object."""


class VariableRow(NamedTuple):
    """A variable, as the newest record describes it.

    Its texts are made only when they are drawn, because a cell may change very many variables.
    """

    last_change: Change
    record: Namespace
    """The record of the last change that is certain, or of the first if none is."""
    is_uncertain: bool = False
    """Whether the variable has perhaps changed in this record or since."""

    @property
    def name(self) -> str:
        """The name as it is in code. To draw it, use `label`."""
        return self.last_change.name

    @property
    def change(self) -> str:
        """The kind of the last change."""
        return self.last_change.change

    @property
    def variable(self) -> Variable:
        """The variable; if it was deleted or restored, as it was or will be."""
        return self.last_change.described

    @property
    def label(self) -> str:
        """The name without control characters."""
        return one_line(self.name)

    @property
    def type(self) -> str:
        """The name of the type, without control characters."""
        return plain(self.variable.type)

    @property
    def summary(self) -> str:
        """The summary of the value, without control characters, and with thousands separated."""
        # Not needed before the first picture.
        from mahtab_tui.bus.change_lines import add_separators

        return add_separators(plain(self.variable.summary))

    @property
    def size(self) -> str:
        """The size of a large array, table or text, such as ``18.4 MB``; empty for others."""
        size_bytes = self.variable.size
        return f"{size_bytes / BYTES_PER_MB:,.1f} MB" if size_bytes else ""

    @property
    def has_fields(self) -> bool:
        """Whether the summary lists the fields of an object."""
        return self.variable.kind == "data" and self.summary.startswith("(")

    @property
    def value(self) -> str:
        """The summary, with the type before the fields of an object, as in ``Order(id=7)``."""
        if self.has_fields:
            return f"{self.type}{self.summary}"
        return self.summary

    @property
    def by(self) -> str:
        """Who has made or changed the variable: a sign for the user or another author, and the cell; the
        author's name if no cell is known."""
        author = self.record.party or ""
        if not self.record.cell:
            return plain(author)
        sign = "❯" if author == "you" else "◈"
        text = f"{sign} {self.record.cell}"
        return f"{text}?" if self.is_uncertain else text

    @property
    def is_special(self) -> bool:
        """Whether it is a module, a function or a class, or has a name with an underscore in front."""
        change = self.last_change
        return change.described.kind != "data" or change.name.startswith("_")

    def matches(self, typed: str) -> bool:
        """Return whether the name contains a text, in any case."""
        return typed.lower() in self.name.lower()


def _with_uncertain_change(row: VariableRow, change: Change) -> VariableRow:
    """Return the row of a variable that has perhaps changed. Its author stays the same."""
    described = change.described
    variable = replace(
        row.variable, type=described.type, summary=described.summary, size=described.size
    )
    return row._replace(last_change=replace(row.last_change, variable=variable), is_uncertain=True)


class Columns(NamedTuple):
    """The widths of the columns in cells; 0 for a column that is left out.

    The names of the fields are the titles of the columns.
    """

    name: int
    value: int
    size: int
    type: int
    by: int

    @classmethod
    def fit(cls, rows: Sequence[VariableRow], width: int, marks_width: int) -> Columns:
        """Return the widths that show most of some variables.

        If the pane is narrow, types are left out first if they leave too little for values, then sizes.

        Args:
            rows: The variables.
            width: The width of a line, in cells.
            marks_width: The width of the marks before the names, in cells.
        """
        measured_rows = rows[:MEASURED_ROWS]
        available_width = max(_MIN_LINE_CELLS, width - _COLUMN_GAPS_CELLS)
        by = max([len("by"), *(cell_len(row.by) for row in measured_rows)])
        name_widths = (marks_width + cell_len(row.label) for row in measured_rows)
        longest_name = max([len("name"), *name_widths])
        max_name = max(_MIN_NAME_CELLS, available_width - _OTHER_COLUMNS_CELLS)
        name = min(longest_name, _MAX_NAME_CELLS + marks_width, max_name)
        available_width -= name + by

        wanted_value = max([len("value"), *map(_wanted_value_width, measured_rows)])
        longest_type = max([len("type"), *(cell_len(row.type) for row in measured_rows)])
        type_width = min(longest_type, _MAX_TYPE_CELLS)
        if available_width - type_width < min(wanted_value, _SHORT_VALUE_CELLS):
            type_width = 0
            # There is no gap before a column that is left out.
            available_width += 1
        available_width -= type_width

        size = max((cell_len(row.size) for row in measured_rows), default=0)
        if available_width - size - 1 < wanted_value:
            size = 0
        if size:
            available_width -= size + 1
        value = max(_MIN_VALUE_CELLS, available_width)
        return cls(name, value, size, type_width, by)


def _wanted_value_width(row: VariableRow) -> int:
    """Return the width of a value that takes precedence over sizes, and up to `_SHORT_VALUE_CELLS` over
    types."""
    max_width = _MAX_FIELDS_CELLS if row.has_fields else _MAX_VALUE_CELLS
    return min(cell_len(row.value), max_width)


class VariableRows:
    """All variables, and a `RowSource` of those that are visible.

    If none is visible, its rows are a sentence that says why. After `sort`, `filter`, `shows_specials`,
    `private` or `watched` is changed, `arrange` must be called.
    """

    def __init__(self, *, opens: bool = True) -> None:
        """
        Args:
            opens: Whether the user can look inside the variables.
        """
        self._rows: dict[str, VariableRow] = {}
        """The rows by name, in the order of the variables' last changes that are certain."""
        self._waiting_records: deque[Namespace | Private] = deque()
        """Records that are not folded yet, because there were very many changes."""
        self._folded_change_count = 0
        """How many changes of the first of these records are folded already."""
        self._opens = opens
        self._layout: tuple[int, Palette] | None = None
        """The width of a line in cells, and the colours; None before `lay_out`."""
        self._columns = Columns(0, 0, 0, 0, 0)
        self._sentence_lines: list[str] = []
        """The sentence that is drawn if no variable is visible."""
        self.visible: list[VariableRow] = []
        self.hidden_count = 0
        """How many variables are left out because they are special."""
        self.sort: Sort = "recency"
        self.filter = ""
        """The text that the names of visible variables contain."""
        self.shows_specials = False
        """Whether modules, functions and names with an underscore in front are visible."""
        self.private: set[str] = set()
        """The names of private variables."""
        self.watched: set[str] = set()
        """The names of watched variables, which come first and are always visible."""

    def fold(self, records: Sequence[Record]) -> bool:
        """Take records, and fold the next part of those that wait.

        Returns:
            Whether all records are folded now, and something is drawn differently.
        """
        from mahtab_tui.bus.records import Namespace, Private

        self._waiting_records += (
            record for record in records if isinstance(record, Namespace | Private)
        )
        had_records = bool(self._waiting_records)
        remaining_changes = MAX_FOLDED_CHANGES
        while self._waiting_records and remaining_changes > 0:
            record = self._waiting_records[0]
            if isinstance(record, Private):
                self._fold_privacy(record)
            else:
                remaining_changes -= self._fold_part(record, remaining_changes)
                if self._folded_change_count < len(record.changes):
                    break
            self._waiting_records.popleft()
            self._folded_change_count = 0
        if not had_records or self.is_behind:
            return False
        self.arrange()
        return True

    @property
    def is_behind(self) -> bool:
        """Whether records wait, which the next calls of `fold` take."""
        return bool(self._waiting_records)

    def _fold_privacy(self, record: Private) -> None:
        """Take over that a variable is private, or is not any more."""
        if record.private:
            self.private.add(record.name)
        else:
            self.private.discard(record.name)

    def _fold_part(self, record: Namespace, max_changes: int) -> int:
        """Fold the next changes of the first record that waits, and return how many these are."""
        start = self._folded_change_count
        if record.fresh and start == 0:
            self._rows.clear()
        changes = record.changes[start : start + max_changes]
        self._folded_change_count += len(changes)
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
        if not self.shows_specials:
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
            self._sentence_lines = wrap(self._empty_sentence(), max(10, width - 2))

    def __contains__(self, name: str) -> bool:
        """Return whether the namespace has a variable with this name now."""
        row = self._rows.get(name)
        return row is not None and row.change not in ("restoring", "absent")

    @property
    def created_count(self) -> int:
        """How many variables cells have made, without modules and names with an underscore in front."""
        return sum(
            bool(row.record.cell) and row.variable.kind != "module" and not row.name.startswith("_")
            for row in self._rows.values()
        )

    def lay_out(self, width: int, palette: Palette) -> None:
        self._layout = (width, palette)
        self.arrange()

    def __len__(self) -> int:
        return len(self.visible) or len(self._sentence_lines)

    def __getitem__(self, index: int) -> Row:
        assert self._layout is not None
        _, palette = self._layout
        columns = self._columns
        if not self.visible:
            return Row([(self._sentence_lines[index], palette.muted)])
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
        # A variable without a cell comes from an earlier kernel.
        if row.record.cell or is_user:
            style = palette.author_style(is_user, row.record.guest)
        author = fit_text(row.by, self._columns.by)
        mark = ""
        if row.is_uncertain:
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
        """Return the sentence that is drawn if no variable is visible."""
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
        """Draw the title of the pane: the number of variables, the filter and the order.

        Args:
            filtering: Whether the user is typing the filter.
            focused: Whether the pane has the focus.
        """
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
        """Draw the titles of the columns."""
        assert self._layout is not None
        _, palette = self._layout
        line = ""
        if self._rows:
            columns = zip(Columns._fields, self._columns, strict=True)
            line = " ".join(fit_text(title, width) for title, width in columns if width)
        return Row([(line, palette.muted)])
