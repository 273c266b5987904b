"""A step of the undo history: the state of a namespace before a cell.

`UndoHistory` makes one before each cell, and `restoring.plan_undo` compares it with the present.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from ..values.objects import ATOMS, MISSING, address_of
from .actions import Unrestored
from .checkpoint_process import Checkpoint
from .libraries import LibrarySnapshot, ReleasedObject
from .memory import MemorySpan
from .process_state import ProcessState
from .side_state import SideState
from .written_pages import DirtyPages


class Step:
    """The state before a cell: the names, and more if the cell may change objects in place.

    A step keeps objects alive until the next one is taken. After that, it keeps only those whose end has
    no effect (`release`), so that the undo history keeps no file open and delays no `__del__`.
    """

    def __init__(
        self,
        serial: int,
        cell: int,
        names: dict[str, Any],
        memory: DirtyPages,
        scheduled: Sequence[object],
    ) -> None:
        """Note the names, as of a cell that binds names only.

        Args:
            serial: Number of the step; a later step has a larger one.
            cell: Number of the cell; 0 for the state before an undo.
            names: Objects by name.
            memory: Knows which parts of arrays were written since.
            scheduled: Tasks and callbacks of the event loop that wait.
        """
        self.serial = serial
        self.cell = cell
        self.names = names
        """Objects by name; a `ReleasedObject` for one that is not kept alive."""
        self.side_effects: dict[Unrestored, None] = {}
        """What the cell did outside the kernel, in order."""

        # `UndoHistory` notes these if the cell may change objects in place.
        self.changes_inside = False
        """Whether it may."""
        self.mentioned: tuple[str, ...] = ()
        """The names in the cell's code."""
        self.retained: list[object] = []
        """Objects that the names lead to, or a `ReleasedObject` for them."""
        self.blocks: frozenset[MemorySpan] = frozenset()
        """The memory of arrays that this step keeps alive."""
        self.checkpoint: Checkpoint | None = None
        """The process that keeps this state; None if there is none, or if it has ended."""
        self.failure = ""
        """Why there is no checkpoint, as a clause."""
        self.process: ProcessState | None = None
        """The settings of the process and of libraries."""
        self.side_state: SideState | None = None
        """The state of objects that a checkpoint does not keep, such as open files."""
        self.libraries: list[LibrarySnapshot] = []
        """What the cell may replace in libraries."""

        self._memory = memory
        self._scheduled = [weakref.ref(work) for work in scheduled]
        self._is_released = False

    def release(self, kept_addresses: set[int]) -> None:
        """Keep only some objects alive, besides plain values. Only the first call has an effect.

        Args:
            kept_addresses: The addresses of these objects.
        """
        if self._is_released:
            return
        self._is_released = True
        self.names = {name: _release(value, kept_addresses) for name, value in self.names.items()}
        self.retained = [_release(value, kept_addresses) for value in self.retained]

    def live_objects(self) -> list[object]:
        """Return the retained objects that live, at the same addresses as in the checkpoint."""
        values = (_find_released(value) for value in self.retained)
        return [value for value in values if value is not MISSING]

    def live_names(self, namespace: dict[str, object]) -> dict[str, object]:
        """Return the objects of the names that live.

        Args:
            namespace: The user's, as it is now.
        """
        values_by_name = {
            name: _find_released(value, namespace.get(name)) for name, value in self.names.items()
        }
        return {name: value for name, value in values_by_name.items() if value is not MISSING}

    def find_new_work(self, scheduled: Sequence[object]) -> list[Unrestored]:
        """Describe the tasks and callbacks that were started since.

        Args:
            scheduled: The tasks and callbacks that wait now.
        """
        earlier_addresses = {address_of(reference()) for reference in self._scheduled}
        return [
            _describe_work(work) for work in scheduled if address_of(work) not in earlier_addresses
        ]

    def ended_addresses(self) -> set[int]:
        """Return the addresses of the objects that are known to have ended since, which may be those of
        other objects now."""
        return {
            value.address
            for value in (*self.names.values(), *self.retained)
            if type(value) is ReleasedObject and value.ended
        }

    def written_since(self, blocks: Iterable[MemorySpan]) -> dict[MemorySpan, list[MemorySpan]]:
        """Return the parts of the memory of arrays that may have been written since."""
        return self._memory.written_since(self.serial, blocks)


def _release(value: object, kept_addresses: set[int]) -> object:
    """Return what a step keeps in place of an object."""
    is_plain = address_of(type(value)) in ATOMS
    if is_plain or address_of(value) in kept_addresses:
        return value
    return ReleasedObject(value)


def _find_released(value: object, current_value: object = None) -> object:
    """Return the object that a step has kept or released; `MISSING` if it has ended.

    Args:
        value: The object, or a `ReleasedObject` for it.
        current_value: An object that may be the same.
    """
    if type(value) is ReleasedObject:
        return value.value(current_value)
    return value


def _describe_work(work: Any) -> Unrestored:
    """Say that a task, or a callback with this handle, goes on."""
    is_task = hasattr(work, "get_name")
    if is_task:
        return Unrestored(f"task {work.get_name()}", "this task was started and still runs")
    return Unrestored("event loop", "a callback was scheduled and will run")
