"""Free ports of loopback for servers that other programs start."""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST, _LAST = 10_000, 32_000
"""Below what the system gives to those who ask for any port: such a port is often taken again
before its server has started."""
_NUMBERS = count(os.getpid() * 101)  # each process of a run begins elsewhere


def free_port() -> int:
    """A port that nobody listens at; never twice the same in this process."""
    for number in _NUMBERS:
        port = _FIRST + number % (_LAST - _FIRST)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("count() has no end")
