"""The pane that lists the variables, and acts on the one at the cursor.

`VariableRows` knows which variables there are, and draws them. What changes a variable runs as a cell of the
user's, so that it appears in the transcript.
"""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual.events import Click, Key, Resize
from textual.strip import Strip

from mahtab_tui.tui.commands.declarations import VARIABLE_COMMANDS, bindings
from mahtab_tui.tui.messages import (
    AskToRename,
    AskToRun,
    MarkPrivate,
    OpenVariable,
    RebuildVariable,
    RunCode,
)
from mahtab_tui.tui.namespace.variables import SORTS, VariableRow, VariableRows
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView, plain_strip
from mahtab_tui.tui.terminal_app import FRAME_S
from mahtab_tui.tui.theme import BOLD
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.session import Session

PREVIEW_WIDTH = 140
"""On a screen of at least this width, the free part of the pane previews a variable."""
PREVIEW_DELAY_S = 0.1
"""The cursor must rest on a variable for this time before it is read."""
_MIN_PREVIEW_LINES = 5
"""With fewer free lines there is no preview."""
_COLUMN_TITLES_Y = 1
"""The line of the titles of the columns, under the title of the pane."""
_SESSION_ACTIONS = ("open", "rename", "mark_private", "delete", "copy_name")
"""Actions that a list without a session does not have."""


class VariablePreview(NamedTuple):
    """The beginning of a variable's value."""

    name: str
    lines: Sequence[str]
    """The value as text, cut to the width of the pane."""


NO_PREVIEW = VariablePreview("", ())


