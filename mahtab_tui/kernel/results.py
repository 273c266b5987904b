"""Reads a cell's result: its output by kind, and its pictures. Describes what an undo did."""

from __future__ import annotations

import base64

from mahtab_tui.kernel.restoration import Restoration
from mahtab_tui.kernel.values import CellResult, Change, ChangeKind, OutputKind

MOST = 8
"""Pictures that are taken from a cell."""


def pictures(result: CellResult) -> list[bytes]:
    """Return the pictures (PNG) that a cell has shown, at most `MOST`."""
    return [
        base64.b64decode(display.data) for display in result.displays if display.mime == "image/png"
    ][:MOST]


def pieces(result: CellResult) -> list[tuple[OutputKind, str]]:
    """Return a result's output by kind, in order."""
    found: list[tuple[OutputKind, str]] = []
    start = 0
    for kind, count in result.kinds:
        found.append((kind, result.output[start : start + count]))
        start += count
    return found


_OPPOSITES: dict[ChangeKind, ChangeKind] = {"added": "deleted", "deleted": "added"}


def taken_back(restoration: Restoration) -> list[Change]:
    """Return what the cells have changed that an undo takes back: its changes in the opposite
    direction."""
    return [
        Change(each.name, _OPPOSITES.get(each.change, each.change), each.before, each.variable)
        for each in restoration.changes
    ]


def not_restored(restoration: Restoration) -> str:
    """Return what an undo has not restored, with reasons; empty if it restored everything."""
    reasons = [
        f"{each.name}: {each.reason}" if each.name else each.reason
        for each in restoration.kept_as_is
    ]
    return f"Not restored: {'; '.join(reasons)}" if reasons else ""
