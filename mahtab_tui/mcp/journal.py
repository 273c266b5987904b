"""The log of what an agent runs, for `tail -f`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.settings.model import home_folder


def log_file() -> Path:
    return home_folder() / "logs" / "repl.log"


class Journal:
    """The log of evaluated code and its output, for `tail -f`."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._file: IO[str] | None = None

    @property
    def is_on(self) -> bool:
        return self._file is not None

    def switch(self, on: bool) -> None:
        """Begin or end writing. Raises `OSError`."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if on:
            path = log_file()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")

    def write_code(self, cell: object, author: str, code: str) -> None:
        if self._file is not None:
            head = f"── In [{cell}] · {author} · {time.strftime('%H:%M:%S')} ──"
            self._write(self._file, f"\n{head}\n{visible(self._secrets.mask(code))}\n")

    def write_output(self, text: str) -> None:
        if self._file is not None:
            self._write(self._file, plain(self._secrets.mask(text)))

    def _write(self, file: IO[str], text: str) -> None:
        try:
            file.write(text)
            file.flush()
        except OSError:
            self._file = None  # the disk is full, but cells can still run
