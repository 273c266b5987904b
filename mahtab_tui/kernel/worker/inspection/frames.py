"""Reads the variables in the frames of the last error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from ..tracebacks import CELL, cell_filename
from .pace import LookError

_CAUSE, _CONTEXT, _SUPPRESSED, _TRACEBACK = (
    BaseException.__dict__[name]
    for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__")
)
"""Bypass attributes of the exception's own class."""
_MOST = 100
"""Chained exceptions that are examined at most."""


def locals_of(
    cell: int, file: str, line: int, function: str, place: int, of: int
) -> dict[str, Any]:
    """Return the variables of a frame of the error that ended a cell. place: its index among the
    `of` frames at this line of this function.

    Raises `LookError` if they are not available."""
    error = getattr(sys, "last_value", None)
    errors = list(_linked(error)) if isinstance(error, BaseException) else []
    if not errors or _cell_of(_TRACEBACK.__get__(errors[-1])) != cell_filename(cell):
        raise LookError(
            "The variables are gone: other code has failed since, or the kernel was restarted."
        )
    if function == "<module>":
        raise LookError("The variables of this frame are those of the namespace.")
    found = [
        frame
        for each in errors
        for frame, number in _frames(_TRACEBACK.__get__(each))
        if number == line
        and frame.f_code.co_name == function
        and file in (frame.f_code.co_filename, os.path.abspath(frame.f_code.co_filename))
    ]
    if len(found) != of:
        raise LookError(
            "The variables are unknown: the same line occurs in the error more often than shown."
        )
    held = found[place].f_locals
    if isinstance(held, dict):
        return dict(dict.items(held))
    if (
        type(held).__name__ == "FrameLocalsProxy" and type(held).__module__ == "builtins"
    ):  # since Python 3.13
        return dict(held)
    raise LookError("The variables are in a custom mapping, whose code is not run here.")


def _linked(error: BaseException) -> Iterator[BaseException]:
    """Return the chain of an exception in the order of its traceback, itself last."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while (
        following is not None
        and len(chain) < _MOST
        and not any(each is following for each in chain)
    ):
        chain.append(following)
        cause = _CAUSE.__get__(following)
        following = (
            cause
            if cause is not None or _SUPPRESSED.__get__(following)
            else _CONTEXT.__get__(following)
        )
    return reversed(chain)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _cell_of(traceback: TracebackType | None) -> str:
    """Return the file name of the cell in which an error was raised."""
    return next(
        (
            frame.f_code.co_filename
            for frame, _ in _frames(traceback)
            if frame.f_code.co_filename.startswith(CELL)
        ),
        "",
    )