class NamespacePane(RowsView, can_focus=True):
    """Lists the variables; keys filter them, open them and change them."""

    BINDINGS = bindings(VARIABLE_COMMANDS, *CURSOR_KEYS, ("ctrl+s", "sort"), ("ctrl+t", "specials"))

    head = 2

    def __init__(self, session: Session | None = None, *, id: str | None = None) -> None:
        """
        Args:
            session: It has the variables; None for a list that is read-only.
            id: The widget's id.
        """
        self._session = session
        self.variables = VariableRows(opens=session is not None)
        super().__init__(self.variables, id=id)
        self.set_reactive(NamespacePane.cursor, 0)
        self.filtering = False
        """Whether letters go to the filter."""
        self._will_fold = False
        """Whether a timer will fold the changes that wait."""
        self._fetcher = Fetcher(self)
        self._preview = NO_PREVIEW
        """What was read last; it is drawn while the cursor is on this variable."""

    def fold(self, records: Sequence[Record]) -> None:
        """Show what new records say of variables."""
        if self.variables.fold(records):
            self._show_rows()
        # A cell may change 50,000 variables: keys must be handled in between.
        if self.variables.is_behind and not self._will_fold:
            self._will_fold = True
            self.set_timer(FRAME_S, self._fold_more)

    def _fold_more(self) -> None:
        self._will_fold = False
        self.fold([])

    def _refresh_rows(self) -> None:
        """Choose and sort the variables anew, and draw them."""
        self.variables.arrange()
        self._show_rows()

    def _show_rows(self) -> None:
        """Draw the variables, with the cursor on one of them."""
        self.cursor = max(0, min(self.cursor, len(self.variables.visible) - 1))
        self.refresh_view()
        self._fetch_preview()

    def watch_cursor(self) -> None:
        self._fetch_preview()

    def on_resize(self, event: Resize) -> None:
        super().on_resize(event)
        self._fetch_preview()

    def _fetch_preview(self) -> None:
        """Read the beginning of the variable at the cursor, if there are lines for it."""
        session = self._session
        if session is None or not self.is_attached:
            return
        # A blank line and the variable's name stand above the preview.
        height = self.size.height - self.head - len(self.variables) - 2
        if self.app.size.width < PREVIEW_WIDTH or height < _MIN_PREVIEW_LINES:
            self._show_preview(NO_PREVIEW)
            return
        row = self._row_at_cursor
        if row is None:
            return
        name = row.name
        width = self.width - 2

        def read() -> VariablePreview:
            from mahtab_tui.tui.namespace.preview import read_preview

            lines = read_preview(session.open_inspector(), name, height, width)
            return VariablePreview(name, lines)

        def clear(_problem: str) -> None:
            self._show_preview(NO_PREVIEW)

        self._fetcher.run("preview", read, self._show_preview, clear, delay_s=PREVIEW_DELAY_S)

    def _show_preview(self, preview: VariablePreview) -> None:
        self._preview = preview
        self.refresh()

    def render_line(self, y: int) -> Strip:
        # Below the variables, under a blank line, is what the one at the cursor holds.
        preview_y = y - self.head - len(self.variables) - 1
        row = self._row_at_cursor
        has_preview = row is not None and row.name == self._preview.name
        if row is None or not has_preview or preview_y < 0 or self._laid_out_for is None:
            return super().render_line(y)

        _, palette = self._laid_out_for
        spans = [(row.label, palette.muted + BOLD)]
        spans += [(text, palette.muted) for text in self._preview.lines]
        span = spans[preview_y : preview_y + 1]
        return plain_strip(Row(span), self.margin, self.width, self.visual_style.rich_style)

    def head_row(self, y: int) -> Row:
        if y == 0:
            return self.variables.title(self.filtering, self.has_focus)
        return self.variables.column_titles()

    @property
    def marked_row(self) -> int:
        # In place of an empty list stands a sentence, which is nothing to choose.
        if self.variables.visible:
            return super().marked_row
        return -1

    def action_filter(self) -> None:
        self.filtering = True
        self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        is_letter = character is not None and (character.isalnum() or character == "_")
        return self.filtering and is_letter

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
        """Show the variables whose name contains a text, with the cursor on the first one."""
        self.variables.filter = text
        self._refresh_rows()
        if text:
            self.go_to(self._first_match(text))

    def _first_match(self, text: str) -> int:
        """Return the row of the first variable that matches a filter: watched variables stay at the
        top, even if they do not match."""
        for index, row in enumerate(self.variables.visible):
            if row.matches(text):
                return index
        return 0

    @property
    def _is_read_only(self) -> bool:
        """Whether the variables are those of another program's session."""
        return self._session is None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if self._is_read_only and action in _SESSION_ACTIONS:
            return False
        return super().check_action(action, parameters)

    def on_click(self, event: Click) -> None:
        row = self.row_at(event.y)
        if event.y == _COLUMN_TITLES_Y:
            self.action_sort()
        elif row is not None and self.variables.visible:
            self.go_to(row)
            self.action_open()

    @property
    def _row_at_cursor(self) -> VariableRow | None:
        """The row at the cursor; None if there is none, or if its variable was not restored."""
        if not self.variables.visible:
            return None
        row = self.variables.visible[self.cursor]
        if row.name not in self.variables:
            return None
        return row

    def action_open(self) -> None:
        """Look inside the variable; of one that was not restored, offer the cells that made it."""
        if self._is_read_only or not self.variables.visible:
            return
        row = self.variables.visible[self.cursor]
        if row.name in self.variables:
            self.post_message(OpenVariable(row.name))
        elif row.change == "absent":
            reason = f"{row.label} was not restored: {row.summary}."
            self.post_message(RebuildVariable(row.name, reason))

    def action_rename(self) -> None:
        row = self._row_at_cursor
        if row is not None and not self._is_read_only:
            self.post_message(AskToRename(row.name, row.label))

    def rename(self, name: str, new_name: str) -> None:
        """Rename a variable, unless that would replace another one.

        Args:
            name: Its name.
            new_name: What the user has typed, which may not be a name.
        """
        if new_name == name:
            return
        # Python normalizes names in the same way.
        normalized_name = unicodedata.normalize("NFKC", new_name)
        if not _is_name(new_name):
            problem = f"{new_name} is not a valid variable name."
            self.app.notify(problem, severity="warning")
        elif normalized_name in self.variables:
            problem = f"There is already a variable {new_name}; nothing was renamed."
            self.app.notify(problem, severity="warning")
        else:
            # The new name is private before the value has it, so that no model sees the value.
            if name in self.variables.private:
                self.post_message(MarkPrivate(normalized_name, True))
            old_expression = _variable_expression(name)
            self.post_message(RunCode(f"{new_name} = {old_expression}; del {old_expression}"))

    def action_mark_private(self) -> None:
        row = self._row_at_cursor
        if row is not None and not self._is_read_only:
            is_private = row.name in self.variables.private
            self.post_message(MarkPrivate(row.name, not is_private))

    def action_delete(self) -> None:
        row = self._row_at_cursor
        if row is None or self._is_read_only:
            return
        question = f"Delete the variable {row.label}? Its value is lost if nothing else holds it."
        code = f"del {_variable_expression(row.name)}"
        self.post_message(AskToRun(question, code, yes="Delete", no="Keep"))

    def action_copy_name(self) -> None:
        from mahtab_tui.tui.external import copy

        row = self._row_at_cursor
        if row is not None:
            copy(self.app, row.label)

    def action_watch_variable(self) -> None:
        """Pin the variable to the top, or unpin it."""
        row = self._row_at_cursor
        if row is None:
            return
        self.variables.watched ^= {row.name}
        self._refresh_rows()
        # The cursor goes with the variable, which moves to the top or back.
        if row in self.variables.visible:
            self.go_to(self.variables.visible.index(row))

    def action_sort(self) -> None:
        """Go on to the next order."""
        sorts = list(SORTS)
        next_index = (sorts.index(self.variables.sort) + 1) % len(sorts)
        self.variables.sort = sorts[next_index]
        self._refresh_rows()

    def action_specials(self) -> None:
        """Show modules, functions and names with an underscore in front, or hide them again."""
        self.variables.shows_specials = not self.variables.shows_specials
        self._refresh_rows()


def _is_name(text: str) -> bool:
    """Return whether code can write a text as a name."""
    return text.isidentifier() and not keyword.iskeyword(text)


def _variable_expression(name: str) -> str:
    """Return an expression for a variable, whose name may be one that code cannot write."""
    if _is_name(name):
        return name
    return f"globals()[{name!r}]"
