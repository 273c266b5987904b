"""The prompt that is drawn again while the user types, with colours, completion and a history."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, emacs_mode, vi_insert_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import DynamicLexer, Lexer, PygmentsLexer, SimpleLexer
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from pygments.lexers.python import PythonLexer

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.typed_text import INDENT, clean, is_complete, next_indent, prepare_pasted_python
from mahtab_tui.bus.values import Mode
from mahtab_tui.linear.keyboard import Keyboard
from mahtab_tui.linear.line_writer import STYLES
from mahtab_tui.linear.pictures import PictureDrawer
from mahtab_tui.linear.prompts import (
    MODE_KEY,
    FullScreenWanted,
    Interrupted,
    Prompt,
    TypedInput,
    find_completions,
)
from mahtab_tui.session.open_session import SessionInputHelp
from mahtab_tui.settings.model import EditorKeys
from mahtab_tui.store.input_history import History

CODE_STYLE = Style.from_dict(
    {
        "pygments.comment": "italic",
        "pygments.keyword": f"ansi{STYLES['model']}",
        "pygments.operator.word": f"ansi{STYLES['model']}",
        "pygments.literal.string": f"ansi{STYLES['good']}",
        "pygments.literal.number": f"ansi{STYLES['highlight']}",
        "pygments.name.function": f"ansi{STYLES['person']}",
        "pygments.name.class": f"ansi{STYLES['person']}",
        "pygments.name.builtin": f"ansi{STYLES['person']}",
        "pygments.name.decorator": f"ansi{STYLES['person']}",
    }
)
"""The terminal's own colours, by the roles that the full screen gives to tokens."""
# With these marks, the user can go from prompt to prompt in the terminal's scrollback.
PROMPT_MARK = "\x1b]133;D\x1b\\\x1b]133;A\x1b\\"
"""Tells the terminal that output has ended, and that a prompt begins."""
INPUT_MARK = "\x1b]133;B\x1b\\"
"""Tells the terminal that the prompt has ended, and that the input begins."""
OUTPUT_MARK = "\x1b]133;C\x1b\\"
"""Tells the terminal that the input has ended, and that output begins."""
VI_MODES = {"navigation": "normal", "insert-multiple": "insert", "replace-single": "replace"}
"""Vi's names of modes, by prompt_toolkit's names, where they differ."""
PROMPT_STYLES = {
    "python": f"ansi{STYLES['person']} bold",
    "ask": f"ansi{STYLES['model']} bold",
}


def _load_history(history: History, mode: Mode) -> InMemoryHistory:
    """Return the earlier inputs of a mode. The interface itself saves those that follow."""
    return InMemoryHistory([clean(entry.text) for entry in reversed(history.entries(mode))])


class SessionCompleter(Completer):
    """Completes what is typed, on a thread."""

    def __init__(self, input_help: SessionInputHelp, prompt: Prompt) -> None:
        self._input_help = input_help
        self._prompt = prompt

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        cursor = document.cursor_position
        completions = find_completions(self._input_help, document.text, cursor, self._prompt.mode)
        if completions is None:
            return
        for item in completions.items:
            yield Completion(
                clean(item.text),
                start_position=completions.start - cursor,
                display=one_line(item.label),
                display_meta=one_line(item.doc.partition("\n")[0]),
            )


