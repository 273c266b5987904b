"""Holds reports and output of a kernel until a host has stored them, so that a killed host loses
nothing."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .descriptors import is_readable

if TYPE_CHECKING:
    from .frames import Frame

HEAD = 32 * 2**20
TAIL = 16 * 2**20
"""Bytes to keep of the beginning and end of output that no host has stored."""

PIECE = 65536

_PAGE = 4096
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_NONBLOCK = 0x02  # SPLICE_F_NONBLOCK


def format_omission(count: int) -> bytes:
    return f"\n… {count:,} bytes left out …\n".encode()


def pending_bytes(pipe: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


class Spool:
    """Only one process at a time may move the output."""

    def __init__(self, pipe: int, file: int) -> None:
        self.pipe = pipe
        self.file = file
        self._start: int | None = None
        self._omitted_until = self.start + HEAD
        self._library: Any = None

    @property
    def size(self) -> int:
        # Quicker than fstat, and every read and write has its own offset.
        return os.lseek(self.file, 0, os.SEEK_END)

    def printed_size(self) -> int:
        while True:
            before = self.size
            total = before + pending_bytes(self.pipe)
            if self.size == before:
                return total

    def move(self) -> int:
        """Returns the number of bytes moved, or 0 once nothing can print any more. Raises
        `BlockingIOError`."""
        size = self.size
        count = _splice(self.pipe, self.file, size)
        end = size + count - TAIL
        if end - self._omitted_until >= TAIL and end > self.start + HEAD:
            self._punch(self.start + HEAD, end)
            self._omitted_until = end
        return count

    def move_all(self) -> None:
        left = pending_bytes(self.pipe)
        with suppress(BlockingIOError):
            while left > 0 and (moved := self.move()):
                left -= moved

    @property
    def start(self) -> int:
        if self._start is None:
            self._start = self.next_byte(0)
        return self._start

    def next_byte(self, offset: int) -> int:
        try:
            return os.lseek(self.file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.size

    def read(self, offset: int, most: int = PIECE) -> bytes:
        try:
            hole = os.lseek(self.file, offset, os.SEEK_HOLE)
        except OSError:
            return b""
        return os.pread(self.file, min(most, hole - offset), offset)

    def iter_from(self, offset: int) -> Iterator[bytes]:
        while offset < self.size:
            if piece := self.read(offset):
                offset += len(piece)
                yield piece
            else:
                start, offset = offset, self.next_byte(offset)
                yield format_omission(offset - start)

    def release(self, offset: int) -> None:
        if offset > self.start:
            self._punch(self.start // _PAGE * _PAGE, offset)
            self._start = offset
            self._omitted_until = max(self._omitted_until, offset + HEAD)

    def _punch(self, start: int, end: int) -> None:
        start, end = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if start < end and sys.platform == "linux":
            self._library = self._library or ctypes.CDLL(None)
            hole = ctypes.c_int64(start), ctypes.c_int64(end - start)
            self._library.fallocate(self.file, _PUNCH_HOLE, *hole)


def _splice(pipe: int, file: int, offset: int) -> int:
    if hasattr(os, "splice"):
        return os.splice(pipe, file, PIECE, offset_dst=offset, flags=_NONBLOCK)
    # Python 3.9, and systems other than Linux.
    if not is_readable(pipe):
        raise BlockingIOError(errno.EAGAIN, "nothing was printed")
    return os.pwrite(file, os.read(pipe, PIECE), offset)


MAX_DISPLAY_CHARS = 50_000_000

AUTO_ANSWERED = frozenset({"display", "quit"})

_STATE = struct.Struct("=qdqq")
_HELLO = 64

PAGE = 65536


class SharedState:
    """Read by the holder without a request, because code may keep the kernel from answering."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def set_hello(self, hello: Frame) -> None:
        data = json.dumps(hello).encode()[: PAGE - _HELLO]
        self._page[_HELLO : _HELLO + len(data)] = data

    def set_cell(self, cell: int, output_offset: int = 0) -> None:
        has_run = self.has_run or cell > 0
        _STATE.pack_into(self._page, 0, cell, time.time(), has_run, output_offset)

    @property
    def cell(self) -> int:
        return int(_STATE.unpack_from(self._page)[0])

    @property
    def output_offset(self) -> int:
        return int(_STATE.unpack_from(self._page)[3])

    @property
    def has_run(self) -> bool:
        return bool(_STATE.unpack_from(self._page)[2])

    def as_frame(self) -> Frame:
        cell, since, has_run, _ = _STATE.unpack_from(self._page)
        hello = bytes(self._page[_HELLO:]).rstrip(b"\0")
        return {
            "cell": cell,
            "since": since,
            "has_run": bool(has_run),
            "hello": json.loads(hello) if hello else {},
        }


class EventBacklog:
    """Cells that no host has stored, and calls that wait; replayed when a host attaches."""

    def __init__(self, spool: Spool, state: SharedState) -> None:
        self.state = state
        self.saved: Frame = {"carried": None, "lost": []}
        self._spool = spool
        self._lock = threading.Lock()
        self._events: list[Frame] = []
        self._open: list[int] = []
        self._calls: dict[int, Frame] = {}
        self._acknowledged = 0
        self._display_room = MAX_DISPLAY_CHARS
        self._last = 0

    def begin(self, frame: Frame) -> None:
        with self._lock:
            at = self._output_offset()
            if not self._open:
                self.state.set_cell(frame["cell"], at)
            self._open.append(frame["cell"])
            self._events.append({"begin": frame["cell"], "at": at})

    def record(self, frame: Frame) -> None:
        with self._lock:
            if frame["op"] == "done":
                self._open.remove(frame["cell"])
                self._events.append({"done": frame, "at": self._output_offset()})
                if not self._open:
                    self.state.set_cell(0)
            elif frame["op"] == "call":
                self._calls[frame["id"]] = frame
                if frame["name"] == "display":
                    shown = frame["args"]
                    self._display_room -= len(shown["data"])
                    if self._display_room < 0:
                        shown = {**shown, "mime": "", "data": ""}
                    self._events.append({"shown": shown, "at": self._output_offset()})
            elif frame["op"] == "cancelled":
                self._calls.pop(frame["id"], None)

    def _output_offset(self) -> int:
        with suppress(OSError):  # code has closed descriptors that are not its own
            self._last = self._spool.printed_size()
        return self._last

    def on_answer(self, number: int) -> None:
        with self._lock:
            self._calls.pop(number, None)

    def on_stored(self, cells: list[int], offset: int) -> None:
        """Note that finished cells, and anything before them, are stored. offset: the end of the
        stored output outside cells."""
        with self._lock:
            self._acknowledged = max(self._acknowledged, offset)
            running, stored = self._open[:1], 0
            for number, event in enumerate(self._events, 1):
                if event.get("begin") in running:  # a running cell has all events since its start
                    break
                if "done" in event and event["done"]["cell"] in cells:
                    stored = number
            if stored:
                self._acknowledged = max(self._acknowledged, self._events[stored - 1]["at"])
                del self._events[:stored]
                self._display_room = MAX_DISPLAY_CHARS

    def auto_answered_calls(self) -> list[int]:
        with self._lock:
            return [id for id, call in self._calls.items() if call["name"] in AUTO_ANSWERED]

    def to_frame(self) -> Frame:
        with self._lock:
            calls = [call for call in self._calls.values() if call["name"] not in AUTO_ANSWERED]
            return {
                "acknowledged": self._acknowledged,
                "events": list(self._events),
                "calls": calls,
                "saved": self.saved,
            }
