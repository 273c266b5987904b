"""Ending this process by a signal, as if nothing had handled it."""

from __future__ import annotations

import os
import time
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
