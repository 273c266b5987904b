"""What a cell's result holds: its output by kind, and its pictures."""

from __future__ import annotations

import base64

from mahtab_tui.kernel.base import CellResult, OutputKind

MOST = 8
"""Pictures of one cell that are taken."""


def pictures(result: CellResult) -> list[bytes]:
    """The pictures (PNG) that a cell has shown, at most `MOST`."""
    return [base64.b64decode(display.data) for display in result.displays if display.mime == "image/png"][:MOST]


def pieces(result: CellResult) -> list[tuple[OutputKind, str]]:
    """A result's output, by kind and in order."""
    found: list[tuple[OutputKind, str]] = []
    start = 0
    for kind, count in result.kinds:
        found.append((kind, result.output[start : start + count]))
        start += count
    return found
