"""Notes by name what a cell does outside the kernel, which no undo takes back: files, programs,
connections."""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple

MOST = 20
"""Maximum number of deeds that are noted for one cell."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OURS = ("/dev/", "/proc/", "/sys/")
_CACHES = ("__pycache__", f"{os.sep}.cache{os.sep}")


class NotRestored(NamedTuple):
    """Something that an undo leaves as it is."""

    name: str
    reason: str


class SideEffectLog:
    """Effects outside the kernel since a cell began, from the interpreter's audit events."""

    def __init__(self) -> None:
        self.noted: dict[NotRestored, None] = {}

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Take in an audit event. This runs wherever the event happens, so it does little and never
        raises."""
        read = _EVENTS.get(event)
        if read is None or len(self.noted) > MOST:
            return
        try:
            deed = read(args)
        except Exception:  # arguments of the user's own classes
            return
        if deed is not None:
            self.noted[deed] = None


def _opened(args: tuple[Any, ...]) -> NotRestored | None:
    path, mode, flags = args
    writes = any(sign in mode for sign in "wax+") if type(mode) is str else flags & _WRITES
    return (
        None
        if type(path) is int or not writes
        else _file(path, "this file was opened for writing; it stays as it is now")
    )


def _file(path: Any, reason: str) -> NotRestored | None:
    name = os.fsdecode(path)
    return (
        None
        if name.startswith(_OURS) or any(part in name for part in _CACHES)
        else NotRestored(name, reason)
    )


def _about_file(reason: str) -> Callable[[tuple[Any, ...]], NotRestored | None]:
    return lambda args: None if type(args[0]) is int else _file(args[0], reason)


def _connected(args: tuple[Any, ...]) -> NotRestored:
    address = args[1]
    name = ":".join(map(str, address[:2])) if type(address) is tuple else str(address)
    return NotRestored(name, "what was sent over this connection cannot be undone")


def _program(args: tuple[Any, ...]) -> NotRestored:
    command = args[1] if len(args) > 1 else args[0]
    words = command if type(command) in (list, tuple) else [command]
    return NotRestored(
        " ".join(map(os.fsdecode, words))[:80], "this program was started; what it has done stays"
    )


_EVENTS: dict[str, Callable[[tuple[Any, ...]], NotRestored | None]] = {
    "open": _opened,
    "os.remove": _about_file("this file was removed and is not restored"),
    "os.rename": _about_file("this was renamed and keeps its new name"),
    "os.mkdir": _about_file("this folder was created and stays"),
    "os.rmdir": _about_file("this folder was removed and is not restored"),
    "os.truncate": _about_file("this file was truncated and stays that way"),
    "socket.connect": _connected,
    "subprocess.Popen": _program,
    "os.system": _program,
}

EVENTS = frozenset(_EVENTS)
"""The names of the audit events that are of interest."""
