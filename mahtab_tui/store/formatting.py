"""Texts of a session in lists."""

from __future__ import annotations

import time

from mahtab_tui.store.sqlite import SessionRow

_UNITS = ("B", "KB", "MB", "GB")


def day(row: SessionRow) -> str:
    """Return when a session was last used."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(row.last))


def cost(row: SessionRow) -> str:
    """Return what a session has cost, as far as that is known."""
    return f"${row.cost:.2f}" if row.cost else "–"


def size(row: SessionRow) -> str:
    """Return how much the records of a session take."""
    amount, unit = float(row.size), 0
    while amount >= 1000 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if row.size else "–"
