"""A session's records for those who watch it: what has happened, then what happens."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque

from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.records import Display, Record, Stream, UserAttachment, record_of

WAITING = 10_000
"""Records that wait for a watcher at most; one that reads too slowly misses some."""

KEPT = 2_000
CHARACTERS = 20_000_000
"""Records, and characters of text and of pictures, of the past that are kept, the newest. Pieces of streams are not: a whole record follows them."""

Feed = queue.Queue[Record | None]
"""What a watcher has not yet read; None is the end."""


class Broadcast(logging.Handler):
    """Keeps the near past of a session, and hands on what comes."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("display"))
        self._mutex = threading.Lock()
        """Held so that no record is both past and to come, or neither."""
        self._past: deque[Record] = deque()
        self._characters = 0
        self._feeds: set[Feed] = set()

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if not self._feeds and isinstance(value, Stream):
            return
        with self._mutex:
            for feed in self._feeds:
                with contextlib.suppress(queue.Full):
                    feed.put_nowait(value)
            if not isinstance(value, Stream):
                self._keep(value)

    def watch(self) -> Feed:
        """The past that is kept, then what comes."""
        feed: Feed = queue.Queue(WAITING)
        with self._mutex:
            for record in self._past:
                feed.put_nowait(record)
            self._feeds.add(feed)
        return feed

    def unwatch(self, feed: Feed) -> None:
        """Nothing more is wanted; who waits at the feed is told."""
        with self._mutex:
            self._feeds.discard(feed)
        feed.put(None)

    def _keep(self, record: Record) -> None:
        self._past.append(record)
        self._characters += _size(record)
        while len(self._past) > KEPT or self._characters > CHARACTERS:
            self._characters -= _size(self._past.popleft())


def _size(record: Record) -> int:
    """Characters of a record; what is shown is mostly its data."""
    return len(record.text) + (len(record.data or "") if isinstance(record, Display | UserAttachment) else 0)
