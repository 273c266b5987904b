"""Keeps the events of a search for its caller."""

from __future__ import annotations

import threading

from mahtab_tui.bus.codec import as_json
from mahtab_tui.bus.records import Notice, Record, SearchChatStream
from mahtab_tui.kernel.worker.search_log import packed

_AT_ONCE = 4_000_000
"""Characters of events that are compressed together."""
MOST = 200_000_000
"""Characters of events that are kept; later ones are not."""


class KeptLog:
    """The events of one search, without streamed pieces. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: list[bytes] = []
        self._events: list[Record] = []
        """Those that are not compressed yet: most callers never ask for them."""
        self._chars = 0
        self._left = MOST

    @property
    def chars(self) -> int:
        """How many characters the events' texts have, about."""
        return MOST - self._left

    def add(self, event: Record) -> None:
        """Keep an event."""
        if isinstance(event, SearchChatStream):
            return
        size = len(event.text) + 200 + 10 * len(getattr(event, "spans", ()))
        with self._lock:
            if self._left <= 0:
                return
            self._left -= size
            self._chars += size
            self._events.append(event)
            if self._left <= 0:
                self._events.append(Notice("The log ends here: the search had too many events.", level="warning", time=event.time))
            if self._chars > _AT_ONCE:
                self._pack()

    def packed(self) -> bytes:
        """Return the events so far, as `worker.search_log.unpacked` reads them."""
        with self._lock:
            self._pack()
            return b"".join(self._packed)

    def _pack(self) -> None:
        if self._events:
            self._packed.append(packed([as_json(event) for event in self._events]))
            self._events.clear()
            self._chars = 0
