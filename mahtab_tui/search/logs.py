"""The events of a search, kept in memory and written to a file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from pathlib import Path

from mahtab_tui.bus.codec import FORMAT, as_json
from mahtab_tui.bus.records import Notice, Record, SearchChatStream
from mahtab_tui.worker.rlm.search_log import pack_events

_FORMAT = f"mahtab-rlm-{FORMAT}"
"""The format that a log's first line names."""

MAX_LOG_CHARS = 20_000_000
"""A search keeps at most this many characters of events in memory, counted before they are
compressed."""
_EVENTS_PER_BLOCK = 1_000
"""How many events are compressed together."""
_EVENT_CHARS = 200
"""Estimated characters of an event without its text and its spans."""
_SPAN_CHARS = 10
"""Estimated characters of a span."""


class SearchLog:
    """The events of one search, without streamed pieces, compressed from time to time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed_blocks: list[bytes] = []
        self._events: list[Record] = []
        """Events that have not been compressed."""
        self.chars = 0
        """Estimated characters of all events."""

    def add(self, event: Record) -> None:
        """Add an event; above a limit, end the log with a notice. Any thread may call it."""
        if isinstance(event, SearchChatStream):
            return
        with self._lock:
            if self.chars > MAX_LOG_CHARS:
                return
            spans = getattr(event, "spans", ())
            self.chars += len(event.text) + _EVENT_CHARS + _SPAN_CHARS * len(spans)
            self._events.append(event)
            if self.chars > MAX_LOG_CHARS:
                reason = "The log ends here: the search had too many events."
                self._events.append(Notice(reason, level="warning", time=event.time))
            if len(self._events) > _EVENTS_PER_BLOCK:
                self._pack()

    def packed(self) -> bytes:
        """Return all events in compressed form, which `unpack_events` reads.

        Any thread may call it.
        """
        with self._lock:
            self._pack()
            return b"".join(self._packed_blocks)

    def _pack(self) -> None:
        """Compress the events that are not compressed yet. Call it with the lock."""
        if self._events:
            block = pack_events([as_json(event) for event in self._events])
            self._packed_blocks.append(block)
            self._events.clear()


class LogFile:
    """Writes one event a line, without streamed pieces, until it fails. Any thread may call it."""

    def __init__(self, path: Path) -> None:
        """Begin a log.

        A new file can only be read by its owner; an earlier log at the path is overwritten, and
        keeps its permissions.

        Raises:
            FileExistsError: The file exists and is not a log.
            OSError: The file cannot be written.
        """
        # A path that was mistyped must not cost the user a file.
        first_line = ""
        if path.is_file():
            with path.open(encoding="latin-1") as file:
                first_line = file.readline(1_000)
        if first_line and _FORMAT not in first_line:
            raise FileExistsError(
                errno.EEXIST, "The file exists and is not the log of a search", str(path)
            )

        self.problem = ""
        """A sentence saying why the log is not complete; empty if it is."""
        self._path = path
        self._lock = threading.Lock()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass")
        try:
            self._write_line({"format": _FORMAT})
        except OSError:
            self._close()
            raise

    def write(self, record: Record) -> None:
        """Write an event; if that fails, close the file and set `problem`."""
        if isinstance(record, SearchChatStream):
            return
        with self._lock:
            if self._file.closed:
                return
            try:
                self._write_line(as_json(record))
            except OSError as error:
                self.problem = f"The log {self._path} is not complete: {error.strerror}."
                self._close()

    def close(self) -> None:
        """Close the file; later events are not written."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        # Closing tries once more to write what is buffered, and a full disk refuses it again.
        with contextlib.suppress(OSError):
            self._file.close()

    def _write_line(self, value: dict[str, object]) -> None:
        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"
        self._file.write(line)
        self._file.flush()
