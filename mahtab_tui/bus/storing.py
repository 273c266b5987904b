"""From the bus to a store: records as they come, and what is still being streamed once a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Protocol

from mahtab_tui.bus import tags
from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.partials import Partial, Piece, key_of
from mahtab_tui.bus.records import AssistantChatStream, Notice, Record, emit, record_of

INTERVAL = 1.0
"""Seconds between two writings of what is being streamed, and between two attempts after a failure."""

SHARE = 20
"""The interval is at least this many times what the last writing took: a long output may not keep the machine busy."""

BACKLOG = 32_000_000
"""Characters that are kept in memory while the store does not take them."""


class StoreError(Exception):
    """The store cannot do this now; the message is a sentence for the person."""


class TakenOver(StoreError):
    """Another program writes the session now. This one does not any more, whatever comes."""


class Store(Protocol):
    """Where the records of a session are kept. Any thread may call it."""

    def append(self, record: Record) -> None:
        """Keep a record. Raises `StoreError`."""

    def partial(self, key: str, record: Record | None) -> None:
        """Keep the text so far of a whole record that is still to come, in place of what was kept under this key; None drops it.
        Raises `StoreError`."""

    def output(self, cell: int) -> str | None:
        """All that a cell has printed; None where it is not kept, or as long as it runs. Raises `StoreError`."""

    def pictures(self, cell: int) -> list[str]:
        """The pictures that a cell has shown, as far as they are kept: base64. Raises `StoreError`."""

    def close(self) -> None:
        """Let go of files. A later `append` opens them again."""


class StoreHandler(logging.Handler):
    """Keeps the records of a session.

    A store that fails stops nothing: the first failure becomes one notice on `log`, what comes is kept in memory (up to `BACKLOG`) and
    written when the store works again.
    """

    def __init__(self, store: Store, log: logging.Logger | None = None) -> None:
        super().__init__()
        self.addFilter(TagFilter([*TagFilter("store").tags, *tags.WHOLE_OF]))
        self._store = store
        self._log = log
        self._guard = threading.Lock()
        self._queue: deque[Record] = deque()
        self._queued = 0
        self._lost = 0
        self._partials: dict[str, Partial] = {}
        self._kept: set[str] = set()
        """Keys of the partials that the store has."""
        self._failing = False
        self._over = False
        """The session was taken over."""
        self._news: list[tuple[str, str]] = []
        self._timer: threading.Timer | None = None
        self._delay = INTERVAL

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        with self._guard:
            if self._over:
                return
            if isinstance(value, Piece):
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
        """Write all that waits."""
        with self._guard:
            self._write(partials=True)

    def close(self) -> None:
        """Write all that waits, and let go of the store.

        A record that comes later opens it again: `logging.config` closes every handler of the process, and must not end a session's.
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
        """See to it that what waits is written before long, even if nothing more is logged."""
        if self._timer is None:
            self._timer = threading.Timer(self._delay, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _write(self, *, partials: bool) -> None:
        try:
            while self._queue:
                self._store.append(self._queue[0])
                self._queued -= len(self._queue.popleft().text)
            for key in self._kept - self._partials.keys():
                self._store.partial(key, None)
                self._kept.discard(key)
            if partials:
                self._write_partials()
        except TakenOver:
            self._over = True
            self._queue.clear()
            self._partials.clear()
        except StoreError as error:
            self._fail(error)
        else:
            self._recover()

    def _write_partials(self) -> None:
        for key, partial in self._partials.items():
            if partial.fresh:
                self._store.partial(key, partial.record())
                self._kept.add(key)
                partial.fresh = False

    def _fail(self, error: StoreError) -> None:
        if not self._failing:
            self._failing = True
            self._news.append(("warning", f"{error} The session goes on; what happens is kept in memory until it can be saved."))
        self._trim()
        self._arm()

    def _recover(self) -> None:
        if self._failing:
            self._failing = False
            lost = f" {self._lost} records were too much to keep and are missing." if self._lost else ""
            self._news.append(("info", f"The session is being saved again.{lost}"))
            self._lost = 0

    def _trim(self) -> None:
        """Drop the oldest of what waits where it is too much."""
        while self._queued > BACKLOG:
            self._queued -= len(self._queue.popleft().text)
            self._lost += 1

    def _tell(self) -> None:
        """Log what became of the store. Never while `_guard` is held: the bus has a lock of its own, which comes first."""
        while self._news and self._log is not None:
            level, text = self._news.pop(0)
            emit(self._log, Notice(text, level=level))
