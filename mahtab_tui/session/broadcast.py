"""Sends a session's records, recent ones and new ones, to other programs that watch it."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque

from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.records import Display, Record, Stream, UserAttachment, record_of

WAITING = 10_000
"""Maximum number of records that wait for a watcher. One that reads too slowly misses some."""

KEPT = 2_000
CHARACTERS = 20_000_000
"""Limits of the recent records that are kept, in number and characters. Pieces of streams are not kept, since a whole record follows."""

Feed = queue.Queue[Record | None]
"""Records that a watcher has not read yet; None is the end."""


class Broadcast(logging.Handler):
    """Keeps the recent records of a session and passes new ones to the watchers."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("display"))
        self._mutex = threading.Lock()
        """A new watcher gets each record exactly once: from the past, or as it comes."""
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
        """Return a feed of the recent records, followed by new ones."""
        feed: Feed = queue.Queue(WAITING)
        with self._mutex:
            for record in self._past:
                feed.put_nowait(record)
            self._feeds.add(feed)
        return feed

    def unwatch(self, feed: Feed) -> None:
        """End a feed."""
        with self._mutex:
            self._feeds.discard(feed)
        feed.put(None)

    def _keep(self, record: Record) -> None:
        self._past.append(record)
        self._characters += _size(record)
        while len(self._past) > KEPT or self._characters > CHARACTERS:
            self._characters -= _size(self._past.popleft())


def _size(record: Record) -> int:
    """Return the length of a record in characters, including the data of pictures."""
    return len(record.text) + (len(record.data or "") if isinstance(record, Display | UserAttachment) else 0)
