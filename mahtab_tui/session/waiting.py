"""Kernels that wait for a screen."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.elsewhere.notes import Noted, noted_kernels
from mahtab_tui.kernel.held.waiting import waiting_kernels
from mahtab_tui.store.claim import held
from mahtab_tui.store.database import suppress_all_but_damage
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import list_sessions


def waiting_elsewhere() -> list[Noted]:
    """Return the kernels on other machines whose sessions no program has open, without asking whether they are still there."""
    open_now = held()
    return [noted for noted in noted_kernels() if noted.session not in open_now]


def sentence_about_waiting_kernels(project: Path) -> str:
    """Say which sessions of a folder have a kernel that waits, and how to go on with it; empty for none.

    Raises `StoreError` if the session file was damaged.
    """
    waiting = {noted.session: f" on {one_line(noted.station.label)}" for noted in waiting_elsewhere()}
    for kernel in waiting_kernels():
        if not kernel.has_host and kernel.has_run:
            waiting[kernel.session] = f" and runs cell {kernel.cell}" if kernel.cell else ""
    if not waiting:
        return ""
    here: list[str] = []
    with suppress_all_but_damage():
        here = [row.id for row in list_sessions(database(), str(project)) if row.id in waiting]
    if not here:
        return ""
    more = f" ({len(here) - 1} more: mahtab-tui sessions)" if len(here) > 1 else ""
    return f"The kernel of session {here[0]} waits{waiting[here[0]]}. To go on with it: mahtab-tui --resume {here[0]}{more}"
