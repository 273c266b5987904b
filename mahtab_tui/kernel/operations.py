"""The operations of a kernel: the time limit, the result type and the unmasked fields of each."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from mahtab_tui.kernel.base import KernelError, KernelInfo
from mahtab_tui.kernel.values import (
    CellResult,
    Completions,
    Detail,
    Explanation,
    KeepResult,
    PrivateUse,
    Restoration,
    RestoredFile,
    SavedNamespace,
    UndoStep,
    Variable,
)

T = TypeVar("T")

ALL = "*"
"""Leaves the whole result unmasked, instead of some fields."""


class Operation(Generic[T]):
    """A request to a kernel's worker, or another operation of `Kernel`."""

    name = ""
    """Its name in `Kernel`, and the request's op."""

    def __init__(self, result: type[T], unmasked: str = "", *, timeout: float = 5.0) -> None:
        """result: type that a reply is converted to. unmasked: fields in it, at any depth, that are
        not masked, because they identify something or are the program's own words; all other
        texts are masked. timeout: seconds."""
        self.result = result
        self.unmasked = frozenset(unmasked.split())
        self.timeout = timeout

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """Effect of an undo, and the working directory after it."""

    restoration: Restoration
    cwd: str


CHANGES = "name kind change"

LOAD_TIMEOUT = 60.0
"""Seconds for `Kernel.installed` if it imports the module."""


class Operations:
    """Table of all operations whose result holds text, and of all requests."""

    execute = Operation(CellResult, f"{CHANGES} kinds mime value file")
    resume_cell = Operation(CellResult, f"{CHANGES} kinds mime value file")
    info = Operation(KernelInfo, ALL)
    saved_before = Operation(tuple[Any, ...], ALL)
    change_directory = Operation(str)
    installed = Operation(bool)
    variables = Operation(list[Variable], "name kind")
    private_use = Operation(PrivateUse, ALL, timeout=15.0)
    # Inspecting and describing have their own time limits of about 2 s; the inspector has 10 s for
    # sorting and the like.
    inspect = Operation(Detail, "name", timeout=10.0)
    describe = Operation(dict[str, str])
    inspect_object = Operation(
        dict[str, Any], "step path expression known kind state views picture", timeout=15.0
    )
    complete = Operation(Completions, "text kind", timeout=0.5)
    explain = Operation[Explanation | None](cast("Any", Explanation | None), "name")
    cannot_lock = Operation(str)
    undo_steps = Operation(tuple[UndoStep, ...])
    preview_undo = Operation(UndoAnswer, CHANGES, timeout=120.0)
    undo = Operation(UndoAnswer, CHANGES, timeout=120.0)
    redo = Operation(UndoAnswer, CHANGES, timeout=120.0)
    saved_namespace = Operation(SavedNamespace, "name kind", timeout=30.0)
    keep = Operation(KeepResult)
    restore = Operation(RestoredFile, CHANGES, timeout=30.0)

    # Requests that are no operations of `Kernel`.
    interrupt_cell = Operation(object, timeout=1.0)
    functions = Operation(object, timeout=60.0)
    servers = Operation(object, timeout=60.0)
    ended = Operation(dict[str, Any], timeout=10.0)
    leave = Operation(object)


class WorkerOperations:
    """Operations of a `Kernel` that are a request to its worker."""

    _turn: threading.Lock
    """Held while a cell runs, unless it is nested."""

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        """Send a request and wait for its reply. timeout: if not the operation's. Raises
        `KernelError`."""
        raise NotImplementedError

    def installed(self, module: str, *, load: bool = False) -> bool:
        timeout = LOAD_TIMEOUT if load else None
        return self._ask(Operations.installed, timeout, module=module, load=load)

    def variables(self) -> list[Variable]:
        return self._ask(Operations.variables)

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        return self._ask(Operations.private_use, names=list(names), codes=list(codes))

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        return self._ask(Operations.inspect, name=name, run_code=run_code)

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        return self._ask(Operations.describe, names=list(names), limit=limit)

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask(Operations.inspect_object, request=request)

    def complete(self, code: str, cursor: int) -> Completions:
        return self._ask(Operations.complete, code=code, cursor=cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        return self._ask(Operations.explain, code=code, cursor=cursor)

    def undo_steps(self) -> tuple[UndoStep, ...]:
        return self._ask(Operations.undo_steps)

    def preview_undo(self, cell: int) -> Restoration:
        return self._undo(Operations.preview_undo, cell)

    def undo(self, cell: int) -> Restoration:
        return self._undo(Operations.undo, cell)

    def redo(self) -> Restoration:
        return self._undo(Operations.redo, 0)

    def _undo(self, operation: Operation[UndoAnswer], cell: int) -> Restoration:
        if not self._turn.acquire(blocking=False):
            raise KernelError("A cell is running. Wait until it ends, or interrupt it; then undo.")
        try:
            return self._ask(operation, cell=cell).restoration
        finally:
            self._turn.release()
