"""Passes a session's records on to those who watch it from other terminals."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.partial_records import stream_key
from mahtab_tui.bus.records import DisplayRecord, Record, Stream, UserAttachment, get_record
from mahtab_tui.bus.values import Change
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
"""Records of a stream that are kept, each of joined pieces."""

Feed = queue.Queue[Record | None]
"""The records for a watcher; None marks the end."""


class _RecordedChange(NamedTuple):
    """A change of a variable, and the record that reports it among others."""

    record: records.Namespace
    change: Change


class OlderNamespace:
    """What older records, which are no longer kept, have said about variables: their last changes, and
    which of them are private."""

    def __init__(self) -> None:
        self._changes: dict[str, list[_RecordedChange]] = {}
        """By the variable's name: the last certain change, and the uncertain one after it if there is
        one. The variable that was changed last is the last one."""
        self._private: dict[str, records.Private] = {}
        """The records that made variables private, by the variables' names."""

    def fold(self, record: Record) -> None:
        """Take a record, if it is about variables."""
        if isinstance(record, records.Namespace):
            self._fold_changes(record)
        elif isinstance(record, records.Private):
            if record.private:
                self._private[record.name] = record
            else:
                self._private.pop(record.name, None)

    def _fold_changes(self, record: records.Namespace) -> None:
        if record.fresh:
            self._changes.clear()
        for change in record.changes:
            recorded_change = _RecordedChange(record, change)
            if change.change == "perhaps" and change.name in self._changes:
                self._changes[change.name][1:] = [recorded_change]
                continue
            # Taken out first, so that it becomes the last one.
            self._changes.pop(change.name, None)
            if change.change != "deleted":
                self._changes[change.name] = [recorded_change]

    def summarize(self) -> Iterator[Record]:
        """Yield records that say the same as the older ones."""
        yield from self._private.values()
        recorded_changes = itertools.chain.from_iterable(self._changes.values())
        for _, group in itertools.groupby(recorded_changes, key=_record_identity):
            changes_of_record = list(group)
            record = changes_of_record[0].record
            changes = tuple(recorded.change for recorded in changes_of_record)
            # The cell itself is no longer there to show them.
            yield record.changed(changes=changes, fresh=False, restored=True)


def _record_identity(recorded_change: _RecordedChange) -> int:
    """Return what tells a change's record from others, which may be equal to it."""
    return id(recorded_change.record)


class Broadcast(logging.Handler):
    """Keeps the recent records of a session and passes new ones to the watchers."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._mutex = threading.Lock()
        """Held so that a new watcher gets each record exactly once."""
        self._past: deque[Record] = deque()
        """The recent records, the oldest first."""
        self._past_chars = 0
        """Characters of these together."""
        self._older_namespace = OlderNamespace()
        self._open_streams: dict[str, deque[Stream]] = {}
        """The pieces of streams that have not ended, by the key of the stream."""
        self._feeds: set[Feed] = set()
        """The feeds of all watchers."""
        for record in past:
            self._store(record)

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        with self._mutex:
            for feed in self._feeds:
                if feed.qsize() < MAX_QUEUED_RECORDS:
                    feed.put(value)
            self._store(value)

    def watch(self) -> Feed:
        """Return a feed of the recent records, followed by new ones."""
        with self._mutex:
            recent_records = list(self._recent())
            # Not limited, because its end must fit in, too.
            feed: Feed = queue.Queue()
            for record in recent_records:
                feed.put(record)
            self._feeds.add(feed)
        return feed

    def recent_records(self) -> list[Record]:
        """Return the recent records, with the pieces of streams that have not ended.

        Before them stand the variables that older records have reported.
        """
        with self._mutex:
            return list(self._recent())

    def _recent(self) -> Iterator[Record]:
        """Yield what `recent_records` returns. The caller holds the mutex."""
        older_records = self._older_namespace.summarize()
        return itertools.chain(older_records, self._past, *self._open_streams.values())

    def unwatch(self, feed: Feed) -> None:
        """End a feed, whether or not somebody reads it."""
        with self._mutex:
            self._feeds.discard(feed)
        feed.put(None)

    def _store(self, record: Record) -> None:
        """Keep a record for new watchers. The caller holds the mutex, or is the constructor."""
        key = stream_key(record)
        if not isinstance(record, Stream):
            # The whole text replaces the pieces of its stream.
            self._open_streams.pop(key, None)
            self._store_whole(record)
        elif isinstance(record, records.AssistantChatStream) and record.fresh:
            # The answer begins again.
            self._open_streams.pop(key, None)
        elif key:
            self._store_piece(key, record)

    def _store_whole(self, record: Record) -> None:
        """Store a record, and drop the oldest ones that are too many."""
        self._past.append(record)
        self._past_chars += _count_chars(record)
        while len(self._past) > MAX_PAST_RECORDS or self._past_chars > MAX_PAST_CHARS:
            oldest_record = self._past.popleft()
            self._past_chars -= _count_chars(oldest_record)
            self._older_namespace.fold(oldest_record)

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
    """Return how many characters a record has, with those of its picture in base64."""
    data = record.data if isinstance(record, DisplayRecord | UserAttachment) else ""
    return len(record.text) + len(data or "")
