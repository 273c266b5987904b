"""Python's debugger in cells."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType
from typing import Any

from ..stdlib import late_import
from .tracebacks import CELL, OUR_FOLDER

_SOURCE_LINES = 5
"""Lines to show where the debugger stops."""


def set_trace(*_: object, header: str | None = None, **__: object) -> None:
    """Stop in the caller, as `pdb.set_trace`.

    Other arguments, which `breakpoint` passes on, are ignored.
    """
    debugger = _make_debugger()
    if header is not None:
        debugger.message(header)
    debugger.set_trace(sys._getframe().f_back)


def post_mortem(traceback: TracebackType) -> None:
    """Inspect the frames of an error, as `pdb.post_mortem`."""
    debugger = _make_debugger()
    debugger.reset()
    debugger.interaction(None, traceback)


def load_pdb() -> Any:
    """Import pdb, and let it use our debugger."""
    pdb: Any = late_import("pdb")
    pdb.set_trace = set_trace
    return pdb


def _make_debugger() -> Any:
    """Return a debugger for cells.

    Its class is made here, because pdb is imported only when a cell needs it.
    """
    pdb: Any = load_pdb()

    class Debugger(pdb.Pdb):  # type: ignore[misc]
        """A pdb that hides the frames outside the cell, finds the source of cells, and shows lines
        around the one where it stops."""

        lists_frames = False
        """Whether it prints all frames, each in one line."""

        def canonic(self, filename: str) -> str:
            if filename.startswith(CELL):
                return filename
            return str(super().canonic(filename))

        def get_stack(
            self, frame: FrameType | None, tb: TracebackType | None
        ) -> tuple[list[tuple[FrameType, int]], int]:
            stack, current = super().get_stack(frame, tb)
            chosen_entry = stack[current]
            # The frames that have called the first one of this program belong to the kernel, too.
            are_ours = [_is_ours(frame) for frame, _ in stack]
            first_of_ours = are_ours.index(True) if True in are_ours else 0
            visible_entries = [entry for entry in stack[first_of_ours:] if not _is_ours(entry[0])]
            if chosen_entry in visible_entries:
                return visible_entries, visible_entries.index(chosen_entry)
            return visible_entries, len(visible_entries) - 1

        def print_stack_trace(self, *arguments: object) -> None:
            self.lists_frames = True
            try:
                super().print_stack_trace(*arguments)
            finally:
                self.lists_frames = False

        def print_stack_entry(
            self, frame_lineno: tuple[FrameType, int], *arguments: object
        ) -> None:
            frame, line = frame_lineno
            source = late_import("linecache").getlines(frame.f_code.co_filename, frame.f_globals)
            if self.lists_frames or not 0 < line <= len(source):
                super().print_stack_entry(frame_lineno, *arguments)
                return

            position = self.format_stack_entry(frame_lineno, "\n").partition("\n")[0]
            self.message(f"> {position}")
            first_line = max(1, line - _SOURCE_LINES // 2)
            nearby_lines = source[first_line - 1 : first_line - 1 + _SOURCE_LINES]
            for number, text in enumerate(nearby_lines, first_line):
                mark = "->" if number == line else "  "
                self.message(f"{mark} {number:>4}  {text.rstrip()}")

    # The worker's package, whatever its name is: a step must not lead from a cell into our modules.
    our_package = __package__.rpartition(".")[0]
    # The kernel handles interrupts itself.
    return Debugger(nosigint=True, skip=[f"{our_package}.*"])


def _is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of this program."""
    return frame.f_code.co_filename.startswith(OUR_FOLDER)
