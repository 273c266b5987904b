"""The log of all evaluated code, which the user can follow live."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from io import TextIOWrapper
from pathlib import Path
from typing import Literal

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.mcp.formatting import highlighted, safe
from mahtab_tui.settings.model import home_folder

ViewerMode = Literal["auto", "file", "off"]

LARGEST = 10_000_000
"""A log with more bytes is renamed (``repl.log.1``) when it is opened."""


def log_file() -> Path:
    return home_folder() / "logs" / "repl.log"


class Journal:
    """The log file. Any thread may write."""

    def __init__(self, mode: ViewerMode = "off", secrets: Secrets | None = None) -> None:
        self._secrets = secrets or Secrets()
        self._lock = threading.Lock()
        self._file: TextIOWrapper | None = None
        self.mode: ViewerMode = "off"
        self.set_mode(mode)

    def set_mode(self, mode: ViewerMode) -> None:
        """Set how to write: ``auto`` in colour, for a terminal; ``file`` as plain text; ``off``.
        Raises `OSError`."""
        with self._lock:
            if mode != "off" and self._file is None:
                self._file = _opened(log_file())
            elif mode == "off":
                self._end()
            self.mode = mode

    def code(self, cell: int, who: str, code: str) -> None:
        head = f"── In [{cell}] · {who} · {time.strftime('%H:%M:%S')} ──"
        code = visible(self._secrets.mask(code))
        shown = highlighted(code, "python") if self.mode == "auto" else code
        self._write(f"\n{self._dim(head)}\n{shown}\n")

    def output(self, kind: OutputKind, text: str) -> None:
        text = self._secrets.mask(text)
        self._write(safe(text) if self.mode == "auto" else plain(text))

    def end(self, cell: int, how: str, seconds: float) -> None:
        self._write(self._dim(f"── [{cell}] {how} · {seconds:.3g} s ──") + "\n")

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.mode == "auto" else text

    def _write(self, text: str) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(text)
                self._file.flush()
            except OSError as error:  # must not affect the cell
                self._end()
                self.mode = "off"
                print(
                    f"mahtab-tui: {log_file()} cannot be written: {error.strerror}. Logging has stopped.",
                    file=sys.stderr,
                )

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # the disk is full, so the rest is lost
                file.close()


def _opened(path: Path) -> TextIOWrapper:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LARGEST:
        path.replace(path.with_name(path.name + ".1"))
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return TextIOWrapper(os.fdopen(fd, "wb"), encoding="utf-8", errors="replace")
