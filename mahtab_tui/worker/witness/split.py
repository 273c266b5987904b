"""Divides the process that the host starts: the parent becomes the witness, and the child the
kernel.

The witness is the parent because a system may let only a process's ancestors read its memory
(Yama)."""

from __future__ import annotations

import mmap
import os
from _socket import socketpair

from ..stdlib import leave_user_path
from .shared import WitnessLink

PAGE_BYTES = 4096


def split(*, dies_with_parent: bool) -> WitnessLink:
    """Fork the kernel from this process, which becomes its witness; returns only in the kernel.

    Args:
        dies_with_parent: Whether the witness ends with the thread that started it.
    """
    page = mmap.mmap(-1, PAGE_BYTES)
    ours, theirs = (end.detach() for end in socketpair())
    witness_pid = os.getpid()
    kernel_pid = os.fork()
    if kernel_pid == 0:
        # A group of its own, so that signals for cells do not reach the witness.
        os.setpgid(0, 0)
        os.close(ours)
        return WitnessLink(theirs, page, witness_pid)
    try:
        leave_user_path()
        os.close(theirs)
        # Loading the rest waits until the kernel is ready, so that it does not delay the kernel.
        os.read(ours, 1)
        from .server import serve

        serve(WitnessLink(ours, page, kernel_pid), dies_with_parent=dies_with_parent)
    finally:
        os._exit(1)
