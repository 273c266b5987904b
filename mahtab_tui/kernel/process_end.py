"""How a process has ended, in words."""

from __future__ import annotations

import signal

from mahtab_tui.kernel.local_process import MIN_VERSION, TOO_OLD_CODE
from mahtab_tui.worker.link.exit_codes import EXIT_CONNECTION_LOST

MAX_LAST_LINE_CHARS = 200
_SIGNAL_SENTENCES = {
    signal.SIGKILL: "it was killed from outside, or by the system for lack of memory (SIGKILL)",
    signal.SIGTERM: "it was terminated from outside (SIGTERM)",
}


def describe_end(exit_code: int) -> str:
    """Return how a process has ended, as a clause.

    Args:
        exit_code: Negative for a signal.
    """
    if exit_code == EXIT_CONNECTION_LOST:
        return "code in it closed its connection to the session, or read from it"
    if exit_code >= 0:
        return f"it exited with code {exit_code}"
    number = -exit_code
    try:
        name = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    if name in _SIGNAL_SENTENCES:
        return _SIGNAL_SENTENCES[name]
    description = signal.strsignal(number) or name.name
    return f"{description.lower()} ({name.name})"


def describe_failed_start(program: str, exit_code: int, output: str) -> str:
    """Return a sentence about an interpreter in which the worker did not start.

    Args:
        program: What the sentence calls the interpreter.
        exit_code: Negative for a signal.
        output: What it has printed.
    """
    min_version = ".".join(map(str, MIN_VERSION))
    if exit_code == TOO_OLD_CODE:
        return (
            f"{program} is Python {output.strip()}; a kernel needs Python {min_version} or later."
        )
    ending = describe_end(exit_code).removeprefix("it ")
    lines = output.strip().splitlines()
    if lines:
        ending += f", saying: {lines[-1][:MAX_LAST_LINE_CHARS]}"
    return f"{program} does not work as a Python interpreter of {min_version} or later ({ending})."
