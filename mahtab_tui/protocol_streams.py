"""The standard streams of a program that speaks a protocol on them."""

from __future__ import annotations

import fcntl
import os
from typing import NamedTuple


class ProtocolStreams(NamedTuple):
    """The file descriptors on which the protocol is spoken."""

    stdin: int
    stdout: int


def take_stdio() -> ProtocolStreams:
    """Move stdin and stdout to private descriptors, which child processes do not inherit."""
    stdin = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    stdout = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)

    # What code prints goes to stderr, and it reads nothing.
    null_device = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_device, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null_device, 1)
    os.close(null_device)
    return ProtocolStreams(stdin, stdout)
