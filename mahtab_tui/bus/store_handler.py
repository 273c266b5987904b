"""Writes the records of a session to its store as they come.

A full disk or a locked file must not end a session. While the store fails, records wait in memory,
and writing is tried again each second; the user gets one notice when this begins, and one when it
ends.

Streams are written differently. Their pieces are too many for a transaction each, and the complete
record that follows replaces them. So the text so far is written once a second as a *partial record*:
all that remains of an output or an answer if the program is killed before its end.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.partial_records import PartialRecord, StoredStream, stream_key
from mahtab_tui.bus.records import (
    AssistantChatStream,
    Notice,
    Record,
    ReplIn,
    emit,
    get_record,
)

WRITE_INTERVAL_S = 1.0
"""Seconds between two writes of growing streams, and between two attempts after a failure."""
WRITE_DELAY_S = 0.01
"""Seconds until records are written for which nobody waits. If a growing stream has started the timer
already, they are written with it."""
MAX_QUEUED_CHARS = 32_000_000
"""Characters of records that wait in memory while the store fails."""


class Store(Protocol):
    """Stores the records of a session. Any thread may call it."""

    def append(self, *added: Record) -> None:
        """Store records: all of them, or none if this raises. Raises `StoreError`."""

    def partial(self, key: str, record: Record | None) -> None:
        """Replace the partial record under a key; None deletes it. Raises `StoreError`."""

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell; None if it was not stored, or while the cell runs.

        Raises `StoreError`.
        """

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
            store: Where the records are written.
            log: Gets notices about failures of the store.
            writes_later: Write what follows a cell's code a moment later, so that nobody waits for
                the disk; all of it is written before the next cell runs.
        """
        super().__init__()
        self._store = store
        self._log = log
        self._writes_later = writes_later
        self._guard = threading.Lock()
        """Guards all that follows: threads that log, and the timer's thread, write."""
        self._queue: deque[Record] = deque()
        """Complete records that are not stored yet."""
        self._queued_chars = 0
        self._lost_count = 0
        """Records that did not fit into the queue."""
        self._partials: dict[str, PartialRecord] = {}
        """The streams that have not ended, by their `stream_key`."""
        self._stored_partials: set[str] = set()
        """The keys of partial records in the store."""
        self._timer: threading.Timer | None = None
        """Writes everything soon; None if nothing waits."""
        self._is_failing = False
        self._has_skipped = False
        """Whether a record could not be stored, which was reported."""
        self._pending_notices: list[Notice] = []

    def emit(self, record: logging.LogRecord) -> None:
        event = get_record(record)
        if isinstance(event, StoredStream):
            with self._guard:
                self._add_piece(event)
        elif event.in_store:
            with self._guard:
                self._add_record(event)
            self._log_notices()

    def flush(self) -> None:
        """Write everything, with unfinished streams."""
        with self._guard:
            self._write(with_partials=True)

    def close(self) -> None:
        """Write everything, and close the store.

        A later record opens it again, because `logging.config` also closes the handlers of
        sessions that are running.
        """
        self.flush()
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._store.close()
        super().close()

    # What waits to be written. The callers of all that follows hold `_guard`, unless it says
    # otherwise.

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

    def _add_record(self, record: Record) -> None:
        # The complete record replaces its pieces.
        self._partials.pop(stream_key(record), None)
        self._queue.append(record)
        self._queued_chars += len(record.text)
        if self._is_failing:
            self._trim_queue()
        elif self._writes_later and not isinstance(record, ReplIn):
            self._start_timer(WRITE_DELAY_S)
        else:
            self._write(with_partials=False)

    def _trim_queue(self) -> None:
        while self._queued_chars > MAX_QUEUED_CHARS:
            self._queued_chars -= len(self._queue.popleft().text)
            self._lost_count += 1

    def _start_timer(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(delay_s, self._write_on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _write_on_timer(self) -> None:
        """Write everything. Called by the timer's thread, without `_guard`."""
        with self._guard:
            self._timer = None
            self._write(with_partials=True)
        self._log_notices()

    # Writing

    def _write(self, *, with_partials: bool) -> None:
        try:
            self._write_queue()
            self._delete_ended_partials()
            if with_partials:
                self._write_partials()
        except StoreError as error:
            self._note_failure(error)
        else:
            self._note_recovery()

    def _write_queue(self) -> None:
        if len(self._queue) > 1:
            self._write_queue_at_once()
        while self._queue:
            record = self._queue[0]
            self._write_or_skip(self._store.append, record)
            # Only now, because the record stays in the queue if the store fails.
            self._queue.popleft()
            self._queued_chars -= len(record.text)

    def _write_queue_at_once(self) -> None:
        """Write the waiting records in one transaction, because one for each takes longer.

        If one of them cannot be stored, all stay in the queue. Raises `StoreError`.
        """
        try:
            self._store.append(*self._queue)
        except StoreError:
            raise
        except Exception:
            # One record is at fault. `_write_queue` learns which, when it writes each alone.
            return
        self._queue.clear()
        self._queued_chars = 0

    def _delete_ended_partials(self) -> None:
        for key in self._stored_partials - self._partials.keys():
            self._store.partial(key, None)
            self._stored_partials.discard(key)

    def _write_partials(self) -> None:
        for key, stream in self._partials.items():
            if stream.fresh:
                self._write_or_skip(self._store.partial, key, stream.record())
                self._stored_partials.add(key)
                stream.fresh = False

    def _write_or_skip(self, write: Callable[..., None], *args: str | Record) -> None:
        """Call a method that writes a record; skip the record if it can never be stored.

        Raises `StoreError`.
        """
        try:
            write(*args)
        except StoreError:
            raise
        except Exception as error:
            # Only once, because the notice may be such a record, too.
            if not self._has_skipped:
                self._has_skipped = True
                text = f"A record could not be saved ({type(error).__name__}). The session continues without it."
                self._pending_notices.append(Notice(text, level="warning"))

    # Failures

    def _note_failure(self, error: StoreError) -> None:
        if not self._is_failing:
            self._is_failing = True
            text = f"{error} The session continues; new records stay in memory until they can be saved."
            self._pending_notices.append(Notice(text, level="warning"))
        self._trim_queue()
        self._start_timer(WRITE_INTERVAL_S)

    def _note_recovery(self) -> None:
        if not self._is_failing:
            return
        self._is_failing = False
        text = "Saving the session works again."
        if self._lost_count:
            text += f" {self._lost_count:,} records did not fit into memory and are missing."
        self._pending_notices.append(Notice(text, level="info"))
        self._lost_count = 0

    def _log_notices(self) -> None:
        """Log pending notices. Called without `_guard`.

        Logging takes the lock of the bus. A thread that logs already holds it when it asks for
        `_guard` in `emit`, so taking both in the other order here could block both threads forever.
        """
        while self._pending_notices:
            emit(self._log, self._pending_notices.pop(0))
