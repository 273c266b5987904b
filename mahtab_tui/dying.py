"""Ending a process: this one by a signal, as if nothing had handled it, and those that it starts together with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
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


_PR_SET_PDEATHSIG = 1


def with_starter(number: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: Linux sends the new process a signal when the *thread* that starts it ends, so also when this program is killed.

    Other systems have no such thing: None.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, starter = ctypes.CDLL(None).prctl, os.getpid()

    def first() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != starter:  # it has ended already
            os._exit(SHELL_CODE + number)

    return first
