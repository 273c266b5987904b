"""Cells that began under an earlier host: what they have printed waits until the session wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mahtab_tui.kernel.base import OnDisplay, OnOutput
from mahtab_tui.kernel.values import Display, OutputKind


class LateListener:
    """Keeps a cell's output until there is a listener, and passes it on then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[OnOutput, OnDisplay], None]] = []
        self._listener: tuple[OnOutput, OnDisplay] | None = None

    def output(self, kind: OutputKind, text: str) -> None:
        self._pass_on(lambda on_output, _: on_output(kind, text))

    def display(self, display: Display) -> None:
        self._pass_on(lambda _, on_display: on_display(display))

    def listen(self, on_output: OnOutput, on_display: OnDisplay) -> None:
        """Pass on what has come, and what will come."""
        with self._lock:
            self._listener = on_output, on_display
            waiting, self._waiting = self._waiting, []
            for tell in waiting:
                tell(on_output, on_display)

    def _pass_on(self, tell: Callable[[OnOutput, OnDisplay], None]) -> None:
        with self._lock:
            if self._listener is None:
                self._waiting.append(tell)
            else:
                tell(*self._listener)
