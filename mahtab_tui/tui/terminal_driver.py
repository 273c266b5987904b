"""The driver: keeps keys that were typed before the screen was up, and separates the terminal's
answers from keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from mahtab_tui.settings.model import PictureMode
from mahtab_tui.tui.graphics.answers import KITTY_CLEARED, Protocol, TerminalAnswers
from mahtab_tui.tui.output_filter import let_out
from mahtab_tui.tui.textual_fixes.key_sequences import KeyParser, KeySequences

_CHUNK = 4096
_SILENCE = 0.1
"""Seconds after which a key that could begin a sequence counts as a key."""


class TerminalDriver(LinuxDriver):
    """Translates early keys: until a program reads single keys, the terminal collects lines, and
    Enter arrives as a line feed, which is Ctrl+J."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._before = {
            number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)
        }
        super().__init__(*args, **kwargs)
        self.pictures: PictureMode = "auto"
        """How to draw pictures."""
        self.answers = TerminalAnswers()
        self.stops = 0
        """How often the application left the terminal."""
        self._left = False
        self._asked = False
        self._answered: Callable[[], object] = lambda: None

    def write(self, data: str) -> None:
        """Write what Textual makes: the screen, or a command to the terminal."""
        super().write(let_out(data))

    def send(self, data: str) -> None:
        """Write what this application makes for the terminal: graphics, queries, notifications.
        Never text from outside."""
        super().write(data)

    def stop_application_mode(self) -> None:
        self.stops += 1
        if self.graphics == "kitty":
            self.send(KITTY_CLEARED)
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        self._left = True
        super().suspend_application_mode()  # which closes it
        signal.signal(signal.SIGTSTP, self._sigtstp_application)
        signal.signal(signal.SIGCONT, self._sigcont_application)

    def _sigcont_application(self, *_: object) -> None:
        if (
            self._auto_restart and self._left
        ):  # after SIGSTOP the application still has the terminal
            self.resume_application_mode()
            self._app.call_later(self._app.refresh, layout=True)

    def resume_application_mode(self) -> None:
        self._left = False
        super().resume_application_mode()

    def close(self) -> None:
        """Stop drawing, and restore the handlers of Ctrl+Z."""
        super().close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run_input_thread(self) -> None:
        try:
            self._read_keys()
        except (
            Exception
        ) as error:  # the thread's outermost frame: without keys the application has to end
            self._app.call_later(self._app._handle_exception, error)

    def _read_keys(self) -> None:
        """Read keys as Textual does, but remove the terminal's answers, and what is no key,
        first."""
        parser, sequences = KeyParser(self._debug), KeySequences()
        decode = getincrementaldecoder("utf-8")("replace").decode
        # What is waiting now was typed before single keys could be read.
        before = self.input_tty
        wait = 0.0
        while not self.exit_event.is_set():
            silent = not select.select([self.fileno], [], [], wait)[0]
            if silent:
                typed = sequences.take(self.answers.silence()) + sequences.silence()
            else:
                typed = decode(os.read(self.fileno, _CHUNK))
                typed = sequences.take(
                    self._without_answers(typed.replace("\n", "\r") if before else typed)
                )
            if typed:  # the parser treats an empty text as the end of input
                for event in parser.feed(typed):
                    self.process_message(event)
            if silent:
                for event in parser.silence():
                    self.process_message(event)
            before, wait = False, _SILENCE

    def _without_answers(self, typed: str) -> str:
        awaited = self.answers.awaited
        typed, question = self.answers.take(typed)
        if question:
            self.send(question)
        if awaited and not self.answers.awaited:
            self._answered()
        return typed

    def ask_for_graphics(self, answered: Callable[[], object]) -> None:
        """Ask the terminal once which graphics it has. `answered` is called on another thread when
        it answers, which may be never."""
        self._answered = answered
        if (
            self._asked
            or self.pictures == "blocks"
            or (self.pictures == "auto" and not _can_be_asked())
        ):
            return
        self._asked = True
        self.send(self.answers.ask())

    @property
    def graphics(self) -> Protocol | None:
        """The protocol that draws pictures; None for half blocks."""
        if self.pictures == "auto":
            return None if self.answers.awaited else self.answers.protocol
        return None if self.pictures == "blocks" else self.pictures

    @property
    def cell_size(self) -> tuple[int, int] | None:
        """Width and height of a cell in pixels; None if the terminal does not tell."""
        with contextlib.suppress(OSError):
            rows, columns, width, height = struct.unpack(
                "4H", fcntl.ioctl(self.fileno, termios.TIOCGWINSZ, bytes(8))
            )
            if rows and columns and width >= columns and height >= rows:
                return width // columns, height // rows
        return self.answers.cell


def _can_be_asked() -> bool:
    """Whether the terminal ignores unknown queries, and passes graphics on."""
    term = os.environ.get("TERM", "")
    return (
        not term.startswith(("tmux", "screen", "linux", "dumb"))
        and os.environ.get("TERM_PROGRAM") != "Apple_Terminal"
    )
