"""The linear interface, in which the user types below what was written.

Two threads work here. The main thread reads inputs and, while something runs, writes what happens. While
the prompt is open, another thread writes what happens, through the prompt.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.display_handler import DisplayHandler
from mahtab_tui.bus.notifications import LONG_CELL_S, notification_sequence
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.linear.commands import COMMANDS, CommandContext, run_command
from mahtab_tui.linear.line_writer import LineWriter, terminal_size
from mahtab_tui.linear.pictures import PictureDrawer
from mahtab_tui.linear.plain_prompt import PlainPrompt
from mahtab_tui.linear.prompts import FullScreenWanted, Interrupted, Prompt, TypedInput
from mahtab_tui.linear.questions import Questions, Unanswered
from mahtab_tui.linear.record_printer import RecordPrinter
from mahtab_tui.session.open_session import (
    Draft,
    InterfaceResult,
    OpenSession,
    SessionInputHelp,
    complete_command,
    parse_slash,
    unsaved_items,
)
from mahtab_tui.session.session_commands import data_variables
from mahtab_tui.system import (
    TERMINATION_SIGNALS,
    TerminationHandler,
    signal_handled_by,
    start_thread,
)

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completions

POLL_S = 0.05
"""How long it waits before it looks again at what the session has done."""
SHELL_PREFIX = "!"
"""Begins a shell command, in the mode for questions, too."""
GREETING = (
    "One Python namespace, shared by you and a language model.",
    "Type Python; a backtick (`) at the start asks the model. /help lists commands.",
)
PIPE_CLOSED_CODE = 1
"""The exit code if nobody reads what is written any more."""


def show_lines(opened: OpenSession, *, is_plain: bool) -> InterfaceResult:
    """Let the user work in the linear interface, until the user leaves it.

    Args:
        opened: The session, which may have been in another interface until now.
        is_plain: Whether nothing is coloured or drawn again.

    Returns:
        How the program ends, or in which interface the session goes on.
    """
    interface = LinearInterface(opened, is_plain=is_plain)
    opened.frontend.current = interface
    try:
        with _SignalHandler(opened), signal_handled_by(signal.SIGWINCH, interface.note_size):
            return interface.run()
    except BrokenPipeError:
        # Nobody reads what is written. Python would write again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return InterfaceResult(exit_code=PIPE_CLOSED_CODE)
    finally:
        opened.frontend.current = None
        interface.close()


class _SignalHandler(TerminationHandler):
    """Ends the program by a signal, with the terminal as it was before."""

    def __init__(self, opened: OpenSession) -> None:
        signals = [number for number in TERMINATION_SIGNALS if number != signal.SIGINT]
        super().__init__(opened.save_for_signal, signals)
        self._attributes: list[Any] | None = None
        """The terminal's attributes, as `termios` reads them; None without a terminal."""
        with contextlib.suppress(termios.error):
            self._attributes = termios.tcgetattr(0)

    def release_terminal(self) -> None:
        if self._attributes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._attributes)


