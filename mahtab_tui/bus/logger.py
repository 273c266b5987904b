"""The logger of a session, with its handlers for the screen and the store."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.answers import AnswerPiece, AnswerSplitter
from mahtab_tui.bus.codec import Partial, StoredStream, stream_key
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import (
    AssistantChatStream,
    Notice,
    Record,
    ReplIn,
    Stream,
    emit,
    get_record,
)


class DisplayHandler(logging.Handler):
    """Keeps the records that the screen has not drawn yet."""

    def __init__(self, on_first: Callable[[], object] = lambda: None) -> None:
        """on_first: called on the thread that logs, when the first record waits."""
        super().__init__()
        self._on_first = on_first
        self._records: list[Record] = []
        self._pieces: list[str] = []
        self._stream: Stream | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if not self._records and self._stream is None:
            self._on_first()
        value = get_record(record)
        if not isinstance(value, Stream):
            self._end_stream()
            self._records.append(value)
            return
        if self._stream is None or self._stream.stream != value.stream:
            self._end_stream()
            self._stream = value
        self._pieces.append(value.text)

    def pop_records(self) -> list[Record]:
        self.acquire()
        self._end_stream()
        records, self._records = self._records, []
        self.release()
        return records

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._records.append(self._stream.changed(text="".join(self._pieces)))
            self._stream, self._pieces = None, []


INTERVAL = 1.0
"""Seconds between two writes of growing streams, and between two attempts after a failure."""

LATER_S = 0.01
"""Seconds until records are written for which nobody waits."""

BACKLOG = 32_000_000


class Store(Protocol):
    """Stores the records of a session. Any thread may call it."""

    def append(self, record: Record) -> None:
        """Store a record. Raises `StoreError`."""

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
        """writes_later: write what follows a cell's code a moment later, so that nobody waits for
        the disk; all of it is written before the next cell runs."""
        super().__init__()
        self._writes_later = writes_later
        self._store = store
        self._log = log
        self._guard = threading.Lock()
        self._queue: deque[Record] = deque()
        self._queued = 0
        self._lost = 0
        self._partials: dict[str, Partial] = {}
        self._saved: set[str] = set()
        self._failing = False
        self._leaves_out = False
        self._news: list[tuple[str, str]] = []
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        if not value.in_store and not isinstance(value, StoredStream):
            return
        with self._guard:
            if isinstance(value, StoredStream):
                if isinstance(value, AssistantChatStream) and value.fresh:
                    self._partials.pop(stream_key(value), None)
                    return
                self._partials.setdefault(stream_key(value), Partial(value)).add(value)
                self._arm()
                return
            self._partials.pop(stream_key(value), None)
            self._queue.append(value)
            self._queued += len(value.text)
            if self._failing:
                self._trim()
            elif self._writes_later and not isinstance(value, ReplIn):
                self._arm(LATER_S)
            else:
                self._write(partials=False)
        self._report()

    def flush(self) -> None:
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

    def _tick(self) -> None:
        with self._guard:
            self._timer = None
            self._write(partials=True)
        self._report()

    def _arm(self, delay: float = INTERVAL) -> None:
        if self._timer is None:
            self._timer = threading.Timer(delay, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _write(self, *, partials: bool) -> None:
        try:
            while self._queue:
                self._store_record(partial(self._store.append, self._queue[0]))
                self._queued -= len(self._queue.popleft().text)
            for key in self._saved - self._partials.keys():
                self._store.partial(key, None)
                self._saved.discard(key)
            if partials:
                self._write_partials()
        except StoreError as error:
            self._fail(error)
        else:
            self._recover()

    def _write_partials(self) -> None:
        for key, growing in self._partials.items():
            if growing.fresh:
                self._store_record(partial(self._store.partial, key, growing.record()))
                self._saved.add(key)
                growing.fresh = False

    def _store_record(self, write: Callable[[], None]) -> None:
        """Write a record, or skip it if it can never be stored."""
        try:
            write()
        except StoreError:
            raise
        except Exception as error:
            if not self._leaves_out:  # only once, because the notice may be such a record, too
                self._leaves_out = True
                text = f"A record could not be saved ({type(error).__name__}). The session continues without it."
                self._news.append(("warning", text))

    def _fail(self, error: StoreError) -> None:
        if not self._failing:
            self._failing = True
            text = f"{error} The session continues; new records stay in memory until they can be saved."
            self._news.append(("warning", text))
        self._trim()
        self._arm()

    def _recover(self) -> None:
        if self._failing:
            self._failing = False
            missing = f" {self._lost} records did not fit into memory and are missing."
            lost = missing if self._lost else ""
            self._news.append(("info", f"Saving the session works again.{lost}"))
            self._lost = 0

    def _trim(self) -> None:
        while self._queued > BACKLOG:
            self._queued -= len(self._queue.popleft().text)
            self._lost += 1

    def _report(self) -> None:
        """Log pending notices, without `_guard`: the lock of the bus comes first."""
        while self._news:
            level, text = self._news.pop(0)
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
        emit(self._log, self._answer.changed(fresh=True))
        return StreamingHandler(self._log, self._answer.turn, self._answer.step, self._answer.party)

    def flush(self) -> None:
        self._emit(self._splitter.end())

    def _emit(self, pieces: Iterable[AnswerPiece]) -> None:
        for kind, block, text in pieces:
            shown = "code" if kind == "code" else "chat"
            emit(self._log, self._answer.changed(text=text, kind=shown, block=block))


class BusLogger(logging.Logger):
    """A logger of its own, which passes every record to all handlers in the same order."""

    def __init__(self) -> None:
        super().__init__("mahtab", logging.INFO)
        self.propagate = False
        self._order = threading.RLock()
        self._waiting: deque[logging.LogRecord] = deque()
        self._handing_on = False

    def handle(self, record: logging.LogRecord) -> None:
        with self._order:
            self._waiting.append(record)
            if self._handing_on:  # a handler has logged it: it waits
                return
            self._handing_on = True
            try:
                while self._waiting:
                    super().handle(self._waiting.popleft())
            finally:
                self._handing_on = False


def setup_logging(
    store: Store | None = None, *, writes_later: bool = False
) -> tuple[logging.Logger, PromptHandler]:
    """Create a session's bus with the handlers of the prompt and, if given, the store.
    writes_later: see `StoreHandler`."""
    log, prompt = BusLogger(), PromptHandler()
    if store is not None:
        log.addHandler(StoreHandler(store, log, writes_later=writes_later))
    log.addHandler(prompt)
    return log, prompt


def close_logging(log: logging.Logger) -> None:
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