class DrawnPrompt(Prompt):
    """The prompt for Python and questions."""

    def __init__(
        self,
        input_help: SessionInputHelp,
        history: History,
        pictures: PictureDrawer,
        keys: EditorKeys,
    ) -> None:
        """
        Args:
            input_help: Completes what is typed.
            history: The inputs of earlier sessions.
            pictures: Needs the terminal's answers, for which this prompt asks.
            keys: The user's setting.
        """
        super().__init__()
        self._number = 0
        """The number of the next cell."""
        self._pictures = pictures
        self._has_asked_terminal = not pictures.should_ask
        """Whether the terminal was asked what it can draw, or need not be."""
        self._keys = keys
        self._histories = {
            "python": _load_history(history, "python"),
            "ask": _load_history(history, "ask"),
        }
        self._lexers: dict[str, Lexer] = {
            "python": PygmentsLexer(PythonLexer),
            "ask": SimpleLexer(),
        }
        self._output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        # The terminal is not asked where its cursor is: the answer could come too late.
        self._output.enable_cpr = False
        self._keyboard = Keyboard(pictures.answers)
        self._prompts: PromptSession[str] = PromptSession(
            message=self._message,
            prompt_continuation=self._continuation,
            lexer=DynamicLexer(lambda: self._lexers[self.mode]),
            history=self._histories[self.mode],
            completer=SessionCompleter(input_help, self),
            complete_in_thread=True,
            complete_while_typing=False,
            style=CODE_STYLE,
            include_default_pygments_style=False,
            complete_style=CompleteStyle.MULTI_COLUMN,
            multiline=True,
            editing_mode=EditingMode.EMACS if keys == "standard" else EditingMode.VI,
            enable_open_in_editor=True,
            tempfile_suffix=".py",
            enable_suspend=True,
            input=self._keyboard,
            output=self._output,
            key_bindings=self._key_bindings(),
        )
        self._app.after_render += self._ask_terminal

    @property
    def _app(self) -> Application[str]:
        return self._prompts.app

    @property
    def can_edit(self) -> bool:
        return True

    def read_input(self, number: int) -> TypedInput:
        self._number = number
        draft = self.draft
        self.draft = ""
        self._prompts.default_buffer.history = self._histories[self.mode]
        if self._has_asked_terminal and not self._pictures.answers.awaited:
            text = self._prompts.prompt(default=draft)
        else:
            text = self._read_with_answers(draft)
        self._send(OUTPUT_MARK)
        return TypedInput(self.mode, text.strip("\n"))

    def _read_with_answers(self, draft: str) -> str:
        """Return the next input once the terminal's answers have come.

        A cell that runs then would read late answers as its input.
        """
        text = ""
        with self._keyboard.without_echo():
            try:
                text = self._prompts.prompt(default=draft)
            finally:
                # Also after an exception, because the next thing to read may be the answer to a question.
                self._wait_for_answers(text)
        return text

    def _wait_for_answers(self, text: str) -> None:
        """Wait for the terminal's answers for a while. What is typed meanwhile is for the next prompt.

        Args:
            text: What was entered; it becomes the next draft if the user interrupts the waiting.
        """
        keys: list[KeyPress] = []
        try:
            while (wait_s := self._pictures.answers.wait_s) and not self._keyboard.closed:
                if select.select([self._keyboard.fileno()], [], [], wait_s)[0]:
                    keys += self._keyboard.read_keys()
        except KeyboardInterrupt:
            self.draft = text or self.draft
            raise
        finally:
            store_typeahead(self._keyboard, keys + self._keyboard.flush_keys())

    def read_answer(self, label: str, *, is_hidden: bool = False) -> str:
        bindings = KeyBindings()

        @bindings.add(Keys.ControlG)
        def go_to_full_screen(event: KeyPressEvent) -> None:
            event.app.exit(exception=FullScreenWanted())

        line: PromptSession[str] = PromptSession(
            input=self._keyboard, output=self._output, key_bindings=bindings
        )
        return line.prompt(one_line(label), is_password=is_hidden)

    def _ask_terminal(self, _: Application[str]) -> None:
        """Ask the terminal what it can draw, if it was not asked yet. This prompt reads its answers."""
        if not self._has_asked_terminal:
            self._has_asked_terminal = True
            self._send(self._pictures.answers.ask())

    def _send(self, sequence: str) -> None:
        """Write an escape sequence that shows nothing."""
        self._output.write_raw(sequence)
        self._output.flush()

    def write_while_typing(self, write: Callable[[], None]) -> bool:
        return self._call(lambda: run_in_terminal(write))

    def interrupt(self) -> None:
        self._call(lambda: self._end(Interrupted()))

    def _call(self, function: Callable[[], Any]) -> bool:
        """Let the thread of the prompt call a function soon. Any thread may call this.

        Return False if there is no prompt.
        """
        loop = self._app.loop
        context = self._app.context
        if loop is None or context is None or not self._app.is_running:
            return False
        loop.call_soon_threadsafe(function, context=context)
        return True

    def _end(self, reason: Exception) -> None:
        """End the prompt with an exception; what is typed comes back with the next one."""
        if self._app.is_running and not self._app.is_done:
            self.draft = self._prompts.default_buffer.text
            self._app.exit(exception=reason)

    def _message(self) -> StyleAndTextTuples:
        """Return what stands before the input: the number of the cell, and Vi's mode."""
        label = self.label(self._number)
        if self._keys != "standard":
            vi_mode = self._app.vi_state.input_mode.removeprefix("vi-")
            label = f"{label.removesuffix(': ')} ({VI_MODES.get(vi_mode, vi_mode)}): "
        return [
            ("[ZeroWidthEscape]", PROMPT_MARK),
            (PROMPT_STYLES[self.mode], label),
            ("[ZeroWidthEscape]", INPUT_MARK),
        ]

    def _continuation(self, width: int, line_number: int, is_soft_wrapped: int) -> str:
        """Return what stands before a further line, or before a wrapped part of a line.

        prompt_toolkit calls this with the width of the message in cells.
        """
        return " " * width if is_soft_wrapped else "...: ".rjust(width)

    def _key_bindings(self) -> KeyBindings:
        """Return the keys of this prompt, beside those of readline or Vi."""
        bindings = KeyBindings()
        is_at_start = Condition(lambda: self._prompts.default_buffer.cursor_position == 0)
        is_in_indent = Condition(lambda: not self._line_before_cursor.strip())
        opens_line = Condition(lambda: self._keys == "vim-multiline") & vi_insert_mode
        has_menu = Condition(lambda: self._prompts.default_buffer.complete_state is not None)

        @bindings.add(MODE_KEY, filter=is_at_start)
        def toggle_mode(event: KeyPressEvent) -> None:
            self.toggle_mode()
            buffer = event.current_buffer
            buffer.history = self._histories[self.mode]
            buffer.reset(Document(buffer.text, 0))

        @bindings.add(Keys.ControlG)
        def go_to_full_screen(event: KeyPressEvent) -> None:
            self._end(FullScreenWanted())

        @bindings.add(Keys.Tab, filter=is_in_indent)
        def indent(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(INDENT)

        @bindings.add(Keys.Enter, filter=~has_menu & ~opens_line)
        def submit(event: KeyPressEvent) -> None:
            self._submit_or_continue(event)

        @bindings.add(Keys.Enter, filter=has_menu)
        def accept_completion(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        @bindings.add(Keys.Enter, filter=~has_menu & opens_line)
        @bindings.add(Keys.Escape, Keys.Enter, filter=emacs_mode)
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            text = clean(event.data)
            if self.mode == "python":
                text = prepare_pasted_python(text, into_empty=not buffer.text)
            buffer.insert_text(text)

        return bindings

    @property
    def _line_before_cursor(self) -> str:
        return self._prompts.default_buffer.document.current_line_before_cursor

    def _submit_or_continue(self, event: KeyPressEvent) -> None:
        """End the prompt if the input is complete; otherwise, begin a new line."""
        buffer = event.current_buffer
        document = buffer.document
        is_at_end = not document.text_after_cursor.strip()
        may_run = is_at_end or document.line_count == 1
        if self.mode == "ask" or (may_run and is_complete(buffer.text)):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n" + next_indent(document.text_before_cursor))
