"""The editor's input history: read once and written on a thread, and a cursor for each mode that
moves through it with Up and Down."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.store.history import History, HistoryEntry

_PATIENCE = 1.0
"""Seconds to wait for the last input to be written on leaving."""


class Inputs:
    """All inputs by mode, newest first, and the position in each mode."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._past: list[HistoryEntry] = []
        self._new: list[tuple[str, Mode]] = []
        self._to_write: SimpleQueue[tuple[str, Mode] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._read_and_write, name="input-history", daemon=True
        )
        self._cursors = {"python": HistoryCursor(), "ask": HistoryCursor()}

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write all new inputs."""
        self._to_write.put(None)
        self._thread.join(_PATIENCE)

    def of(self, mode: Mode) -> list[str]:
        """Return the inputs of a mode, each once; those of this session first."""
        now = (text for text, its_mode in self._new if its_mode == mode)
        past = (entry.text for entry in self._past if entry.mode == mode)
        return list(dict.fromkeys((*now, *past)))

    def step(self, step: int, mode: Mode, present: str) -> str | None:
        """Move to an older (1) or newer (-1) input that begins with the draft, and return it; None
        if there is none. present: the current text."""
        return self._cursors[mode].step(step, self.of(mode), present)

    def entered(self, text: str, mode: Mode) -> None:
        """Add an input at once, because the key after Enter may be Up."""
        self._new.insert(0, (text, mode))
        self._to_write.put((text, mode))
        self.reset()

    def reset(self) -> None:
        """Return to the draft in all modes, and forget changes."""
        self._cursors = {mode: HistoryCursor() for mode in self._cursors}

    def _read_and_write(self) -> None:
        self._past = [*self._history.entries("python"), *self._history.entries("ask")]
        while (entry := self._to_write.get()) is not None:
            IMPORTS.wait_for_screen()  # writing masks secrets, with what is loaded after the first picture
            self._history.add(*entry)


class HistoryCursor:
    """A position in the history; 0 is the draft. Changes to earlier inputs are kept until an input
    is entered."""

    def __init__(self) -> None:
        self._place = 0
        self._prefix = ""
        """The draft, with which the inputs begin that are walked through."""
        self._changed: dict[int, str] = {}

    def step(self, step: int, inputs: list[str], present: str) -> str | None:
        """See `Inputs.step`. inputs: newest first."""
        if self._place == 0:
            self._prefix = present
        place = self._place + step
        while 0 < place <= len(inputs) and not (
            place in self._changed or _continues(inputs[place - 1], self._prefix)
        ):
            place += step
        if not 0 <= place <= len(inputs):
            return None
        self._changed[self._place] = present
        self._place = place
        return self._changed.get(place, inputs[place - 1])


def _continues(text: str, prefix: str) -> bool:
    return text.startswith(prefix) and text != prefix
