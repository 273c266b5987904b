"""From any thread to the panes: records gather here until the main thread takes them."""

from __future__ import annotations

import logging

from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.records import Record, Stream, record_of


class DisplayHandler(logging.Handler):
    """Any thread logs, the main thread takes.

    Neighbouring pieces of one stream (all the same but the text) become one record as they come, so that a look costs what there is
    to draw, not how often something was logged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("display"))
        self._records: list[Record] = []
        self._pieces: list[str] = []
        """Texts of the stream record that is still growing; it belongs at the end of `_records`."""
        self._stream: Stream | None = None
        """Its first piece."""

    def emit(self, record: logging.LogRecord) -> None:
        said = record_of(record)
        if not isinstance(said, Stream):
            self._end_stream()
            self._records.append(said)
            return
        if self._stream is None or self._stream.stream != said.stream:
            self._end_stream()
            self._stream = said
        self._pieces.append(said.text)

    def take(self) -> list[Record]:
        """What has come since the last call, in order."""
        self.acquire()
        self._end_stream()
        records, self._records = self._records, []
        self.release()
        return records

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._records.append(self._stream.changed(text="".join(self._pieces)))
            self._stream, self._pieces = None, []
