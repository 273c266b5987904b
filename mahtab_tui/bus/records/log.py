"""How records are logged and handled."""

from __future__ import annotations

import logging
import time
from typing import ClassVar

from mahtab_tui.bus.records.record import Record
from mahtab_tui.bus.records.session import Notice


def emit(log: logging.Logger, record: Record) -> None:
    """Log a record. Any thread may call it."""
    if not record.time:  # the only change ever made to a record
        object.__setattr__(record, "time", time.time())
    # Not by `log.info`, which `logging.disable` and a record factory of the process change.
    logged = logging.LogRecord(log.name, logging.INFO, "", 0, record.text, None, None)
    logged.__dict__["record"] = record
    log.handle(logged)


def warn(log: logging.Logger, text: str) -> None:
    """Log a warning for the user."""
    emit(log, Notice(text, level="warning"))


def get_record(logged: logging.LogRecord) -> Record:
    """Return the record passed to `emit`; a notice if something else logged it."""
    record = getattr(logged, "record", None)
    if isinstance(record, Record):
        return record
    if logged.levelno >= logging.ERROR:
        level = "error"
    elif logged.levelno >= logging.WARNING:
        level = "warning"
    else:
        level = "info"
    return Notice(logged.getMessage(), level=level, time=logged.created)


class RecordHandler(logging.Handler):
    """A handler that gets only some kinds of records from a `bus.logger.BusLogger`."""

    kinds: ClassVar[tuple[type[Record], ...]]
    """The kinds, with their subclasses."""

    def emit(self, record: logging.LogRecord) -> None:
        self.fold(get_record(record))

    def fold(self, record: Record) -> None:
        """Take the next record."""
        raise NotImplementedError
