"""The log of what an agent runs, for `tail -f`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.mcp.output_form import highlight_text, keep_colours
from mahtab_tui.settings.model import home_folder


def log_file() -> Path:
    """Return the file of the log, whether or not it is written."""
    return home_folder() / "logs" / "repl.log"


class CodeLog:
    """The log of evaluated code and its output, for `tail -f`."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._file: IO[str] | None = None
        self._in_colour = False

    @property
    def is_on(self) -> bool:
        """Whether the log is written."""
        return self._file is not None

    def open(self, *, in_colour: bool) -> None:
        """Begin to write, or go on in another form. Raises `OSError`."""
        self.close()
        path = log_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
        self._in_colour = in_colour

    def close(self) -> None:
        """Stop writing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def write_code(self, cell: object, author: str, code: str) -> None:
        """Write the code of a cell, if the log is on.

        Args:
            cell: The cell's number.
            author: Who has run it.
            code: Its code.
        """
        if self._file is not None:
            head = f"── In [{cell}] · {author} · {time.strftime('%H:%M:%S')} ──"
            code = visible(self._secrets.mask(code))
            if self._in_colour:
                code = highlight_text(code, "python")
            self._write(self._file, f"\n{head}\n{code}\n")

    def write_output(self, text: str) -> None:
        """Write a piece of output, if the log is on."""
        if self._file is not None:
            clean = keep_colours if self._in_colour else plain
            self._write(self._file, clean(self._secrets.mask(text)))

    def _write(self, file: IO[str], text: str) -> None:
        """Write a text, or end the log if that is impossible."""
        try:
            file.write(text)
            file.flush()
        except OSError:
            self._file = None  # the disk is full, but cells can still run
