"""Waits for a descriptor, of any number: `select.select` refuses those from 1,024 on."""

from __future__ import annotations

import select
from typing import Any


def is_readable(source: Any, timeout_s: float | None = 0.0) -> bool:
    """Return whether a descriptor, or an object with one, can be read or has ended. timeout_s: seconds
    to wait; None for any time."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))
