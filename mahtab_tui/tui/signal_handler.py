"""Restores the terminal when a signal ends the application, and when code changes the terminal's
attributes.

Python runs signal handlers on the main thread, which may be busy. So a thread does the work: it
gets the signal's number at once through the pipe of `signal.set_wakeup_fd`. Once a second it also
checks whether code has changed the terminal's attributes, which a cell can do that opens the
terminal by name.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Callable
from types import FrameType
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from mahtab_tui.system.processes import SHELL_CODE, exit_by_signal
from mahtab_tui.tui.graphics.answers import KITTY_CLEARED
from mahtab_tui.tui.terminal_driver import TerminalDriver

_NAMES = "HUP INT QUIT ABRT ALRM TERM USR1 USR2 XCPU IO PWR STKFLT".split()
ENDING = tuple(getattr(signal, f"SIG{name}") for name in _NAMES if hasattr(signal, f"SIG{name}"))
"""The signals that end a program which does not handle them, as far as they can be handled and are
not used within (as SIGVTALRM is)."""

SAVING, DRAWING = 5.0, 1.0
"""Seconds for saving what is not saved yet, and for each write to the terminal."""

_LOOK = 1.0
"""Seconds between two checks of the terminal's attributes."""

_GIVEN_BACK = "".join(
    (
        "\x1b\\",  # the end of whatever was cut off
        "\x1b[?2026l",  # draw at once
        "\x1b[?2004l",  # pastes are typed
        "\x1b[?7h",  # lines wrap
        "\x1b[?2048l\x1b[?1016l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l",  # size, mouse and focus are not told
        "\x1b[<u",  # the keyboard's own protocol
        "\x1b[?1049l\x1b[?25h\x1b[0m",  # the screen of before, with its cursor and in its colour
    )
).encode()
"""Undoes everything that `LinuxDriver.start_application_mode` sends to the terminal."""


class SignalHandler:
    """A context in which an application runs, on the main thread."""

    def __init__(
        self,
        app: App[Any],
        last_words: Callable[[], object] = lambda: None,
        on_repair: Callable[[], object] = lambda: None,
    ) -> None:
        """last_words: saves what is not saved yet, and ends what would go on; called on a thread,
        for `SAVING` at most. on_repair: called after code had changed the terminal."""
        self._app = app
        self._last_words = last_words
        self._on_repair = on_repair
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._write_end = -1

    def __enter__(self) -> SignalHandler:
        if threading.current_thread() is not threading.main_thread():
            return self
        read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        threading.Thread(target=self._watch, args=(read_end,), name="signals", daemon=True).start()
        self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self._hold)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._write_end < 0:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._write_end)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        """Stop the main thread; the other thread ends the process."""
        os.write(
            self._write_end, bytes([number])
        )  # while another program has the terminal, `set_wakeup_fd` writes nothing
        threading.Event().wait(SAVING + 3 * DRAWING)
        os._exit(SHELL_CODE + number)

    def _watch(self, read_end: int) -> None:
        while True:
            if not select.select([read_end], [], [], _LOOK)[0]:
                if (driver := self._driver()) is not None and _changed_attributes(
                    driver
                ) is not None:
                    self._app.call_later(self._repair)
                continue
            numbers = os.read(read_end, 64)
            if not numbers:
                os.close(read_end)
                return
            for number in numbers:
                if number in self._before:
                    self._end(number)

    def _end(self, number: int) -> None:
        try:
            _within(SAVING, self._last_words)
            if (driver := self._driver()) is not None:
                writer = driver._writer_thread
                if writer is not None:
                    _within(DRAWING, writer.stop)  # finish what is being drawn
                _give_back(driver)
        finally:
            exit_by_signal(number)

    def _driver(self) -> LinuxDriver | None:
        """The driver, while it has the terminal: not before the screen is up, after it is closed,
        or while another program has the terminal."""
        driver = self._app._driver
        if (
            isinstance(driver, LinuxDriver)
            and (keys := driver._key_thread) is not None
            and keys.is_alive()
        ):
            return driver
        return None

    def _repair(self) -> None:
        driver = self._driver()
        if driver is not None and (attributes := _changed_attributes(driver)) is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(driver.fileno, termios.TCSANOW, attributes)
            self._app.refresh(layout=True)
            self._on_repair()


def _changed_attributes(driver: LinuxDriver) -> list[Any] | None:
    """The attributes that the driver has set, if the terminal has others now."""
    if driver.attrs_before is None:
        return None
    try:
        now = termios.tcgetattr(driver.fileno)
    except termios.error:
        return None
    wanted = list(driver.attrs_before)
    wanted[tty.IFLAG], wanted[tty.LFLAG] = (
        driver._patch_iflag(wanted[tty.IFLAG]),
        driver._patch_lflag(wanted[tty.LFLAG]),
    )
    if now[: tty.ISPEED] == wanted[: tty.ISPEED]:
        return None
    wanted[tty.CC] = [
        1 if place == termios.VMIN else value for place, value in enumerate(wanted[tty.CC])
    ]
    return wanted


def _give_back(driver: LinuxDriver) -> None:
    """Close the screen and restore the terminal's attributes, if this process still has the
    terminal."""
    with contextlib.suppress(OSError, termios.error):
        if os.tcgetpgrp(driver.fileno) != os.getpgrp():
            return
        if driver.attrs_before is not None:
            termios.tcsetattr(driver.fileno, termios.TCSANOW, driver.attrs_before)
        assert driver._file is not None
        screen = driver._file.fileno()
        if select.select([], [screen], [], DRAWING)[
            1
        ]:  # a blocked terminal must not keep the program alive
            cleared = (
                KITTY_CLEARED
                if isinstance(driver, TerminalDriver) and driver.graphics == "kitty"
                else ""
            )
            os.write(screen, cleared.encode() + _GIVEN_BACK)


def _within(seconds: float, work: Callable[[], object]) -> None:
    """Do some work, and wait for it at most so long, because a hanging thread may hold what it
    needs."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
