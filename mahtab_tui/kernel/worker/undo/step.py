"""The state before one cell."""

from __future__ import annotations

from typing import Any

from ..statics import MISSING, address_of
from .checkpoint import Checkpoint
from .checkpoint_responder import Roots
from .dirty_pages import DirtyPages
from .ending import Ending
from .part import ATOMS
from .process_state import ProcessState
from .reach import Library
from .side_effects import SideEffectLog
from .side_state import Beside
from .tables import Block


class Step:
    def __init__(self, serial: int, cell: int, names: dict[str, Any]) -> None:
        self.serial = serial
        self.cell = cell
        self.names = names
        """The objects of names; an `Ending` for one that is not kept alive."""
        self.kept: list[Any] = []
        self.released = False
        """Whether objects that must end are no longer kept alive."""
        self.touched: tuple[str, ...] = ()
        self.changes_inside = False
        """Whether the cell may have changed an object in place."""
        self.checkpoint: Checkpoint | None = None
        self.memory: DirtyPages | None = None
        """Which memory was written since the checkpoint."""
        self.blocks: frozenset[Block] = frozenset()
        """The memory of arrays that this step keeps alive."""
        self.process: ProcessState | None = None
        self.beside: Beside | None = None
        self.libraries: list[Library] = []
        """The modules and classes of libraries that the cell mentions."""
        self.deeds = SideEffectLog()
        """Effects of the cell outside the kernel."""
        self.failure = ""
        """Why there is no checkpoint."""

    def end(self) -> list[Checkpoint]:
        """End the checkpoint; return it, so that the caller can wait until its memory is free."""
        ended, self.checkpoint = self.checkpoint, None
        if ended is None:
            return []
        ended.end()
        return [ended]

    def release(self, kept: set[int]) -> None:
        """Keep only these objects alive, by address, and plain values."""
        if self.released:
            return
        self.released = True
        self.names = {name: _released(value, kept) for name, value in self.names.items()}
        self.kept = [_released(value, kept) for value in self.kept]

    def roots(self, namespace: dict[str, Any]) -> Roots:
        """Return where a walk through the state begins. namespace: as it is now."""
        names = {
            name: value for name, value in self.living(namespace).items() if name != "__builtins__"
        }
        return Roots(
            names, [found for value in self.kept if (found := _living(value)) is not MISSING]
        )

    def living(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Return the names with their objects, as far as these live. namespace: as it is now."""
        found = {name: _living(value, namespace.get(name)) for name, value in self.names.items()}
        return {name: value for name, value in found.items() if value is not MISSING}

    def ended(self) -> set[int]:
        """Return the addresses of objects that have ended; others may have them now."""
        return {
            value.address
            for value in (*self.names.values(), *self.kept)
            if type(value) is Ending and value.ended
        }


def _released(value: Any, kept: set[int]) -> Any:
    return (
        value
        if address_of(type(value)) in ATOMS or address_of(value) in kept or type(value) is Ending
        else Ending(value)
    )


def _living(value: Any, now: Any = None) -> Any:
    return value.value(now) if type(value) is Ending else value


def touched_names(steps: list[Step]) -> tuple[str, ...]:
    """Return the names that the cells of these steps mention."""
    return tuple(dict.fromkeys(name for step in steps for name in step.touched))
