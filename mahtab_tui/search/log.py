"""The events of a search, and its logs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui.bus.codec import FORMAT, as_json
from mahtab_tui.bus.records import (
    Notice,
    Record,
    SearchChatStream,
    SearchRecord,
    SearchTouch,
    Usage,
)
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.node import Intervals
from mahtab_tui.worker.search_log import pack_events

Emit = Callable[[Record], None]


class Events:
    """Numbers and sends the events of one tree, in one loop."""

    def __init__(self, tree: str, emit: Emit) -> None:
        self.tree = tree
        self._emit = emit
        self._seq = 0

    def send(self, event: SearchRecord | Usage) -> None:
        self._emit(event.changed(tree=self.tree, seq=self._seq, time=time.time()))
        self._seq += 1

    def stream(self, node: str, turn: int, text: str | None) -> None:
        """Send a piece of an answer, without a number; None when the answer starts again."""
        piece = SearchChatStream(text or "", tree=self.tree, node=node, turn=turn)
        self._emit(piece.changed(fresh=text is None, time=time.time()))

    def touch(self, node: str, how: str, spans: Sequence[TextSpan]) -> None:
        """Report spans of the root's text that a node has read or handed on."""
        if spans:
            merged = Intervals()
            merged.add(spans)
            self.send(SearchTouch(node=node, how=how, spans=tuple(merged)))


_FORMAT = f"mahtab-rlm-{FORMAT}"
MAX_BYTES = 500_000_000
"""The size of one log; later events are not written."""

_AT_ONCE = 4_000_000
MOST = 200_000_000
"""Characters of events that are kept in memory."""


class SessionLog:
    """The events of one search, without streamed pieces, compressed from time to time. Any thread
    may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: list[bytes] = []
        self._events: list[Record] = []
        self._chars = 0
        self._left = MOST

    @property
    def chars(self) -> int:
        return MOST - self._left

    def add(self, event: Record) -> None:
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
                end = "The log ends here: the search had too many events."
                self._events.append(Notice(end, level="warning", time=event.time))
            if self._chars > _AT_ONCE:
                self._pack()

    def packed(self) -> bytes:
        with self._lock:
            self._pack()
            return b"".join(self._packed)

    def _pack(self) -> None:
        if self._events:
            self._packed.append(pack_events([as_json(event) for event in self._events]))
            self._events.clear()
            self._chars = 0


class Log:
    """Writes one event a line, without streamed pieces, until it fails. Any thread may call it."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        """Create a file that only its owner can read. Raises `OSError`, also if the file exists and
        is not a log."""
        begins = ""
        if path.is_file():
            with path.open(encoding="latin-1") as file:
                begins = file.readline(1_000)
        if begins and _FORMAT not in begins:
            raise FileExistsError(
                errno.EEXIST, "The file exists and is not the log of a search", str(path)
            )
        self.trouble = ""
        """A sentence saying why the log is not complete; empty while it is."""
        self._path = path
        self._left = max_bytes
        self._lock = threading.Lock()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass")
        try:
            self._line({"format": _FORMAT})
        except OSError:
            self._close()
            raise

    def write(self, record: Record) -> None:
        if isinstance(record, SearchChatStream):
            return
        with self._lock:
            if not self._file.closed:
                try:
                    self._line(as_json(record))
                except OSError as error:
                    self.trouble = f"The log {self._path} is not complete: {error.strerror}."
                    self._close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # closing tries once more to write what is buffered
            self._file.close()

    def _line(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"
        self._left -= len(line)
        if self._left >= 0:
            self._file.write(line)
            self._file.flush()
        else:
            self.trouble = f"The log {self._path} is not complete: it was too long."
