"""Descriptors of any number, also where a process may have few."""

from __future__ import annotations

import fcntl
import os
import resource
import select
from typing import Any

OWN_DESCRIPTORS: dict[int, tuple[int, int]] = {}
"""The kernel's descriptors, which an undo does not name, each with the device and the number of its file:
a cell may have closed one and opened another file with its number."""


def is_readable(source: Any, timeout_s: float | None = 0.0) -> bool:
    """Return whether a descriptor, or an object with one, can be read or has ended.

    Unlike `select.select`, it takes numbers from 1,024 on.

    Args:
        timeout_s: Seconds to wait; None for any time.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def duplicate_high(descriptor: int, lowest: int) -> int:
    """Duplicate a descriptor of the kernel to a number from `lowest` on, which cells do not hit, or to any
    if the process may not have so many. Child processes do not inherit it. Raises `OSError`."""
    try:
        high_fd = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
    except OSError:
        high_fd = os.dup(descriptor)
    OWN_DESCRIPTORS[high_fd] = identify_file(high_fd)
    return high_fd


def identify_file(descriptor: int) -> tuple[int, int]:
    """Return the device and the number of a descriptor's file. Raises `OSError` if it is closed."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def hide_descriptor(fd: int) -> int:
    """Move a descriptor to a number that child processes do not inherit and cells do not hit."""
    soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    descriptor_count = 1000
    if soft_limit != resource.RLIM_INFINITY:
        descriptor_count = min(soft_limit, descriptor_count)
    margin = min(40, descriptor_count // 3)
    choices = max(1, descriptor_count - 2 * margin)
    lowest = margin + int.from_bytes(os.urandom(2), "big") % choices
    hidden_fd = duplicate_high(fd, lowest)
    os.close(fd)
    return hidden_fd
