"""Ending a process: this one by a signal, as if nothing had handled it, and those that it starts
together with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

SHELL_CODE = 128
"""A shell adds it to the number of the signal that ended a program."""


def exit_by_signal(number: int) -> NoReturn:
    """End the process by a signal, so that whoever waits for it sees that. Any thread may call
    it."""
    try:
        import ctypes

        ctypes.CDLL(None).signal(
            number, ctypes.c_void_p(None)
        )  # the default; `signal.signal` works in the main thread only, which may hang
        os.kill(os.getpid(), number)
        time.sleep(1)
    finally:
        os._exit(SHELL_CODE + number)


_TIED = """\
import ctypes, os, sys
parent, number, program = sys.argv[1:4]
ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)  # PR_SET_PDEATHSIG, which the program keeps
if os.getppid() == int(parent):
    try:
        os.execvp(program, sys.argv[3:])
    except OSError as error:
        os.write(2, f"{program}: {error.strerror}\\n".encode(errors="replace"))
        os._exit(127)
"""


def tie_to_parent(command: Sequence[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
    """A command whose process Linux sends a signal when the *thread* that starts it ends: so also
    when this program is killed.

    A thread that starts such a process has to live as long as that. The exit code is 127 where the
    program cannot be run. Other systems cannot do this: there it is the command itself.
    (`preexec_fn` could do it, too, but forks: that copies this program's memory tables, 11 ms in
    which no other thread goes on.)
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), str(int(number)), *command]
