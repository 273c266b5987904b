"""The logger of a session, with its handlers for the screen and the store."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeVar

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.answer_splitter import AnswerPiece, AnswerSplitter
from mahtab_tui.bus.partial_records import PartialRecord, StoredStream, stream_key
from mahtab_tui.bus.records import (
    AssistantChatStream,
    Notice,
    Record,
    RecordHandler,
    ReplIn,
    Stream,
    emit,
    get_record,
)

T = TypeVar("T")

WRITE_INTERVAL_S = 1.0
"""Seconds between two writes of growing streams, and between two attempts after a failure."""
WRITE_DELAY_S = 0.01
"""Seconds until records are written for which nobody waits, unless pieces of a stream wait already,
with which they are written."""
MAX_QUEUED_CHARS = 32_000_000
"""Characters of records that wait in memory while the store fails."""


class DisplayHandler(logging.Handler):
    """Keeps the records that the screen has not drawn yet."""

    def __init__(self, on_first: Callable[[], object] = lambda: None) -> None:
        """
        Args:
            on_first: Called on the thread that logs, when the first record waits.
        """
        super().__init__()
        self._on_first = on_first
        self._records: list[Record] = []
        self._pieces: list[str] = []
        self._stream: Stream | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if not self._records and self._stream is None:
            self._on_first()
        event = get_record(record)
        if not isinstance(event, Stream):
            self._end_stream()
            self._records.append(event)
            return
        # Pieces of one stream become one record.
        if self._stream is None or self._stream.stream != event.stream:
            self._end_stream()
            self._stream = event
        self._pieces.append(event.text)

    @property
    def has_records(self) -> bool:
        """Whether records wait."""
        return bool(self._records) or self._stream is not None

    def pop_records(self) -> list[Record]:
        """Return the records that came since the last call."""
        self.acquire()
        self._end_stream()
        records = self._records
        self._records = []
        self.release()
        return records

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._records.append(self._stream.changed(text="".join(self._pieces)))
            self._stream = None
            self._pieces = []


class Store(Protocol):
    """Stores the records of a session. Any thread may call it."""

    def append(self, *added: Record) -> None:
        """Store records: all of them, or none if this raises. Raises `StoreError`."""

    def partial(self, key: str, record: Record | None) -> None:
        """Replace the partial record under a key; None deletes it. Raises `StoreError`."""

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell; None if it was not stored, or while the cell runs.
        Raises `StoreError`."""

    def pictures(self, cell: int) -> list[str]:
        """Return the stored pictures displayed by a cell, as base64. Raises `StoreError`."""

    def everything(self) -> list[Record]:
        """Return all records of the session, in order. Raises `StoreError`."""

    def close(self) -> None:
        """Close the files. A later `append` opens them again."""


