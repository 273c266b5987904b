"""Kernels that wait for a screen: as lines of a list, and ending one."""

from __future__ import annotations

from collections.abc import Iterator

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.printing import answer, fail, say, warn
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached.waiting import WaitingKernel, waiting_kernels
from mahtab_tui.kernel.detached.waiting import stop as end_kernel
from mahtab_tui.kernel.remote.notes import Noted, noted_kernels
from mahtab_tui.kernel.remote.stations import stop as stop_elsewhere
from mahtab_tui.session.detached_kernels import (
    begun,
    cpu_seconds,
    folder,
    memory,
    waiting_elsewhere,
    waiting_here,
    work,
)
from mahtab_tui.store.session_lock import locked_sessions


def kernels_that_wait() -> Iterator[str]:
    """Return a line for each kernel that waits for a screen, the longest wait first; with a
    heading."""
    waiting = waiting_here()
    elsewhere = waiting_elsewhere()
    if waiting or elsewhere:
        yield "Running in the background (mahtab-tui --resume ID reattaches, sessions stop ID stops one):"
    for kernel in waiting:
        use = f"{memory(kernel.pid)}, CPU {cpu_seconds(kernel.pid):,.0f} s"
        yield f"  {one_line(kernel.session)}  {use}  {work(kernel)}{folder(kernel.session)}"
    for noted in reversed(elsewhere):
        yield f"  {one_line(noted.session)}  on {one_line(noted.station.label)}, started {begun(noted)} ago{folder(noted.session)}"


def stop(session: str) -> None:
    """End the kernel that waits for a session. Ends the command with a sentence and code 1 if it
    cannot."""
    found: list[WaitingKernel | Noted] = [
        kernel for kernel in waiting_kernels() if kernel.session.startswith(session)
    ]
    found += [noted for noted in noted_kernels() if noted.session.startswith(session)]
    if len({kernel.session for kernel in found}) != 1:
        fail(
            f"There {'is no kernel' if not found else f'are {len(found)} kernels'} whose session ID begins with {session!r}.",
            1,
        )
    for kernel in found:
        if kernel.session in locked_sessions() or (
            isinstance(kernel, WaitingKernel) and kernel.has_host
        ):
            fail(f"Session {kernel.session} is open in another terminal. Close it there first.", 1)
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
            "Forgot that kernel. It stops after `keep_kernel` idle hours.",
            1,
        )
    say(f"Stopped the kernel of session {kernel.session} on {address}.")


def _stop_here(kernel: WaitingKernel) -> None:
    try:
        if not end_kernel(kernel):
            fail(
                f"The kernel of session {kernel.session} (process {kernel.pid}) has not stopped yet.",
                1,
            )
    except OSError as error:
        fail(
            f"The kernel of session {kernel.session} cannot be reached: {error.strerror or error}.",
            1,
        )
    say(f"Stopped the kernel of session {kernel.session}.")
