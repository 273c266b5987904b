"""Tells which protected file a call would change, however its path is written.

A call's path is one of the process that makes it, whose root folder and mounts may be others. So the
witness resolves it as that process would (`resolve_as`), and looks at files through its root folder.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from ..guard.protected_places import (
    TooManyEntriesError,
    inner_paths,
    is_git_folder,
    is_git_setting,
    is_protected,
    may_be_repository,
    well_known_links,
)
from .binding import read_status
from .calls import RENAME_EXCHANGE, FileCall

MAX_LINKS = 40
"""Links in one path, as on Linux."""

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_LEADING_ELSEWHERE = frozenset((".git", ".config"))
"""Names of folders with protected folders in them: a link of this name replaces these."""
_NAME_ACTIONS = ("rename", "unlink", "create", "socket", "link")
"""Actions that change a name, and not the file."""
_FILE_ACTIONS = ("open", "open2", "write", "link")
"""Actions after which a path may be that of a file."""
_PROCESS_MEMORY = re.compile(r"/proc/(\d+)/(?:task/\d+/)?mem")
"""The memory of a process, by which it could be made to do anything."""


def changed_protected_path(call: FileCall, thread: int, own_folder: str) -> str:
    """Return the protected path that a call would change; empty if there is none.

    Args:
        call: The call, with paths as `resolve_as` returns them.
        thread: The thread that makes the call.
        own_folder: Where the kernel keeps variables, which is not protected, with a slash at its end;
            empty if it keeps none.
    """
    for path in filter(None, call.paths):
        if own_folder and f"{path}/".startswith(own_folder):
            continue
        if _leaves_existing_file(call, path, thread):
            continue
        if (
            _is_memory_of_other(path, thread)
            or any(map(is_protected, _names_of_file(path, call.action, thread)))
            or is_git_setting(path, _working_folder(thread), _root(thread, path))
            or _hides_protected(call, path, thread)
        ):
            return path
    return ""


def _leaves_existing_file(call: FileCall, path: str, thread: int) -> bool:
    """Return whether a call only reads the file at a path, or fails because there is one."""
    only_reads = call.action in ("open", "open2") and not call.flags & _WRITE_FLAGS
    needs_free_name = call.action in ("create", "socket")
    return (only_reads or needs_free_name) and os.path.lexists(_as_seen_by(thread, path))


def _is_memory_of_other(path: str, thread: int) -> bool:
    """Return whether a path is that of the memory of another process than the thread's."""
    memory = _PROCESS_MEMORY.fullmatch(path)
    return memory is not None and int(memory[1]) != read_status(thread, "Tgid")


def _hides_protected(call: FileCall, path: str, thread: int) -> bool:
    """Return whether a call puts something in the place of a folder with protected files, or moves such
    files."""
    if call.action != "rename":
        is_link = call.name.startswith("symlink")
        # Without a file `.git`, Git finds another repository, or none.
        is_file = call.action in _FILE_ACTIONS or os.path.isfile(_as_seen_by(thread, path))
        return _is_link_in_the_way(path, is_link, is_file)
    source = _as_seen_by(thread, call.paths[0])
    if _is_link_in_the_way(path, os.path.islink(source), os.path.isfile(source)):
        return True
    return _moves_protected(call, path, thread)


def _is_link_in_the_way(path: str, is_link: bool, is_file: bool) -> bool:
    """Return whether a name leads elsewhere that stands for a folder with protected files: by a link,
    or by a file `.git`, which says where the repository is."""
    name = os.path.basename(path)
    return (is_link and name in _LEADING_ELSEWHERE) or (is_file and name == ".git")


def _moves_protected(call: FileCall, path: str, thread: int) -> bool:
    """Return whether a rename moves protected files with their folder, or gives files such names.

    Args:
        call: The rename.
        path: One of its two paths.
        thread: The thread that makes it.
    """
    folders = call.paths if call.flags & RENAME_EXCHANGE else call.paths[:1]
    seen_folders = [_as_seen_by(thread, folder) for folder in folders if folder]
    seen_folders = [folder for folder in seen_folders if os.path.isdir(folder)]
    if seen_folders and may_be_repository(path):
        return True
    if any(map(is_git_folder, seen_folders)):
        return True
    try:
        return any(
            is_protected(f"{path}/{inner_path}")
            for folder in seen_folders
            for inner_path in inner_paths(folder)
        )
    except TooManyEntriesError:
        return True


def _names_of_file(path: str, action: str, thread: int) -> Iterator[str]:
    """Yield a path, and the names that the same file has outside the process's root folder and by hard
    links, if a call changes more than a name."""
    yield path
    with suppress(OSError):
        root = os.readlink(f"/proc/{thread}/root")
        if root != "/":
            yield root + path
        status = os.lstat(_as_seen_by(thread, path))
        has_hard_links = status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)
        if action not in _NAME_ACTIONS and has_hard_links:
            yield from well_known_links(status, os.readlink(f"/proc/{thread}/cwd"))


def resolve_as(thread: int, path: str, *, follows: bool) -> str:
    """Return where a path leads for a process: absolute, without links and ``..``. What does not
    exist is taken as it is.

    Args:
        thread: The process, or a thread of it.
        path: Absolute.
        follows: Whether a link at its end is followed.

    Raises:
        OSError: The path has too many links.
    """
    pending_names = deque(path.split("/"))
    resolved = "/"
    link_count = 0
    while pending_names:
        name = pending_names.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            resolved = os.path.dirname(resolved)
            continue

        candidate = os.path.join(resolved, name)
        if not follows and not any(pending_names):
            return candidate
        target = _read_link(thread, candidate)
        if not target:
            resolved = candidate
            continue
        link_count += 1
        if link_count > MAX_LINKS:
            raise OSError("too many links")
        # The names in the link come before the rest of the path.
        pending_names.extendleft(reversed(target.split("/")))
        if target.startswith("/"):
            resolved = "/"
    return resolved


def _read_link(thread: int, path: str) -> str:
    """Return what a link leads to for a process; empty if it is no link or leads to no file."""
    if path == "/proc/self":
        return str(read_status(thread, "Tgid"))
    if path == "/proc/thread-self":
        return f"{read_status(thread, 'Tgid')}/task/{thread}"
    with suppress(OSError):
        target = os.readlink(_as_seen_by(thread, path))
        # Descriptors of pipes and the like are links to names, not to paths.
        if target.startswith("/") or not path.startswith("/proc/"):
            return target.removesuffix(" (deleted)")
    return ""


def _working_folder(thread: int) -> str:
    """Return the working folder of a process; empty if it has ended."""
    with suppress(OSError):
        return os.readlink(f"/proc/{thread}/cwd")
    return ""


def _root(thread: int, path: str) -> str:
    """Return what stands before a path as `_as_seen_by` returns it."""
    # `/proc` shows the same processes to all.
    return "" if path.startswith("/proc/") else f"/proc/{thread}/root"


def _as_seen_by(thread: int, path: str) -> str:
    """Return the path by which this process reaches a file of another one, whose root folder and
    mounts may be others."""
    return _root(thread, path) + path
