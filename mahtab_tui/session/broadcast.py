"""Passes a session's records on to those who watch it from other terminals."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from mahtab_tui.bus import records
from mahtab_tui.bus.partial_records import stream_key
from mahtab_tui.bus.records import DisplayRecord, Record, Stream, UserAttachment, get_record
from mahtab_tui.session.cell_records import output_records, unfinished_cells

MAX_QUEUED_RECORDS = 10_000
"""Records queued for a watcher; one that reads too slowly misses some."""
MAX_PAST_RECORDS = 2_000
"""Recent records that a new watcher gets."""
MAX_PAST_CHARS = 20_000_000
"""Characters of these records together."""
MAX_JOINED_CHARS = 100_000
"""Characters up to which pieces of a stream are joined to one record."""
MAX_STREAM_RECORDS = 100
"""Such records of a stream that are kept."""

Feed = queue.Queue[Record | None]
"""The records for a watcher; None marks the end."""


class Broadcast(logging.Handler):
    """Keeps the recent records of a session and passes new ones to the watchers."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._mutex = threading.Lock()
        """Held so that a new watcher gets each record exactly once."""
        self._past: deque[Record] = deque()
        self._past_chars = 0
        self._open_streams: dict[str, deque[Stream]] = {}
        """Streams that have not ended, by key."""
        self._feeds: set[Feed] = set()
        for record in past:
            self._store(record)

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        with self._mutex:
            for feed in self._feeds:
                with suppress(queue.Full):
                    feed.put_nowait(value)
            self._store(value)

    def watch(self) -> Feed:
        """Return a feed of the recent records, followed by new ones."""
        feed: Feed = queue.Queue(MAX_QUEUED_RECORDS)
        with self._mutex:
            for record in self._recent():
                feed.put_nowait(record)
            self._feeds.add(feed)
        return feed

    def recent_records(self) -> list[Record]:
        """Return the recent records, with the pieces of streams that have not ended."""
        with self._mutex:
            return list(self._recent())

    def _recent(self) -> Iterator[Record]:
        return itertools.chain(self._past, *self._open_streams.values())

    def unwatch(self, feed: Feed) -> None:
        with self._mutex:
            self._feeds.discard(feed)
        feed.put(None)

    def _store(self, record: Record) -> None:
        key = stream_key(record)
        if not isinstance(record, Stream):
            # The whole text replaces the pieces of its stream.
            self._open_streams.pop(key, None)
            self._past.append(record)
            self._past_chars += _count_chars(record)
            while len(self._past) > MAX_PAST_RECORDS or self._past_chars > MAX_PAST_CHARS:
                self._past_chars -= _count_chars(self._past.popleft())
        elif isinstance(record, records.AssistantChatStream) and record.fresh:
            self._open_streams.pop(key, None)
        elif key:
            self._store_piece(key, record)

    def _store_piece(self, key: str, record: Stream) -> None:
        """Store a piece of a stream, joined to the one before it if that is short."""
        pieces = self._open_streams.setdefault(key, deque(maxlen=MAX_STREAM_RECORDS))
        if pieces:
            last_piece = pieces[-1]
            if last_piece.stream == record.stream and len(last_piece.text) < MAX_JOINED_CHARS:
                pieces[-1] = last_piece.changed(text=last_piece.text + record.text)
                return
        pieces.append(record)


def past_for_watchers(past: Sequence[Record], *, same_kernel: bool) -> Iterator[Record]:
    """Yield the records of a resumed session that watchers get.

    Args:
        past: The records of the session.
        same_kernel: Whether its kernel still runs, so that unfinished cells continue.
    """
    for record in past:
        # Pending requests are sent again if they still wait.
        if not isinstance(record, records.Approval | records.Input) or record.state != "waiting":
            yield record
    if past and not same_kernel:
        for started in unfinished_cells(past):
            yield output_records(started).whole(cell=started.cell, cut=True)
    if past:
        # This kernel's variables are reported when they are listed.
        yield records.Namespace(fresh=True, cell=0)


def _count_chars(record: Record) -> int:
    data = record.data if isinstance(record, DisplayRecord | UserAttachment) else ""
    return len(record.text) + len(data or "")
