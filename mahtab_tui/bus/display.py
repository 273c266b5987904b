"""Collects records from any thread until the main thread takes them for the panes."""

from __future__ import annotations

import logging

from mahtab_tui.bus.records import Record, Stream, record_of


class DisplayHandler(logging.Handler):
    """Collects the records that are displayed.

    Consecutive pieces of one stream become one record as they come, so that the cost of drawing
    depends on the amount of text, not on the number of records.
    """

    def __init__(self) -> None:
        super().__init__()
        self._records: list[Record] = []
        self._pieces: list[str] = []
        """Texts of the stream that is still growing; it belongs at the end of `_records`."""
        self._stream: Stream | None = None
        """Its first piece."""

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if not isinstance(value, Stream):
            self._end_stream()
            self._records.append(value)
            return
        if self._stream is None or self._stream.stream != value.stream:
            self._end_stream()
            self._stream = value
        self._pieces.append(value.text)

    def take(self) -> list[Record]:
        """Return the records since the last call, in order."""
        self.acquire()
        self._end_stream()
        records, self._records = self._records, []
        self.release()
        return records

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._records.append(self._stream.changed(text="".join(self._pieces)))
            self._stream, self._pieces = None, []
