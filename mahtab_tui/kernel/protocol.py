"""Validates messages from a kernel, since user code in the kernel may have sent them."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.restoration import Restoration
from mahtab_tui.kernel.values import Change, OutputKind, Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelReady:
    """The first message of a kernel."""

    python: str
    executable: str
    cwd: str
    pid: int


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The end of a cell."""

    cell: int
    status: Status
    pieces: tuple[tuple[OutputKind, str], ...]
    changes: tuple[Change, ...]
    frames: tuple[tuple[str, int, str, int], ...]
    """The fields of each `TracebackFrame`."""
    duration: float
    cwd: str
    seal: str = ""
    needs: str = ""


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call from kernel code to the host."""

    id: int
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """Effect of an undo, and the working directory after it."""

    restoration: Restoration
    cwd: str


def checked(kind: type[T], told: object) -> T:
    """Convert JSON values to an object of `kind`. Raises `KernelError` if they are invalid."""
    try:
        value: T = _adapter(cast("Hashable", kind)).validate_python(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise KernelError(f"{kind.__name__} {place}: {first['msg']}") from None
    return value


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", kind))
