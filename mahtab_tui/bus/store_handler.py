"""Writes records to a store as they come, and growing streams once a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from mahtab_tui.bus.partials import Partial, StoredStream, key_of
from mahtab_tui.bus.records import AssistantChatStream, Notice, Record, emit, record_of

INTERVAL = 1.0
"""Seconds between two writes of growing streams, and between two attempts after a failure."""

SHARE = 20
"""The interval is at least this many times the duration of the last write: a long output must not
keep the machine busy."""

BACKLOG = 32_000_000
"""Characters kept in memory while the store fails."""


class StoreError(Exception):
    """The store failed; the message is a sentence for the user."""


class Store(Protocol):
    """Keeps the records of a session. Any thread may call it."""

    def append(self, record: Record) -> None:
        """Keep a record. Raises `StoreError`."""

    def partial(self, key: str, record: Record | None) -> None:
        """Replace the partial record under a key; None deletes it. Raises `StoreError`."""

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell; None if it is not kept, or while the cell runs. Raises
        `StoreError`."""

    def pictures(self, cell: int) -> list[str]:
        """Return the kept pictures that a cell has displayed, as base64. Raises `StoreError`."""

    def everything(self) -> list[Record]:
        """Return all records of the session, in order. Raises `StoreError`."""

    def close(self) -> None:
        """Close the files. A later `append` opens them again."""


class StoreHandler(logging.Handler):
    """Keeps the records of a session.

    If the store fails, the session goes on: the first failure is logged as a notice, and records
    are kept in memory (up to `BACKLOG`) until the store works again.
    """

    def __init__(self, store: Store, log: logging.Logger) -> None:
        super().__init__()
        self._store = store
        self._log = log
        self._guard = threading.Lock()
        self._queue: deque[Record] = deque()
        self._queued = 0
        self._lost = 0
        self._partials: dict[str, Partial] = {}
        self._kept: set[str] = set()
        """Keys of the partial records in the store."""
        self._failing = False
        self._leaves_out = False
        """Whether a record could not be stored at all."""
        self._news: list[tuple[str, str]] = []
        self._timer: threading.Timer | None = None
        self._delay = INTERVAL

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if not value.in_store and not isinstance(value, StoredStream):
            return
        with self._guard:
            if isinstance(value, StoredStream):
                if isinstance(value, AssistantChatStream) and value.fresh:
                    self._partials.pop(key_of(value), None)
                    return
                self._partials.setdefault(key_of(value), Partial(value)).add(value)
                self._arm()
                return
            self._partials.pop(key_of(value), None)
            self._queue.append(value)
            self._queued += len(value.text)
            if self._failing:
                self._trim()
            else:
                self._write(partials=False)
        self._tell()

    def flush(self) -> None:
        with self._guard:
            self._write(partials=True)

    def close(self) -> None:
        """Write all waiting records and close the store.

        A later record opens it again, because `logging.config` closes every handler of the process,
        even of a running session.
        """
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
            began = time.monotonic()
            self._write(partials=True)
            self._delay = max(INTERVAL, SHARE * (time.monotonic() - began))
        self._tell()

    def _arm(self) -> None:
        """Start the timer, so that waiting records are written even if nothing more is logged."""
        if self._timer is None:
            self._timer = threading.Timer(self._delay, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _write(self, *, partials: bool) -> None:
        try:
            while self._queue:
                self._keep(partial(self._store.append, self._queue[0]))
                self._queued -= len(self._queue.popleft().text)
            for key in self._kept - self._partials.keys():
                self._store.partial(key, None)
                self._kept.discard(key)
            if partials:
                self._write_partials()
        except StoreError as error:
            self._fail(error)
        else:
            self._recover()

    def _write_partials(self) -> None:
        for key, growing in self._partials.items():
            if growing.fresh:
                self._keep(partial(self._store.partial, key, growing.record()))
                self._kept.add(key)
                growing.fresh = False

    def _keep(self, write: Callable[[], None]) -> None:
        """Write a record. One that can never be stored is left out, so that those after it are.
        Raises `StoreError`."""
        try:
            write()
        except StoreError:
            raise
        except Exception as error:
            if not self._leaves_out:  # once, for the message may be such a record, too
                self._leaves_out = True
                text = f"A record could not be saved ({type(error).__name__}). The session continues without it."
                self._news.append(("warning", text))

    def _fail(self, error: StoreError) -> None:
        if not self._failing:
            self._failing = True
            self._news.append(
                (
                    "warning",
                    f"{error} The session continues; new records stay in memory until they can be saved.",
                )
            )
        self._trim()
        self._arm()

    def _recover(self) -> None:
        if self._failing:
            self._failing = False
            lost = (
                f" {self._lost} records did not fit into memory and are missing."
                if self._lost
                else ""
            )
            self._news.append(("info", f"Saving the session works again.{lost}"))
            self._lost = 0

    def _trim(self) -> None:
        """Drop the oldest waiting records beyond `BACKLOG`."""
        while self._queued > BACKLOG:
            self._queued -= len(self._queue.popleft().text)
            self._lost += 1

    def _tell(self) -> None:
        """Log the news. Never call it while holding `_guard`: the lock of the bus comes first."""
        while self._news:
            level, text = self._news.pop(0)
            emit(self._log, Notice(text, level=level))
