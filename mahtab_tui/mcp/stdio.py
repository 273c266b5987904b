"""Reserves stdin and stdout for the protocol: only the server writes to what the client reads."""

from __future__ import annotations

import fcntl
import os
from io import TextIOWrapper
from typing import NamedTuple


class ProtocolStreams(NamedTuple):
    """Streams to the client, on descriptors that children do not inherit."""

    stdin: TextIOWrapper
    stdout: TextIOWrapper


def take_stdio() -> ProtocolStreams:
    """Move stdin and stdout to private descriptors; then redirect descriptor 0 to /dev/null and
    descriptor 1 to stderr."""
    stdin, stdout = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without stderr
        os.dup2(null, 1)
    os.close(null)
    return ProtocolStreams(
        TextIOWrapper(os.fdopen(stdin, "rb"), encoding="utf-8", errors="replace"),
        TextIOWrapper(os.fdopen(stdout, "wb"), encoding="utf-8", newline="\n"),
    )
