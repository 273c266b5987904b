"""The bus of a session: a logger that passes each record to every handler in the same order.

Any thread logs to it. The screen reads records from a `DisplayHandler`, whenever it draws; the
session's file gets them from a `bus.store_handler.StoreHandler`; parts of the session that need only
some kinds of records are a `bus.records.RecordHandler`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from mahtab_tui.bus.answer_splitter import AnswerPiece, AnswerSplitter
from mahtab_tui.bus.records import (
    AssistantChatStream,
    Record,
    RecordHandler,
    Stream,
    emit,
    get_record,
)
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
        self._is_handling = False
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


class DisplayHandler(logging.Handler):
    """Keeps the records that the screen has not drawn yet.

    A stream logs hundreds of pieces between two pictures. They are joined here, so that the screen
    folds one record instead.
    """

    def __init__(self, on_first: Callable[[], object] = lambda: None) -> None:
        """
        Args:
            on_first: Called on the thread that logs, when the first record waits.
        """
        super().__init__()
        self._on_first = on_first
        self._records: list[Record] = []
        self._stream: Stream | None = None
        """The first piece of the stream that is being joined. It is newer than all `_records`."""
        self._stream_texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not self.has_records:
            self._on_first()
        event = get_record(record)
        if not isinstance(event, Stream):
            self._end_stream()
            self._records.append(event)
            return
        if self._stream is None or self._stream.stream != event.stream:
            self._end_stream()
            self._stream = event
        self._stream_texts.append(event.text)

    @property
    def has_records(self) -> bool:
        """Whether records wait."""
        return bool(self._records) or self._stream is not None

    def pop_records(self) -> list[Record]:
        """Return the records that came since the last call."""
        # `emit` runs on other threads. The base class holds the lock of the handler meanwhile.
        self.acquire()
        self._end_stream()
        records = self._records
        self._records = []
        self.release()
        return records

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._records.append(self._stream.changed(text="".join(self._stream_texts)))
            self._stream = None
            self._stream_texts = []


class StreamingHandler:
    """Logs an answer while its tokens arrive, as code and words.

    This is only for drawing. What runs is decided by `bus.answers.parse_response`, which reads the
    complete answer.
    """

    def __init__(
        self,
        log: logging.Logger,
        turn: int | None = None,
        step: int | None = None,
        party: str | None = None,
    ) -> None:
        """
        Args:
            log: The bus of the session.
            turn: The number of the question.
            step: The number of the model's answer within it.
            party: Who answers; None for the session's own model.
        """
        self._log = log
        self._answer = AssistantChatStream(turn=turn, step=step, party=party)
        self._splitter = AnswerSplitter()

    def process_token(self, token: str) -> None:
        self._emit(self._splitter.feed(token))

    def flush(self) -> None:
        """Log what was kept back because it might have become a fence."""
        self._emit(self._splitter.end())

    def restart(self) -> StreamingHandler:
        """Discard the answer so far; return the handler of its next attempt."""
        emit(self._log, self._answer.changed(fresh=True))
        return StreamingHandler(self._log, self._answer.turn, self._answer.step, self._answer.party)

    def _emit(self, pieces: Iterable[AnswerPiece]) -> None:
        for kind, block, text in pieces:
            # Thoughts stream like words.
            stream_kind = "code" if kind == "code" else "chat"
            emit(self._log, self._answer.changed(text=text, kind=stream_kind, block=block))
