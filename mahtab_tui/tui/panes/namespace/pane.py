"""The namespace's widget: a window over the rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.events import Click, Key, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.commands.variables import VARIABLE_COMMANDS
from mahtab_tui.tui.panes.namespace.columns import Columns, fitted_author
from mahtab_tui.tui.panes.namespace.row import Row
from mahtab_tui.tui.panes.namespace.rows import SORTS, Rows
from mahtab_tui.tui.rows.fitting import fitted
from mahtab_tui.tui.rows.lines_view import LinesView
from mahtab_tui.tui.theme import GUESTS

HEAD = 2
"""Lines of the title and the column names."""
FADE = 1.0
"""Seconds in which a changed row fades back."""
_STEPS = 5
_SIGNS = {"+": "good", "~": "moon", "?": "muted", "−": "bad"}
"""Colours of what became of a name."""
_EMPTY = "Variables show here as they are made: type, size, and who made or changed them. Enter looks inside."
_NO_CHANGES = "What a cell of the model's adds, changes and deletes shows here."


class NamespacePane(LinesView, can_focus=True):
    """Every variable in a line. Enter opens one; Ctrl+F filters by what is typed then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(VARIABLE_COMMANDS),
        Binding("ctrl+s", "sort", "Sort", show=False),
        Binding("ctrl+t", "specials", "Modules, functions, private", show=False),
    ]

    cursor: reactive[int] = reactive(0)

    class Opened(Message):
        """The person wants to look inside a variable."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Asked(Message):
        """The person wants to rename, delete or copy a variable."""

        def __init__(self, what: Literal["rename", "delete", "copy"], name: str) -> None:
            super().__init__()
            self.what = what
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = Rows()
        self._columns = Columns.of([], 40)
        self.filtering = False
        """Whether letters filter."""
        self._fading: Timer | None = None
        self._faded = 0.0

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        if self._rows.fold(records):
            self._arranged()
            self._faded = time.time() + FADE
            if self._fading is None:
                self._fading = self.set_interval(FADE / _STEPS, self._fade)

    def has(self, name: str) -> bool:
        """Whether there is such a variable."""
        return name in self._rows

    @property
    def made(self) -> int:
        """How many names cells have made, without modules and private names."""
        return self._rows.made

    def _fade(self) -> None:
        self.refresh()
        if time.time() > self._faded and self._fading is not None:
            self._fading.stop()
            self._fading = None

    def _arranged(self) -> None:
        """The rows to be seen are others."""
        width = self.scrollable_content_region.width
        self._columns = Columns.of(self._rows.shown, width)
        self.virtual_size = Size(width, HEAD + max(len(self._rows.shown), 1))
        self.cursor = max(0, min(self.cursor, len(self._rows.shown) - 1))
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._arranged()

    # Drawing

    def _colour(self, role: str) -> Style:
        return Style(color=Color.parse(self.app.theme_variables[role]).rich_color)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        if y == 0:
            return self._title(width, base)
        if y == 1:
            line = self._columns.line("name", "type", "value", "by", "time") if len(self._rows.shown if self._rows.changes else self._rows) else ""
            return self.strip([(line, self._colour("muted"))], width, base)
        index = self.scroll_offset.y + y - HEAD
        rows = self._rows.shown
        if not rows:
            return self._empty(index, width, base)
        return self._row(rows[index], index, width, base) if index < len(rows) else Strip.blank(width, base)

    def _title(self, width: int, base: Style) -> Strip:
        muted = self._colour("muted")
        bright = self._colour("person") + Style(bold=True) if self.has_focus else muted
        rows = self._rows
        if rows.changes:
            parts = [("CHANGES", bright), *([(rows.difference.by, muted)] if rows.difference.by else [])]
        else:
            parts = [(f"NAMESPACE  {len(rows.shown)}" if len(rows) else "NAMESPACE", bright)]
        if rows.filter or self.filtering:
            parts.append((f"/ {rows.filter}{'▏' if self.filtering else ''}", bright))
        if len(rows) and not rows.changes:
            parts.append((f"by {rows.sort}", muted))
        if rows.hidden:
            parts.append((f"{rows.hidden} hidden", muted))
        between = "  ·  " if _length(parts, "  ·  ") < width else " · "
        apart = [(between, muted)] * len(parts)
        return self.strip([piece for pair in zip(parts, apart, strict=True) for piece in pair][:-1], width, base)

    def _empty(self, index: int, width: int, base: Style) -> Strip:
        if self._rows.filter and not self._rows.hidden:
            sentence = "Nothing has this in its name. Esc ends the filter."
        elif self._rows.changes:
            by = self._rows.difference.by
            sentence = f"{by} has changed no variable." if by else _NO_CHANGES
        elif self._rows.hidden:
            sentence = f"Only modules, functions or private names{' have this' if self._rows.filter else ''}. Ctrl+T shows them."
        else:
            sentence = _EMPTY
        lines = wrap(sentence, max(10, width - 2))
        text = lines[index] if 0 <= index < len(lines) else ""
        return self.strip([(text, self._colour("muted"))], width, base)

    def _row(self, row: Row, index: int, width: int, base: Style) -> Strip:
        columns, muted = self._columns, self._colour("muted")
        author = self._colour("person" if row.party == "you" else "model" if row.guest is None else GUESTS[row.guest % len(GUESTS)])
        style = base
        if index == self.cursor and self.has_focus:
            style = base + Style(bgcolor=Color.parse(self.app.theme_variables["panel"]).rich_color)
        elif (age := time.time() - row.time) < FADE:
            glow = Color.parse(self.app.theme_variables["panel"])
            ground = self.background_colors[1]
            style = base + Style(bgcolor=ground.blend(glow, 1 - int(age * _STEPS) / _STEPS).rich_color)
        name = Style(bold=True) + (self._colour(_SIGNS[row.sign]) if row.sign else Style())
        parts = [
            (fitted(f"● {row.label}" if row.name in self._rows.watched and not row.sign else row.shown_name, columns.name) + " ", name),
            (fitted(row.type, columns.type) + " ", muted),
            (fitted(row.summary, columns.value) + " ", Style()),
            *_author_parts(fitted(fitted_author(row.by, columns.by), columns.by), row.perhaps, author, muted),
            *([(f" {row.clock}", muted)] if columns.time else []),
        ]
        return self.strip(parts, width, style)

    # What the person does

    def action_filter(self) -> None:
        """Filter by what is typed from now on."""
        self.filtering = True
        self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return self.filtering and character is not None and (character.isalnum() or character == "_")

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and (self.filtering or self._rows.filter):
            self.filtering = False
            self._filter("")
        elif event.key == "backspace" and self.filtering:
            self._filter(self._rows.filter[:-1])
        elif self.filtering and event.character and (event.character.isalnum() or event.character == "_"):
            self._filter(self._rows.filter + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_blur(self) -> None:
        self.filtering = False
        super().on_blur()

    def _filter(self, text: str) -> None:
        self._rows.arrange(filter=text)
        if text:  # what is watched stays on top, and is not what was looked for
            self.cursor = next((at for at, row in enumerate(self._rows.shown) if text.lower() in row.name.lower()), 0)
        self._arranged()

    def on_click(self, event: Click) -> None:
        index = self.scroll_offset.y + event.y - HEAD
        if event.y == 1:
            self.action_sort()
        elif event.y >= HEAD and index < len(self._rows.shown):
            self.cursor = index
            self.action_open()

    @property
    def _chosen(self) -> Row | None:
        """The row that keys act on; None where there is none, or its name is gone."""
        row = self._rows.shown[self.cursor] if self._rows.shown else None
        return None if row is None or row.name not in self._rows else row

    def action_open(self) -> None:
        if (row := self._chosen) is not None:
            self.post_message(self.Opened(row.name))

    def _ask(self, what: Literal["rename", "delete", "copy"]) -> None:
        if (row := self._chosen) is not None:
            self.post_message(self.Asked(what, row.name))

    def action_rename(self) -> None:
        self._ask("rename")

    def action_delete(self) -> None:
        self._ask("delete")

    def action_copy_name(self) -> None:
        self._ask("copy")

    def action_watch_variable(self) -> None:
        """The cursor stays with the variable."""
        if (row := self._chosen) is not None:
            self._rows.watch(row.name)
            self._arranged()
            self.cursor = self._rows.shown.index(row) if row in self._rows.shown else self.cursor

    @property
    def shows_changes(self) -> bool:
        return self._rows.changes

    def show_changes(self, shown: bool) -> None:
        """Show what the last cell of the model's changed, or all variables."""
        self._rows.arrange(changes=shown)
        self._arranged()

    def action_sort(self) -> None:
        self._rows.arrange(sort=SORTS[(SORTS.index(self._rows.sort) + 1) % len(SORTS)])
        self._arranged()

    def action_specials(self) -> None:
        self._rows.arrange(specials=not self._rows.specials)
        self._arranged()

    def action_move(self, step: int) -> None:
        self.cursor = max(0, min(len(self._rows.shown) - 1, self.cursor + step))

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - HEAD - 1))

    def action_move_to(self, place: int) -> None:
        self.cursor = 0 if place == 0 else max(0, len(self._rows.shown) - 1)

    def watch_cursor(self, cursor: int) -> None:
        self.scroll_to_region(Region(0, cursor, 1, HEAD + 1), animate=False, force=True)
        self.refresh()


def _length(parts: Sequence[tuple[str, Style]], between: str) -> int:
    """Cells of a line of these parts."""
    return cell_len(between.join(text for text, _ in parts))


def _author_parts(text: str, perhaps: bool, author: Style, muted: Style) -> list[tuple[str, Style]]:
    """Who changed a name last; the question mark of a possible change since then is muted."""
    who, mark, rest = text.rpartition("?") if perhaps else (text, "", "")
    return [(who, author), (mark + rest, muted)]
