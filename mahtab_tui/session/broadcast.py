"""Sends a session's records, recent ones and new ones, to other programs that watch it."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from mahtab_tui.bus import records
from mahtab_tui.bus.partials import key_of
from mahtab_tui.bus.records import Display, Record, Stream, UserAttachment, record_of

WAITING = 10_000
"""Maximum number of records that wait for a watcher. One that reads too slowly misses some."""

KEPT = 2_000
CHARACTERS = 20_000_000
"""Limits of the recent records that are kept, in number and characters. Pieces of streams are kept
until the whole record follows."""

GROWING = 1_000_000
"""Characters that are kept of the end of a stream."""

Feed = queue.Queue[Record | None]
"""Records that a watcher has not read yet; None is the end."""


class _Growing:
    """The end of a stream whose whole record has not come yet."""

    def __init__(self, first: Stream) -> None:
        self._first = first
        self.key = key_of(first)
        self._texts: deque[str] = deque()
        self.size = 0
        """In characters."""

    def takes(self, piece: Stream) -> bool:
        return self._first.stream == piece.stream

    def add(self, text: str) -> None:
        self._texts.append(text)
        self.size += len(text)
        while self.size > GROWING and len(self._texts) > 1:
            self.size -= len(self._texts.popleft())

    def record(self) -> Record:
        return self._first.changed(text="".join(self._texts))


class Broadcast(logging.Handler):
    """Keeps the recent records of a session and passes new ones to the watchers."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        """past: what watchers see of the time before, from `past_for_watchers`."""
        super().__init__()
        self._mutex = threading.Lock()
        """A new watcher gets each record exactly once: from the past, or as it comes."""
        self._past: deque[Record | _Growing] = deque()
        self._growing: set[str] = set()
        """The keys of streams in `_past`."""
        self._characters = 0
        self._feeds: set[Feed] = set()
        for record in past:
            self._keep(record)

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        with self._mutex:
            for feed in self._feeds:
                with contextlib.suppress(queue.Full):
                    feed.put_nowait(value)
            if isinstance(value, Stream):
                self._keep_piece(value)
            else:
                self._keep(value)

    def watch(self) -> Feed:
        """Return a feed of the recent records, followed by new ones."""
        feed: Feed = queue.Queue(WAITING)
        with self._mutex:
            for each in self._past:
                feed.put_nowait(each.record() if isinstance(each, _Growing) else each)
            self._feeds.add(feed)
        return feed

    def unwatch(self, feed: Feed) -> None:
        with self._mutex:
            self._feeds.discard(feed)
        feed.put(None)

    def _keep_piece(self, piece: Stream) -> None:
        if not (key := key_of(piece)):
            return
        if isinstance(piece, records.AssistantChatStream) and piece.fresh:
            self._drop_pieces(key)
            return
        last = self._past[-1] if self._past else None
        if not isinstance(last, _Growing) or not last.takes(piece):
            last = _Growing(piece)
            self._growing.add(key)
            self._past.append(last)
        before = last.size
        last.add(piece.text)
        self._grown(last.size - before)

    def _drop_pieces(self, key: str) -> None:
        if key in self._growing:
            self._growing.discard(key)
            self._past = deque(
                each for each in self._past if not isinstance(each, _Growing) or each.key != key
            )
            self._characters = sum(map(_size, self._past))

    def _keep(self, record: Record) -> None:
        self._drop_pieces(key_of(record))
        self._past.append(record)
        self._grown(_size(record))

    def _grown(self, characters: int) -> None:
        self._characters += characters
        while len(self._past) > KEPT or self._characters > CHARACTERS:
            self._characters -= _size(self._past.popleft())


def past_for_watchers(past: Sequence[Record], *, same_kernel: bool) -> Iterator[Record]:
    """Yield what a watcher sees of the records of a resumed session. same_kernel: the kernel has
    waited, and cells that have not ended go on."""
    for record in past:
        waits = (
            isinstance(record, records.Approval | records.Input) and record.state == "waiting"
        )  # asked again if it still does
        if not waits:
            yield record
    if past and not same_kernel:
        from mahtab_tui.session.reattach import unfinished

        for cell in unfinished(past):
            yield (
                records.UserReplOut
                if isinstance(cell, records.UserReplIn)
                else records.AssistantReplOut
            )(cell=cell.cell, cut=True)
    if past:
        yield records.Namespace(
            fresh=True, cell=0
        )  # the variables of this kernel are told as they are found


def _size(record: Record | _Growing) -> int:
    """Return the length of a record in characters, including the data of pictures."""
    if isinstance(record, _Growing):
        return record.size
    return len(record.text) + (
        len(record.data or "") if isinstance(record, Display | UserAttachment) else 0
    )
