"""The variables of the frames of the last error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from ..tracebacks import CELL, cell_filename
from .pace import LookError

_CAUSE, _CONTEXT, _SUPPRESSED, _TRACEBACK = (
    BaseException.__dict__[name] for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__")
)
"""Read past what the exception's own class says."""
_MOST = 100
"""Linked exceptions that are looked at."""


def locals_of(cell: int, file: str, line: int, function: str, place: int, of: int) -> dict[str, Any]:
    """The variables of a frame of the error that a cell has ended with. place: which it is of the frames (`of`) at the same line of the same
    function. Raises `LookError` where they cannot be had."""
    error = getattr(sys, "last_value", None)
    errors = list(_linked(error)) if isinstance(error, BaseException) else []
    if not errors or _cell_of(_TRACEBACK.__get__(errors[-1])) != cell_filename(cell):
        raise LookError("Its variables are gone: other code has failed since, or the kernel is another one.")
    if function == "<module>":
        raise LookError("Its variables are those of the namespace.")
    found = [
        frame
        for each in errors
        for frame, number in _frames(_TRACEBACK.__get__(each))
        if number == line and frame.f_code.co_name == function and file in (frame.f_code.co_filename, os.path.abspath(frame.f_code.co_filename))
    ]
    if len(found) != of:
        raise LookError("Its variables are not known: the same line stands in the error more often than it is told.")
    held = found[place].f_locals
    if isinstance(held, dict):
        return dict(dict.items(held))
    if type(held).__name__ == "FrameLocalsProxy" and type(held).__module__ == "builtins":  # Python 3.13's own
        return dict(held)
    raise LookError("Its variables are held by an object of the person's own, whose code does not run for this.")


def _linked(error: BaseException) -> Iterator[BaseException]:
    """An exception behind those that it was raised from, as a traceback tells them."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(chain) < _MOST and not any(each is following for each in chain):
        chain.append(following)
        cause = _CAUSE.__get__(following)
        following = cause if cause is not None or _SUPPRESSED.__get__(following) else _CONTEXT.__get__(following)
    return reversed(chain)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _cell_of(traceback: TracebackType | None) -> str:
    """The name of the cell in which an error began."""
    return next((frame.f_code.co_filename for frame, _ in _frames(traceback) if frame.f_code.co_filename.startswith(CELL)), "")
