"""The state before one cell."""

from __future__ import annotations

from typing import Any

from .beside import Beside
from .checkpoint import Checkpoint
from .comparing import Roots
from .memory import WrittenMemory
from .outside import Deeds
from .process_state import ProcessState
from .reach import Patch
from .tables import Block


class Step:
    def __init__(self, serial: int, cell: int, names: dict[str, Any]) -> None:
        self.serial = serial
        self.cell = cell
        self.names = names
        self.kept: list[Any] = []
        self.touched: tuple[str, ...] = ()
        self.changes_inside = False
        """Whether the cell may have changed an object in place."""
        self.checkpoint: Checkpoint | None = None
        self.memory: WrittenMemory | None = None
        """Which memory was written since the checkpoint."""
        self.blocks: frozenset[Block] = frozenset()
        """The memory of the arrays that existed."""
        self.process: ProcessState | None = None
        self.beside: Beside | None = None
        self.patches: list[Patch] = []
        """Attributes of libraries' modules that the cell sets."""
        self.deeds = Deeds()
        """What the cell has done outside."""
        self.failure = ""
        """Why there is no checkpoint."""

    def end(self) -> list[Checkpoint]:
        """End the checkpoint; return it, so that the caller can wait until its memory is free."""
        ended, self.checkpoint = self.checkpoint, None
        if ended is None:
            return []
        ended.end()
        return [ended]

    def roots(self) -> Roots:
        """Return where a walk through the state begins."""
        return Roots({name: value for name, value in self.names.items() if name != "__builtins__"}, self.kept)


def touched_names(steps: list[Step]) -> tuple[str, ...]:
    """Return the names that the cells of these steps mention."""
    return tuple(dict.fromkeys(name for step in steps for name in step.touched))
