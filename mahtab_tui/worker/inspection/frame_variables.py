"""The variables of the frames of a cell's error, while Python still has it."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from ..cells.failed_code import FailedFrame, copy_locals, iter_frames
from ..cells.tracebacks import CELL, cell_filename
from .limits import InspectionError

_MAX_ERRORS = 100
"""Errors of a chain that are read."""

# Read by the descriptors of `BaseException`, because a class may have properties of these names.
_CAUSE = BaseException.__dict__["__cause__"]
_CONTEXT = BaseException.__dict__["__context__"]
_SUPPRESSED = BaseException.__dict__["__suppress_context__"]


class FramePlace(NamedTuple):
    """Which frame of a cell's error is meant."""

    cell: int
    """The number of the cell that failed."""
    file: str
    """The file of the frame, as the traceback names it."""
    line: int
    """Its line in the file, from 1."""
    function: str
    """Its function."""
    position: int
    """Which it is among the frames at this line of this function, from 0."""
    frame_count: int
    """How many these are."""

    def matches(self, frame: FailedFrame) -> bool:
        """Return whether a frame is at this line of this function."""
        code = frame.frame.f_code
        if frame.line != self.line or code.co_name != self.function:
            return False
        return self.file in (code.co_filename, os.path.abspath(code.co_filename))


def frame_variables(place: FramePlace) -> dict[str, object]:
    """Return the variables of a frame of the last error. Raises `InspectionError` if the error is gone,
    or the frame is not certain; the message is a sentence."""
    errors: list[BaseException] = []
    last_error = getattr(sys, "last_value", None)
    if isinstance(last_error, BaseException):
        errors = _exception_chain(last_error)
    if not errors or _failed_file(errors[-1]) != cell_filename(place.cell):
        raise InspectionError(
            "The variables are gone: other code has failed since, or the kernel was restarted."
        )
    if place.function == "<module>":
        raise InspectionError("The variables of this frame are those of the namespace.")
    frames = [frame for error in errors for frame in iter_frames(error) if place.matches(frame)]
    if len(frames) != place.frame_count:
        raise InspectionError(
            "The variables are unknown: the same line occurs in the error more often than shown."
        )
    variables = copy_locals(frames[place.position].frame)
    if variables is None:
        raise InspectionError("The variables are in a custom mapping, whose code is not run here.")
    return variables


def _failed_file(error: BaseException) -> str:
    """Return the name of the cell in which an error was raised; empty if it was in none."""
    for frame in iter_frames(error):
        file = frame.frame.f_code.co_filename
        if file.startswith(CELL):
            return file
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
