"""A step of the undo history: the state of a namespace before a cell."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from ..values.objects import ATOMS, MISSING, address_of
from .actions import Unrestored
from .checkpoint_process import Checkpoint
from .libraries import LibrarySnapshot, ReleasedObject
from .memory import DirtyPages, MemorySpan
from .process_state import ProcessState
from .side_state import SideState


class Step:
    """The state before a cell."""

    def __init__(
        self,
        serial: int,
        cell: int,
        names: dict[str, Any],
        memory: DirtyPages,
        scheduled: Sequence[object],
    ) -> None:
        """Note the names; `UndoHistory` adds the rest if the cell may change objects in place.

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
        self.retained: list[object] = []
        """Objects that the names lead to, or a `ReleasedObject` for them."""
        self.mentioned: tuple[str, ...] = ()
        """The names in the cell's code."""
        self.changes_inside = False
        """Whether the cell may have changed an object in place."""
        self.checkpoint: Checkpoint | None = None
        """The process that keeps this state; None if there is none, or if it has ended."""
        self.blocks: frozenset[MemorySpan] = frozenset()
        """The memory of arrays that this step keeps alive."""
        self.process: ProcessState | None = None
        self.side_state: SideState | None = None
        self.libraries: list[LibrarySnapshot] = []
        self.side_effects: dict[Unrestored, None] = {}
        """What the cell did outside the kernel, in order."""
        self.failure = ""
        """Why there is no checkpoint, as a clause."""
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
            namespace: As it is now.
        """
        values_by_name = {
            name: _find_released(value, namespace.get(name)) for name, value in self.names.items()
        }
        return {name: value for name, value in values_by_name.items() if value is not MISSING}

    def find_new_work(self, scheduled: Sequence[object]) -> list[Unrestored]:
        """Describe the tasks and callbacks that were started since.

        Args:
            scheduled: Those that wait now.
        """
        earlier_addresses = {address_of(reference()) for reference in self._scheduled}
        return [
            _describe_work(work) for work in scheduled if address_of(work) not in earlier_addresses
        ]

    def ended(self) -> set[int]:
        """Return the addresses of the objects that have ended since."""
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
        current_value: An object that may be the same.
    """
    if type(value) is ReleasedObject:
        return value.value(current_value)
    return value


def _describe_work(work: Any) -> Unrestored:
    """
    Args:
        work: A task, or the handle of a callback.
    """
    if hasattr(work, "get_name"):
        return Unrestored(f"task {work.get_name()}", "this task was started and still runs")
    return Unrestored("event loop", "a callback was scheduled and will run")
