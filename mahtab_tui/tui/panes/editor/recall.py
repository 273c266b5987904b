"""Walking through the inputs with Up and Down."""

from __future__ import annotations


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
