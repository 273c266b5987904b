"""The messages of a kernel, and the check of all that it sends.

The names of the fields are those on the wire. Code of the user's may have forged a message.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Hashable
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mahtab_tui.bus.values import Change, FileChange, Status, TracebackFrame
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import OutputKind

LIST_PART_ITEMS = 2_000
"""Items of a long list in a message that are checked at once."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelReady:
    """The first message of a kernel."""

    python: str
    """Its version."""
    executable: str
    cwd: str
    pid: int
    locks: tuple[str, ...] = ("keep", "discard")
    """The ways to confine a cell that the kernel knows. Kernels of version 0.1 do not say, and know
    these two."""


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The message about the end of a cell: an `executor.Outcome`, checked because code of the user's
    may have forged it. The host adds the output, and makes a `CellResult` of it."""

    cell: int
    status: Status
    pieces: tuple[tuple[OutputKind, str], ...]
    """The value or the traceback, after what was printed."""
    changes: tuple[Change, ...]
    frames: tuple[TracebackFrame, ...]
    duration: float
    """In seconds."""
    cwd: str
    seal: str = ""
    """The token of the request to run the cell, which user code does not know."""
    needs: str = ""
    """The access that a cell in a locked fork lacked."""
    files: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True)
class CallMessage:
    """A kernel's request to call a function of the host."""

    id: int
    name: str
    args: dict[str, Any]
    is_from_main_thread: bool = True
    """Whether the running cell waits for it. Kernels of version 0.1 do not say."""


def checked(kind: type[T], reply: object) -> T:
    """Convert JSON values to an object of `kind`. Raises `KernelError`."""
    try:
        prepared_reply = _check_long_lists(kind, reply)
        return cast("T", _adapter(cast("Hashable", kind)).validate_python(prepared_reply))
    except ValidationError as error:
        # The input is left out, because it may be large or a secret.
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        field = ".".join(map(str, problems[0]["loc"]))
        name = getattr(kind, "__name__", kind)
        raise KernelError(f"{name} {field}: {problems[0]['msg']}") from None


def _check_long_lists(kind: Any, reply: object) -> object:
    """Check the items of long lists in parts, because Python's other threads, such as the one that
    reads keys, wait while pydantic checks a value.

    Args:
        kind: The type of the reply.
        reply: JSON values.

    Returns:
        The reply with objects in place of these items, which are not checked again. A list with an
        invalid item stays as it is, so that the error of the whole reply says where the item is.
    """
    if isinstance(reply, list) and len(reply) > LIST_PART_ITEMS:
        item_kind, *others = typing.get_args(kind) or (Any,)
        if others not in ([], [...]):
            return reply
        part_adapter = _adapter(cast("Any", list)[item_kind])
        items: list[Any] = []
        try:
            for start in range(0, len(reply), LIST_PART_ITEMS):
                items += part_adapter.validate_python(reply[start : start + LIST_PART_ITEMS])
        except ValidationError:
            return reply
        return items
    if isinstance(reply, dict) and is_dataclass(kind):
        field_kinds = _field_kinds(cast("Hashable", kind))
        return {
            name: _check_long_lists(field_kinds.get(name), value) for name, value in reply.items()
        }
    return reply


@functools.cache
def _field_kinds(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", kind))
