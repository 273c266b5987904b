"""What the system says of other processes in `/proc`: their memory, their children, and which files they
have open.

A process may end at any time. What is not there any more is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from .states import FileState, read_state

OTHER_ROOT = (
    "A program changed files in a container or another root folder, where files are not watched."
)
_WITHOUT_FILES = ("/dev/", "/proc/")
"""Where there are devices and facts about processes, which are not watched."""
_MAP_COLUMN_COUNT = 6
"""The columns of a row of `/proc/…/maps` with a path, which is the last one."""
_SHARED_WRITABLE = "rw-s"
"""The permissions of memory by which a process changes the file that it shows."""


class UnseenError(Exception):
    """It is not known which file a call changes; the message is a sentence."""


def shares_files(thread: int, namespace: int) -> bool:
    """Return whether a process sees the files that this one sees, or has ended, so that its call changes
    nothing.

    Args:
        thread: The process, or a thread of it.
        namespace: The number of this process's namespace of mounts.
    """
    try:
        is_same_namespace = os.stat(f"/proc/{thread}/ns/mnt").st_ino == namespace
        return is_same_namespace and os.readlink(f"/proc/{thread}/root") == "/"
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False


def read_memory(thread: int, address: int, size: int) -> bytes:
    """Read the memory of a process.

    Args:
        thread: The process, or a thread of it.
        address: Where to begin.
        size: How many bytes to read at most.

    Returns:
        The bytes; nothing if the process has ended.

    Raises:
        UnseenError: They cannot be read.
    """
    try:
        fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, address)
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except (OSError, OverflowError):
        raise UnseenError(
            "A program changed files whose memory cannot be read, so that they are unknown."
        ) from None


def descriptor_path(thread: int, fd: int) -> str:
    """Return the path of a file that a process has open; empty if it has none."""
    with suppress(OSError):
        path = os.readlink(f"/proc/{thread}/fd/{fd}")
        if path.startswith("/") and not path.endswith(" (deleted)"):
            return path
    return ""


def descendants(pid: int) -> Iterator[int]:
    """Yield a process and those that it, or one of them, has started."""
    pending_pids = [pid]
    while pending_pids:
        pid = pending_pids.pop()
        yield pid
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                    pending_pids += map(int, children.read().split())


def written_files(pid: int) -> Iterator[tuple[str, FileState]]:
    """Yield the paths of what a process has open for writing, each with what it leads to."""
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = _written_path(pid, fd)
            if path:
                yield path, read_state(f"/proc/{pid}/fd/{fd}", follows=True)


def _written_path(pid: int, fd: str) -> str:
    """Return the path of a file that a process has open for writing; empty for other descriptors."""
    with suppress(OSError, IndexError, ValueError):
        path = os.readlink(f"/proc/{pid}/fd/{fd}")
        is_file = path.startswith("/") and not path.startswith(_WITHOUT_FILES)
        if is_file and _read_open_flags(pid, fd) & (os.O_WRONLY | os.O_RDWR):
            return path
    return ""


def _read_open_flags(pid: int, fd: str) -> int:
    """Return the flags with which a descriptor was opened. Raises `OSError`, and `IndexError` or
    `ValueError` if the system does not say them."""
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as rows:
        _, _, after_label = rows.read().partition("flags:")
    return int(after_label.split()[0], 8)


def mapped_files(pid: int) -> Iterator[tuple[str, FileState]]:
    """Yield the paths of the files that a process has in its memory, and changes there, each with what it
    leads to."""
    maps_path = f"/proc/{pid}/maps"
    with suppress(OSError), open(maps_path, encoding="utf-8", errors="surrogateescape") as rows:
        for row in rows:
            # The path may contain blanks.
            columns = row.rstrip("\n").split(None, _MAP_COLUMN_COUNT - 1)
            if len(columns) < _MAP_COLUMN_COUNT:
                continue
            _address, permissions, *_, path = columns
            if permissions.startswith(_SHARED_WRITABLE) and path.startswith("/"):
                yield path, read_state(path)
