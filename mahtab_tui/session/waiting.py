"""Tells a new screen of kernels that wait in its project."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.kernel.held.waiting import waiting_kernels
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import list_sessions


def sentence_about_waiting_kernels(project: Path) -> str:
    """Say which sessions of a folder have a kernel that waits, and how to go on with it; empty for none."""
    waiting = {kernel.session: kernel for kernel in waiting_kernels() if not kernel.has_host and kernel.has_run}
    if not waiting:
        return ""
    try:
        here = [row.id for row in list_sessions(database(), str(project)) if row.id in waiting]
    except StoreError:
        return ""
    if not here:
        return ""
    running = f" and runs cell {waiting[here[0]].cell}" if waiting[here[0]].cell else ""
    more = f" ({len(here) - 1} more: mahtab-tui sessions)" if len(here) > 1 else ""
    return f"The kernel of session {here[0]} waits{running}. To go on with it: mahtab-tui --resume {here[0]}{more}"
