"""Parts of a cell's result that are passed on: its pictures, and the pieces of its output."""

from __future__ import annotations

import io

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.kernel.values import CellResult, OutputKind

MAX_PICTURES = 8
"""Pictures of a cell that agents get."""


def first_pictures(result: CellResult) -> tuple[DisplayRecord, ...]:
    """Return the first pictures of a cell, which agents get."""
    pictures = [display for display in result.displays if display.mime == "image/png"]
    return tuple(pictures[:MAX_PICTURES])


def pictures(result: CellResult) -> list[str]:
    """Return the first pictures of a cell, as base64."""
    return [display.data for display in first_pictures(result)]


def pieces(result: CellResult) -> list[tuple[OutputKind, str]]:
    """Return the pieces of a cell's output, with the kind of each."""
    # Line breaks stay as they are.
    output = io.StringIO(result.output, newline="")
    return [(kind, output.read(count)) for kind, count in result.kinds]
