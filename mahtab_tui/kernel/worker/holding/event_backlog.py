"""Backlog of events no host has stored, replayed on attach."""

from __future__ import annotations

import json
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .spool import Spool

if TYPE_CHECKING:
    from ..frames import Frame

DISPLAYED = 50_000_000
"""Characters of rich displays that are kept; of further ones only the text is."""

ALONE = frozenset({"display", "quit"})
"""Calls that need no answer while there is no host."""

_STATE = struct.Struct("=qdqq")
_HELLO = 64

PAGE = 65536
"""Bytes of the memory that kernel and holder share."""


class State:
    """State of the kernel that the holder reads without asking it, because code may keep it from
    answering: a page of memory that both have."""

    def __init__(self, page: Any) -> None:
        """page: a shared `mmap`."""
        self._page = page

    def introduce(self, hello: Frame) -> None:
        """Note the kernel's first frame."""
        data = json.dumps(hello).encode()[: PAGE - _HELLO]
        self._page[_HELLO : _HELLO + len(data)] = data

    def begin(self, cell: int, at: int) -> None:
        """A cell begins. at: the offset of its output."""
        _STATE.pack_into(self._page, 0, cell, time.time(), self.has_run or cell > 0, at)

    def end(self) -> None:
        _STATE.pack_into(self._page, 0, 0, time.time(), self.has_run, 0)

    @property
    def cell(self) -> int:
        """The cell that runs; 0 for none."""
        return int(_STATE.unpack_from(self._page)[0])

    @property
    def at(self) -> int:
        """The offset at which the output of the cell begins that runs."""
        return int(_STATE.unpack_from(self._page)[3])

    @property
    def has_run(self) -> bool:
        """Whether any cell has run."""
        return bool(_STATE.unpack_from(self._page)[2])

    def told(self) -> Frame:
        """The cell that runs (0 for none), since when that is so, in seconds since the epoch,
        whether any has run, and the kernel's first frame."""
        cell, since, has_run, _ = _STATE.unpack_from(self._page)
        hello = bytes(self._page[_HELLO:]).rstrip(b"\0")
        return {
            "cell": cell,
            "since": since,
            "has_run": bool(has_run),
            "hello": json.loads(hello) if hello else {},
        }


class EventBacklog:
    """Cells that no host has stored, with the offsets of their output, and calls that wait for an
    answer."""

    def __init__(self, spool: Spool, state: State) -> None:
        self.state = state
        self.kept: Frame = {"carried": None, "lost": []}
        """The host's last report on the saved variables."""
        self._spool = spool
        self._lock = threading.Lock()
        self._events: list[Frame] = []
        self._open: list[int] = []
        self._calls: dict[int, Frame] = {}
        self._told = 0
        """The offset up to which a host has stored what was printed."""
        self._room = DISPLAYED
        self._last = 0

    def begin(self, frame: Frame) -> None:
        """A cell begins, perhaps inside another."""
        with self._lock:
            at = self._at()
            if not self._open:
                self.state.begin(frame["cell"], at)
            self._open.append(frame["cell"])
            self._events.append({"begin": frame["cell"], "limit": frame["limit"], "at": at})

    def note(self, frame: Frame) -> None:
        """A frame is sent to the host, or would be."""
        with self._lock:
            if frame["op"] == "done":
                self._open.remove(frame["cell"])
                self._events.append({"done": frame, "at": self._at()})
                if not self._open:
                    self.state.end()
            elif frame["op"] == "call":
                self._calls[frame["id"]] = frame
                if frame["name"] == "display":
                    self._events.append({"shown": self._shown(frame["args"]), "at": self._at()})
            elif frame["op"] == "cancelled":
                self._calls.pop(frame["id"], None)

    def _at(self) -> int:
        with suppress(OSError):  # code has closed descriptors that are not its own
            self._last = self._spool.printed()
        return self._last

    def _shown(self, shown: Frame) -> Frame:
        self._room -= len(shown["data"])
        return shown if self._room >= 0 else {"mime": "", "data": "", "text": shown["text"]}

    def answered(self, number: int) -> None:
        """A call has its answer."""
        with self._lock:
            self._calls.pop(number, None)

    def stored(self, cells: list[int], offset: int) -> None:
        """A host has stored cells that have ended: they, and what came before them, need not be
        told again. offset: up to there it has stored what was printed outside cells."""
        with self._lock:
            self._told = max(self._told, offset)
            running = self._open[0] if self._open else None
            for place in range(len(self._events) - 1, -1, -1):
                done = self._events[place].get("done")
                if done is None or done["cell"] not in cells:
                    continue
                if running is None or all(
                    event.get("begin") != running for event in self._events[:place]
                ):
                    self._told = max(self._told, self._events[place]["at"])
                    del self._events[: place + 1]
                    self._room = DISPLAYED
                    return

    def to_answer_alone(self) -> list[int]:
        """The calls that wait, and need no host."""
        with self._lock:
            return [number for number, frame in self._calls.items() if frame["name"] in ALONE]

    def whole(self) -> Frame:
        """Return the backlog as a frame for a new host."""
        with self._lock:
            calls = [frame for frame in self._calls.values() if frame["name"] not in ALONE]
            return {
                "told": self._told,
                "events": list(self._events),
                "calls": calls,
                "kept": self.kept,
            }
