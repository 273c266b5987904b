"""The queue of inputs, and the user's actions on entries."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import Hide, Queue, QueueItem, Replace, emit
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_index import question_title
from mahtab_tui.store.session_index import rename_session as rename_saved
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.session.session import Session

_REPLACED = "The greyed entries are removed from the conversation; the namespace stays as it is."


class Entries:
    """Hides and replaces entries, by names from `bus.prompt.HiddenEntries`."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def hide(self, entry: str, hidden: bool) -> None:
        """Hide an entry from the model from the next question on, or show it again."""
        emit(self._log, Hide(entry=entry, hidden=hidden))

    def replace(self, entry: str) -> None:
        """Remove an entry, and everything after it, from the model's conversation."""
        emit(self._log, Replace(_REPLACED, entry=entry))


def rename_session(session: Session, title: str) -> None:
    saved, masked = session.saved_id, question_title(session.secrets.mask(title))
    if not saved:
        session.notice("This session is not saved, so it has no title.", "warning")
        return

    def work() -> None:
        try:
            rename_saved(database(), saved, masked)
        except StoreError as error:
            session.notice(str(error), "warning")
        else:
            session.notice(f"This session is now called: {masked}")

    start_thread("rename", work)


Mode = Literal["python", "ask"]


@dataclass(frozen=True, slots=True)
class Item:
    id: int
    mode: Mode
    text: str
    party: str = ""
    """The agent that sent it; empty for the user."""
    joins: bool = False
    """Whether the running question gets it at its next step."""
    work: Callable[[], None] | None = field(default=None, compare=False)
    """Serves the input; None if the session serves it."""
    withdrawn: Callable[[], None] | None = field(default=None, compare=False)
    """Called when it is cancelled."""


class Inbox:
    """Queues for cells and questions, each served by a thread. Inputs of the user come before those
    of agents."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._changed = threading.Condition()
        self._items: list[Item] = []
        self._serving: set[Mode] = set()
        self._numbers = itertools.count(1)
        self._closed = False
        self._held: list[Item] = []
        """The user's cells that do not run before `release`."""
        self._startup_ids: frozenset[int] | None = None
        """Ids of the inputs that were entered before the first cell ran; None before that."""
        self._reported: list[QueueItem] = []

    def put(self, mode: Mode, text: str, *, joins: bool = False) -> int:
        """Add an input of the user; returns its id.

        Args:
            joins: Whether a question that runs meanwhile gets it at its next step.
        """
        with self._changed:
            item = Item(next(self._numbers), mode, text, joins=joins)
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
        self, cells: Sequence[tuple[str, Callable[[], None]]], entered: Callable[[list[int]], None]
    ) -> None:
        """Add cells of the user with the functions that run them. entered: called with their ids
        before any is taken."""
        with self._changed:
            items = [Item(next(self._numbers), "python", code, work=work) for code, work in cells]
            entered([item.id for item in items])
            self._insert(*items)

    def put_agent_cell(
        self, party: str, text: str, work: Callable[[], None], withdrawn: Callable[[], None]
    ) -> tuple[int, int]:
        """Add a cell of an agent; returns its id and the number of cells before it."""
        with self._changed:
            item = Item(next(self._numbers), "python", text, party, work=work, withdrawn=withdrawn)
            modes = [*self._serving, *(queued.mode for queued in self._items)]
            self._insert(item)
        return item.id, modes.count("python")

    def _insert(self, *items: Item) -> None:
        self._items += items
        self._items.sort(key=lambda item: bool(item.party))
        self._changed.notify_all()
        self._report()

    def hold(self) -> None:
        """Keep the user's queued cells from running until `release`, because the cell before them
        has failed or was stopped."""
        with self._changed:
            others: list[Item] = []
            for item in self._items:
                is_users_cell = item.mode == "python" and not item.party
                (self._held if is_users_cell else others).append(item)
            self._items = others
            self._changed.notify_all()
            self._report()

    def release(self) -> None:
        """Run the cells that `hold` has kept, before those entered since."""
        with self._changed:
            self._items = [*self._held, *self._items]
            self._held = []
            self._changed.notify_all()
            self._report()

    def next_item(self, mode: Mode) -> Item | None:
        """Finish the previous input of a mode, and wait for the next; None when closed."""
        with self._changed:
            self._serving.discard(mode)
            if mode == "python" and self._startup_ids is None:
                self._startup_ids = frozenset(item.id for item in self._items)
            while not self._closed:
                for item in self._items:
                    if item.mode == mode and not self._follows_cells(item):
                        self._items.remove(item)
                        self._serving.add(mode)
                        self._changed.notify_all()
                        self._report()
                        return item
                self._changed.wait()
            return None

    def _follows_cells(self, item: Item) -> bool:
        """Return whether a question waits for cells that were entered before it, while the kernel
        started and files were loaded."""
        is_from_startup = self._startup_ids is None or item.id in self._startup_ids
        if item.mode != "ask" or not is_from_startup:
            return False
        return any(other.mode == "python" and other.id < item.id for other in self._items)

    def cancel(self, item_id: int) -> Item | None:
        """Cancel and return an input; None if it is no longer queued."""
        with self._changed:
            queued = [*self._held, *self._items]
            item = next((item for item in queued if item.id == item_id), None)
            if item is not None:
                (self._held if item in self._held else self._items).remove(item)
                self._changed.notify_all()
                self._report()
        if item is not None and item.withdrawn is not None:
            item.withdrawn()
        return item

    @property
    def idle(self) -> bool:
        with self._changed:
            return not self._items and not self._serving

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _report(self) -> None:
        """Log the inputs that wait behind another one, or for the user."""
        waiting = [(item, True) for item in self._held]
        waiting += [(item, False) for item in self._items if item.mode in self._serving]
        items = [
            QueueItem(item.id, item.text, item.mode, item.party, joins=item.joins, held=held)
            for item, held in waiting
        ]
        if items != self._reported:
            self._reported = items
            emit(self._log, Queue(items=tuple(items)))
