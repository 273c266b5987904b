"""How much a sandbox may take of the machine."""

from __future__ import annotations

import resource

BASE = 512 * 2**20
"""Bytes of addresses beside what the text takes; Python and the loaded modules are in it."""

TEXTS = 4
"""How many times over the text may be in memory."""

CPU_SECONDS = 1800
"""Of a whole sandbox: a net under the time limit of each turn, which the host keeps."""

DESCRIPTORS = 64

THREAD_STACK = 2 * 2**20
"""Bytes: of the usual 8 MiB there would be room for sixty threads."""


def limit(text_bytes: int) -> None:
    """Set the limits for good, with room for a text that takes so many bytes in memory."""
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
