"""Describes how a kernel process ended."""

from __future__ import annotations

import signal

from mahtab_tui.kernel.launch import OLDEST, TOO_OLD
from mahtab_tui.worker.frames import CONNECTION_LOST

_WORDS = {
    signal.SIGKILL: "it was killed from outside, or by the system for lack of memory (SIGKILL)",
    signal.SIGTERM: "it was terminated from outside (SIGTERM)",
}


def describe_end(code: int) -> str:
    """Describe an unexpected end of a process, such as ``segmentation fault (SIGSEGV)`` or ``it
    exited with code 3``."""
    if code == CONNECTION_LOST:
        return "code in it closed its connection to the session, or read from it"
    if code >= 0:
        return f"it exited with code {code}"
    number = -code
    try:
        name = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    return _WORDS.get(name) or f"{(signal.strsignal(number) or name.name).lower()} ({name.name})"


def describe_failed_start(executable: str, code: int, output: str) -> str:
    """Say why an interpreter did not start as a kernel, and what it needs."""
    oldest = ".".join(map(str, OLDEST))
    if code == TOO_OLD:
        return f"{executable} is Python {output.strip()}; a kernel needs Python {oldest} or later."
    lines = output.strip().splitlines()
    last_line = f", saying: {lines[-1][:200]}" if lines else ""
    ending = describe_end(code).removeprefix("it ")
    return f"{executable} does not work as a Python interpreter of {oldest} or later ({ending}{last_line})."
