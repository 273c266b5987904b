"""The namespace pane: every variable, and who last changed it."""

from __future__ import annotations

import keyword
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Key

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
)
from mahtab_tui.tui.theme import BOLD, Palette

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Change, Namespace, Record
    from mahtab_tui.tui.session_port import SessionPort


class VariableRow(NamedTuple):
    name: str
    """Raw; draw `label` instead."""
    type: str
    summary: str
    kind: str
    author: str
    cell: int
    uncertain: bool
    number: int
    time: float
    agent_index: int | None
    not_restored: bool
    """Whether it belongs to an earlier kernel."""
    absent: bool
    """Whether it will not be restored; `summary` says why."""
    sign: str = ""
    """In a list of changes: ``+``, ``~``, ``?`` or ``−``."""

    @property
    def label(self) -> str:
        return one_line(self.name)

    @property
    def shown_name(self) -> str:
        return f"{self.sign} {self.label}" if self.sign else self.label

    @property
    def has_fields(self) -> bool:
        return self.kind == "data" and self.summary.startswith("(")

    @property
    def value(self) -> str:
        """The summary; ``Order(id=7)`` if it lists an object's fields."""
        return f"{self.type}{self.summary}" if self.has_fields else self.summary

    @property
    def by(self) -> str:
        if not self.cell:
            return self.author
        mark = "❯" if self.author == "you" else "◈"
        return f"{mark} {self.cell}{'?' if self.uncertain else ''}"

    @property
    def clock(self) -> str:
        return time.strftime("%H:%M", time.localtime(self.time)) if self.cell else ""

    @property
    def special(self) -> bool:
        return self.kind != "data" or self.name.startswith("_")


def to_row(record: Namespace, change: Change, number: int) -> VariableRow:
    return VariableRow(
        name=change.name,
        type=plain(change.type or ""),
        summary=add_separators(plain(change.summary or "")),
        kind=change.kind or "data",
        author=plain(record.party or ""),
        cell=record.cell or 0,
        uncertain=change.change == "perhaps",
        number=number,
        time=record.time,
        agent_index=record.guest,
        not_restored=change.change in ("restoring", "absent"),
        absent=change.change == "absent",
    )


def _add_old_value(row: VariableRow, change: Change, before: VariableRow | None) -> VariableRow:
    from mahtab_tui.kernel.values import CHANGE_SIGNS

    sign = CHANGE_SIGNS.get(change.change, "~")
    row = row._replace(uncertain=False, sign=sign)  # the sign already shows this
    if sign == "−":
        return row._replace(
            type=before.type if before else "", summary=before.summary if before else ""
        )
    if before is None or sign == "+" or (before.type, before.summary) == (row.type, row.summary):
        return row
    kind = row.type if before.type == row.type else f"{before.type} → {row.type}"
    return row._replace(type=kind, summary=f"{before.summary} → {row.summary}")


Sort = Literal["recency", "name", "type"]
SORTS: Mapping[Sort, Callable[[VariableRow], Any]] = {
    "recency": lambda row: -row.number,
    "name": lambda row: (row.name.lower(), row.name),
    "type": lambda row: (row.type.lower(), row.name.lower()),
}


