"""The order in which cells run, one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GIVE_UP_CHECK_S = 0.05
"""Seconds after which a cell that waits for its turn looks again whether to wait any longer."""


class _Place:
    """A cell's place in the queue."""

    def __init__(self) -> None:
        self.thread_id = threading.get_ident()
        """The thread that runs the cell."""


class CellTurns:
    """Gives cells their turns, in the order in which they asked.

    Any thread may call it. A thread that has the turn does not wait for itself: what handles the
    records of a cell, such as those of its start and of its end, may run another one, which runs
    inside the turn of the first.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._places: deque[_Place] = deque()
        """The places of the cells in the queue. The first has its turn, the others wait."""

    @contextmanager
    def take(self, gives_up: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Wait for a turn, which ends with this context.

        Args:
            gives_up: Returns whether to wait no longer.

        Yields:
            Whether the turn has come.
        """
        place = _Place()
        with self._changed:
            is_inside = bool(self._places) and self._places[0].thread_id == place.thread_id
        if is_inside:
            yield True
            return
        try:
            with self._changed:
                self._places.append(place)
                while self._places[0] is not place and not gives_up():
                    self._changed.wait(GIVE_UP_CHECK_S)
                has_turn = self._places[0] is place
            yield has_turn
        finally:
            with self._changed:
                # An interrupt may come before the place was taken.
                if place in self._places:
                    self._places.remove(place)
                self._changed.notify_all()
