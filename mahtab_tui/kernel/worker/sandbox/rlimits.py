"""Limits of a sandbox's resources."""

from __future__ import annotations

import resource

BASE = 512 * 2**20
"""Bytes of address space besides the text, Python and the loaded modules included."""

TEXTS = 4
"""How many copies of the text fit into memory."""

CPU_SECONDS = 1800
"""Of a whole sandbox, in case the host fails to enforce the time limit of a turn."""

DESCRIPTORS = 64

THREAD_STACK = 2 * 2**20
"""Bytes; with the usual 8 MiB there would be room for only sixty threads."""


def limit(text_bytes: int) -> None:
    """Set the limits permanently, with room for a text of so many bytes."""
    memory = BASE + TEXTS * text_bytes
    _set(resource.RLIMIT_AS, memory)
    _set(resource.RLIMIT_CPU, CPU_SECONDS)
    _set(resource.RLIMIT_FSIZE, 0)
    _set(resource.RLIMIT_NOFILE, DESCRIPTORS)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_MEMLOCK, 0)


def _set(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (value, value))
