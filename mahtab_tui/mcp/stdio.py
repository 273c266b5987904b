"""Keeps the protocol's stream whole: nothing but the server writes to what the client reads."""

from __future__ import annotations

import fcntl
import os
from io import TextIOWrapper
from typing import NamedTuple


class ProtocolStreams(NamedTuple):
    """The client's ends, on descriptors that no child inherits."""

    stdin: TextIOWrapper
    stdout: TextIOWrapper


def take_stdio() -> ProtocolStreams:
    """Move stdin and stdout to private descriptors; descriptor 0 is empty from now on, and descriptor 1 leads to stderr."""
    stdin, stdout = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(null, 1)
    os.close(null)
    return ProtocolStreams(
        TextIOWrapper(os.fdopen(stdin, "rb"), encoding="utf-8", errors="replace"),
        TextIOWrapper(os.fdopen(stdout, "wb"), encoding="utf-8", newline="\n"),
    )
