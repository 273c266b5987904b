"""The variables of the frames of a cell's error, as long as `sys.last_value` is this error."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from ..cells.failed_code import FailedFrame, copy_locals, iter_frames
from ..cells.tracebacks import CELL, cell_filename
from .limits import InspectionError

_MAX_ERRORS = 100
"""How many errors of a chain are read, the one that was raised last first."""

# An error's class may have properties of these names, which are the user's code. These descriptors of
# `BaseException` read the attributes without them: `_CAUSE.__get__(error)`.
_CAUSE = BaseException.__dict__["__cause__"]
_CONTEXT = BaseException.__dict__["__context__"]
_SUPPRESSED = BaseException.__dict__["__suppress_context__"]


class FramePlace(NamedTuple):
    """Says which frame of a cell's error is meant.

    If a function calls itself, many frames are at the same line of it: `position` is then the number of
    the frame among them, in the order in which the error and its causes are printed.
    """

    cell: int
    """The number of the cell that failed."""
    file: str
    """The file of the frame, as the traceback names it."""
    line: int
    """The line of the frame in the file, from 1."""
    function: str
    """The name of the function that the frame runs; `<module>` for code outside functions."""
    position: int
    """The number of the frame among those at this line of this function, from 0."""
    frame_count: int
    """How many frames are at this line of this function. If the kernel counts others, it is not certain
    which frame is meant."""

    def matches(self, frame: FailedFrame) -> bool:
        """Return whether a frame is at this line of this function, whatever its `position` is."""
        code = frame.frame.f_code
        if frame.line != self.line or code.co_name != self.function:
            return False
        # Tracebacks name files by their whole paths; code may have been compiled with a relative one.
        return self.file in (code.co_filename, os.path.abspath(code.co_filename))


def frame_variables(place: FramePlace) -> dict[str, object]:
    """Return the local variables of a frame of the last error, by their names.

    Raises:
        InspectionError: The error is not the last one any more, the frame has no variables of its own, or
            it is not certain which frame is meant. The message is a sentence for the user.
    """
    errors: list[BaseException] = []
    last_error = getattr(sys, "last_value", None)
    if isinstance(last_error, BaseException):
        errors = _exception_chain(last_error)
    # The last one is the error itself, after its causes.
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
    """Return the file name of the first cell in an error's traceback, as `cell_filename` makes it; empty if
    there is none."""
    for frame in iter_frames(error):
        file = frame.frame.f_code.co_filename
        if file.startswith(CELL):
            return file
    return ""


def _exception_chain(error: BaseException) -> list[BaseException]:
    """Return the errors that Python prints for an error, in their order: its causes and contexts, then
    the error itself. At most `_MAX_ERRORS`."""
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
    # Python prints what happened first at the top.
    chain.reverse()
    return chain
