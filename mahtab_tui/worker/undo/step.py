"""A step of the undo history: the state of a namespace before a cell."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from ..values.objects import ATOMS, MISSING, address_of
from .actions import Unrestored
from .checkpoint import Checkpoint
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
        names: dict[str, object],
        memory: DirtyPages,
        scheduled: Sequence[object],
    ) -> None:
        """scheduled: tasks and callbacks of the event loop that wait."""
        self.serial = serial
        self.cell = cell
        self.names = names
        """Objects by name; a `ReleasedObject` for one that is not kept alive."""
        self._memory = memory
        self._scheduled = [weakref.ref(work) for work in scheduled]
        self.retained: list[Any] = []
        self._released = False
        self.mentioned: tuple[str, ...] = ()
        self.changes_inside = False
        """Whether the cell may have changed an object in place."""
        self.checkpoint: Checkpoint | None = None
        self.blocks: frozenset[MemorySpan] = frozenset()
        """The memory of arrays that this step keeps alive."""
        self.process: ProcessState | None = None
        self.side_state: SideState | None = None
        self.libraries: list[LibrarySnapshot] = []
        self.side_effects: dict[Unrestored, None] = {}
        self.failure = ""

    def release(self, retained: set[int]) -> None:
        """Keep only these objects alive, by address, and plain values."""
        if self._released:
            return
        self._released = True

        def release(value: object) -> object:
            is_plain = address_of(type(value)) in ATOMS
            if is_plain or address_of(value) in retained:
                return value
            return ReleasedObject(value)

        self.names = {name: release(value) for name, value in self.names.items()}
        self.retained = list(map(release, self.retained))

    def live_objects(self) -> list[Any]:
        """Return the retained objects that live, at the same addresses as in the checkpoint."""
        return [value for value in map(_find_released, self.retained) if value is not MISSING]

    def live_names(self, namespace: dict[str, object]) -> dict[str, object]:
        values_by_name = {
            name: _find_released(value, namespace.get(name)) for name, value in self.names.items()
        }
        return {name: value for name, value in values_by_name.items() if value is not MISSING}

    def find_new_work(self, scheduled: Sequence[object]) -> list[Unrestored]:
        """Name the tasks and callbacks that were started since."""
        earlier_addresses = {address_of(reference()) for reference in self._scheduled}
        return [
            _describe_work(work) for work in scheduled if address_of(work) not in earlier_addresses
        ]

    def ended(self) -> set[int]:
        return {
            value.address
            for value in (*self.names.values(), *self.retained)
            if type(value) is ReleasedObject and value.ended
        }

    def written_since(self, blocks: Iterable[MemorySpan]) -> dict[MemorySpan, list[MemorySpan]]:
        return self._memory.written_since(self.serial, blocks)


def _describe_work(work: object) -> Unrestored:
    """work: a task, or the handle of a callback."""
    if hasattr(work, "get_name"):
        return Unrestored(f"task {work.get_name()}", "this task was started and still runs")
    return Unrestored("event loop", "a callback was scheduled and will run")


def _find_released(value: object, current_value: object = None) -> object:
    if type(value) is ReleasedObject:
        return value.value(current_value)
    return value
