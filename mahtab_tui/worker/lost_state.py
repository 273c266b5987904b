"""What a cell sets outside its namespace: settings, attributes of libraries, threads. In a locked
fork it is lost, and the model is told."""

from __future__ import annotations

from typing import Any

from .objects import class_module, is_class
from .undo.process_state import (
    LibrarySnapshot,
    ProcessState,
    SideState,
    take_library_snapshots,
)

MAX_LABELS = 20
_SET_BY_IMPORTS = frozenset(("sys.meta_path", "sys.path_hooks"))
_SEEDING = ("seed", "set_state", "setstate")


class StateRecorder:
    """Takes the place of the undo history in a fork: it is told when code may change objects."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._process: ProcessState | None = None
        self._threads: SideState | None = None
        self._libraries: list[LibrarySnapshot] = []

    def begin(self, cell: int) -> None:
        """Do nothing: a fork runs one cell."""

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> None:
        """Note the state before the code runs. mentioned: the names in it."""
        self._libraries = take_library_snapshots(mentioned, self._namespace, _is_of_cells)
        self._process = ProcessState()
        self._threads = SideState(())

    def changed_labels(self, source: str) -> list[str]:
        """Return names of what differs now."""
        if self._process is None or self._threads is None:
            return []
        labels = [label for label in self._process.find_changes() if label not in _SET_BY_IMPORTS]
        if not any(word in source for word in _SEEDING):
            # Whoever only draws random numbers does not mind that they come again.
            labels = [label for label in labels if not label.endswith("random")]
        for library in self._libraries:
            labels += [f"{library.label}.{name}" for name, _, _ in library.iter_changes(())]
        if self._threads.find_started_threads():
            labels.append("threads")
        return labels[:MAX_LABELS]


def _is_of_cells(value: Any) -> bool:
    """Return whether a class is defined in a cell: changes in it count as those of a variable."""
    return is_class(value) and class_module(value) == "__main__"
