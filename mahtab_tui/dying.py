"""Ending a process: this one by a signal, as if nothing had handled it, and those that it starts together with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

SHELL_CODE = 128
"""What a shell adds to the number of the signal that a program has died of."""


def die_of(number: int) -> NoReturn:
    """End the process by a signal, so that whoever waits for it sees that. Any thread may call it."""
    try:
        import ctypes

        ctypes.CDLL(None).signal(number, ctypes.c_void_p(None))  # the default; `signal.signal` works in the main thread only, which may hang
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


def tied(command: Sequence[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
    """A command, so that Linux sends it a signal when the *thread* that starts it ends: so also when this program is killed.

    Where the program cannot be run the exit code is 127. Other systems have no such thing: there it is the command itself. (A function that runs between fork and
    exec could do it, too, but has the system copy all of this program's memory tables, while no other thread goes on.)
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), str(int(number)), *command]
