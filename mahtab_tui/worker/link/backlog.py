"""What happens in a kernel while no host stores it: cells, displays, and calls that wait.

The kernel notes it here (`channel.Channel` writes no frame without doing so) if it may outlive its host, and hands
it to the next one. The output itself is in the `Spool`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .frames import Frame
    from .holder_protocol import SharedState
    from .spool import Spool

MAX_DISPLAY_CHARS = 50_000_000
"""Characters of displays that are kept for the next host; of more, only their text."""

AUTO_ANSWERED = frozenset({"display", "quit"})
"""Calls that need no answer of a host."""


class EventBacklog:
    """Cells that no host has stored, and calls that wait; replayed when a host attaches.

    Any thread may use it.
    """

    def __init__(self, spool: Spool, state: SharedState) -> None:
        """Begin without cells.

        Args:
            spool: Gets the output of the cells.
            state: Tells the holder which cell runs.
        """
        self.state = state
        self.saved: Frame = {"carried": None, "lost": []}
        """The newest request of a host to save variables (`saving.save_jobs`)."""
        self._spool = spool
        self._lock = threading.Lock()
        self._events: list[Frame] = []
        """Begins and ends of cells, and displays, each "at" an offset of the output."""
        self._running_cells: list[int] = []
        """Cells that run, outermost first."""
        self._calls: dict[int, Frame] = {}
        """Calls that wait for a host, by number."""
        self._acknowledged = 0
        """Up to this offset, the output is stored."""
        self._remaining_display_chars = MAX_DISPLAY_CHARS
        """Characters of displays that are still kept."""
        self._last_offset = 0
        """The end of the output when it was known last."""

    def begin(self, frame: Frame) -> None:
        """Note that a cell begins."""
        with self._lock:
            at = self._output_offset()
            if not self._running_cells:
                self.state.set_cell(frame["cell"], at)
            self._running_cells.append(frame["cell"])
            self._events.append({"begin": frame["cell"], "at": at})

    def record(self, frame: Frame) -> None:
        """Note a frame that the kernel sends, if the next host needs it."""
        with self._lock:
            if frame["op"] == "done":
                self._running_cells.remove(frame["cell"])
                self._events.append({"done": frame, "at": self._output_offset()})
                if not self._running_cells:
                    self.state.set_cell(0)
            elif frame["op"] == "call":
                self._calls[frame["id"]] = frame
                if frame["name"] == "display":
                    self._record_display(frame["args"])
            elif frame["op"] == "cancelled":
                self._calls.pop(frame["id"], None)

    def _record_display(self, arguments: Frame) -> None:
        """Note what is shown; only its text if there are too many pictures already."""
        self._remaining_display_chars -= len(arguments["data"])
        if self._remaining_display_chars < 0:
            arguments = {**arguments, "mime": "", "data": ""}
        self._events.append({"shown": arguments, "at": self._output_offset()})

    def _output_offset(self) -> int:
        """Return the offset of the end of the output."""
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
            cells: The cells.
            offset: The end of the stored output outside cells.
        """
        with self._lock:
            self._acknowledged = max(self._acknowledged, offset)
            stored_count = self._count_stored_events(cells)
            if stored_count:
                last_stored_event = self._events[stored_count - 1]
                self._acknowledged = max(self._acknowledged, last_stored_event["at"])
                del self._events[:stored_count]
                self._remaining_display_chars = MAX_DISPLAY_CHARS

    def _count_stored_events(self, cells: list[int]) -> int:
        """Return how many of the first events belong to finished cells, or came before their ends."""
        outermost_cell = self._running_cells[:1]
        stored_count = 0
        for number, event in enumerate(self._events, 1):
            # A running cell needs all events since its start.
            if event.get("begin") in outermost_cell:
                break
            if "done" in event and event["done"]["cell"] in cells:
                stored_count = number
        return stored_count

    def auto_answered_calls(self) -> list[int]:
        """Return the numbers of the calls that wait and need no host."""
        with self._lock:
            return [number for number, call in self._calls.items() if call["name"] in AUTO_ANSWERED]

    def to_frame(self) -> Frame:
        """Return all of it for a new host; its calls only if they need an answer."""
        with self._lock:
            calls = [call for call in self._calls.values() if call["name"] not in AUTO_ANSWERED]
            return {
                "acknowledged": self._acknowledged,
                "events": list(self._events),
                "calls": calls,
                "saved": self.saved,
            }
