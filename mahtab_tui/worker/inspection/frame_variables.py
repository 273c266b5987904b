"""The variables of the frames of a cell's error, while Python still has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType

from ..cells.tracebacks import CELL, cell_filename
from .columns import InspectionError

_MAX_ERRORS = 100
"""Errors of a chain that are read."""

# Read by the descriptors of `BaseException`, because a class may have properties of these names.
_CAUSE = BaseException.__dict__["__cause__"]
_CONTEXT = BaseException.__dict__["__context__"]
_SUPPRESSED = BaseException.__dict__["__suppress_context__"]
_TRACEBACK = BaseException.__dict__["__traceback__"]


def frame_locals(
    cell: int, file: str, line: int, function: str, frame_index: int, frame_count: int
) -> dict[str, object]:
    """Return the variables of a frame of the last error.

    Args:
        cell: The number of the cell that failed.
        file: The file of the frame, as the traceback names it.
        line: Its line in the file, from 1.
        function: Its function.
        frame_index: Its position among the frames at this line of this function, from 0.
        frame_count: How many these are.

    Raises:
        InspectionError: The error is gone, or the frame is not certain; the message is a sentence.
    """
    errors: list[BaseException] = []
    last_error = getattr(sys, "last_value", None)
    if isinstance(last_error, BaseException):
        errors = _exception_chain(last_error)
    if not errors or _failed_file(errors[-1]) != cell_filename(cell):
        raise InspectionError(
            "The variables are gone: other code has failed since, or the kernel was restarted."
        )
    if function == "<module>":
        raise InspectionError("The variables of this frame are those of the namespace.")
    frames = [
        frame
        for error in errors
        for frame, frame_line in _frames(error)
        if frame_line == line
        and frame.f_code.co_name == function
        and file in (frame.f_code.co_filename, os.path.abspath(frame.f_code.co_filename))
    ]
    if len(frames) != frame_count:
        raise InspectionError(
            "The variables are unknown: the same line occurs in the error more often than shown."
        )
    return _copy_locals(frames[frame_index])


def _copy_locals(frame: FrameType) -> dict[str, object]:
    variables = frame.f_locals
    if isinstance(variables, dict):
        return dict(dict.items(variables))
    # From Python 3.13 on.
    if type(variables).__name__ == "FrameLocalsProxy" and type(variables).__module__ == "builtins":
        return dict(variables)
    raise InspectionError("The variables are in a custom mapping, whose code is not run here.")


def _failed_file(error: BaseException) -> str:
    """Return the name of the cell in which an error was raised; empty if it was in none."""
    for frame, _ in _frames(error):
        if frame.f_code.co_filename.startswith(CELL):
            return frame.f_code.co_filename
    return ""


def _exception_chain(error: BaseException) -> list[BaseException]:
    """Return the errors that a traceback of this one shows, this one last."""
    chain: list[BaseException] = []
    next_error: BaseException | None = error
    while next_error is not None and len(chain) < _MAX_ERRORS:
        if any(next_error is other_error for other_error in chain):
            break
        chain.append(next_error)
        cause = _CAUSE.__get__(next_error)
        is_context_hidden = cause is not None or _SUPPRESSED.__get__(next_error)
        if is_context_hidden:
            next_error = cause
        else:
            next_error = _CONTEXT.__get__(next_error)
    chain.reverse()
    return chain


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield each frame of an error's traceback, and its line."""
    traceback: TracebackType | None = _TRACEBACK.__get__(error)
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
