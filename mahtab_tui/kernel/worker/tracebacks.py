"""Tracebacks as the person reads them: the cell's lines, without our own frames, short where they repeat."""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of all that is ours around a cell: the worker's parent, which holds the in-process kernel."""
CELL = "In ["
"""How the file names of cells begin."""

_HEAD, _TAIL = 12, 20
"""Frames that are shown of a traceback that is longer."""


def cell_filename(cell: int) -> str:
    """The name under which a cell's source is in `linecache`."""
    return f"{CELL}{cell}]"


class _ShortStack(traceback.StackSummary):
    """A stack of which the middle is left out: a recursion's thousand frames say no more than thirty."""

    def format(self, **options: Any) -> list[str]:
        lines = super().format(**options)
        if len(lines) <= _HEAD + _TAIL + 1:
            return lines
        return [*lines[:_HEAD], f"  … {len(lines) - _HEAD - _TAIL} frames left out …\n", *lines[-_TAIL:]]


def format_exception(error: BaseException, tb: TracebackType | None) -> str:
    """The text of a traceback. Calls the exception's `__str__`, which may itself misbehave."""
    described = traceback.TracebackException(type(error), error, tb, lookup_lines=False)
    if isinstance(error, KeyboardInterrupt):
        described.__cause__ = described.__context__ = None
        _keep(described, cells_only=True)
    else:
        _keep(described, cells_only=False)
        _without_own_frames(described, set())
    return "".join(described.format())


def format_safely(error: BaseException) -> str:
    """As `format_exception`, for any exception that a person's code can make."""
    try:
        return format_exception(error, error.__traceback__)
    except RecursionError:
        return f"{type(error).__name__}\n"
    except KeyboardInterrupt:
        return f"{type(error).__name__}: (interrupted while its traceback was made)\n"
    except BaseException as again:
        return f"{type(error).__name__}: (its traceback cannot be shown: {type(again).__name__})\n"


def syntax_error(error: BaseException) -> str:
    """A source that does not compile: what and where, and no frames, since none of it ran."""
    return "".join(traceback.TracebackException(type(error), error, None).format())


def _keep(described: traceback.TracebackException, cells_only: bool) -> None:
    """Begin the stack at the cell: what called it is ours, and asyncio's."""
    frames = list(described.stack)
    cells = [index for index, frame in enumerate(frames) if frame.filename.startswith(CELL)]
    if cells_only:
        frames = [frames[index] for index in cells]
    elif cells:
        frames = frames[cells[0] :]
    described.stack = _ShortStack(frames)


def _without_own_frames(described: traceback.TracebackException, seen: set[int]) -> None:
    if id(described) in seen:
        return
    seen.add(id(described))
    described.stack = _ShortStack([f for f in described.stack if not f.filename.startswith(HERE)])
    linked = [described.__cause__, described.__context__, *(getattr(described, "exceptions", None) or ())]
    for other in linked:
        if other is not None:
            _without_own_frames(other, seen)
