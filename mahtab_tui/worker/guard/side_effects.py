"""Reads what code does outside its process from the interpreter's audit events.

Python raises an audit event before the call, which may fail afterwards. Undo names the effects that it
does not take back; a locked fork, where the calls fail, says what the code wanted to do.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Callable, NamedTuple

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITE_MODES = "wax+"
"""Letters of a mode of `open` with which a file is written."""
_SYSTEM_FOLDERS = ("/dev/", "/proc/", "/sys/")
_CACHES = ("__pycache__", "/.cache/", "/.config/matplotlib", "/.matplotlib")
"""Parts of the paths of caches, which libraries write by themselves."""
_MAX_COMMAND_CHARS = 80
"""Longer commands are cut."""

_SENT_SIGNAL = "a signal that was sent cannot be taken back"
_STARTED_PROCESS = "a process was started; what it has done stays"
_STARTED_PROGRAM = "this program was started; what it has done stays"
WATCHED_REMAINS = {
    remains: f"{remains}, except to watched files"
    for remains in (_STARTED_PROCESS, _STARTED_PROGRAM)
}
"""What an undo does not take back where files are watched, which it restores, by what it does not take
back elsewhere."""

PROCESS_EVENTS = frozenset(("os.kill", "os.killpg", "os.fork", "os.forkpty"))
"""Events about processes. Libraries raise them for code, such as `Popen.kill`, and so do we."""

Args = tuple[Any, ...]
"""The arguments of an audit event."""


class _PathIndexes(NamedTuple):
    """Where an audit event has a path."""

    path: int
    """The index of the argument with the path, or with the descriptor of an open file."""
    folder: int | None = None
    """The index of the argument with the descriptor of the folder in which a relative path begins,
    -1 for the working folder; None if the event does not tell it."""


class SideEffect(NamedTuple):
    """Something that code does outside its process."""

    verb: str
    """What it does, such as "write". It follows "wanted to", and the target follows it."""
    target: str
    """The file, the program, the address or the process to which it is done; may be empty."""
    remains: str
    """A clause about what an undo does not take back; empty if there is nothing to say."""


class _EffectKind(NamedTuple):
    """How the audit events of one name are read."""

    read_target: Callable[[Args], str | None]
    """Returns the target; None if this event has no effect. May raise anything for arguments of the
    user's classes."""
    verb: str
    """As in `SideEffect`, like `remains`."""
    remains: str = ""


def _first_argument(args: Args) -> str:
    """Return the first argument; empty if there is none."""
    return to_text(args[0]) if args else ""


def _path(args: Args) -> str | None:
    """Return the path that is an event's first argument; None if this is the descriptor of an open file,
    whose opening was an event of its own, and for paths that are ignored."""
    if type(args[0]) is int:
        return None
    path = to_text(args[0])
    return None if is_ignored_path(path) else path


def _path_or_descriptor(args: Args) -> str | None:
    """Return the path that is an event's first argument, or the path of the open file whose descriptor this
    is. None for paths that are ignored, and for descriptors of something else, such as a pipe. Raises
    OSError for descriptors that are not open."""
    if type(args[0]) is not int:
        return _path(args)
    path = os.readlink(f"/proc/self/fd/{args[0]}")
    return None if is_ignored_path(path) or not path.startswith("/") else path


def _written_path(args: Args) -> str | None:
    """Return the path of a file that is opened for writing; None if it is opened for reading.

    The event has a mode such as "w" from `open`, and None with flags from `os.open`.
    """
    _, mode, flags = args
    if type(mode) is str:
        is_written = any(letter in mode for letter in _WRITE_MODES)
    else:
        is_written = bool(flags & _WRITE_FLAGS)
    return _path(args) if is_written else None


def _address(args: Args) -> str:
    """Return the address to which a socket is connected: host and port, or the path of a socket."""
    address = args[1]
    if type(address) is tuple:
        return ":".join(map(str, address[:2]))
    return str(address)


def _command(args: Args) -> str:
    """Return the command that starts a program, cut to a length."""
    command = args[1] if len(args) > 1 else args[0]
    words = command if isinstance(command, (list, tuple)) else [command]
    return " ".join(map(to_text, words))[:_MAX_COMMAND_CHARS]


def _signalled_process(args: Args) -> str | None:
    """Return the number of the process or group that gets a signal; None for signal 0, which is none and
    only tells whether there is such a process."""
    return None if args[1] == 0 else _first_argument(args)


