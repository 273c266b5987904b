"""A saved session as its transcript, to read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container

from mahtab_tui.bus.records import Record
from mahtab_tui.store.session_search import pattern_of
from mahtab_tui.tui.panes.transcript.view import TranscriptView
from mahtab_tui.tui.patterns import PatternTimeout

_AGAIN = 0.05
"""Seconds between two looks whether the transcript can be searched."""


class Reading(TranscriptView):
    """The transcript; the arrows mark its entries."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", "Up", show=False),
        Binding("down", "walk(1)", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "scroll_home", "First", show=False),
        Binding("end", "scroll_end", "Last", show=False),
    ]

    @property
    def entry(self) -> str:
        """The name of the marked entry in `bus.left_out`; empty if none is marked."""
        marked = self.marker.marked
        return "" if marked is None else marked.key


class Preview(Container):
    """Shows one session at a time."""

    def __init__(self) -> None:
        super().__init__(id="session-preview")
        self.reading: Reading | None = None
        """The view of the session that is shown."""

    def show(self, records: Sequence[Record], wanted: Sequence[str] = ()) -> None:
        """Show records in place of those before, at the newest one of the words."""
        focused = self.reading is not None and self.reading.has_focus
        self.remove_children()
        self.reading = reading = Reading()
        self.mount(reading)
        if focused:
            reading.focus()
        reading.fold(records)
        if wanted:
            self.call_after_refresh(self._mark, reading, pattern_of(wanted))

    def _mark(self, reading: Reading, pattern: str) -> None:
        if reading is not self.reading:
            return
        if reading.viewport.window is None:  # it has no size yet
            self.set_timer(_AGAIN, lambda: self._mark(reading, pattern))
            return
        reading.search.begin()
        with suppress(PatternTimeout):
            reading.find(pattern, 1, regex=True)
