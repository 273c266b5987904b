"""Keeps the file of a session's notebook up to date, if the user lets the session write it."""

from __future__ import annotations

import logging
import threading

from mahtab_tui.bus.records import warn
from mahtab_tui.session.notebook_file import NotebookFile

WRITE_DELAY_S = 2.0
"""Seconds between a change and updating the file, so that many changes are written at once."""


class NotebookAutosave:
    """Writes a notebook's file a moment after it has changed. Any thread may call it."""

    def __init__(self, file: NotebookFile, log: logging.Logger) -> None:
        """Plan nothing yet.

        Args:
            file: The file. It is written only if it is rewritable.
            log: Gets a warning if the file cannot be written, or is another one from then on.
        """
        self._file = file
        self._log = log
        self._timer: threading.Timer | None = None
        """Runs until the file is written; None if that is not planned."""
        self._has_ended = False
        self.problem = ""
        """Why the file could not be written when that was last tried, as a sentence; empty if it
        could."""

    @property
    def is_working(self) -> bool:
        """Whether changes are written automatically, and the last ones could be."""
        return self._file.loaded.rewritable and not self.problem

    def schedule(self) -> None:
        """Write the file after `WRITE_DELAY_S`, unless that is planned already."""
        if self._timer is None and self._may_write():
            self._timer = threading.Timer(WRITE_DELAY_S, self._write)
            self._timer.daemon = True
            self._timer.start()

    def flush(self) -> None:
        """Write the file now if it has changed."""
        if self._file.has_changes and self._may_write():
            self._write()

    def end(self) -> None:
        """Write the file for the last time."""
        self.flush()
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _may_write(self) -> bool:
        return self._file.loaded.rewritable and not self._has_ended

    def _write(self) -> None:
        """Write the file. If that fails, it is tried again later, and the user is told once."""
        self._timer = None
        old_path = self._file.path
        problem = ""
        try:
            sentence = self._file.save()
            if self._file.path != old_path:
                warn(self._log, sentence)
        except OSError as error:
            problem = f"{self._file.label} cannot be written: {error.strerror}."
            self.schedule()
        if problem and problem != self.problem:
            warn(self._log, problem)
        self.problem = problem
