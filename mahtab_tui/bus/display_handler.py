"""What the screen has not drawn yet of the records on the bus."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mahtab_tui.bus.records import Record, Stream, get_record


class DisplayHandler(logging.Handler):
    """Keeps the records that the screen has not drawn yet.

    A stream logs hundreds of pieces between two pictures. They are joined here, so that the screen
    folds one record instead.
    """

    def __init__(self, on_first: Callable[[], object] = lambda: None) -> None:
        """
        Args:
            on_first: Called on the thread that logs, when the first record waits.
        """
        super().__init__()
        self._on_first = on_first
        self._records: list[Record] = []
        self._stream: Stream | None = None
        """The first piece of the stream that is being joined. It is newer than all `_records`."""
        self._stream_texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not self.has_records:
            self._on_first()
        event = get_record(record)
        if not isinstance(event, Stream):
            self._end_stream()
            self._records.append(event)
            return
        if self._stream is None or self._stream.stream != event.stream:
            self._end_stream()
            self._stream = event
        self._stream_texts.append(event.text)

    @property
    def has_records(self) -> bool:
        """Whether records wait."""
        return bool(self._records) or self._stream is not None

    def pop_records(self) -> list[Record]:
        """Return the records that came since the last call."""
        # `emit` runs on other threads. The base class holds the lock of the handler meanwhile.
        self.acquire()
        self._end_stream()
        records = self._records
        self._records = []
        self.release()
        return records

    def _end_stream(self) -> None:
        """Join the pieces of the stream to one record."""
        if self._stream is not None:
            self._records.append(self._stream.changed(text="".join(self._stream_texts)))
            self._stream = None
            self._stream_texts = []