class VariableRows:
    """Call `arrange` after changing what is shown."""

    def __init__(self) -> None:
        self._rows: dict[str, VariableRow] = {}
        self._number = 0
        self._shown: list[VariableRow] | None = None
        self.sort: Sort = "recency"
        self.filter = ""
        self.specials = False
        self.changes = False
        self.changed_by = ""
        self._changed_rows: list[VariableRow] = []
        self._changed_cell: int | None = None
        self.private: set[str] = set()
        self.watched: set[str] = set()
        """Names that stay at the top, whatever the filter."""

    def fold(self, records: Sequence[Record]) -> bool:
        from mahtab_tui.bus.records import AssistantReplOut, Namespace, Private

        changed = False
        for record in records:
            if isinstance(record, Private):
                changed = True
                (self.private.add if record.private else self.private.discard)(record.name)
            elif isinstance(record, Namespace):
                changed = True
                self._fold_changes(record)
                self._fold_variables(record)
            elif isinstance(record, AssistantReplOut) and record.status is not None:
                changed |= self.changes
                author = f"{plain(record.party or '')} {record.cell or ''}".strip()
                self._changed_cell, self.changed_by, self._changed_rows = record.cell, author, []
        if changed:
            self.arrange()
        return changed

    def _fold_changes(self, record: Namespace) -> None:
        if record.fresh:
            self._changed_cell, self.changed_by, self._changed_rows = None, "", []
        elif record.cell is not None and record.cell == self._changed_cell and not record.restored:
            self._changed_rows = [
                _add_old_value(to_row(record, change, index), change, self._rows.get(change.name))
                for index, change in enumerate(record.changes)
            ]

    def _fold_variables(self, record: Namespace) -> None:
        if record.fresh:
            self._rows.clear()
        for change in record.changes:
            name = change.name
            if change.change == "deleted":
                self._rows.pop(name, None)
                continue
            row = to_row(record, change, self._number + 1)
            if row.uncertain and (known := self._rows.get(name)) is not None:
                self._rows[name] = known._replace(
                    type=row.type, summary=row.summary, uncertain=True
                )
            else:
                self._number += 1
                self._rows[name] = row

    def arrange(self) -> None:
        self._shown = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        row = self._rows.get(name)
        return row is not None and not row.not_restored

    @property
    def created_count(self) -> int:
        return sum(
            bool(row.cell) and row.kind != "module" and not row.name.startswith("_")
            for row in self._rows.values()
        )

    @property
    def hidden_count(self) -> int:
        if self.specials or self.changes:
            return 0
        return sum(
            row.special and self.filter.lower() in row.name.lower() for row in self._rows.values()
        )

    @property
    def shown(self) -> list[VariableRow]:
        if self._shown is None:
            wanted = self.filter.lower()
            if self.changes:
                self._shown = [row for row in self._changed_rows if wanted in row.name.lower()]
            else:
                self._shown = [
                    row
                    for row in self._rows.values()
                    if row.name in self.watched
                    or ((self.specials or not row.special) and wanted in row.name.lower())
                ]
                self._shown.sort(key=SORTS[self.sort])
                # `df` typed in full means df, not pldf.
                self._shown.sort(
                    key=lambda row: (row.name not in self.watched, row.name.lower() != wanted)
                )
        return self._shown


PRIVATE = "⊘"

_EMPTY = "Variables appear here as they are made: type, size, and who made or changed them."
_OPENS_HINT = " Enter looks inside."
_NO_CHANGES = "Shows what the model's last cell added, changed and deleted."

_MEASURED_ROWS = 200
_NAME, _TYPE = 20, 14
_VALUE, _FIELDS = 24, 16
"""Columns up to which values take precedence over types."""
_LEAST = 15
"""Minimum columns next to a name."""
_WIDE = 60


class Columns(NamedTuple):
    name: int
    value: int
    type: int
    by: int
    time: int

    @classmethod
    def fit(cls, rows: Sequence[VariableRow], width: int, marks: int = 0) -> Columns:
        """Compute the widths. marks: columns before the names."""
        seen = rows[:_MEASURED_ROWS]
        room = max(20, width - 5)
        time = len("12:34") if room >= _WIDE else 0
        room -= time + 1 if time else 0
        by = max([2, *(cell_len(row.by) for row in seen)])
        longest_name = max([4, *(marks + cell_len(row.shown_name) for row in seen)])
        name = min(longest_name, _NAME + marks, max(8, room - _LEAST))
        value = max(
            [5, *(min(cell_len(row.value), _FIELDS if row.has_fields else _VALUE) for row in seen)]
        )
        kind = min(max([4, *(cell_len(row.type) for row in seen)]), _TYPE)
        if room - name - by - kind < value:
            kind, room = 0, room + 1
        return cls(name, max(4, room - name - kind - by), kind, by, time)


