"""The editor's input history: read once and written on a thread, and a cursor that moves through it with Up and Down."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Protocol

from mahtab_tui.session.inbox import Mode
from mahtab_tui.store.history import HistoryEntry

_PATIENCE = 1.0
"""Seconds to wait for the last input to be written on leaving."""


class InputHistory(Protocol):
    """The part of `store.history.History` that the editor needs."""

    def add(self, text: str, mode: str) -> None: ...

    def entries(self, mode: str | None = None, *, limit: int = 2_000) -> list[HistoryEntry]: ...


class Inputs:
    """All inputs by mode, newest first."""

    def __init__(self, history: InputHistory) -> None:
        self._history = history
        self._past: list[HistoryEntry] = []
        self._new: list[tuple[str, str]] = []
        self._to_write: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._read_and_write, name="input-history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write all new inputs."""
        self._to_write.put(None)
        self._thread.join(_PATIENCE)

    def add(self, text: str, mode: str) -> None:
        self._new.insert(0, (text, mode))
        self._to_write.put((text, mode))

    def of(self, mode: str) -> list[str]:
        """Return the inputs of a mode, each once; those of this session first."""
        now = (text for text, its_mode in self._new if its_mode == mode)
        past = (entry.text for entry in self._past if entry.mode == mode)
        return list(dict.fromkeys((*now, *past)))

    def _read_and_write(self) -> None:
        self._past = [*self._history.entries("python"), *self._history.entries("ask")]
        while (entry := self._to_write.get()) is not None:
            self._history.add(*entry)


class HistoryCursor:
    """A position in the history; 0 is the draft. Changes to earlier inputs are kept until an input is entered."""

    def __init__(self) -> None:
        self._place = 0
        self._changed: dict[int, str] = {}

    def step(self, step: int, inputs: list[str], present: str) -> str | None:
        """Move to an older (1) or newer (-1) input and return it; None if there is none. inputs: newest first. present: the current text."""
        place = self._place + step
        if not 0 <= place <= len(inputs):
            return None
        self._changed[self._place] = present
        self._place = place
        return self._changed.get(place, inputs[place - 1])

    def reset(self) -> None:
        """Return to the draft, and forget changes."""
        self._place = 0
        self._changed.clear()


class HistoryCursors:
    """A cursor for each mode."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._walks: dict[Mode, HistoryCursor] = {"python": HistoryCursor(), "ask": HistoryCursor()}

    def step(self, step: int, mode: Mode, present: str) -> str | None:
        """Move through the inputs of a mode; see `HistoryCursor.step`."""
        return self._walks[mode].step(step, self._inputs.of(mode), present)

    def entered(self, text: str, mode: Mode) -> None:
        """Add an input at once, because the key after Enter may be Up."""
        self._inputs.add(text, mode)
        self.reset()

    def reset(self) -> None:
        """Return to the draft in all modes."""
        for walk in self._walks.values():
            walk.reset()