_EFFECTS: dict[str, _EffectKind] = {
    "open": _EffectKind(
        _written_path, "write", "this file was opened for writing; it stays as it is now"
    ),
    "os.remove": _EffectKind(_path, "remove", "this file was removed and is not restored"),
    "os.rename": _EffectKind(_path, "rename", "this was renamed and keeps its new name"),
    "os.mkdir": _EffectKind(_path, "make the folder", "this folder was created and stays"),
    "os.rmdir": _EffectKind(
        _path, "remove the folder", "this folder was removed and is not restored"
    ),
    "os.truncate": _EffectKind(
        _path_or_descriptor, "truncate", "this file was truncated and stays that way"
    ),
    "os.link": _EffectKind(_path, "link", "a link to this file was created and stays"),
    "os.symlink": _EffectKind(_path, "link", "a link to this file was created and stays"),
    "os.chmod": _EffectKind(
        _path_or_descriptor, "change the permissions of", "its permissions were changed and stay so"
    ),
    "os.chown": _EffectKind(
        _path_or_descriptor, "change the owner of", "its owner was changed and stays so"
    ),
    "os.utime": _EffectKind(
        _path_or_descriptor, "change the time of", "its times were changed and stay so"
    ),
    **dict.fromkeys(
        ("os.setxattr", "os.removexattr"),
        _EffectKind(
            _path_or_descriptor,
            "change the attributes of",
            "its attributes were changed and stay so",
        ),
    ),
    "os.chdir": _EffectKind(_path, "go to the folder"),
    "os.system": _EffectKind(_first_argument, "start", _STARTED_PROGRAM),
    "subprocess.Popen": _EffectKind(_command, "start", _STARTED_PROGRAM),
    "os.exec": _EffectKind(_first_argument, "start"),
    "os.posix_spawn": _EffectKind(_first_argument, "start", _STARTED_PROGRAM),
    "socket.connect": _EffectKind(
        _address, "connect to", "what was sent over this connection cannot be undone"
    ),
    "socket.getaddrinfo": _EffectKind(_first_argument, "connect to"),
    "os.kill": _EffectKind(_signalled_process, "signal the process", _SENT_SIGNAL),
    "os.killpg": _EffectKind(_signalled_process, "signal the processes", _SENT_SIGNAL),
    "os.fork": _EffectKind(_first_argument, "make a process", _STARTED_PROCESS),
    "os.forkpty": _EffectKind(_first_argument, "make a process", _STARTED_PROCESS),
    "mahtab_tui.process": _EffectKind(_first_argument, "make a process", _STARTED_PROCESS),
}
"""How audit events are read, by their names. After some, an undo has nothing to say: the working folder is
restored, after `os.exec` there is no kernel left, and what follows the look-up of an address is a connection,
which has its own event."""
EVENTS = frozenset(_EFFECTS)
"""The audit events for `read_side_effect`."""
_CHANGED_PATHS = {
    "open": _PathIndexes(0),
    "os.remove": _PathIndexes(0, folder=1),
    "os.rename": _PathIndexes(0, folder=2),
    "os.mkdir": _PathIndexes(0, folder=2),
    "os.rmdir": _PathIndexes(0, folder=1),
    "os.truncate": _PathIndexes(0),
    "os.link": _PathIndexes(1, folder=3),
    "os.symlink": _PathIndexes(1, folder=2),
    "os.chmod": _PathIndexes(0, folder=2),
    "os.utime": _PathIndexes(0, folder=3),
}
"""The path that is changed, by the names of audit events that change files: the old one of a
rename, whose new one the witness of files names, and the new one of a link."""

_FOLLOWING_EVENTS = frozenset(("open", "os.truncate", "os.chmod", "os.utime"))
"""Events that change what a link leads to, not the link."""


def read_side_effect(event: str, args: Args) -> SideEffect | None:
    """Read an audit event.

    Args:
        event: Its name.
        args: Its arguments.

    Returns:
        Its effect; None if it has none. Does little and never raises, because it runs within the call.
    """
    kind = _EFFECTS.get(event)
    if kind is None:
        return None
    try:
        target = kind.read_target(args)
    except Exception:  # arguments of the user's own classes
        return None
    if target is None:
        return None
    return SideEffect(kind.verb, target, kind.remains)


def changed_path(event: str, args: Args) -> str:
    """Return the whole path of a file that an audit event changes; empty if it is about something
    else. Never raises."""
    indexes = _CHANGED_PATHS.get(event)
    if indexes is None:
        return ""
    with suppress(Exception):  # arguments of the user's own classes
        path = args[indexes.path]
        if type(path) is int:
            return os.path.realpath(f"/proc/self/fd/{path}")
        path = to_text(path)
        folder_fd = -1 if indexes.folder is None else args[indexes.folder]
        if type(folder_fd) is int and folder_fd >= 0:
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder_fd}"), path)
        if event in _FOLLOWING_EVENTS:
            return os.path.realpath(path)
        return os.path.abspath(path)
    return ""


def is_ignored_path(path: str) -> bool:
    """Return whether a path is one of the system, or of a cache, which libraries write by
    themselves."""
    return path.startswith(_SYSTEM_FOLDERS) or any(cache in path for cache in _CACHES)


def to_text(value: object) -> str:
    """Return a path or a word of a command as the system reads it, whatever a class of the user's
    says of itself. May raise what `__fspath__` or `__str__` raises."""
    if hasattr(type(value), "__fspath__"):
        value = os.fspath(value)  # type: ignore[call-overload]
    if isinstance(value, bytes):
        return bytes.decode(value, "utf-8", "replace")
    if isinstance(value, bytearray):
        return bytearray.decode(value, "utf-8", "replace")
    if isinstance(value, str):
        return str.__str__(value)
    return str(value)
