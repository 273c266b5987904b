"""The requests that a kernel's worker answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.values import (
    Completions,
    Detail,
    Explanation,
    Fingerprint,
    FolderListing,
    KeepResult,
    NamesRead,
    PrivateUse,
    Restoration,
    RestoredFile,
    SavedNamespace,
    UndoStep,
)
from mahtab_tui.worker.guard.protected_places import ResolvedPath

T = TypeVar("T")

UNMASKED = "*"
"""Leaves the whole result of an operation unmasked, instead of some fields."""
CHANGE_FIELDS = "name kind change"
"""The fields of `Change` and `Variable` that are not masked."""


class Operation(Generic[T]):
    """A kind of request to a kernel's worker. It describes the answer."""

    name = ""
    """The name of its attribute in `Operations`, which is also that of the request."""

    def __init__(self, result: type[T], unmasked: str = "", *, timeout: float = 5.0) -> None:
        """Describe an operation.

        Args:
            result: The type of its result.
            unmasked: Fields of the result, at any depth, whose texts are not masked, because they
                identify something or are our own words.
            timeout: Seconds for the answer.
        """
        self.result = result
        self.unmasked = frozenset(unmasked.split())
        self.timeout = timeout

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """The answer to an undo: what was restored, and the working directory after it."""

    restoration: Restoration
    cwd: str
    """Empty if it is not known."""


class Operations:
    """All requests.

    Each is sent by the method of `Kernel` with its name, unless a comment says otherwise.
    """

    change_directory = Operation(str)
    # Sent by `can_import` and `import_module`.
    installed = Operation(bool)
    packages = Operation(dict[str, str])
    list_folder = Operation(FolderListing)
    variables = Operation(list[Variable], "name kind")
    private_use = Operation(PrivateUse, UNMASKED, timeout=15.0)
    names_read = Operation(NamesRead, UNMASKED)
    resolve_paths = Operation[list[ResolvedPath | None]](
        cast("Any", list[ResolvedPath | None]), UNMASKED, timeout=15.0
    )
    files_changed_by_commands = Operation(list[str], UNMASKED, timeout=15.0)
    fingerprints = Operation(dict[str, Fingerprint], "digest", timeout=120.0)
    inspect = Operation(Detail, "name", timeout=10.0)
    describe = Operation(dict[str, str])
    named_values = Operation(dict[str, str])
    result_doubts = Operation(tuple[str, ...])
    inspect_object = Operation(
        dict[str, Any], "step path expression library_type kind state views picture", timeout=15.0
    )
    complete = Operation(Completions, "text kind", timeout=0.5)
    explain = Operation[Explanation | None](cast("Any", Explanation | None), "name")
    cannot_lock = Operation(str)
    protects_files = Operation(bool)
    undo_steps = Operation(tuple[UndoStep, ...])
    preview_undo = Operation(UndoAnswer, CHANGE_FIELDS, timeout=120.0)
    undo = Operation(UndoAnswer, CHANGE_FIELDS, timeout=120.0)
    redo = Operation(UndoAnswer, CHANGE_FIELDS, timeout=120.0)
    saved_namespace = Operation(SavedNamespace, "name kind", timeout=90.0)
    keep = Operation(KeepResult)
    restore = Operation(RestoredFile, CHANGE_FIELDS, timeout=30.0)

    # Requests that the kinds of kernels send for purposes of their own.
    interrupt_cell = Operation(object, timeout=1.0)
    functions = Operation(object, timeout=60.0)
    servers = Operation(object, timeout=60.0)
    ended = Operation(dict[str, Any], timeout=10.0)
    leave = Operation(object)
