"""Where the records of the bus go: the panes, the prompt, the store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from mahtab_tui.bus import tags
from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.formatters import XMLFormatter
from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.streams import WHOLE_OF, stream_key

PARTIAL_EVERY = 1.0
"""Seconds between two savings of what is being streamed."""
MISSED = 10_000
"""Records that are kept in memory while the store does not take them."""
CONTEXT_CHARS = 20_000
RECORD_CHARS = 4_000


class StoreError(Exception):
    """The store did not take a record; the message is a sentence."""


class Store(Protocol):
    """Where records are kept."""

    def append(self, record: Record) -> None:
        """Keep a record. Raises `StoreError`."""

    def partial(self, key: str, record: Record | None) -> None:
        """Keep what has come so far of something that is streamed, in place of what was kept under this key; None: it is whole now. Raises `StoreError`."""

    def close(self) -> None: ...


class DisplayHandler(logging.Handler):
    """Collects what the panes draw. Any thread logs; one thread takes. Pieces of one stream that follow each other become one."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("display"))
        self._records: list[Record] = []
        self._pieces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # The handler's own lock is held here, as in `take`.
        value = Record.of(record)
        if value.tag in WHOLE_OF:
            last = self._records[-1] if self._records else None
            if self._pieces and last is not None and last.tag == value.tag and last.attrs == value.attrs:
                self._pieces.append(value.text)
                return
            self._join()
            self._pieces = [value.text]
        else:
            self._join()
        self._records.append(value)

    def take(self) -> list[Record]:
        """What has come since the last time, in order."""
        if not self._records:
            return []
        with _Held(self):
            self._join()
            taken, self._records = self._records, []
        return taken

    def _join(self) -> None:
        if len(self._pieces) > 1:
            last = self._records[-1]
            self._records[-1] = Record(last.tag, "".join(self._pieces), last.attrs, last.time)
        self._pieces = []


class _Held:
    """A handler's lock as a context manager."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        self._handler.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._handler.release()


def shortened(text: str, limit: int) -> str:
    """Head and tail of a long text, with the count of what is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"


class PromptHandler(logging.Handler):
    """Collects what the model is told with the person's next turn."""

    # They are messages of the conversation already.
    _SAID = (tags.USER_CHAT, tags.ASSISTANT_CHAT)

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("prompt"))
        self._formatter = XMLFormatter()
        self._records: list[Record] = []

    def emit(self, record: logging.LogRecord) -> None:
        value = Record.of(record)
        if value.tag not in self._SAID:
            self._records.append(value)

    def get_context(self, max_chars: int = CONTEXT_CHARS) -> str:
        """What went over the bus since `clear`, as XML; the oldest are left out where it is more than `max_chars`."""
        with _Held(self):
            records = list(self._records)
        lines: list[str] = []
        size = 0
        for place, record in enumerate(reversed(records)):
            text = shortened(plain(collapse(record.text)), RECORD_CHARS)
            line = self._formatter.format_record(Record(record.tag, text, record.attrs, record.time))
            size += len(line)
            if size > max_chars and lines:
                lines.append(f"… {len(records) - place} earlier records left out …")
                break
            lines.append(line)
        return "\n".join(reversed(lines))

    def clear(self) -> None:
        """The model has been told."""
        with _Held(self):
            self._records.clear()


class StoreHandler(logging.Handler):
    """Keeps records in a store, as they come. A store that fails is said once, and the session goes on."""

    def __init__(self, store: Store, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._wanted = TagFilter("store").tags
        self._store = store
        self._tell = tell
        self._clock = clock
        self._missed: list[Record] = []
        self._failing = False
        self._streams: dict[str, list[str]] = {}
        self._saved: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        value = Record.of(record)
        key = stream_key(value)
        try:
            if value.tag in WHOLE_OF and key is not None:
                self._stream(key, value)
            elif value.tag in self._wanted:
                self._keep(value, key)
        except StoreError as error:
            if not self._failing:
                self._failing = True
                self._tell(f"The session is not being kept: {error} It goes on; what is missed is written when that works again.")

    def close(self) -> None:
        self._store.close()
        super().close()

    def _keep(self, record: Record, key: str | None) -> None:
        self._missed.append(record)
        del self._missed[:-MISSED]
        while self._missed:
            self._store.append(self._missed[0])
            del self._missed[0]
        self._failing = False
        if key is not None and self._streams.pop(key, None) is not None and self._saved.pop(key, None) is not None:
            self._store.partial(key, None)

    def _stream(self, key: str, record: Record) -> None:
        self._streams.setdefault(key, []).append(record.text)
        now = self._clock()
        if now - self._saved.setdefault(key, now) < PARTIAL_EVERY:
            return
        self._saved[key] = now
        text = "".join(self._streams[key])
        self._streams[key] = [text]
        self._store.partial(key, Record(WHOLE_OF[record.tag], text, record.attrs, record.time))
