"""The bus of a session: a logger that passes each record to every handler in the same order.

Any thread logs to it. The screen reads records from a `bus.display_handler.DisplayHandler`, whenever it
draws; the session's file gets them from a `bus.store_handler.StoreHandler`; parts of the session that
need only some kinds of records are a `bus.records.RecordHandler`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from mahtab_tui.bus.records import Record, RecordHandler, get_record
from mahtab_tui.bus.store_handler import Store, StoreHandler

T = TypeVar("T")


def setup_logging(store: Store | None = None, *, writes_later: bool = False) -> logging.Logger:
    """Create a session's bus, and write its records to the store.

    Args:
        store: None for a session that is not saved.
        writes_later: See `StoreHandler`.
    """
    log = BusLogger()
    if store is not None:
        log.addHandler(StoreHandler(store, log, writes_later=writes_later))
    return log


def close_logging(log: logging.Logger) -> None:
    """Remove and close all handlers, so that what waits to be stored is written."""
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()


class BusLogger(logging.Logger):
    """Passes records to its handlers in the order in which they were logged.

    It has no parent: records of libraries do not reach it, and its own go to its handlers alone.
    """

    def __init__(self) -> None:
        super().__init__("mahtab", logging.INFO)
        self.propagate = False
        self._order = threading.RLock()
        """Held while a record is passed on. A handler may log, so the lock can be taken again."""
        self._queue: deque[logging.LogRecord] = deque()
        """The records that wait until the one before them has been passed on."""
        self._is_handling = False
        """Whether a record is being passed on."""
        self._handlers_by_kind: dict[type[Record], list[logging.Handler]] = {}
        """The handlers that get a record, by each kind that was logged."""

    def add_between_records(self, handler: logging.Handler, read_state: Callable[[], T]) -> T:
        """Add a handler between two records, and return what was so just before its first record.

        So a handler that joins late can start from the state that all earlier records have made,
        without missing a record or getting one twice.

        Args:
            handler: Gets all records from now on.
            read_state: Called while no record is passed on.
        """
        with self._order:
            state = read_state()
            self.addHandler(handler)
        return state

    def addHandler(self, hdlr: logging.Handler) -> None:
        super().addHandler(hdlr)
        # A new dict, because another thread may be filling the old one.
        self._handlers_by_kind = {}

    def removeHandler(self, hdlr: logging.Handler) -> None:
        super().removeHandler(hdlr)
        self._handlers_by_kind = {}

    def handle(self, record: logging.LogRecord) -> None:
        with self._order:
            self._queue.append(record)
            # A handler has logged this record: all handlers must get the current one first.
            if self._is_handling:
                return
            self._is_handling = True
            try:
                while self._queue:
                    super().handle(self._queue.popleft())
            finally:
                self._is_handling = False

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Pass a record to the handlers of its kind."""
        kind = type(get_record(record))
        handlers_by_kind = self._handlers_by_kind
        handlers = handlers_by_kind.get(kind)
        if handlers is None:
            handlers = [handler for handler in self.handlers if _accepts(handler, kind)]
            handlers_by_kind[kind] = handlers
        for handler in handlers:
            if record.levelno >= handler.level:
                handler.handle(record)


def _accepts(handler: logging.Handler, kind: type[Record]) -> bool:
    return not isinstance(handler, RecordHandler) or issubclass(kind, handler.kinds)
