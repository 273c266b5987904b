"""Keys that were typed before the screen was there count as if it had been."""

from __future__ import annotations

import os
import select
import signal
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_CHUNK = 4096


class TypedAheadDriver(LinuxDriver):
    """Until a program takes the keys over, the terminal collects them as lines, whose Enter it hands on as a line feed: Ctrl+J."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._before = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
        super().__init__(*args, **kwargs)

    def close(self) -> None:
        """End drawing. Ctrl+Z from now on is no longer for a screen that could come back."""
        super().close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _run_input_thread(self) -> None:
        # The first thing that is done once the keys come as they are; what waits now was typed before.
        if self.input_tty and select.select([self.fileno], [], [], 0)[0]:
            waiting = os.read(self.fileno, _CHUNK).decode("utf-8", "replace")
            for event in XTermParser(self._debug).feed(waiting.replace("\n", "\r")):
                self.process_message(event)
        super()._run_input_thread()