class LinearInterface:
    """The `Frontend` of a session whose user types line by line. While something runs, there is no
    prompt; `Ctrl+C` stops it."""

    can_ask = True
    belongs_to_agent = False

    def __init__(self, opened: OpenSession, *, is_plain: bool) -> None:
        """The arguments are the same as for `show_lines`."""
        self._opened = opened
        self._session = opened.session
        self._writer = LineWriter(is_plain=is_plain)
        self._pictures = PictureDrawer(self._writer, opened.session.settings.pictures)
        kernel_folder = "" if self._session.settings.kernel else os.getcwd()
        self._printer = RecordPrinter(self._writer, self._pictures.draw, kernel_folder)
        self._prompt = self._make_prompt(is_plain)
        self._prompt.mode = opened.draft.mode
        self._prompt.draft = opened.draft.text
        self._questions = Questions(self._session, self._writer, self._printer, self._prompt)
        self._context = CommandContext(
            self._session, self._writer, self._printer, self._questions, opened.screen_problem
        )
        self._arrived = threading.Event()
        """Set when the first of new records waits."""
        self._handler = DisplayHandler(self._arrived.set)
        self._printing = threading.RLock()
        """Held by the thread that writes records."""
        self._is_typing = False
        """Whether the prompt is open."""
        self._is_lent = False
        """Whether another program has the terminal."""
        self._is_leaving = False
        """Whether the user leaves after the present input."""
        self._interrupt_count = 0
        """How often the user has pressed Ctrl+C since something runs."""
        self._has_new_size = True
        """Whether the kernel does not know the present size of the terminal."""
        self._last_entry_s = time.monotonic()
        """When the user has entered something last, in seconds of the monotonic clock."""
        self._notification_mode = self._session.settings.notifications

    def _make_prompt(self, is_plain: bool) -> Prompt:
        def complete(text: str, cursor: int) -> Completions | None:
            return complete_command(text, cursor, COMMANDS)

        input_help = SessionInputHelp(self._session, complete)
        history = self._opened.history
        if is_plain:
            return PlainPrompt(input_help, history, self._writer)
        from mahtab_tui.linear.drawn_prompt import DrawnPrompt

        keys = self._session.settings.keys
        return DrawnPrompt(input_help, history, self._pictures, keys)

    # What the session asks for, on its threads

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program, wait until it ends, and return its exit code.

        Args:
            argv: The program and its arguments.
            cwd: The folder in which it runs.

        Raises:
            RuntimeError: The user is typing, or the program cannot be started. The message is a
                sentence.
        """
        if self._is_typing:
            raise RuntimeError("The terminal is in use: you are typing.")
        self._is_lent = True
        try:
            with self._printing:
                self._drain()
                self._writer.end_line()
                return subprocess.run(list(argv), cwd=cwd, check=False).returncode
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RuntimeError(f"{argv[0]} could not be started: {reason}.") from None
        finally:
            self._is_lent = False

    def leave(self) -> None:
        """Leave because a cell has called `exit()`."""
        self._is_leaving = True

    # The user's inputs

    def run(self) -> InterfaceResult:
        """Take inputs until the user leaves."""
        self._start()
        try:
            self._follow()
            while not self._is_leaving:
                self._take_input()
                self._follow()
        except FullScreenWanted:
            self._opened.draft = Draft(self._prompt.mode, self._prompt.draft)
            return InterfaceResult(next_interface="screen")
        self._writer.end_line()
        return InterfaceResult()

    def note_size(self, *_: object) -> None:
        """Note that the terminal has another size. A handler of signals calls this."""
        self._has_new_size = True

    def close(self) -> None:
        """Take no more records."""
        self._is_leaving = True
        self._arrived.set()
        if self._session.built:
            self._session.log.removeHandler(self._handler)

    def _start(self) -> None:
        """Start the session, or go on with it."""
        session = self._session
        session.build()
        if session.is_started:
            self._printer.fold_unfinished(session.follow(self._handler))
        else:
            self._greet()
            self._printer.fold_running_cells(session.follow(self._handler))
            for step in self._opened.take_late_work():
                step()
            session.start()
        start_thread("linear-notes", self._write_while_typing)

    def _greet(self) -> None:
        for line in GREETING:
            self._writer.write_line(line, "muted")
        if self._session.past:
            text = "The session goes on; /points lists what was before."
            self._writer.write_line(text, "muted")

    def _take_input(self) -> None:
        """Read an input, and do what it says."""
        try:
            typed = self._read_input()
        except (Interrupted, KeyboardInterrupt):
            return
        except EOFError:
            self._is_leaving = self._may_leave()
            return
        try:
            self._do(typed)
        except EOFError:
            self._is_leaving = self._may_leave()
        except Unanswered:
            self._writer.leave_line()
            self._writer.write_line("Nothing was done.", "highlight")
        except KeyboardInterrupt:
            # The kernel goes on with what it was asked for.
            self._writer.leave_line()
            self._writer.write_line("Stopped waiting; it may still have been done.", "highlight")

    def _read_input(self) -> TypedInput:
        """Open the prompt, and return what the user enters. Raises what `Prompt.read_input` raises."""
        self._opened.report_history()
        self._drain()
        self._writer.end_line()
        self._is_typing = True
        # Records that came meanwhile wake nobody.
        self._arrived.set()
        try:
            return self._prompt.read_input(self._session.cells.last + 1)
        except (EOFError, KeyboardInterrupt):
            if self._writer.is_plain:
                # The terminal's cursor stays behind the prompt.
                self._writer.leave_line()
                self._writer.end_line()
            raise
        finally:
            self._is_typing = False

    def _do(self, typed: TypedInput) -> None:
        """Run a command or a cell, or ask a question."""
        mode, text = typed
        self._last_entry_s = time.monotonic()
        # Another size may have come while the prompt was open.
        self._has_new_size = True
        self._send_size()
        if not text.strip():
            # With Enter, the user may also have made room for a question.
            if not self._printer.requests:
                self._session.inbox.release()
            return
        self._opened.history.add(text, mode)
        command = parse_slash(text)
        if command is not None and (mode == "ask" or command.name in COMMANDS):
            run_command(self._context, command.name, command.argument)
            return
        if text.startswith(SHELL_PREFIX):
            mode = "python"
        self._printer.typed_code = text if mode == "python" else ""
        self._session.submit(mode, text, joins=mode == "ask")

    def _may_leave(self) -> bool:
        """Return whether to leave now; ask the user if something would be lost."""
        try:
            items = unsaved_items(self._session, self._count_created())
            if not items:
                return True
            question = f"Leave? You would lose {', '.join(items)}."
            return self._questions.confirm(question, yes="Leave", no="Stay")
        except KeyboardInterrupt:
            return False

    def _count_created(self) -> int:
        """Return how many variables would be lost if nothing saves them."""
        if self._opened.keeps_namespace:
            return 0
        try:
            return len(data_variables(self._session))
        except KernelError:
            return 0

    # What runs

    def _follow(self) -> None:
        """Write what happens, and ask what the session asks, until nothing runs."""
        self._interrupt_count = 0
        handled_count = 0
        # The time without a message begins here.
        self._writer.show_progress("")
        # Counted, because an exception could be raised anywhere.
        with signal_handled_by(signal.SIGINT, self._count_interrupt):
            while not self._is_idle() or self._printer.requests:
                time.sleep(POLL_S)
                self._drain()
                self._send_size()
                if not self._is_lent:
                    self._ask_or_show_progress()
                if self._interrupt_count > handled_count:
                    handled_count = self._interrupt_count
                    self._stop()
        self._drain()
        self._writer.show_progress("")

    def _ask_or_show_progress(self) -> None:
        if self._printer.requests:
            self._ask()
            return
        with self._printing:
            self._writer.show_progress(self._printer.progress)

    def _is_idle(self) -> bool:
        """Return whether nothing runs, waits or starts, so that the user can type."""
        session = self._session
        if not session.ready.done():
            # The kernel starts, unless the user does not want to wait for it.
            return bool(self._interrupt_count)
        runs = session.cells.running or session.agent.in_turn
        return session.inbox.idle and not runs and not self._loads_files()

    def _loads_files(self) -> bool:
        """Return whether the files that were given are still being loaded."""
        session = self._session
        if session.past or session.ready.exception() is not None or self._interrupt_count:
            return False
        return session.cells.last < len(session.files)

    def _drain(self) -> None:
        """Write the records that wait, and notify a user who has not entered anything for long."""
        with self._printing:
            new_records = self._handler.pop_records()
            self._printer.fold(new_records)
            if time.monotonic() - self._last_entry_s < LONG_CELL_S:
                return
            for record in new_records:
                self._writer.notify(notification_sequence(record, self._notification_mode))

    def _write_while_typing(self) -> None:
        """Write what happens while the prompt is open. Runs on a thread."""
        while not self._is_leaving:
            self._arrived.wait()
            self._arrived.clear()
            while self._is_typing and self._handler.has_records:
                if self._prompt.write_while_typing(self._drain_while_typing):
                    break
                # The prompt is about to open, or was closed.
                time.sleep(POLL_S)

    def _drain_while_typing(self) -> None:
        """Write the records that wait; if one of them asks the user something, end the prompt."""
        with contextlib.suppress(BrokenPipeError):  # the main thread notices it, too
            self._drain()
        if self._printer.requests:
            self._prompt.interrupt()

    def _send_size(self) -> None:
        """Tell the kernel how wide and high its output is written."""
        if not self._has_new_size:
            return
        self._has_new_size = False
        size = terminal_size()
        if size is not None:
            self._session.kernel.set_size(*size)

    def _ask(self) -> None:
        """Ask the user about the oldest request."""
        request = self._printer.requests.popleft()
        try:
            with signal_handled_by(signal.SIGINT, signal.default_int_handler):
                self._questions.ask(request)
            self._last_entry_s = time.monotonic()
        except KeyboardInterrupt:
            self._writer.leave_line()
            self._writer.end_line()
            self._interrupt_count += 1

    def _stop(self) -> None:
        """Stop what runs; if it does not end, offer to kill the kernel."""
        cells = self._session.cells
        if self._interrupt_count == 1 or not cells.running:
            self._session.stop()
            return
        self._writer.leave_line()  # the terminal has written ^C
        question = (
            "The cell is still running. Kill the kernel? Variables that are not saved are lost."
        )
        with (
            contextlib.suppress(KeyboardInterrupt),
            signal_handled_by(signal.SIGINT, signal.default_int_handler),
        ):
            if self._questions.confirm(question, yes="Kill", no="Wait"):
                self._session.kernel_control.kill()

    def _count_interrupt(self, *_: object) -> None:
        if not self._is_lent:
            self._interrupt_count += 1
