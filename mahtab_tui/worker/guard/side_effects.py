"""Effects of code outside its process, read from the interpreter's audit events."""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM_FOLDERS = ("/dev/", "/proc/", "/sys/")
_CACHES = ("__pycache__", "/.cache/", "/.config/matplotlib", "/.matplotlib")

_PROGRAM = "this program was started; what it has done stays"


class SideEffect(NamedTuple):
    verb: str
    """Follows "wanted to"."""
    target: str
    remains: str
    """A sentence about what an undo does not take back."""


Args = tuple[Any, ...]


def _first(args: Args) -> str:
    return to_text(args[0]) if args else ""


def _path(args: Args) -> str | None:
    if type(args[0]) is int:
        return None
    name = to_text(args[0])
    return None if is_ignored_path(name) else name


def is_ignored_path(path: str) -> bool:
    """Return whether a path is one of the system, or of a cache, which libraries write by
    themselves."""
    return path.startswith(_SYSTEM_FOLDERS) or any(part in path for part in _CACHES)


def _written_path(args: Args) -> str | None:
    mode = args[1]
    flags = args[2]
    if type(mode) is str:
        writes = any(sign in mode for sign in "wax+")
    else:
        writes = flags & _WRITES
    return _path(args) if writes else None


def _address(args: Args) -> str:
    address = args[1]
    if type(address) is tuple:
        return ":".join(map(str, address[:2]))
    return str(address)


def _command(args: Args) -> str:
    command = args[1] if len(args) > 1 else args[0]
    if isinstance(command, (list, tuple)):
        words = command
    else:
        words = [command]
    return " ".join(map(to_text, words))[:80]


_EFFECTS: dict[str, tuple[Callable[[Args], str | None], str, str]] = {
    "open": (_written_path, "write", "this file was opened for writing; it stays as it is now"),
    "os.remove": (_path, "remove", "this file was removed and is not restored"),
    "os.rename": (_path, "rename", "this was renamed and keeps its new name"),
    "os.mkdir": (_path, "make the folder", "this folder was created and stays"),
    "os.rmdir": (_path, "remove the folder", "this folder was removed and is not restored"),
    "os.truncate": (_path, "truncate", "this file was truncated and stays that way"),
    "os.link": (_path, "link", "a link to this file was created and stays"),
    "os.symlink": (_path, "link", "a link to this file was created and stays"),
    "os.chmod": (_path, "change the permissions of", "its permissions were changed and stay so"),
    "os.chown": (_path, "change the owner of", "its owner was changed and stays so"),
    "os.utime": (_path, "change the time of", ""),
    "os.chdir": (_path, "go to the folder", ""),
    "os.system": (_first, "start", _PROGRAM),
    "subprocess.Popen": (_command, "start", _PROGRAM),
    "os.exec": (_first, "start", ""),
    "os.posix_spawn": (_first, "start", ""),
    "socket.connect": (
        _address,
        "connect to",
        "what was sent over this connection cannot be undone",
    ),
    "socket.getaddrinfo": (_first, "connect to", ""),
    "os.kill": (_first, "signal the process", ""),
    "os.killpg": (_first, "signal the processes", ""),
    "os.fork": (_first, "make a process", ""),
    "os.forkpty": (_first, "make a process", ""),
}
"""Reads the target; verb; what remains after an undo."""
EVENTS = frozenset(_EFFECTS)


def read_side_effect(event: str, args: Args) -> SideEffect | None:
    """Read an audit event; None if it has no effect. Does little and never raises."""
    if event not in _EFFECTS:
        return None
    read, verb, remains = _EFFECTS[event]
    try:
        target = read(args)
    except Exception:  # arguments of the user's own classes
        return None
    if target is None:
        return None
    return SideEffect(verb, target, remains)


def to_text(value: Any) -> str:
    if type(value) in (bytes, bytearray):
        return bytes(value).decode("utf-8", "replace")
    return str(os.fspath(value) if hasattr(type(value), "__fspath__") else value)