class NamespaceRows:
    def __init__(self, names: VariableRows, *, opens: bool) -> None:
        self._names = names
        self._opens = opens
        self._columns = Columns.fit([], 40)
        self._sentence: list[str] = []

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width, self._palette = width, palette
        self.arrange()

    def arrange(self) -> None:
        marks = len(PRIVATE) + 1 if self._names.private else 0
        self._columns = Columns.fit(self._names.shown, self._width, marks)
        self._sentence = wrap(self._why_empty(), max(10, self._width - 2))

    def __len__(self) -> int:
        return len(self._names.shown) or len(self._sentence)

    def __getitem__(self, index: int) -> Row:
        if not self._names.shown:
            return Row([(self._sentence[index], self._palette.muted)])
        name, columns, palette = self._names.shown[index], self._columns, self._palette
        signs = {"+": palette.good, "~": palette.moon, "?": palette.muted, "−": palette.bad}
        watched = name.name in self._names.watched and not name.sign
        marks = f"{'● ' * watched}{f'{PRIVATE} ' * (name.name in self._names.private)}"
        quiet = palette.muted if name.not_restored else None
        strong = quiet or BOLD + signs.get(name.sign, Style.null())
        spans: list[Span] = [
            (fit_text(marks + name.shown_name, columns.name) + " ", strong),
            (fit_text(name.value, columns.value) + " ", quiet or Style.null()),
        ]
        if columns.type:
            spans.append((fit_text(name.type, columns.type) + " ", palette.muted))
        spans += self._author(name)
        if columns.time:
            spans.append((f" {name.clock}", palette.muted))
        return Row(spans)

    def _author(self, name: VariableRow) -> list[Span]:
        text = fit_text(name.by, self._columns.by)
        if not name.cell and name.author != "you":
            return [(text, self._palette.muted)]
        who, mark, rest = text.rpartition("?") if name.uncertain else (text, "", "")
        return [
            (who, self._palette.author_style(name.author == "you", name.agent_index)),
            (mark + rest, self._palette.muted),
        ]

    def _why_empty(self) -> str:
        names = self._names
        if names.filter and not names.hidden_count:
            return "No name contains this. Esc ends the filter."
        if names.changes:
            by = names.changed_by
            return f"{by} changed no variables." if by else _NO_CHANGES
        if names.hidden_count:
            return f"Only modules, functions or names with _{' contain this' if names.filter else ''}. Ctrl+T shows them."
        return _EMPTY + _OPENS_HINT * self._opens

    def title(self, filtering: bool, focused: bool) -> Row:
        names, muted = self._names, self._palette.muted
        bright = self._palette.person + BOLD if focused else muted
        if names.changes:
            parts = [("CHANGES", bright)]
            if names.changed_by:
                parts.append((names.changed_by, muted))
        else:
            parts = [(f"NAMESPACE  {len(names.shown)}" if len(names) else "NAMESPACE", bright)]
        if names.filter or filtering:
            parts.append((f"/ {names.filter}{'▏' if filtering else ''}", bright))
        if len(names) and not names.changes:
            parts.append((f"by {names.sort}", muted))
        if names.hidden_count:
            parts.append((f"{names.hidden_count} hidden", muted))
        between = "  ·  "
        if cell_len(between.join(text for text, _ in parts)) >= self._width:
            between = " · "
        return Row([piece for part in parts for piece in (part, (between, muted))][:-1])

    def heads(self) -> Row:
        line = ""
        if len(self._names.shown if self._names.changes else self._names):
            titles = zip(Columns._fields, self._columns, strict=True)
            line = " ".join(fit_text(title, width) for title, width in titles if width)
        return Row([(line, self._palette.muted)])


_PORT_ACTIONS = ("open", "rename", "mark_private", "delete", "copy_name")


