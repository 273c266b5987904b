"""Moves through the input history with Up and Down."""

from __future__ import annotations

from mahtab_tui.session.inbox import Mode
from mahtab_tui.tui.panes.editor.inputs import Inputs


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
