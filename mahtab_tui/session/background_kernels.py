"""The kernels of sessions that are not open, and what they have printed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import AssistantReplIn, Notice, Record, ReplIn, ReplOut, UserReplIn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.detached import DetachedKernel, detached_kernels, recovered_output, stop
from mahtab_tui.kernel.remote.notes import KernelNote, noted_kernels
from mahtab_tui.kernel.terminal_output import TerminalOutput
from mahtab_tui.session.cell_records import output_attrs, output_records, unfinished_cells
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_file import suppress_all_but_corruption
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import locked_sessions
from mahtab_tui.store.sqlite import SqliteStore, records_with_tag

MAX_IDLE_KERNELS = 5
"""Detached kernels that may wait without running a cell."""
MAX_DESCRIBED_CODE_CHARS = 60
"""Characters of a running cell's code in the description of its kernel."""


def add_recovered_output(
    store: SqliteStore, past: Sequence[Record], secrets: Secrets
) -> list[Record]:
    """Add the output of a cell that ended while no screen was open, because its kernel ended.

    Args:
        store: The resumed session's store, which gets the new records.
        past: The session's records.
        secrets: Masks the output.

    Returns:
        The records with the new ones.

    Raises:
        StoreError: The store cannot be written.
    """
    records = list(past)
    for recovered in recovered_output(store.session):
        # The previous screen stored the beginning of this output before it closed.
        other_records = [record for record in records if not _is_cut_output(record, recovered.cell)]
        started = _find_unfinished(other_records, recovered.cell)
        if started is not None:
            ending = [_end_record(started, recovered.output, secrets), _end_notice(recovered.cell)]
            store.cells_continue = True
            for record in ending:
                store.append(record)
            # The last record lists what was restored, so it stays the last one.
            records = [*other_records[:-1], *ending, *other_records[-1:]]
        recovered.path.unlink(missing_ok=True)
    return records


def _is_cut_output(record: Record, cell: int) -> bool:
    """Return whether a record is the output of a cell during which the program was killed."""
    return isinstance(record, ReplOut) and record.cell == cell and record.cut


def _find_unfinished(records: Sequence[Record], cell: int) -> ReplIn | None:
    """Return the record of a cell's start; None if the cell has ended."""
    for started in unfinished_cells(records):
        if started.cell == cell:
            return started
    return None


def _end_record(started: ReplIn, output: bytes, secrets: Secrets) -> ReplOut:
    """Return the record of a cell's end. output: all that it printed."""
    terminal = TerminalOutput()
    terminal.add("stdout", output.decode(errors="replace"))
    text, kinds = terminal.text()
    return output_records(started).whole(
        secrets.mask(text),
        **output_attrs(started),
        status=str(Status.DIED),
        kinds=kinds,
        rewritten=terminal.rewritten,
        time=time.time(),
    )


def _end_notice(cell: int) -> Notice:
    text = f"The kernel ended in cell {cell} while no screen was open."
    return Notice(text, level="warning", time=time.time())


def remote_detached_kernels() -> list[KernelNote]:
    """Return the kernels on other machines whose sessions are not open; they may have ended."""
    open_sessions = locked_sessions()
    return [note for note in noted_kernels() if note.session not in open_sessions]


def local_detached_kernels() -> list[DetachedKernel]:
    """Return this machine's kernels without a screen, longest wait first."""
    open_sessions = locked_sessions()
    kernels = [
        kernel
        for kernel in detached_kernels()
        if not kernel.has_host and kernel.session not in open_sessions
    ]
    return sorted(kernels, key=lambda kernel: kernel.since)


def stop_surplus_kernels() -> None:
    """Stop the kernels that have been idle longest, if too many wait."""
    idle = [kernel for kernel in local_detached_kernels() if kernel.has_run and not kernel.cell]
    surplus_count = max(0, len(idle) - MAX_IDLE_KERNELS)
    for kernel in idle[:surplus_count]:
        with suppress(OSError):
            stop(kernel)


