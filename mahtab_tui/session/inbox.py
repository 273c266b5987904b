"""What the person has entered and not yet been served: cells and questions, visible and cancellable."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from mahtab_tui.bus.records import Queue, QueueItem, emit

Mode = Literal["python", "ask"]


@dataclass(frozen=True, slots=True)
class Item:
    """One input that waits."""

    id: int
    mode: Mode
    text: str
    party: str = ""
    """The agent that wants it run; empty: the person."""
    work: Callable[[], None] | None = field(default=None, compare=False)
    """What serving it means, where that is not the session's own business."""
    withdrawn: Callable[[], None] | None = field(default=None, compare=False)
    """Called when it is taken back."""


class Inbox:
    """Two lines of waiting inputs, cells and questions, each taken by one thread."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._changed = threading.Condition()
        self._items: list[Item] = []
        self._serving: set[Mode] = set()
        self._numbers = itertools.count(1)
        self._closed = False
        self._told: list[Item] = []
        self._held: set[str] = set()
        """Agents whose cells wait until they are let go."""

    def put(self, mode: Mode, text: str) -> int:
        """Enter an input of the person's, before what agents wait with; returns its id."""
        with self._changed:
            item = Item(next(self._numbers), mode, text)
            first = next((place for place, waiting in enumerate(self._items) if waiting.party), len(self._items))
            self._enter(first, item)
        return item.id

    def put_for(self, party: str, text: str, work: Callable[[], None], withdrawn: Callable[[], None]) -> tuple[int, int]:
        """Enter a cell of an agent's, after all that waits; returns its id, and how many inputs are before it."""
        with self._changed:
            item = Item(next(self._numbers), "python", text, party, work, withdrawn)
            before = sum(waiting.mode == "python" for waiting in self._items) + ("python" in self._serving)
            self._enter(len(self._items), item)
        return item.id, before

    def _enter(self, place: int, item: Item) -> None:
        self._items.insert(place, item)
        self._changed.notify_all()
        self._tell()

    def take(self, mode: Mode) -> Item | None:
        """Wait for the next input of a mode, and call the one before served; None when the inbox is closed."""
        with self._changed:
            self._serving.discard(mode)
            while True:
                if self._closed:
                    return None
                item = next((item for item in self._items if item.mode == mode and item.party not in self._held), None)
                if item is not None:
                    break
                self._changed.wait()
            self._items.remove(item)
            self._serving.add(mode)
            self._tell()
            return item

    def cancel(self, item_id: int) -> Item | None:
        """Take an input back; None where it is no longer waiting."""
        with self._changed:
            item = next((item for item in self._items if item.id == item_id), None)
            if item is not None:
                self._items.remove(item)
                self._tell()
        if item is not None and item.withdrawn is not None:
            item.withdrawn()
        return item

    def hold(self, party: str, on: bool) -> None:
        """Serve no cell of an agent's from now on, or serve them again."""
        with self._changed:
            (self._held.add if on else self._held.discard)(party)
            self._changed.notify_all()
            self._tell()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is served."""
        with self._changed:
            return not self._items and not self._serving

    def serving(self, mode: Mode) -> bool:
        """Whether an input of this mode is being served now."""
        with self._changed:
            return mode in self._serving

    def close(self) -> None:
        """Let the waiting threads end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _tell(self) -> None:
        """Show what waits behind something that is served; what is about to be taken is not shown."""
        waiting = [item for item in self._items if item.mode in self._serving or item.party in self._held]
        if waiting != self._told:
            self._told = waiting
            emit(self._log, Queue(items=tuple(QueueItem(item.id, item.text, item.mode, item.party) for item in waiting)))