class StoreHandler(logging.Handler):
    """Stores the records of a session. While the store fails, they wait in memory."""

    def __init__(self, store: Store, log: logging.Logger, *, writes_later: bool = False) -> None:
        """
        Args:
            writes_later: Write what follows a cell's code a moment later, so that nobody waits for
                the disk; all of it is written before the next cell runs.
        """
        super().__init__()
        self._writes_later = writes_later
        self._store = store
        self._log = log
        self._guard = threading.Lock()
        self._queue: deque[Record] = deque()
        self._queued_chars = 0
        self._lost_count = 0
        """Records that did not fit into the queue."""
        self._partials: dict[str, PartialRecord] = {}
        self._stored_partials: set[str] = set()
        """The keys of partial records in the store."""
        self._is_failing = False
        self._has_skipped = False
        """Whether a record could not be stored, which was reported."""
        self._pending_notices: list[tuple[str, str]] = []
        """Levels and texts."""
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        event = get_record(record)
        if isinstance(event, StoredStream):
            with self._guard:
                self._add_piece(event)
            return
        if not event.in_store:
            return
        with self._guard:
            # The complete record replaces its pieces.
            self._partials.pop(stream_key(event), None)
            self._queue.append(event)
            self._queued_chars += len(event.text)
            if self._is_failing:
                self._trim_queue()
            elif self._writes_later and not isinstance(event, ReplIn):
                self._start_timer(WRITE_DELAY_S)
            else:
                self._write(partials=False)
        self._report()

    def _add_piece(self, piece: StoredStream) -> None:
        key = stream_key(piece)
        # The answer starts again.
        if isinstance(piece, AssistantChatStream) and piece.fresh:
            self._partials.pop(key, None)
            return
        if key not in self._partials:
            self._partials[key] = PartialRecord(piece)
        self._partials[key].add(piece)
        self._start_timer(WRITE_INTERVAL_S)

    def flush(self) -> None:
        """Write everything, with unfinished streams."""
        with self._guard:
            self._write(partials=True)

    def close(self) -> None:
        """Close the store; a later record opens it again, because `logging.config` closes the
        handlers of running sessions, too."""
        self.flush()
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._store.close()
        super().close()

    def _write_on_timer(self) -> None:
        with self._guard:
            self._timer = None
            self._write(partials=True)
        self._report()

    def _start_timer(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(delay_s, self._write_on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _write(self, *, partials: bool) -> None:
        try:
            if len(self._queue) > 1:
                self._append_all()
            while self._queue:
                self._store_record(partial(self._store.append, self._queue[0]))
                self._queued_chars -= len(self._queue.popleft().text)
            for key in self._stored_partials - self._partials.keys():
                self._store.partial(key, None)
                self._stored_partials.discard(key)
            if partials:
                self._write_partials()
        except StoreError as error:
            self._fail(error)
        else:
            self._recover()

    def _append_all(self) -> None:
        """Write the waiting records at once, because a transaction for each takes longer. If one of
        them cannot be stored, they stay in the queue. Raises `StoreError`."""
        try:
            self._store.append(*self._queue)
        except StoreError:
            raise
        except Exception:  # raised by one record; which one is found when each is written alone
            return
        self._queue.clear()
        self._queued_chars = 0

    def _write_partials(self) -> None:
        for key, stream in self._partials.items():
            if stream.fresh:
                self._store_record(partial(self._store.partial, key, stream.record()))
                self._stored_partials.add(key)
                stream.fresh = False

    def _store_record(self, write: Callable[[], None]) -> None:
        """Write a record, or skip it if it can never be stored."""
        try:
            write()
        except StoreError:
            raise
        except Exception as error:
            if not self._has_skipped:  # only once, because the notice may be such a record, too
                self._has_skipped = True
                text = f"A record could not be saved ({type(error).__name__}). The session continues without it."
                self._pending_notices.append(("warning", text))

    def _fail(self, error: StoreError) -> None:
        if not self._is_failing:
            self._is_failing = True
            text = f"{error} The session continues; new records stay in memory until they can be saved."
            self._pending_notices.append(("warning", text))
        self._trim_queue()
        self._start_timer(WRITE_INTERVAL_S)

    def _recover(self) -> None:
        if not self._is_failing:
            return
        self._is_failing = False
        text = "Saving the session works again."
        if self._lost_count:
            text += f" {self._lost_count:,} records did not fit into memory and are missing."
        self._pending_notices.append(("info", text))
        self._lost_count = 0

    def _trim_queue(self) -> None:
        while self._queued_chars > MAX_QUEUED_CHARS:
            self._queued_chars -= len(self._queue.popleft().text)
            self._lost_count += 1

    def _report(self) -> None:
        """Log pending notices, without `_guard`: the lock of the bus comes first."""
        while self._pending_notices:
            level, text = self._pending_notices.pop(0)
            emit(self._log, Notice(text, level=level))


class StreamingHandler:
    """Logs the tokens of an answer. Only `parse_response` decides what runs."""

    def __init__(
        self,
        log: logging.Logger,
        turn: int | None = None,
        step: int | None = None,
        party: str | None = None,
    ) -> None:
        self._log = log
        self._answer = AssistantChatStream(turn=turn, step=step, party=party)
        self._splitter = AnswerSplitter()

    def process_token(self, token: str) -> None:
        self._emit(self._splitter.feed(token))

    def restart(self) -> StreamingHandler:
        """Discard the answer so far; return the handler of its next attempt."""
        emit(self._log, self._answer.changed(fresh=True))
        return StreamingHandler(self._log, self._answer.turn, self._answer.step, self._answer.party)

    def flush(self) -> None:
        self._emit(self._splitter.end())

    def _emit(self, pieces: Iterable[AnswerPiece]) -> None:
        for kind, block, text in pieces:
            # Thoughts stream like words.
            stream_kind = "code" if kind == "code" else "chat"
            emit(self._log, self._answer.changed(text=text, kind=stream_kind, block=block))


class BusLogger(logging.Logger):
    """A logger of its own, which passes the records to all handlers in the same order, but to a
    `RecordHandler` only those of its kinds."""

    def __init__(self) -> None:
        super().__init__("mahtab", logging.INFO)
        self.propagate = False
        self._order = threading.RLock()
        self._queue: deque[logging.LogRecord] = deque()
        self._is_handling = False
        self._handlers_by_kind: dict[type[Record], list[logging.Handler]] = {}
        """The handlers that get a record, by each kind that was logged."""

    def add_between_records(self, handler: logging.Handler, before: Callable[[], T]) -> T:
        """Add a handler while no record passes, and return what `before` returns just then."""
        with self._order:
            result = before()
            self.addHandler(handler)
        return result

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
            handlers = [handler for handler in self.handlers if _handles(handler, kind)]
            handlers_by_kind[kind] = handlers
        for handler in handlers:
            if record.levelno >= handler.level:
                handler.handle(record)


def _handles(handler: logging.Handler, kind: type[Record]) -> bool:
    return not isinstance(handler, RecordHandler) or issubclass(kind, handler.kinds)


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
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
