"""What code in a cell needs of its host."""

from __future__ import annotations

from typing import Any, Callable

CallHost = Callable[[str, dict[str, Any]], Any]
"""Calls a function of the host by name, with its arguments."""


def _no_host(name: str, args: dict[str, object]) -> object:
    raise RuntimeError("There is no host to call")


class Host:
    """What code in a cell needs of the host. There is one for the process."""

    call: CallHost = staticmethod(_no_host)
    """Calls a function of the host by name, and waits for its result."""
    is_remote = False
    """Whether the host and this process exchange no files."""
    is_locked = False
    """Whether this process is a locked fork, which may make no search."""
