"""The queue of inputs: cells and questions that wait until a thread serves them.

Each kind has a thread of its own, so a question can be answered while a cell runs.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mahtab_tui.bus.records import Queue, QueueItem, emit
from mahtab_tui.bus.values import Mode


@dataclass(frozen=True, slots=True)
class Item:
    """An input in the queue."""

    id: int
    mode: Mode
    text: str
    party: str = ""
    """The agent that sent it; empty for the user."""
    joins: bool = False
    """Whether the running question gets it at its next step."""
    can_nest: bool = False
    """Whether it is a cell that runs inside the running one if that waits for the agent."""
    work: Callable[[], None] | None = field(default=None, compare=False)
    """Serves the input; None if the session serves it."""
    on_cancel: Callable[[], None] | None = field(default=None, compare=False)
    """Called when it is removed from the queue."""


class Inbox:
    """Queues for cells and questions, each served by a thread.

    Inputs of the user come before those of agents.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            log: Gets a record whenever the waiting inputs change.
            clock: Returns the time in seconds.
        """
        self._log = log
        self._clock = clock
        self._changed = threading.Condition()
        """Guards all fields; notified when an input may be served, or has been."""
        self._items: list[Item] = []
        """The queue. The user's inputs come before those of agents."""
        self._serving: dict[Mode, int] = {}
        """Ids of the inputs that are being served, by the mode whose thread serves them."""
        self._cell_thread: threading.Thread | None = None
        """The thread that serves cells; None before the first."""
        self._cell_started_at = 0.0
        """When the running cell, or the last one, began to be served, by the clock."""
        self._ids = itertools.count(1)
        self._closed = False
        self._held_items: list[Item] = []
        """The user's cells that do not run before `release`."""
        self._startup_ids: frozenset[int] | None = None
        """Ids of the inputs that were entered before the first cell ran; None until it does."""
        self._reported_items: list[QueueItem] = []
        """The waiting inputs as they were last logged."""

    def put(self, mode: Mode, text: str, *, joins: bool = False) -> int:
        """Add an input of the user; returns its id.

        Args:
            mode: Whether it is a cell or a question.
            text: The code or the question.
            joins: Whether a question that runs meanwhile gets it at its next step.
        """
        with self._changed:
            item = Item(next(self._ids), mode, text, joins=joins)
            self._insert(item)
        return item.id

    def set_joins(self, item_id: int, joins: bool) -> None:
        """Choose whether a waiting question joins the running one, or follows it."""
        with self._changed:
            self._items = [
                replace(item, joins=joins) if item.id == item_id else item for item in self._items
            ]
            self._report()

    def take_joining(self) -> list[Item]:
        """Remove and return the questions that join the running one."""
        with self._changed:
            joining = [item for item in self._items if item.joins]
            self._items = [item for item in self._items if not item.joins]
            self._report()
        return joining

    def put_cells(
        self,
        cells: Sequence[tuple[str, Callable[[], None]]],
        on_queued: Callable[[list[int]], None],
    ) -> None:
        """Add cells of the user.

        Args:
            cells: The code of each, and the function that runs it.
            on_queued: Called with their ids before any of them can run.
        """
        with self._changed:
            items = [Item(next(self._ids), "python", code, work=work) for code, work in cells]
            on_queued([item.id for item in items])
            self._insert(*items)

    def put_agent_cell(
        self,
        party: str,
        text: str,
        work: Callable[[], None],
        on_cancel: Callable[[], None],
        *,
        can_nest: bool = False,
    ) -> tuple[int, int]:
        """Add a cell of an agent.

        Args:
            party: The agent's name.
            text: The code.
            work: Runs it.
            on_cancel: Called if it is removed from the queue.
            can_nest: Whether `take_nestable` returns it.

        Returns:
            Its id, and the number of cells before it.
        """
        with self._changed:
            item = Item(
                next(self._ids),
                "python",
                text,
                party,
                can_nest=can_nest,
                work=work,
                on_cancel=on_cancel,
            )
            queued_modes = [queued_item.mode for queued_item in self._items]
            cells_before = [*self._serving, *queued_modes].count("python")
            self._insert(item)
        return item.id, cells_before

    def take_nestable(self) -> list[Item]:
        """Remove and return the cells that can run inside the running one."""
        with self._changed:
            nestable = [item for item in self._items if item.can_nest]
            self._items = [item for item in self._items if not item.can_nest]
            self._changed.notify_all()
            self._report()
        return nestable

    def _insert(self, *items: Item) -> None:
        self._items += items
        # A stable sort: the user's inputs come before those of agents.
        self._items.sort(key=lambda item: bool(item.party))
        self._changed.notify_all()
        self._report()

    def hold(self) -> None:
        """Keep the user's queued cells from running until `release`, because the cell before them
        has failed or was stopped."""
        with self._changed:
            other_items: list[Item] = []
            for item in self._items:
                if item.mode == "python" and not item.party:
                    self._held_items.append(item)
                else:
                    other_items.append(item)
            self._items = other_items
            self._changed.notify_all()
            self._report()

    def release(self) -> None:
        """Run the cells that `hold` has kept, before those entered since."""
        with self._changed:
            self._items = [*self._held_items, *self._items]
            self._held_items = []
            self._changed.notify_all()
            self._report()

    def next_item(self, mode: Mode) -> Item | None:
        """Finish the previous input of a mode, and wait for the next; None when closed."""
        with self._changed:
            self._serving.pop(mode, None)
            self._changed.notify_all()
            if mode == "python" and self._startup_ids is None:
                self._startup_ids = frozenset(item.id for item in self._items)
            while not self._closed:
                item = self._find_ready(mode)
                if item is not None:
                    self._begin_serving(item)
                    return item
                self._changed.wait()
            return None

    def _find_ready(self, mode: Mode) -> Item | None:
        """Return the first input of a mode that need not wait for others; None if there is none."""
        for item in self._items:
            if item.mode == mode and not self._follows_cells(item):
                return item
        return None

    def _begin_serving(self, item: Item) -> None:
        """Take an input from the queue for the thread that calls this."""
        self._items.remove(item)
        self._serving[item.mode] = item.id
        if item.mode == "python":
            self._cell_thread = threading.current_thread()
            self._cell_started_at = self._clock()
        self._changed.notify_all()
        self._report()

    def _follows_cells(self, item: Item) -> bool:
        """Return whether a question waits until cells have ended that were entered before it, while
        the kernel started and files were loaded."""
        is_from_startup = self._startup_ids is None or item.id in self._startup_ids
        if item.mode != "ask" or not is_from_startup:
            return False
        return any(cell_id < item.id for cell_id in self._unfinished_cells())

    def wait_for_cells(self, timeout_s: float) -> int:
        """Wait until the cells have ended that were entered before; return how many have not.

        Does not wait for the cell that calls it, nor for one that has run for that long already.

        Args:
            timeout_s: Seconds after which the wait ends.
        """
        with self._changed:
            cells = self._unfinished_cells()
            if not self._is_hopeless(timeout_s):
                self._changed.wait_for(lambda: not cells & self._unfinished_cells(), timeout_s)
            return len(cells & self._unfinished_cells()) + len(self._held_items)

    def _is_hopeless(self, timeout_s: float) -> bool:
        """Return whether the running cell will hardly end soon: because it calls this, or has run for
        that many seconds already."""
        if "python" not in self._serving:
            return False
        is_called_by_cell = threading.current_thread() is self._cell_thread
        return is_called_by_cell or self._clock() - self._cell_started_at > timeout_s

    def _unfinished_cells(self) -> set[int]:
        """Return the ids of the cells that run, or will without `release`."""
        cell_ids = {item.id for item in self._items if item.mode == "python"}
        if "python" in self._serving:
            cell_ids.add(self._serving["python"])
        return cell_ids

    def cancel(self, item_id: int) -> Item | None:
        """Cancel and return an input; None if it is no longer queued."""
        with self._changed:
            all_items = [*self._held_items, *self._items]
            item = next((item for item in all_items if item.id == item_id), None)
            if item is None:
                return None
            self._held_items = [held for held in self._held_items if held.id != item_id]
            self._items = [queued for queued in self._items if queued.id != item_id]
            self._changed.notify_all()
            self._report()
        if item.on_cancel is not None:
            item.on_cancel()
        return item

    @property
    def idle(self) -> bool:
        """Whether no input is queued or being served."""
        with self._changed:
            return not self._items and not self._serving

    def close(self) -> None:
        """Serve nothing more; `next_item` returns None from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _report(self) -> None:
        """Log the inputs that wait behind another one, or for the user."""
        waiting_items = [item for item in self._items if item.mode in self._serving]
        queue_items = [
            *(_queue_item(item, held=True) for item in self._held_items),
            *(_queue_item(item, held=False) for item in waiting_items),
        ]
        if queue_items != self._reported_items:
            self._reported_items = queue_items
            emit(self._log, Queue(items=tuple(queue_items)))


def describe_unfinished(count: int) -> str:
    """Say how many cells have not ended, as the beginning of a sentence about what is missing."""
    cells_have = "1 cell has" if count == 1 else f"{count:,} cells have"
    return f"{cells_have} not ended yet: what is missing of {'it' if count == 1 else 'them'}"


def _queue_item(item: Item, *, held: bool) -> QueueItem:
    return QueueItem(item.id, item.text, item.mode, item.party, joins=item.joins, held=held)
