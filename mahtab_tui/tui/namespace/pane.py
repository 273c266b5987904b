"""The widget of the namespace pane."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click, Key, Resize
from textual.strip import Strip
from textual.timer import Timer

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import VARIABLE_COMMANDS
from mahtab_tui.tui.namespace.rows import (
    FADE,
    FADE_STEPS,
    SORTS,
    NamespaceRows,
    Preview,
    VariableRow,
    VariableRows,
)
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView, plain_strip
from mahtab_tui.tui.theme import BOLD
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.tui.port import NamespacePort

_PREVIEW_FROM = 160
"""Width of the screen from which a preview is shown."""
_PREVIEW_LEAST = 5
"""Minimum lines for a preview."""
_PORT_ACTIONS = ("open", "rename", "mark_private", "delete", "copy_name")


class NamespacePane(RowsView, can_focus=True):
    """Shows one variable per line. Enter opens one; Ctrl+F filters while typing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(VARIABLE_COMMANDS),
        *CURSOR_KEYS,
        Binding("ctrl+s", "sort", "Sort", show=False),
        Binding("ctrl+t", "specials", "Modules, functions, _names", show=False),
    ]

    head = 2

    def __init__(self, port: NamespacePort | None = None, *, id: str | None = None) -> None:
        """port: None if the list is read-only."""
        self._port = port
        self._rows = VariableRows()
        self._drawn = NamespaceRows(self._rows, opens=port is not None)
        super().__init__(self._drawn, id=id)
        self.set_reactive(NamespacePane.cursor, 0)
        self.filtering = False
        self._fetcher = Fetcher(self)
        self._preview = Preview()
        self._fade_timer: Timer | None = None
        self._faded = 0.0

    def fold(self, records: Sequence[Record]) -> None:
        if self._rows.fold(records):
            self._drawn.ground = self.background_colors[1]
            self._refresh_rows()
            self._faded = time.time() + FADE
            if self._fade_timer is None:
                self._fade_timer = self.set_interval(FADE / FADE_STEPS, self._fade)

    def has(self, name: str) -> bool:
        return name in self._rows

    @property
    def created_count(self) -> int:
        return self._rows.created_count

    def _fade(self) -> None:
        self.refresh()
        if time.time() > self._faded and self._fade_timer is not None:
            self._fade_timer.stop()
            self._fade_timer = None

    def _refresh_rows(self) -> None:
        """Lay out and draw after the shown variables have changed."""
        self._rows.arrange()
        if self._laid_out is not None:
            self._drawn.arrange()
        self.cursor = max(0, min(self.cursor, len(self._rows.shown) - 1))
        self.refresh_view()
        self._fetch_preview()

    # The preview below the list

    def watch_cursor(self) -> None:
        self._fetch_preview()

    def on_resize(self, event: Resize) -> None:
        super().on_resize(event)
        self._fetch_preview()

    def _fetch_preview(self) -> None:
        """Fetch the start of the variable at the cursor, if there is room below the list."""
        if not self.is_attached or self._port is None:
            return
        port, row, height = (
            self._port,
            self._existing_row,
            self.size.height - self.head - len(self._drawn) - 2,
        )
        if row is None or self.app.size.width < _PREVIEW_FROM or height < _PREVIEW_LEAST:
            self._show_preview(Preview())
        else:
            name, width = row.name, self.width - 2
            self._fetcher.ask(
                "preview",
                lambda: port.preview(name, height, width),
                self._show_preview,
                lambda _: self._show_preview(Preview()),
            )

    def _show_preview(self, preview: Preview) -> None:
        if preview != self._preview:
            self._preview = preview
            self.refresh()

    def render_line(self, y: int) -> Strip:
        preview_line = y - self.head - len(self._drawn) - 1
        if (
            self._laid_out is None
            or preview_line < 0
            or self._existing_row is None
            or self._existing_row.name != self._preview.name
        ):
            return super().render_line(y)
        palette = self._laid_out[1]
        lines = [
            (one_line(self._preview.name), palette.muted + BOLD),
            *((line, palette.muted) for line in self._preview.lines),
        ]
        return plain_strip(
            Row(lines[preview_line : preview_line + 1]),
            self.margin,
            self.width,
            self.visual_style.rich_style,
        )

    # Drawing

    def head_row(self, y: int) -> Row:
        return self._drawn.heads() if y else self._drawn.title(self.filtering, self.has_focus)

    @property
    def marked_row(self) -> int:
        return super().marked_row if self._rows.shown else -1

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ignore keys that change something if the list is read-only."""
        return (self._port is not None or action not in _PORT_ACTIONS) and super().check_action(
            action, parameters
        )

    def action_filter(self) -> None:
        """Filter by the text typed next."""
        self.filtering = True
        self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return (
            self.filtering and character is not None and (character.isalnum() or character == "_")
        )

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and (self.filtering or self._rows.filter):
            self.filtering = False
            self._filter("")
        elif event.key == "backspace" and self.filtering:
            self._filter(self._rows.filter[:-1])
        elif (
            self.filtering
            and event.character
            and (event.character.isalnum() or event.character == "_")
        ):
            self._filter(self._rows.filter + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_blur(self) -> None:
        self.filtering = False
        super().on_blur()

    def _filter(self, text: str) -> None:
        self._rows.filter = text
        self._refresh_rows()
        if text:  # watched variables stay at the top, even if they do not match
            self.go_to(
                next(
                    (
                        at
                        for at, row in enumerate(self._rows.shown)
                        if text.lower() in row.name.lower()
                    ),
                    0,
                )
            )

    def on_click(self, event: Click) -> None:
        row = self.row_at(event.y)
        if event.y == 1:
            self.action_sort()
        elif row is not None and self._rows.shown:
            self.go_to(row)
            self.action_open()

    @property
    def _existing_row(self) -> VariableRow | None:
        """The row that keys act on; None if there is none, or if its variable is gone."""
        row = self._row_at_cursor
        return None if row is None or row.name not in self._rows else row

    @property
    def _row_at_cursor(self) -> VariableRow | None:
        return self._rows.shown[self.cursor] if self._rows.shown else None

    def action_open(self) -> None:
        """Open the variable; for one that was not kept, put the cells that made it into the
        editor."""
        if (
            (row := self._row_at_cursor) is not None
            and row.not_restored
            and row.name not in self._rows
        ):
            if row.absent and self._port is not None:
                self._port.rebuild(row.name, f"{row.label} was not restored: {row.summary}.")
        elif (row := self._existing_row) is not None and self._port is not None:
            self._port.inspect_variable(row.name)

    def action_rename(self) -> None:
        from mahtab_tui.tui.namespace.actions import rename_variable

        if (row := self._existing_row) is not None and self._port is not None:
            rename_variable(
                self.app, self._port, row.name, self.has, private=row.name in self._rows.private
            )

    def action_mark_private(self) -> None:
        if (row := self._existing_row) is not None and self._port is not None:
            self._port.mark_private(row.name, row.name not in self._rows.private)

    def action_delete(self) -> None:
        from mahtab_tui.tui.namespace.actions import delete_variable

        if (row := self._existing_row) is not None and self._port is not None:
            delete_variable(self.app, self._port, row.name)

    def action_copy_name(self) -> None:
        from mahtab_tui.tui.external import copy

        if (row := self._existing_row) is not None:
            copy(self.app, row.label)

    def action_watch_variable(self) -> None:
        """Watch or unwatch the variable at the cursor, and keep the cursor on it."""
        if (row := self._existing_row) is not None:
            self._rows.watched ^= {row.name}
            self._refresh_rows()
            if row in self._rows.shown:
                self.go_to(self._rows.shown.index(row))

    @property
    def shows_changes(self) -> bool:
        return self._rows.changes

    def show_changes(self, shown: bool) -> None:
        """Show only what the model's last cell changed, or all variables."""
        self._rows.changes = shown
        self._refresh_rows()

    def action_sort(self) -> None:
        sorts = list(SORTS)
        self._rows.sort = sorts[(sorts.index(self._rows.sort) + 1) % len(sorts)]
        self._refresh_rows()

    def action_specials(self) -> None:
        self._rows.specials = not self._rows.specials
        self._refresh_rows()
