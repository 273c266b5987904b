"""A table of any length, used with keys and the mouse: a header that stays, and a window over the rows."""

from __future__ import annotations

from dataclasses import replace
from keyword import iskeyword
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.looking import TableArrangement
from mahtab_tui.tui.commands.inspector import TABLE_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.exporting import base_name, rows_code
from mahtab_tui.tui.screens.inspector.table_cache import ROWS
from mahtab_tui.tui.screens.inspector.table_columns import BETWEEN
from mahtab_tui.tui.screens.inspector.table_drawing import TableDrawing, label_of
from mahtab_tui.tui.screens.inspector.table_window import TableWindow
from mahtab_tui.tui.screens.inspector.view import CellWanted, LineWanted, Seen, Walked


class TableView(TableWindow):
    """The cell at the cursor can be opened; the column at the cursor can be sorted, filtered and opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(TABLE_COMMANDS),
        Binding("up", "move(-1, 0)", "Up", show=False),
        Binding("down", "move(1, 0)", "Down", show=False),
        Binding("left", "move(0, -1)", "Left", show=False),
        Binding("right", "move(0, 1)", "Right", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First column", show=False),
        Binding("end", "go(-1)", "Last column", show=False),
        Binding("ctrl+home", "go_row(0)", "First row", show=False),
        Binding("ctrl+end", "go_row(-1)", "Last row", show=False),
    ]

    @property
    def column_name(self) -> str:
        """The name of the column at the cursor."""
        return self._columns.name(self._column)

    @property
    def _condition(self) -> str:
        """The filter of the column at the cursor."""
        return dict(self._arranged.filters).get(self._column, "")

    @property
    def seen(self) -> Seen:
        opened, arranged = self.place.opened, self._arranged
        if arranged == TableArrangement() or not opened.expression:
            return Seen(opened)
        code = rows_code(opened.expression, arranged, self._columns)
        order = f", sorted by {self._columns.name(arranged.sort[0])}" if arranged.sort is not None else ""
        return Seen(replace(opened, expression=code), f"{self._rows:,} of {self._of:,} rows{order}")

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        row = self.scroll_offset.y + y - self._head
        if y >= self._head and (row >= self._rows or not self._columns.count):
            return self._empty(row, width, base)
        drawing = TableDrawing(
            self._columns, self._seen_columns, self._column, self._arranged, self._label_width, self._rows != self._of, self.palette
        )
        if y < self._head:
            ground = base + self.palette.surface
            return drawing.header(y, self._rows > 0, ground).crop_extend(0, width, ground)
        here = row == self._row and self.has_focus
        return drawing.row(row, self._cache.block(row), here, base).crop_extend(0, width, base + self.palette.panel if here else base)

    def _empty(self, row: int, width: int, base: Style) -> Strip:
        text = ""
        if row == 0:
            nothing = "It has no rows." if self._columns.count else "It has no columns."
            text = "No row fits. x shows all again." if self._arranged.filters else nothing
        return Strip([Segment(f" {text}", base + self.palette.muted)]).crop_extend(0, width, base)

    def _tell(self) -> None:
        """Say in the line below where the cursor is, and all about its column."""
        if self._busy:
            self.say((self._busy, "$moon"))
            return
        filtered = f" of {self._of:,}" if self._rows != self._of else ""
        where = f"row {self._row + 1:,} of {self._rows:,}{filtered and f' that fit{filtered}'}" if self._rows else f"no rows{filtered}"
        parts: list[tuple[str, str] | str] = [(where, "$muted")]
        name, heading, figures = self.column_name, self._columns.headings.get(self._column), self._columns.figures.get(self._column)
        if heading is not None:
            parts += [("  ·  ", "$muted"), (name, "bold"), (f" {self._columns.type(self._column)}", "$muted")]
        if self._condition:
            parts.append((f"  / {plain(self._condition)}", "$person"))
        if figures is not None:
            parts.append((f"  {figures.missing:,} missing" if figures.missing else "", "$moon"))
            if figures.min:
                parts.append(("  of all rows:" if self._rows != self._of else "", "$muted"))
                parts.append((f"  {figures.min} … {figures.max}, mean {figures.mean}", "$muted"))
        self.say(*parts)

    # What the person does

    def action_move(self, rows: int, columns: int) -> None:
        self._row = max(0, min(self._rows - 1, self._row + rows))
        self._column = max(0, min(self._columns.count - 1, self._column + columns))
        self._show_cursor()

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - self._head - 1), 0)

    def action_go(self, column: int) -> None:
        self._column = 0 if column == 0 else max(0, self._columns.count - 1)
        self._show_cursor()

    def action_go_row(self, row: int) -> None:
        self._row = 0 if row == 0 else max(0, self._rows - 1)
        self._show_cursor()

    def _show_cursor(self) -> None:
        height = max(1, self.size.height - self._head)
        top = self.scroll_offset.y
        if not top <= self._row < top + height:
            self.scroll_to(y=self._row if self._row < top else self._row - height + 1, animate=False, force=True)
        self._left = self._columns.left_for(self._column, self._left, self._room)
        self._fetch()
        self.refresh()

    def on_click(self, event: Click) -> None:
        x = event.x - self._label_width - BETWEEN - 1
        for column in self._columns.seen(self._left, self._room):
            x -= self._columns.width(column) + BETWEEN
            if x < 0:
                self._column = column
                break
        row = self.scroll_offset.y + event.y - self._head
        if event.y < self._head:
            self.action_sort()
        elif row < self._rows:
            self._row = row
            if event.chain == 2:
                self.action_open_cell()
        self._show_cursor()

    def action_open_cell(self) -> None:
        block = self._cache.block(self._row)
        place = self._row % ROWS
        if block is not None and place < len(block.positions):
            step = ["cell", block.positions[place], self._column]
            label = f"{self.column_name} of {one_line(label_of(block, place))}".strip()
            self.post_message(Walked((*self.place.path, step), label, self))

    def action_open_column(self) -> None:
        if self._columns.count > 1:
            self.post_message(Walked((*self.place.path, ["column", self._column]), self.column_name, self))

    def action_sort(self) -> None:
        """By the column at the cursor: upwards, downwards, not."""
        now = self._arranged.sort
        following = None if now == (self._column, True) else (self._column, now == (self._column, False))
        self._arrange(TableArrangement(following, self._arranged.filters), "sorting …")

    def action_filter(self) -> None:
        hint = f"{self.column_name}:  > 5   = berlin   missing   or a text"
        self.post_message(LineWanted(hint, self._condition, self._filter))

    def _filter(self, condition: str) -> None:
        """Show only rows whose value at the cursor's column fits; an empty condition shows all again."""
        others = tuple(one for one in self._arranged.filters if one[0] != self._column)
        mine = ((self._column, condition),) if condition.strip() else ()
        self._arrange(TableArrangement(self._arranged.sort, (*others, *mine)), "filtering …")

    def action_all_rows(self) -> None:
        self._arrange(TableArrangement(), "")

    def _arrange(self, arranged: TableArrangement, busy: str) -> None:
        if not self._columns.count:
            return
        self._before = self._before or self._arranged
        self._arranged = arranged
        self._busy = busy
        self._cache.clear()
        self._rows = self._rows if arranged.filters else self._of
        self._asked = None
        self._fetch()
        self.refresh()

    def action_make_variable(self) -> None:
        """Give a name to what is seen."""
        seen = self.seen
        if not seen.opened.expression:
            self.fail("It has no name in code: give it one in a cell.")
        else:
            self.post_message(LineWanted("the variable's name", f"{base_name(self.place.opened)}_view", self._make_variable))

    def _make_variable(self, name: str) -> None:
        name = name.strip()
        if name.isidentifier() and not iskeyword(name):
            self.post_message(CellWanted(f"{name} = {self.seen.opened.expression}", f"A cell makes {name}."))
        else:
            self.fail(f"{name or 'Nothing'} cannot be the name of a variable.")

    def action_figures(self) -> None:
        self._show_figures = not self._show_figures
        self._measure()
