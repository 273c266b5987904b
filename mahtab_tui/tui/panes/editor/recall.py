"""Walking through the inputs with Up and Down."""

from __future__ import annotations

from mahtab_tui.session.inbox import Mode
from mahtab_tui.tui.panes.editor.inputs import Inputs


class Recall:
    """A place among the inputs. Place 0 is the draft; what was changed on the way is kept until something is entered."""

    def __init__(self) -> None:
        self._place = 0
        self._changed: dict[int, str] = {}

    def step(self, step: int, inputs: list[str], present: str) -> str | None:
        """The input one older (1) or newer (-1) than the one shown, which is now `present`; None where there is none.

        `inputs`: the newest first.
        """
        place = self._place + step
        if not 0 <= place <= len(inputs):
            return None
        self._changed[self._place] = present
        self._place = place
        return self._changed.get(place, inputs[place - 1])

    def reset(self) -> None:
        """What is shown is a new draft."""
        self._place = 0
        self._changed.clear()


class Recalls:
    """A walk for each mode. It is told at once what is entered: the key after Enter may be Up."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._walks: dict[Mode, Recall] = {"python": Recall(), "ask": Recall()}

    def step(self, step: int, mode: Mode, present: str) -> str | None:
        """As `Recall.step`, through the inputs of a mode."""
        return self._walks[mode].step(step, self._inputs.of(mode), present)

    def entered(self, text: str, mode: Mode) -> None:
        """Remember an input; the editor is empty."""
        self._inputs.add(text, mode)
        self.reset()

    def reset(self) -> None:
        """What is shown is a new draft, whatever it will be."""
        for walk in self._walks.values():
            walk.reset()
