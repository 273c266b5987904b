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

HEAD_BYTES = 32 * 2**20
TAIL_BYTES = 16 * 2**20
"""Bytes to keep of the beginning and end of output that no host has stored."""

PIECE_BYTES = 65536

_PAGE_BYTES = 4096
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_NONBLOCK = 0x02  # SPLICE_F_NONBLOCK

MAX_DISPLAY_CHARS = 50_000_000
"""Characters of displays that are kept for the next host; of more, only their text."""

AUTO_ANSWERED = frozenset({"display", "quit"})
"""Calls that need no answer of a host."""

SHARED_STATE_BYTES = 65536
_STATE = struct.Struct("=qdqq")
"""A running cell, since when (`time.time`), whether one has ever run, and where its output begins."""
_HELLO_OFFSET_BYTES = 64
"""Where the first frame of the kernel lies in the shared memory, as JSON."""


def format_omission(count: int) -> bytes:
    """Return the line in place of bytes that were dropped."""
    return f"\n… {count:,} bytes left out …\n".encode()


def pending_bytes(pipe: int) -> int:
    """Return how many bytes a pipe holds."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


class Spool:
    """Output in a file, by its offset from the kernel's start.

    What a host has stored, and the middle of what none has, are holes in the file. Only one process
    at a time may move the output.
    """

    def __init__(self, pipe: int, file: int) -> None:
        """pipe, file: descriptors of where the output comes from, and of where it is kept."""
        self.pipe = pipe
        self.file = file
        self._start: int | None = None
        self._omitted_until = self.start + HEAD_BYTES
        """Up to this offset, output after the head was dropped."""
        self._library: Any = None

    @property
    def size(self) -> int:
        """The offset of the end of what was moved to the file, in bytes."""
        # Quicker than fstat, and every read and write has its own offset.
        return os.lseek(self.file, 0, os.SEEK_END)

    def printed_size(self) -> int:
        """Return the offset of the end of the output, also that in the pipe.

        Another process may move it meanwhile.
        """
        while True:
            size_before = self.size
            total = size_before + pending_bytes(self.pipe)
            if self.size == size_before:
                return total

    def move(self) -> int:
        """Move output from the pipe to the file.

        Returns:
            The number of bytes; 0 once nothing can print any more.

        Raises:
            BlockingIOError: nothing was printed.
        """
        size = self.size
        count = _splice(self.pipe, self.file, size)
        end = size + count - TAIL_BYTES
        if end - self._omitted_until >= TAIL_BYTES and end > self.start + HEAD_BYTES:
            self._punch(self.start + HEAD_BYTES, end)
            self._omitted_until = end
        return count

    def move_all(self) -> None:
        """Move what is in the pipe now."""
        pending_count = pending_bytes(self.pipe)
        with suppress(BlockingIOError):
            while pending_count > 0 and (moved := self.move()):
                pending_count -= moved

    @property
    def start(self) -> int:
        """The offset of the first byte that is kept."""
        if self._start is None:
            self._start = self.next_byte(0)
        return self._start

    def next_byte(self, offset: int) -> int:
        """Return the offset of the first byte from `offset` on that is not in a hole."""
        try:
            return os.lseek(self.file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.size

    def read(self, offset: int, max_bytes: int = PIECE_BYTES) -> bytes:
        """Return output from an offset on; nothing at the end and in a hole."""
        try:
            hole = os.lseek(self.file, offset, os.SEEK_HOLE)
        except OSError:
            return b""
        return os.pread(self.file, min(max_bytes, hole - offset), offset)

    def iter_from(self, offset: int) -> Iterator[bytes]:
        """Yield the output from an offset on, with a line for each hole."""
        while offset < self.size:
            if piece := self.read(offset):
                offset += len(piece)
                yield piece
            else:
                start = offset
                offset = self.next_byte(offset)
                yield format_omission(offset - start)

    def release(self, offset: int) -> None:
        """Drop the output before an offset."""
        if offset > self.start:
            self._punch(self.start // _PAGE_BYTES * _PAGE_BYTES, offset)
            self._start = offset
            self._omitted_until = max(self._omitted_until, offset + HEAD_BYTES)

    def _punch(self, start: int, end: int) -> None:
        """Make a hole of the whole pages between two offsets, where the system can."""
        start = -(-start // _PAGE_BYTES) * _PAGE_BYTES
        end = end // _PAGE_BYTES * _PAGE_BYTES
        if start < end and sys.platform == "linux":
            self._library = self._library or ctypes.CDLL(None)
            hole = ctypes.c_int64(start), ctypes.c_int64(end - start)
            self._library.fallocate(self.file, _PUNCH_HOLE, *hole)


def _splice(pipe: int, file: int, offset: int) -> int:
    """Move a piece from a pipe to a file's offset; return its bytes. Raises `BlockingIOError`."""
    if hasattr(os, "splice"):
        return os.splice(pipe, file, PIECE_BYTES, offset_dst=offset, flags=_NONBLOCK)
    # Python 3.9, and systems other than Linux.
    if not is_readable(pipe):
        raise BlockingIOError(errno.EAGAIN, "nothing was printed")
    return os.pwrite(file, os.read(pipe, PIECE_BYTES), offset)


