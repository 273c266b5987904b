"""From any thread to the panes: records gather here until the main thread takes them."""

from __future__ import annotations

import logging
from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.records import Record


class DisplayHandler(logging.Handler):
    """Any thread logs, the main thread takes.

    Neighbouring pieces of one stream (the same tag and attributes) become one record as they come, so that a look costs what there is
    to draw, not how often something was logged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("display"))
        self._records: list[Record] = []
        self._pieces: list[str] = []
        """Texts of the stream record that is still growing; it belongs at the end of `_records`."""
        self._stream: tuple[str, dict[str, Any], float] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        tag = getattr(record, "tag", tags.NOTICE)
        if tag not in tags.STREAMS:
            self._end_stream()
            self._records.append(Record.of(record))
            return
        attrs: dict[str, Any] = getattr(record, "attrs", {})
        stream = self._stream
        if stream is None or stream[0] != tag or stream[1] != attrs:
            self._end_stream()
            self._stream = (tag, attrs, record.created)
        self._pieces.append(str(record.msg))

    def take(self) -> list[Record]:
        """What has come since the last call, in order."""
        self.acquire()
        self._end_stream()
        records, self._records = self._records, []
        self.release()
        return records

    def _end_stream(self) -> None:
        if self._stream is not None:
            tag, attrs, time = self._stream
            self._records.append(Record(tag, "".join(self._pieces), attrs, time))
            self._stream, self._pieces = None, []
