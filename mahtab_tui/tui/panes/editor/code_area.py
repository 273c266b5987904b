"""A text area that edits Python as people expect of an interactive prompt."""

from __future__ import annotations

from collections.abc import Callable

from textual.binding import Binding
from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import TextArea

from mahtab_tui.tui.panes.editor.colours import editor_theme
from mahtab_tui.tui.panes.editor.completeness import is_complete
from mahtab_tui.tui.panes.editor.indent import STEP, next_indent, pasted


class CodeArea(TextArea):
    """Python, or plain words when `python` is off. Enter submits what is complete."""

    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", "New line", show=False),
        Binding("tab", "indent", "Indent", show=False),
        Binding("shift+tab", "dedent", "Dedent", show=False),
    ]

    class Submitted(Message):
        """Enter on a text that is complete."""

    class ModeKey(Message):
        """A backtick, or Backspace, at the very start."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class LeaveKey(Message):
        """Ctrl+D in an empty text."""

    class EdgeReached(Message):
        """Up on the first line (-1), or Down on the last (1)."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    def __init__(self, text: str = "", *, id: str | None = None) -> None:
        super().__init__(
            text,
            language="python",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            max_checkpoints=200,
            id=id,
        )
        self.indent_type = "spaces"
        self.indent_width = len(STEP)

    @property
    def python(self) -> bool:
        """Whether the text is edited as Python."""
        return self.language == "python"

    @python.setter
    def python(self, python: bool) -> None:
        self.language = "python" if python else None

    def on_mount(self) -> None:
        self._take_colours()
        self.app.theme_changed_signal.subscribe(self, lambda theme: self._take_colours())

    def _take_colours(self) -> None:
        self.register_theme(editor_theme({**self.app.get_theme_variable_defaults(), **self.app.theme_variables}))
        # Set twice: a theme of the same name is not looked at again.
        self.theme = "css"
        self.theme = "roles"

    async def _on_key(self, event: Key) -> None:
        handled = True
        if event.key == "enter":
            self._enter()
        elif self._at_start() and event.character == "`":
            self.post_message(self.ModeKey("`"))
        elif self._at_start() and event.key == "backspace":
            self.post_message(self.ModeKey("backspace"))
        elif event.key == "ctrl+d" and not self.text:
            self.post_message(self.LeaveKey())
        elif event.key == "backspace" and self._dedent_before_cursor():
            pass
        elif event.key == "up" and self.cursor_at_first_line and not self._wrapped_above():
            self.post_message(self.EdgeReached(-1))
        elif event.key == "down" and self.cursor_at_last_line and not self._wrapped_below():
            self.post_message(self.EdgeReached(1))
        else:
            handled = False
        if handled:
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        text = pasted(event.text, python=self.python, into_empty=not self.text.strip())
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)

    def action_new_line(self) -> None:
        """Open a line, indented as Python wants it."""
        row, column = self.selection.start
        indent = next_indent(self.document.get_line(row)[:column]) if self.python else ""
        self._replace_via_keyboard("\n" + indent, *self.selection)

    def action_indent(self) -> None:
        """Indent to the next stop; a selection's lines by one step."""
        if self.selection.is_empty:
            width = len(STEP) - self.cursor_location[1] % len(STEP)
            self._replace_via_keyboard(" " * width, *self.selection)
        else:
            self._shift_lines(lambda line: STEP + line if line.strip() else line)

    def action_dedent(self) -> None:
        """Take a step of indentation from the line, or from a selection's lines."""
        self._shift_lines(lambda line: line[min(len(STEP), len(line) - len(line.lstrip())) :])

    def _at_start(self) -> bool:
        return self.cursor_location == (0, 0) and self.selection.is_empty

    def _enter(self) -> None:
        if self.python and not self._to_be_run():
            self.action_new_line()
        else:
            self.post_message(self.Submitted())

    def _to_be_run(self) -> bool:
        """Complete, and the cursor not in the middle of several lines."""
        row, column = self.cursor_location
        at_end = not self.get_text_range((row, column), self.document.end).strip()
        return is_complete(self.text) and (at_end or self.document.line_count == 1)

    def _dedent_before_cursor(self) -> bool:
        """Backspace in leading white space removes a step; False where it is an ordinary one."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        if not self.selection.is_empty or not before or before.strip():
            return False
        self.delete((row, (column - 1) // len(STEP) * len(STEP)), (row, column))
        return True

    def _shift_lines(self, shifted: Callable[[str], str]) -> None:
        (first, _), (last, _) = sorted(self.selection)
        lines = [self.document.get_line(row) for row in range(first, last + 1)]
        selection = self.selection
        text = "\n".join(map(shifted, lines))
        self.replace(text, (first, 0), (last, len(lines[-1])))
        if not selection.is_empty:
            self.selection = type(selection)((first, 0), (last, len(self.document.get_line(last))))

    def _wrapped_above(self) -> bool:
        return self.wrapped_document.location_to_offset(self.cursor_location).y > 0

    def _wrapped_below(self) -> bool:
        return self.wrapped_document.location_to_offset(self.cursor_location).y < self.wrapped_document.height - 1
