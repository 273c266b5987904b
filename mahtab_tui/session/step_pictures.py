"""The figures of a model's code that the model gets to see."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress

from mahtab_tui.bus.records import PICTURE_MIMES, DisplayRecord
from mahtab_tui.llm.pictures import EncodedPicture, PictureError, scale_picture

MAX_STEP_PICTURES = 2
"""Number of figures that the model gets from a step."""
MAX_STEP_PICTURE_PX = 768
"""Pixels of their longer side."""


class StepPictures:
    """Counts the figures of the step that last drew some. Used by one thread at a time."""

    def __init__(self, pictures: dict[str, EncodedPicture]) -> None:
        """
        Args:
            pictures: Gets the figures, by their ids.
        """
        self._pictures = pictures
        self._step = (0, 0)
        """Turn and step."""
        self._count = 0
        """Figures that the model gets from that step."""

    def add(self, turn: int, step: int, displays: Sequence[DisplayRecord]) -> list[str]:
        """Scale the newest figures of a cell, up to the limit of the step.

        Args:
            turn: The turn in which the cell ran.
            step: Its step.
            displays: What the cell has displayed.

        Returns:
            The ids of the figures.
        """
        if (turn, step) != self._step:
            self._step = (turn, step)
            self._count = 0

        picture_ids: list[str] = []
        figures = [display for display in displays if display.mime in PICTURE_MIMES]
        for display in figures[-MAX_STEP_PICTURES:]:
            if self._count == MAX_STEP_PICTURES:
                break
            with suppress(PictureError, ValueError):
                picture = scale_picture(base64.b64decode(display.data), MAX_STEP_PICTURE_PX)
                self._pictures[picture.id] = picture
                picture_ids.append(picture.id)
                self._count += 1
        return picture_ids
