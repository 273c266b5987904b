"""Reads from the interpreter's audit events which paths an operation may change.

A path is yielded in each way in which it may be meant, because not all events tell in which folder it
begins. `protected` refuses the protected ones among them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..stdlib import late_import
from ..values.objects import Classes
from .protected_places import TooManyEntriesError, may_be_repository, protected_path_in
from .side_effects import to_text

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITE_MODE_LETTERS = "wax+"
_FOLDER_INDEXES: dict[str, tuple[int, ...]] = {
    "os.remove": (1,),
    "os.rmdir": (1,),
    "os.mkdir": (2,),
    "os.truncate": (),
    "os.chmod": (2,),
    "os.chown": (3,),
    "os.utime": (3,),
    "os.chflags": (),
    "os.setxattr": (),
    "os.removexattr": (),
    "sqlite3.connect": (),
    "os.rename": (2, 3),
    "os.link": (2, 3),
    "os.symlink": (2, 2),
}
"""Events of changing what a path names: where among their arguments the descriptors of the folders are
in which relative paths begin."""
_TWO_PATHS_EVENTS = frozenset(("os.rename", "os.link", "os.symlink"))
_SOCKET_EVENT = "socket.bind"
"""Makes a file if the address of the socket is a path."""
_PLAIN_ADDRESSES = Classes(bytes, bytearray, memoryview)
"""The classes of an address whose bytes surely are those that the system has got: a class of the user's
may give others each time."""
_NAME_EVENTS = frozenset(("os.remove", "os.rmdir", "os.mkdir", _SOCKET_EVENT, *_TWO_PATHS_EVENTS))
"""Events of changing names, not files."""
_MAX_FOLDER_DESCRIPTORS = 4_096
"""Open descriptors among which those of folders are looked for."""
_DESCRIPTORS = "/dev/fd" if sys.platform == "darwin" else "/proc/self/fd"
"""The folder with the numbers of this process's descriptors."""
FILE_EVENTS = frozenset(("open", _SOCKET_EVENT, *_FOLDER_INDEXES))
"""The audit events that `changed_paths` reads."""


def changed_paths(event: str, args: tuple[Any, ...]) -> Iterator[str]:
    """Return the paths that an operation may change.

    Args:
        event: One of `FILE_EVENTS`.
        args: Its arguments.

    Raises:
        PermissionError: It is not known which, because a folder is too large, or an address may change.
    """
    if event == "open":
        return _paths_opened_for_writing(*args)
    if event == _SOCKET_EVENT:
        return _path_of_socket(args[1])
    return _named_paths(event, args)


def changes_content(event: str) -> bool:
    """Return whether an event in `FILE_EVENTS` is about the content of a file, and not only its name."""
    return event not in _NAME_EVENTS


def _paths_opened_for_writing(path: Any, mode: object, flags: int) -> Iterator[str]:
    """Yield the path that is opened to be written, if it is. The parameters are those of the event."""
    # A number is the descriptor of a file that is open already.
    if isinstance(path, int) or not _is_opened_for_writing(mode, flags):
        return
    text = to_text(path)
    yield text
    # Only `os.open`, which has no mode, may begin in another folder, and does not tell.
    if mode is None and not os.path.isabs(text):
        yield from (os.path.join(folder, text) for folder in _open_folders())


def _is_opened_for_writing(mode: object, flags: int) -> bool:
    """Return whether a file is opened to be written.

    Args:
        mode: The mode of `open`; None for `os.open`.
        flags: The flags of `os.open`.
    """
    if type(mode) is str:
        return any(letter in mode for letter in _WRITE_MODE_LETTERS)
    return bool(flags & _WRITE_FLAGS)


