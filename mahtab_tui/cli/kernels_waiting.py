"""Kernels that wait for a screen: as lines of a list, and ending one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.bus import tags
from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.bus.records import ReplIn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.printing import answer, fail, say, warn
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.elsewhere.notes import Noted, noted_kernels
from mahtab_tui.kernel.elsewhere.stations import stop as stop_elsewhere
from mahtab_tui.kernel.held.waiting import WaitingKernel, waiting_kernels
from mahtab_tui.kernel.held.waiting import stop as stop_kernel
from mahtab_tui.session.waiting import waiting_elsewhere
from mahtab_tui.store.claim import held
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import list_sessions, records_of

_CODE = 60
"""Characters of a cell's code that are printed."""


def kernels_that_wait() -> Iterator[str]:
    """Return a line for each kernel that waits for a screen, the longest wait first; with a heading."""
    waiting = sorted((kernel for kernel in waiting_kernels() if not kernel.has_host), key=lambda kernel: kernel.since)
    elsewhere = waiting_elsewhere()
    if waiting or elsewhere:
        yield "Kernels that wait (mahtab-tui --resume ID goes on, sessions stop ID ends one):"
    for kernel in waiting:
        yield f"  {one_line(kernel.session)}  {_memory(kernel.pid)}  {_work(kernel)}{_folder(kernel.session)}"
    for noted in reversed(elsewhere):
        begun = _age(time.time() - noted.since)
        yield f"  {one_line(noted.session)}  on {one_line(noted.station.label)}, begun {begun} ago{_folder(noted.session)}"


def stop(session: str) -> None:
    """End the kernel that waits for a session. Ends the command with a sentence and code 1 if it cannot."""
    found: list[WaitingKernel | Noted] = [kernel for kernel in waiting_kernels() if kernel.session.startswith(session)]
    found += [noted for noted in noted_kernels() if noted.session.startswith(session)]
    if len({kernel.session for kernel in found}) != 1:
        fail(f"There {'is no kernel' if not found else f'are {len(found)} kernels'} of a session whose ID begins with {session!r}.", 1)
    for kernel in found:
        if kernel.session in held() or (isinstance(kernel, WaitingKernel) and kernel.has_host):
            fail(f"The kernel of session {kernel.session} has a screen. Leave that.", 1)
        if isinstance(kernel, Noted):
            _stop_elsewhere(kernel)
        else:
            _stop_here(kernel)


def _stop_elsewhere(kernel: Noted) -> None:
    address = one_line(kernel.station.label)
    say(f"Connecting to {address} …", err=True)
    try:
        stop_elsewhere(kernel, answer)
    except KernelError as error:
        kernel.forget()
        warn(one_line(str(error)))
        fail(
            f"The kernel of session {kernel.session} is not looked for any more. It ends by itself when no cell has run for the time of keep_kernel.",
            1,
        )
    say(f"The kernel of session {kernel.session} on {address} has ended.")


def _stop_here(kernel: WaitingKernel) -> None:
    try:
        if not stop_kernel(kernel):
            fail(f"The kernel of session {kernel.session} (process {kernel.pid}) has not ended yet.", 1)
    except OSError as error:
        fail(f"The kernel of session {kernel.session} cannot be reached: {error.strerror or error}.", 1)
    say(f"The kernel of session {kernel.session} has ended.")


def _work(kernel: WaitingKernel) -> str:
    age = _age(time.time() - kernel.since)
    if not kernel.cell:
        return f"idle for {age}"
    code = " ".join(_code(kernel).split())
    shown = code if len(code) <= _CODE else f"{code[: _CODE - 1]}…"
    return f"running cell {kernel.cell} for {age}: {one_line(shown)}"


def _folder(session: str) -> str:
    """The folder of a session, if it is not this one: the list is of all folders."""
    try:
        row = next((row for row in list_sessions(database(), None, begins=session) if row.id == session), None)
    except StoreError as error:
        warn(str(error))
        return ""
    return "" if row is None or row.project == str(Path.cwd()) else f"  in {one_line(row.project)}"


def _code(kernel: WaitingKernel) -> str:
    try:
        cells = [cell for tag in (tags.USER_REPL_IN, tags.ASSISTANT_REPL_IN) for cell in records_of(database(), kernel.session, tag)]
    except StoreError as error:
        warn(str(error))
        return ""
    return next((cell.text for cell in cells if isinstance(cell, ReplIn) and cell.cell == kernel.cell), "")


def _age(seconds: float) -> str:
    minutes = max(0, int(seconds)) // 60
    if minutes < 1:
        return f"{max(0, int(seconds))} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _memory(pid: int) -> str:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return "? MB"
    return f"{pages * 4096 / 2**20:,.0f} MB"
