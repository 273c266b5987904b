"""What a worker without a person tells and asks."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mahtab_tui.kernel.base import HostFunction, KernelInfo, OutputKind

LATE = 20_000
"""Characters that are kept of what is printed between cells."""


class WorkerHost:
    """`kernel.base.KernelHost` without a person: what is printed between cells is kept for the next answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late = ""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """A cell's result says what became of its kernel."""

    def late_output(self, text: str) -> None:
        with self._lock:
            self._late = (self._late + text)[-LATE:]

    def functions(self) -> Sequence[HostFunction]:
        return ()

    def take_late(self) -> str:
        """What was printed between cells since it was last taken."""
        with self._lock:
            late, self._late = self._late, ""
        return late

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        if name == "quit":
            return None
        raise RuntimeError(f"{name}() needs a person or a model, and this Python has neither.")

    def call_cancelled(self, name: str) -> None:
        """Calls end at once."""


class Printed:
    """What a running cell has printed, for whoever looks in between."""

    def __init__(self) -> None:
        self._characters = 0
        self._last_line = ""

    def add(self, kind: OutputKind, text: str) -> None:
        """Called on the kernel's thread."""
        self._characters += len(text)
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            self._last_line = lines[-1].strip()[:200]

    def sentence(self, seconds: float) -> str:
        said = f"; last line: {self._last_line}" if self._last_line else ""
        return f"running for {seconds:.0f} s, {self._characters:,} characters printed{said}"