def summarize_detached_kernels() -> dict[str, str]:
    """Return what each kernel without a screen is doing, by session."""
    kernels: list[DetachedKernel | KernelNote] = [
        *remote_detached_kernels(),
        *local_detached_kernels(),
    ]
    return {kernel.session: describe_kernel(kernel) for kernel in kernels}


def stop_detached_kernel(session: str) -> str:
    """Stop this machine's waiting kernel of a session; returns a sentence."""
    kernels = [kernel for kernel in local_detached_kernels() if kernel.session == session]
    if not kernels:
        return f"No kernel of this machine waits for it. To end one elsewhere: mahtab-tui sessions stop {session}"
    kernel = kernels[0]
    try:
        has_ended = stop(kernel)
    except OSError as error:
        return f"Its kernel cannot be reached: {error.strerror or error}."
    if not has_ended:
        return f"Its kernel (process {kernel.pid}) has not ended yet."
    return "Its kernel has ended."


def describe_detached_kernels() -> str:
    """Return a sentence about the kernels without a screen; empty if there are none."""
    local_kernels = [kernel for kernel in local_detached_kernels() if kernel.has_run]
    kernels: list[DetachedKernel | KernelNote] = [*local_kernels, *remote_detached_kernels()]
    if not kernels:
        return ""
    if len(kernels) == 1:
        id = kernels[0].session
        activity = f"{describe_kernel(kernels[0])}{foreign_folder(id)}"
        commands = f"Resume: mahtab-tui --resume {id}. Stop: mahtab-tui sessions stop {id}"
        return f"Session {id} has a kernel in the background, {activity}. {commands}"

    busy_count = sum(bool(kernel.cell) for kernel in local_kernels)
    busy_note = f", {busy_count:,} of them busy" if busy_count else ""
    return (
        f"{len(kernels):,} kernels are in the background{busy_note}. /sessions lists them;"
        " mahtab-tui sessions stop --idle stops those that run no cell"
    )


def describe_kernel(kernel: DetachedKernel | KernelNote) -> str:
    """Return what a kernel without a screen is doing, as a clause."""
    age = _format_age(time.time() - kernel.since)
    if isinstance(kernel, KernelNote):
        return f"started {age} ago on {one_line(kernel.station.label)}"
    resources = _describe_resources(kernel.pid)
    if not kernel.cell:
        return f"idle for {age}, {resources}"
    activity = f"running cell {kernel.cell} for {age}, {resources}"
    code = _running_code(kernel)
    return f"{activity}: {code}" if code else activity


def foreign_folder(session: str) -> str:
    """Return a session's folder if it is not the current one."""
    with suppress_all_but_corruption():
        for row in list_sessions(database(), None, begins=session):
            if row.id == session and row.project != str(Path.cwd()):
                return f" in {one_line(row.project)}"
    return ""


def _describe_resources(pid: int) -> str:
    """Return the CPU time and the resident memory of a process."""
    try:
        resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # The fields after the command's name, which may contain spaces and brackets: see proc(5).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu_ticks = int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return "? MB"
    cpu_seconds = cpu_ticks / os.sysconf("SC_CLK_TCK")
    megabytes = resident_pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return f"CPU {_format_age(cpu_seconds)}, {megabytes:,.0f} MB"


def _running_code(kernel: DetachedKernel) -> str:
    """Return the beginning of the code that a kernel runs, in one line; empty if it is unknown."""
    code = ""
    with suppress_all_but_corruption():
        for record_class in (UserReplIn, AssistantReplIn):
            for record in records_with_tag(database(), kernel.session, record_class.tag):
                if isinstance(record, ReplIn) and record.cell == kernel.cell:
                    code = code or " ".join(record.text.split())
    if len(code) > MAX_DESCRIBED_CODE_CHARS:
        code = f"{code[: MAX_DESCRIBED_CODE_CHARS - 1]}…"
    return one_line(code)


def _format_age(seconds: float) -> str:
    minutes, remaining_seconds = divmod(max(0, int(seconds)), 60)
    if minutes < 1:
        return f"{remaining_seconds} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60:,} h {minutes % 60} min"