class NamespacePane(RowsView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(VARIABLE_COMMANDS),
        *CURSOR_KEYS,
        Binding("ctrl+s", "sort", "Sort", show=False),
        Binding("ctrl+t", "specials", "Modules, functions, _names", show=False),
    ]

    head = 2

    def __init__(self, port: SessionPort | None = None, *, id: str | None = None) -> None:
        """port: None if the list is read-only."""
        self._port = port
        self.variables = VariableRows()
        self._drawn = NamespaceRows(self.variables, opens=port is not None)
        super().__init__(self._drawn, id=id)
        self.set_reactive(NamespacePane.cursor, 0)
        self.filtering = False

    def fold(self, records: Sequence[Record]) -> None:
        if self.variables.fold(records):
            self._refresh_rows()

    def _refresh_rows(self) -> None:
        self.variables.arrange()
        if self._laid_out is not None:
            self._drawn.arrange()
        self.cursor = max(0, min(self.cursor, len(self.variables.shown) - 1))
        self.refresh_view()

    def head_row(self, y: int) -> Row:
        return self._drawn.heads() if y else self._drawn.title(self.filtering, self.has_focus)

    @property
    def marked_row(self) -> int:
        return super().marked_row if self.variables.shown else -1

    def action_filter(self) -> None:
        self.filtering = True
        self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return (
            self.filtering and character is not None and (character.isalnum() or character == "_")
        )

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
            matches = [text.lower() in row.name.lower() for row in self.variables.shown]
            self.go_to(matches.index(True) if True in matches else 0)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return (self._port is not None or action not in _PORT_ACTIONS) and super().check_action(
            action, parameters
        )

    def on_click(self, event: Click) -> None:
        row = self.row_at(event.y)
        if event.y == 1:
            self.action_sort()
        elif row is not None and self.variables.shown:
            self.go_to(row)
            self.action_open()

    @property
    def _row_at_cursor(self) -> VariableRow | None:
        return self.variables.shown[self.cursor] if self.variables.shown else None

    @property
    def _existing_row(self) -> VariableRow | None:
        row = self._row_at_cursor
        return None if row is None or row.name not in self.variables else row

    def action_open(self) -> None:
        row, port = self._row_at_cursor, self._port
        if row is None or port is None:
            return
        if row.name in self.variables:
            port.inspect_variable(row.name)
        elif row.absent:
            port.rebuild(row.name, f"{row.label} was not restored: {row.summary}.")

    def action_rename(self) -> None:
        from mahtab_tui.tui.screens.dialog import Prompt

        if (row := self._existing_row) is None or self._port is None:
            return
        port, name, private = self._port, row.name, row.name in self.variables.private

        def chosen(new: str | None) -> None:
            if not new or new == name:
                return
            normalized = unicodedata.normalize("NFKC", new)
            if not _is_name(new):
                problem = f"{new} is not a valid variable name."
            elif normalized in self.variables:
                problem = f"There is already a variable {new}; nothing was renamed."
            else:
                if private:
                    port.mark_private(normalized, True)
                port.run(f"{new} = {_variable_expression(name)}; del {_variable_expression(name)}")
                return
            self.app.notify(problem, severity="warning")

        self.app.push_screen(Prompt(f"New name for {row.label}", row.label), chosen)

    def action_mark_private(self) -> None:
        if (row := self._existing_row) is not None and self._port is not None:
            self._port.mark_private(row.name, row.name not in self.variables.private)

    def action_delete(self) -> None:
        from mahtab_tui.tui.screens.dialog import confirm

        if (row := self._existing_row) is not None and (port := self._port) is not None:
            confirm(
                self.app,
                f"Delete the variable {row.label}? Its value is lost if nothing else holds it.",
                lambda: port.run(f"del {_variable_expression(row.name)}"),
                yes="Delete",
                no="Keep",
            )

    def action_copy_name(self) -> None:
        from mahtab_tui.tui.external import copy

        if (row := self._existing_row) is not None:
            copy(self.app, row.label)

    def action_watch_variable(self) -> None:
        if (row := self._existing_row) is not None:
            self.variables.watched ^= {row.name}
            self._refresh_rows()
            if row in self.variables.shown:
                self.go_to(self.variables.shown.index(row))

    def show_changes(self, shown: bool) -> None:
        self.variables.changes = shown
        self._refresh_rows()

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
