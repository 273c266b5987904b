"""Keeps code that the user has not approved from changing protected files.

`ProtectedFiles` gets the interpreter's audit events, reads from each which paths the operation may
change, and ends it with `PermissionError` if one of them is protected (`protected_places`). What
native code does past the interpreter is for the witness to refuse.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Callable

from ..cells.attribution import CellAttribution
from ..stdlib import late_import
from ..values.objects import Classes
from .protected_commands import check_command, paths_changed_by_command
from .protected_places import (
    FOLDERS_ABOVE_PROTECTED,
    TooManyEntriesError,
    is_hard_link,
    leads_to_protected,
    lower_parts,
    may_be_repository,
    protected_path_in,
    resolve_path,
)
from .shell_words import join_words
from .side_effects import to_text

_FOLDER_REFUSING_FLAGS = os.O_WRONLY | os.O_RDWR
"""The system opens no folder with these, unless it is opened as a path only."""
_PATH_ONLY_FLAG: int = getattr(os, "O_PATH", 0)
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
_COMMAND_EVENTS = frozenset(
    ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "mahtab_tui.terminal")
)
_ENVIRONMENT_INDEX = {"subprocess.Popen": 3, "os.exec": 2, "os.posix_spawn": 2}
"""Where among the arguments of an event the environment of the program is."""
_DESCRIPTORS = "/dev/fd" if sys.platform == "darwin" else "/proc/self/fd"
"""The folder with the numbers of this process's descriptors."""
_FORK_EVENTS = frozenset(("os.fork", "os.forkpty"))
EVENTS = frozenset(("open", _SOCKET_EVENT, *_FOLDER_INDEXES, *_COMMAND_EVENTS, *_FORK_EVENTS))
"""The audit events for `ProtectedFiles.check`."""


class ProtectedFiles:
    """Refuses changes of protected files by cells that the user has not approved, and by threads
    and tasks that these cells started. Sees what goes through the interpreter only."""

    def __init__(self, attribution: CellAttribution) -> None:
        self._attribution = attribution
        self._guarded_cells: set[int] = set()
        self.protect_from_programs: Callable[[], bool] = lambda: False
        """Called before such code starts a program or a process, perhaps after its cell. Returns
        whether changes by that program are also refused."""

    def guard(self, cell: int) -> None:
        """Refuse changes by a cell from now on."""
        self._guarded_cells.add(cell)

    def is_guarded(self, cell: int) -> bool:
        """Return whether changes by a cell are refused."""
        return cell in self._guarded_cells

    def check(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle an audit event. Raises `PermissionError`, which ends the operation."""
        # Most sessions have no guarded cell, and to find out who has caused an event takes time.
        if not self._guarded_cells or self._attribution.caller_cell() not in self._guarded_cells:
            return
        if event in _COMMAND_EVENTS or event in _FORK_EVENTS:
            self._check_start(event, args)
        if event == "open" and _opens_protected_folder(*args):
            raise PermissionError(
                f"{to_text(args[0])} may be a folder with protected files: only code that the user has"
                " approved by hand may open it with `os.open`. Read a file with `open`"
            )
        # A protected file may have a second name elsewhere, under which its content is changed.
        changes_content = event not in _NAME_EVENTS and event not in _COMMAND_EVENTS
        for path in _changed_paths(event, args):
            if leads_to_protected(path) or (changes_content and is_hard_link(path)):
                raise PermissionError(
                    f"{path} is protected: only code that the user has approved by hand may change"
                    " it. Write its path as plain text in the code, and the user will be asked"
                )

    def _check_start(self, event: str, args: tuple[Any, ...]) -> None:
        """Let a program or a process start under protection; where there is none for it, refuse
        commands that may change protected files."""
        is_protected = self.protect_from_programs()
        if event in _COMMAND_EVENTS and not is_protected:
            check_command(
                _started_command(args), _start_folder(event, args), _environment(event, args)
            )


def _changed_paths(event: str, args: tuple[Any, ...]) -> Iterator[str]:
    """Return the paths that an operation may change."""
    if event in _FORK_EVENTS:
        return iter(())
    if event == "open":
        return _paths_opened_for_writing(*args)
    if event == _SOCKET_EVENT:
        return _path_of_socket(args[1])
    if event in _COMMAND_EVENTS:
        command = _started_command(args)
        return paths_changed_by_command(command, _start_folder(event, args))
    return _named_paths(event, args)


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
    """Return the path in an address such as ``file:notes.db?mode=ro``; the text if it is none."""
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


def _started_command(args: tuple[object, ...]) -> str:
    """Return the shell command that starts the same program.

    Args:
        args: Of an event that starts one.
    """
    if len(args) == 1:
        command = args[0]
        # For the terminal, it is a program with its arguments.
        if isinstance(command, (list, tuple)):
            return join_words([to_text(word) for word in command])
        return to_text(command)

    # The first word of a program's arguments is its own name, which may be another than that of the
    # file that is started.
    program = to_text(args[0])
    words = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    return join_words([program, *map(to_text, words[1:])])


def _start_folder(event: str, args: tuple[object, ...]) -> str:
    """Return the folder in which a program starts; empty for the working folder.

    The parameters are those of the event.
    """
    folder = args[2] if event == "subprocess.Popen" else None
    return "" if folder is None else to_text(folder)


def _environment(event: str, args: tuple[object, ...]) -> Mapping[str, str] | None:
    """Return the variables that a program gets; None for those of this process.

    The parameters are those of the event.
    """
    index = _ENVIRONMENT_INDEX.get(event, len(args))
    variables = args[index] if index < len(args) else None
    if not isinstance(variables, Mapping):
        return None
    return {to_text(name): to_text(value) for name, value in variables.items()}


def _opens_protected_folder(path: object, mode: object, flags: int) -> bool:
    """Return whether a folder may be opened that has protected files in it or beside it: paths that
    begin in it, as with ``dir_fd``, do not show where they lead. The parameters are those of the
    event."""
    # Only `os.open`, which has no mode, opens folders.
    if mode is not None or type(path) is int:
        return False
    if flags & _FOLDER_REFUSING_FLAGS and not flags & _PATH_ONLY_FLAG:
        return False

    text = to_text(path)
    normal_path = os.path.normpath(text)
    is_above_by_name = _is_in_folder_above_protected(normal_path)
    # Where a relative path begins is not part of the event: it may be any folder, so that nobody can
    # look whether the path is that of a file.
    if is_above_by_name and not os.path.isabs(text):
        return True
    resolved = resolve_path(text)
    is_above_by_link = resolved is not None and _is_in_folder_above_protected(resolved.as_written)
    return (is_above_by_name or is_above_by_link) and not os.path.isfile(text)


def _is_in_folder_above_protected(path: str) -> bool:
    """Return whether a path is that of a folder with protected files, or leads through one."""
    return not FOLDERS_ABOVE_PROTECTED.isdisjoint(lower_parts(path))


def _is_opened_for_writing(mode: object, flags: int) -> bool:
    """Return whether a file is opened to be written.

    Args:
        mode: The mode of `open`; None for `os.open`.
        flags: The flags of `os.open`.
    """
    if type(mode) is str:
        return any(letter in mode for letter in _WRITE_MODE_LETTERS)
    return bool(flags & _WRITE_FLAGS)
