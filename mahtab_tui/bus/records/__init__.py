"""The records of the bus, one class for each tag, which says whether the prompt and the store get
them. Panes get all.

Import this as a module, since some classes have the names of other things:
``records.Kernel(state="idle")``.
"""

from __future__ import annotations

import logging
import time

from mahtab_tui.bus.records.base import Record
from mahtab_tui.bus.records.cells import *
from mahtab_tui.bus.records.chat import *
from mahtab_tui.bus.records.search import *
from mahtab_tui.bus.records.session import *

Stream = (
    UserReplOutStream
    | AssistantReplOutStream
    | AssistantChatStream
    | AssistantThoughtStream
    | SearchChatStream
)
"""A piece of a text that comes bit by bit: `stream` identifies the text."""


def emit(log: logging.Logger, record: Record) -> None:
    """Log a record. Any thread may call it."""
    if not record.time:  # the only change ever made to a record
        object.__setattr__(record, "time", time.time())
    log.info(record.text, extra={"record": record})


def record_of(logged: logging.LogRecord) -> Record:
    """Return the record that `emit` was given; a notice if something else logged it."""
    record = getattr(logged, "record", None)
    if isinstance(record, Record):
        return record
    level = (
        "error"
        if logged.levelno >= logging.ERROR
        else "warning"
        if logged.levelno >= logging.WARNING
        else "info"
    )
    return Notice(logged.getMessage(), level=level, time=logged.created)
