"""The user's actions on the kernel, and kernels that wait for a screen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import AssistantReplIn, Notice, ReplIn, UserReplIn, emit
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import WaitingKernel, stop, waiting_kernels
from mahtab_tui.kernel.remote.process import KernelNote, noted_kernels
from mahtab_tui.store.database import locked_sessions, suppress_all_but_corruption
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import list_sessions, records_with_tag
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components

MOST_WAITING = 5
"""Not counting kernels that run a cell."""

_CODE = 60
_Kernel = WaitingKernel | KernelNote


def waiting_remote_kernels() -> list[KernelNote]:
    """Return the kernels on other machines whose sessions are not open; they may have ended."""
    open_now = locked_sessions()
    return [noted for noted in noted_kernels() if noted.session not in open_now]


def local_detached_kernels() -> list[WaitingKernel]:
    """Return this machine's kernels without a screen, longest wait first."""
    open_now = locked_sessions()
    alone = (kernel for kernel in waiting_kernels() if not kernel.has_host)
    found = (kernel for kernel in alone if kernel.session not in open_now)
    return sorted(found, key=lambda kernel: kernel.since)


def stop_surplus_kernels() -> None:
    idle = [kernel for kernel in local_detached_kernels() if kernel.has_run and not kernel.cell]
    for kernel in idle[: max(0, len(idle) - MOST_WAITING)]:
        with suppress(OSError):
            stop(kernel)


def summarize_detached_kernels() -> dict[str, str]:
    """Return what each kernel without a screen is doing, by session."""
    kernels = chain[_Kernel](waiting_remote_kernels(), local_detached_kernels())
    return {kernel.session: describe_kernel(kernel) for kernel in kernels}


def stop_detached_kernel(session: str) -> str:
    """Stop this machine's waiting kernel of a session; returns a sentence."""
    found = [kernel for kernel in local_detached_kernels() if kernel.session == session]
    if not found:
        return f"No kernel of this machine waits for it. To end one elsewhere: mahtab-tui sessions stop {session}"
    try:
        ended = stop(found[0])
    except OSError as error:
        return f"Its kernel cannot be reached: {error.strerror or error}."
    process = found[0].pid
    return (
        "Its kernel has ended." if ended else f"Its kernel (process {process}) has not ended yet."
    )


def describe_detached_kernels() -> Iterator[str]:
    """Yield a sentence for each kernel without a screen."""
    local = [kernel for kernel in local_detached_kernels() if kernel.has_run]
    for kernel in chain[_Kernel](local, waiting_remote_kernels()):
        id, what = kernel.session, f"{describe_kernel(kernel)}{foreign_folder(kernel.session)}"
        how = f"Resume: mahtab-tui --resume {id}. Stop: mahtab-tui sessions stop {id}"
        yield f"Session {id} has a kernel in the background, {what}. {how}"


def describe_kernel(kernel: _Kernel) -> str:
    age = _format_age(time.time() - kernel.since)
    if isinstance(kernel, KernelNote):
        return f"started {age} ago on {one_line(kernel.station.label)}"
    use = _use(kernel.pid)
    if not kernel.cell:
        return f"idle for {age}, {use}"
    code = _running_code(kernel)
    return f"running cell {kernel.cell} for {age}, {use}{f': {code}' if code else ''}"


def foreign_folder(session: str) -> str:
    """Return a session's folder if it is not the current one."""
    with suppress_all_but_corruption():
        for row in list_sessions(database(), None, begins=session):
            if row.id == session and row.project != str(Path.cwd()):
                return f" in {one_line(row.project)}"
    return ""


def _use(pid: int) -> str:
    """Describe the CPU time and the memory of a process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return "? MB"
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return f"CPU {_format_age(seconds)}, {pages * 4096 / 2**20:,.0f} MB"


def _running_code(kernel: WaitingKernel) -> str:
    code = ""
    with suppress_all_but_corruption():
        for kind in (UserReplIn, AssistantReplIn):
            for each in records_with_tag(database(), kernel.session, kind.tag):
                if isinstance(each, ReplIn) and each.cell == kernel.cell:
                    code = code or " ".join(each.text.split())
    return one_line(code if len(code) <= _CODE else f"{code[: _CODE - 1]}…")


def _format_age(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    if minutes < 1:
        return f"{rest} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class KernelControl:
    """The user's actions on the kernel. Methods return immediately."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._kernel = parts.masked

    def kill(self) -> None:
        self._on_thread("The kernel could not be killed", self._kernel.kill)

    def reset(self) -> None:
        self._on_thread("The kernel could not be reset", self._parts.cells.reset_kernel)

    def activate(self, python: str) -> None:
        change = partial(self._kernel.activate, python)
        self._on_thread("The interpreter was not changed", self._parts.cells.change_kernel, change)

    def move(self, address: str) -> None:
        """Switch to a kernel at another address; empty for this machine."""

        def work() -> None:
            if self._parts.make_kernel is None:
                raise KernelError("The kernel of this session belongs to another program.")
            new = self._parts.make_kernel(address)
            text = f"Switched to {address or 'this machine'}."
            self._parts.cells.change_kernel(lambda: self._kernel.replace_kernel(new, text))

        self._on_thread("The kernel was not moved", work)

    def change_directory(self, path: str) -> None:
        def work() -> None:
            folder = self._kernel.change_directory(path)
            emit(self._parts.log, Notice(f"The working directory is now {folder}."))

        self._on_thread("The working directory was not changed", work)

    def redo(self) -> None:
        self._on_thread("Nothing was redone", self._parts.undo.redo)

    def mark_private(self, name: str, private: bool) -> None:
        self._on_thread("Nothing was marked", self._parts.private.mark, name, private)

    def _on_thread(self, failure: str, work: Callable[..., object], *args: object) -> None:
        def guarded() -> None:
            try:
                work(*args)
            except KernelError as error:
                emit(self._parts.log, Notice(f"{failure}. {error}", level="error"))

        start_thread("kernel-work", guarded)
