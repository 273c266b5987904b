"""The kernels that run without a screen: which there are, what they do, and how they are stopped."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from mahtab_tui.bus.records import AssistantReplIn, ReplIn, UserReplIn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.detached import DetachedKernel, detached_kernels, stop
from mahtab_tui.kernel.remote.notes import KernelNote, noted_kernels
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_file import suppress_all_but_corruption
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import locked_sessions
from mahtab_tui.store.sqlite import records_with_tag

MAX_IDLE_KERNELS = 5
"""Detached kernels that may wait without running a cell."""
MAX_DESCRIBED_CODE_CHARS = 60
"""Characters of a running cell's code in the description of its kernel."""

_BYTES_PER_MEGABYTE = 2**20
_USER_TICKS_FIELD = 11
_SYSTEM_TICKS_FIELD = 12
"""Where the CPU times stand among the fields of ``/proc/PID/stat`` that follow the command's name,
from 0: see proc(5)."""


def remote_detached_kernels() -> list[KernelNote]:
    """Return the kernels on other machines whose sessions are not open; they may have ended."""
    open_sessions = locked_sessions()
    return [note for note in noted_kernels() if note.session not in open_sessions]


def local_detached_kernels() -> list[DetachedKernel]:
    """Return this machine's kernels without a screen.

    The one that has been in its state longest, running a cell or idle, comes first.
    """
    open_sessions = locked_sessions()
    kernels = [
        kernel
        for kernel in detached_kernels()
        if not kernel.has_host and kernel.session not in open_sessions
    ]
    return sorted(kernels, key=lambda kernel: kernel.since)


def stop_surplus_kernels() -> None:
    """Stop the kernels that have been idle longest, if too many wait."""
    idle_kernels = [
        kernel for kernel in local_detached_kernels() if kernel.has_run and not kernel.cell
    ]
    surplus_count = max(0, len(idle_kernels) - MAX_IDLE_KERNELS)
    for kernel in idle_kernels[:surplus_count]:
        with suppress(OSError):
            stop(kernel)


def stop_detached_kernel(session: str) -> str:
    """Stop this machine's waiting kernel of a session, and wait a short while for its end.

    Returns:
        A sentence for the user that says what has become of the kernel.
    """
    kernels = [kernel for kernel in local_detached_kernels() if kernel.session == session]
    if not kernels:
        return (
            "No kernel of this machine waits for it."
            f" To end one elsewhere: mahtab-tui sessions stop {session}"
        )
    kernel = kernels[0]
    try:
        has_ended = stop(kernel)
    except OSError as error:
        return f"Its kernel cannot be reached: {error.strerror or error}."
    if not has_ended:
        return f"Its kernel (process {kernel.pid}) has not ended yet."
    return "Its kernel has ended."


def summarize_detached_kernels() -> dict[str, str]:
    """Return what each kernel without a screen is doing, as a clause, by session."""
    descriptions = {note.session: describe_kernel(note) for note in remote_detached_kernels()}
    for kernel in local_detached_kernels():
        descriptions[kernel.session] = describe_kernel(kernel)
    return descriptions


def describe_detached_kernels() -> str:
    """Return a sentence about the kernels without a screen; empty if there are none."""
    local_kernels = [kernel for kernel in local_detached_kernels() if kernel.has_run]
    kernels: list[DetachedKernel | KernelNote] = [*local_kernels, *remote_detached_kernels()]
    if not kernels:
        return ""
    if len(kernels) == 1:
        session = kernels[0].session
        activity = f"{describe_kernel(kernels[0])}{foreign_folder(session)}"
        return (
            f"Session {session} has a kernel in the background, {activity}."
            f" Resume: mahtab-tui --resume {session}. Stop: mahtab-tui sessions stop {session}"
        )

    busy_count = sum(bool(kernel.cell) for kernel in local_kernels)
    busy_note = f", {busy_count:,} of them busy" if busy_count else ""
    return (
        f"{len(kernels):,} kernels are in the background{busy_note}. mahtab-tui sessions --all lists"
        " them, mahtab-tui sessions stop --idle stops those that run no cell"
    )


def describe_kernel(kernel: DetachedKernel | KernelNote) -> str:
    """Return what a kernel without a screen is doing, as a clause such as ``idle for 3 min, CPU 2 s,
    80 MB``."""
    age = _format_duration(time.time() - kernel.since)
    if isinstance(kernel, KernelNote):
        return f"started {age} ago on {one_line(kernel.station.label)}"

    resources = _describe_resources(kernel.pid)
    if not kernel.cell:
        return f"idle for {age}, {resources}"
    activity = f"running cell {kernel.cell} for {age}, {resources}"
    code = _running_code(kernel)
    return f"{activity}: {code}" if code else activity


def foreign_folder(session: str) -> str:
    """Return where a session was started, as the end of a clause such as `` in /data``.

    Empty if that is the current folder, or unknown.
    """
    with suppress_all_but_corruption():
        for row in list_sessions(database(), None, begins=session):
            if row.id == session and row.project != str(Path.cwd()):
                return f" in {one_line(row.project)}"
    return ""


def _describe_resources(pid: int) -> str:
    """Return the CPU time and the resident memory of a process, such as ``CPU 2 s, 80 MB``."""
    try:
        resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # The command's name stands in brackets, and may itself contain spaces and brackets.
        _, _, text_after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        fields = text_after_name.split()
        cpu_ticks = int(fields[_USER_TICKS_FIELD]) + int(fields[_SYSTEM_TICKS_FIELD])
    except (OSError, ValueError, IndexError):
        return "? MB"
    cpu_seconds = cpu_ticks / os.sysconf("SC_CLK_TCK")
    megabytes = resident_pages * os.sysconf("SC_PAGE_SIZE") / _BYTES_PER_MEGABYTE
    return f"CPU {_format_duration(cpu_seconds)}, {megabytes:,.0f} MB"


def _running_code(kernel: DetachedKernel) -> str:
    """Return the beginning of the code that a kernel runs, in one line; empty if it is unknown."""
    code = " ".join(_stored_code(kernel).split())
    if len(code) > MAX_DESCRIBED_CODE_CHARS:
        code = f"{code[: MAX_DESCRIBED_CODE_CHARS - 1]}…"
    return one_line(code)


def _stored_code(kernel: DetachedKernel) -> str:
    """Return the code of a kernel's running cell as its session has stored it.

    Empty if it is unknown.
    """
    with suppress_all_but_corruption():
        for record_class in (UserReplIn, AssistantReplIn):
            for record in records_with_tag(database(), kernel.session, record_class.tag):
                if (
                    isinstance(record, ReplIn)
                    and record.cell == kernel.cell
                    and record.text.strip()
                ):
                    return record.text
    return ""


def _format_duration(seconds: float) -> str:
    """Return a duration such as ``12 s``, ``5 min`` or ``1 h 5 min``."""
    minutes, remaining_seconds = divmod(max(0, int(seconds)), 60)
    if minutes < 1:
        return f"{remaining_seconds} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, remaining_minutes = divmod(minutes, 60)
    return f"{hours:,} h {remaining_minutes} min"
