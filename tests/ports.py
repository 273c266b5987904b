"""Free ports for servers that other programs start."""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST = 10_000
_LAST = 32_000
"""Below the ports that the system chooses, which another program often gets first."""
_NUMBERS = count(os.getpid() * 101)  # each process of a run starts with another port


def free_port() -> int:
    """Return a port without a server, never the same one twice in this process."""
    for number in _NUMBERS:
        port = _FIRST + number % (_LAST - _FIRST)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("count() has no end")