class SharedState:
    """Read by the holder without a request, because code may keep the kernel from answering."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def set_hello(self, hello: Frame) -> None:
        """Note the first frame of the kernel."""
        data = json.dumps(hello).encode()[: SHARED_STATE_BYTES - _HELLO_OFFSET_BYTES]
        self._page[_HELLO_OFFSET_BYTES : _HELLO_OFFSET_BYTES + len(data)] = data

    def set_cell(self, cell: int, output_offset: int = 0) -> None:
        """Note that a cell begins (or that none runs: 0), and where its output begins."""
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
        hello = bytes(self._page[_HELLO_OFFSET_BYTES:]).rstrip(b"\0")
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
        """Begins and ends of cells and displays, each "at" an offset of the output."""
        self._open: list[int] = []
        """Cells that run, outermost first."""
        self._calls: dict[int, Frame] = {}
        """Calls that wait for a host, by number."""
        self._acknowledged = 0
        """Up to this offset, the output is stored."""
        self._remaining_display_chars = MAX_DISPLAY_CHARS
        self._last_offset = 0

    def begin(self, frame: Frame) -> None:
        """Note that a cell begins."""
        with self._lock:
            at = self._output_offset()
            if not self._open:
                self.state.set_cell(frame["cell"], at)
            self._open.append(frame["cell"])
            self._events.append({"begin": frame["cell"], "at": at})

    def record(self, frame: Frame) -> None:
        """Note a frame that the kernel sends, if the next host needs it."""
        with self._lock:
            if frame["op"] == "done":
                self._open.remove(frame["cell"])
                self._events.append({"done": frame, "at": self._output_offset()})
                if not self._open:
                    self.state.set_cell(0)
            elif frame["op"] == "call":
                self._calls[frame["id"]] = frame
                if frame["name"] == "display":
                    arguments = frame["args"]
                    self._remaining_display_chars -= len(arguments["data"])
                    if self._remaining_display_chars < 0:
                        arguments = {**arguments, "mime": "", "data": ""}
                    self._events.append({"shown": arguments, "at": self._output_offset()})
            elif frame["op"] == "cancelled":
                self._calls.pop(frame["id"], None)

    def _output_offset(self) -> int:
        with suppress(OSError):  # code has closed descriptors that are not its own
            self._last_offset = self._spool.printed_size()
        return self._last_offset

    def on_answer(self, number: int) -> None:
        """Note that a call was answered."""
        with self._lock:
            self._calls.pop(number, None)

    def on_stored(self, cells: list[int], offset: int) -> None:
        """Note that finished cells, and anything before them, are stored.

        Args:
            offset: The end of the stored output outside cells.
        """
        with self._lock:
            self._acknowledged = max(self._acknowledged, offset)
            running = self._open[:1]
            stored_count = 0
            for number, event in enumerate(self._events, 1):
                if event.get("begin") in running:  # a running cell has all events since its start
                    break
                if "done" in event and event["done"]["cell"] in cells:
                    stored_count = number
            if stored_count:
                self._acknowledged = max(self._acknowledged, self._events[stored_count - 1]["at"])
                del self._events[:stored_count]
                self._remaining_display_chars = MAX_DISPLAY_CHARS

    def auto_answered_calls(self) -> list[int]:
        """Return the numbers of the calls that wait and need no host."""
        with self._lock:
            return [id for id, call in self._calls.items() if call["name"] in AUTO_ANSWERED]

    def to_frame(self) -> Frame:
        """Return all of it for a new host."""
        with self._lock:
            calls = [call for call in self._calls.values() if call["name"] not in AUTO_ANSWERED]
            return {
                "acknowledged": self._acknowledged,
                "events": list(self._events),
                "calls": calls,
                "saved": self.saved,
            }
