"""Signals that wait while something is created or ended that must not be lost, such as a child process.

The checkpoints of an undo, and what kernel and witness say to each other, are protected in this way.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Callable

_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))
"""The numbers of all signals."""
_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""The function behind `signal.getsignal`, which is quicker, because it creates no enum members."""


class HeldSignals:
    """Keeps back the signals that Python functions handle while this thread creates and ends what must
    not be lost, such as a child process. They are handled after the block.

    Blocking a signal does not help: the system gives it to another thread, and Python then calls its
    function on the main thread, between any two instructions. So other functions take their place,
    which only note the signal. Does nothing on other threads, where Python handles no signals."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        """The functions that handle signals outside this block, by the signal's number."""
        self._noted: dict[int, None] = {}
        """Signals that have come and are not handled yet, in order."""
        self._is_passing = False
        """Whether a signal is handled at once."""

    def __enter__(self) -> HeldSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        try:
            for number in _SIGNALS:
                handler = _getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    # Before it does this, Python handles the signals that have come.
                    signal.signal(number, self._note)
        except BaseException as error:  # raised by the function of another signal
            self._end(type(error))
            raise
        return self

    def __exit__(self, error_class: type[BaseException] | None, *_: object) -> None:
        self._end(error_class)

    @contextmanager
    def passed_on(self) -> Iterator[None]:
        """Handle signals at once in this block.

        After a function has raised an exception, all further signals wait again, so that nothing
        interrupts the code that handles the exception.
        """
        self._is_passing = True
        try:
            self._handle_noted(None)
            yield
        finally:
            self._is_passing = False

    def fork(self, run: Callable[[], object]) -> int:
        """Fork a process that runs a function and then ends.

        It ignores interrupts, which reach the kernel's whole process group.

        Args:
            run: The function.

        Returns:
            The number of the process.

        Raises:
            OSError: It cannot be forked.
        """
        pid = os.fork()
        if pid:
            return pid
        # Whatever fails in the process, it must not go on as a second kernel.
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            # What came before the fork concerns the kernel.
            self._noted.clear()
            self._is_passing = False
            self._restore_handlers()
            run()
        finally:
            os._exit(0)

    def _end(self, error_class: type[BaseException] | None) -> None:
        """Handle signals at once again, and those that were kept back.

        Args:
            error_class: The class of the exception that ends the block; None if none does.
        """
        try:
            self._restore_handlers()
        finally:
            if error_class is not None and issubclass(error_class, KeyboardInterrupt):
                # One interrupt ends the block; another that came with it would end what handles this.
                self._noted.pop(signal.SIGINT, None)
            self._repeat_noted()

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Keep a signal back. This takes the place of its function, with the same parameters."""
        self._noted[number] = None
        if self._is_passing:
            self._handle_noted(frame)

    def _handle_noted(self, frame: FrameType | None) -> None:
        """Handle the signals that were kept back, in order. Raises what their functions raise."""
        while self._noted:
            # Further signals wait while a function runs, and after it has raised an exception.
            self._is_passing = False
            number = next(iter(self._noted))
            del self._noted[number]
            self._handlers[number](number, frame)
            self._is_passing = True

    def _repeat_noted(self) -> None:
        """Send the noted signals again, each also if the function of another raises an exception."""
        if not self._noted:
            return
        number = next(iter(self._noted))
        del self._noted[number]
        try:
            signal.raise_signal(number)
        finally:
            self._repeat_noted()

    def _restore_handlers(self) -> None:
        """Put the functions of the signals back, all of them, whatever one of them raises meanwhile."""
        try:
            for number, handler in self._handlers.items():
                # A finalizer may have set another one meanwhile.
                if _getsignal(number) == self._note:
                    signal.signal(number, handler)
        except BaseException:  # raised by a function that is in its place again
            self._restore_handlers()
            raise