def _named_paths(event: str, args: tuple[Any, ...]) -> Iterator[str]:
    """Yield the paths that the arguments of an event name, and what changes with them.

    Args:
        event: One in `_FOLDER_INDEXES`.
        args: Its arguments.
    """
    has_two_paths = event in _TWO_PATHS_EVENTS
    paths = args[:2] if has_two_paths else args[:1]
    meant_paths = [
        _meant_path(path, _folder_descriptor(event, args, number))
        for number, path in enumerate(paths)
    ]
    for path, meant_path in zip(paths, meant_paths):
        yield meant_path
        if isinstance(path, int):
            continue
        text = to_text(path)
        yield text
        if event == "sqlite3.connect":
            yield _path_of_address(text)
        # Whoever replaces or moves a whole repository replaces its hooks, also one in `.git`.
        if has_two_paths and may_be_repository(meant_path) and not os.path.isfile(meant_paths[0]):
            yield f"{meant_path}/hooks"
    if event == "os.rename" and os.path.isdir(meant_paths[0]):
        yield _protected_path_in_moved(meant_paths[0])


def _protected_path_in_moved(folder: str) -> str:
    """Return a protected path in a folder that is moved; empty if there is none.

    Raises:
        PermissionError: The folder is too large to know.
    """
    try:
        return protected_path_in(folder)
    except TooManyEntriesError:
        raise PermissionError(
            f"{folder} may have protected files in it: it has too many entries to look at. Only code"
            " that the user has approved by hand may move it"
        ) from None


def _folder_descriptor(event: str, args: tuple[Any, ...], path_number: int) -> int:
    """Return the descriptor of the folder in which a relative path of an event begins; -1 if this is
    the working folder."""
    indexes = _FOLDER_INDEXES[event]
    if path_number >= len(indexes) or indexes[path_number] >= len(args):
        return -1
    folder_fd = args[indexes[path_number]]
    return folder_fd if isinstance(folder_fd, int) else -1


def _meant_path(path: Any, folder_fd: int) -> str:
    """Return the path that an argument means.

    Args:
        path: A path, or the descriptor of an open file.
        folder_fd: Where a relative path begins, as `_folder_descriptor` returns it.
    """
    if isinstance(path, int):
        return path_of_descriptor(path)
    text = to_text(path)
    if folder_fd < 0 or os.path.isabs(text):
        return text
    return os.path.join(path_of_descriptor(folder_fd), text)


def _path_of_socket(address: Any) -> Iterator[str]:
    """Yield the path of the file that a socket's address makes, if it makes one."""
    # Not `__class__`, by which a class of the user's may say that it is another.
    cls = type(address)
    if issubclass(cls, str):
        yield str.__str__(address)
    elif cls in _PLAIN_ADDRESSES:
        yield os.fsdecode(memoryview(address).tobytes())
    elif cls is not tuple and cls is not int:  # a subclass may give bytes, too
        raise PermissionError(
            "The address of this socket may be the path of a protected file. Give it as a text"
        )


def _path_of_address(text: str) -> str:
    """Return the path in an address such as ``file:notes.db?mode=ro``; other texts are returned as they are."""
    if not text.startswith("file:"):
        return text
    path = text[len("file:") :].partition("?")[0].partition("#")[0]
    if path.startswith("//"):
        # A host stands before the path, as in `file://localhost/notes.db`.
        _host, slash, rest = path[2:].partition("/")
        path = slash + rest
    return str(late_import("urllib.parse").unquote(path))


def path_of_descriptor(fd: int) -> str:
    """Return the path of an open file or folder; empty if it has none."""
    try:
        if sys.platform == "darwin":
            return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{fd}")
    except (OSError, OverflowError):
        return ""


def _open_folders() -> Iterator[str]:
    """Yield the paths of the folders that this process has open."""
    with suppress(OSError):
        for name in os.listdir(_DESCRIPTORS)[:_MAX_FOLDER_DESCRIPTORS]:
            with suppress(OSError):
                if stat.S_ISDIR(os.fstat(int(name)).st_mode):
                    yield path_of_descriptor(int(name))
