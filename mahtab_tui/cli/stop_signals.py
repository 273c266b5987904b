"""Lets signals stop what a session without a screen does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mahtab_tui.system import exit_by_signal

if TYPE_CHECKING:
    from mahtab_tui.session import Session

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_DELAY_S = 2.0
"""Seconds that a signal waits for the running cell before it ends the program."""


class StopSignals:
    """Within its block, signals stop what the session does.

    At the end of the block, a signal that ends programs ends this one.
    """

    def __init__(self, session: Session) -> None:
        self.received: list[int] = []
        """The numbers of the signals that have arrived."""
        self._session = session
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._interrupts = False
        """Whether a signal also raises `KeyboardInterrupt`."""

    def __enter__(self) -> StopSignals:
        for number in STOP_SIGNALS:
            # Signals ignored by nohup, for example, stay ignored.
            if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous_handlers[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        for signal_number in self.received:
            if signal_number != signal.SIGINT:
                exit_by_signal(signal_number)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let a signal end the block, which only waits for input, with `KeyboardInterrupt`."""
        self._interrupts = True
        try:
            if self.received:
                raise KeyboardInterrupt
            yield
        finally:
            self._interrupts = False

    def _stop(self, signal_number: int, frame: object) -> None:
        """Handle a signal. frame: what Python passes to handlers."""
        self.received.append(signal_number)
        # The program ends soon even if the running cell cannot be stopped.
        if signal_number != signal.SIGINT:
            exit_timer = threading.Timer(EXIT_DELAY_S, exit_by_signal, (signal_number,))
            exit_timer.daemon = True
            exit_timer.start()
        self._session.stop()
        if self._interrupts:
            raise KeyboardInterrupt
