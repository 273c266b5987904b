"""What the system says of other processes: their memory, their children, and which files they have open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from .states import FileState, read_state

OTHER_ROOT = (
    "A program changed files in a container or another root folder, where files are not watched."
)


class UnseenError(Exception):
    """It is not known which file a call changes; the message is a sentence."""


def shares_files(thread: int, namespace: int) -> bool:
    """Return whether a process has a namespace of mounts and the root folder, or has ended, so that
    its call changes nothing.

    Args:
        namespace: Its number.
    """
    try:
        return (
            os.stat(f"/proc/{thread}/ns/mnt").st_ino == namespace
            and os.readlink(f"/proc/{thread}/root") == "/"
        )
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False


def read_memory(thread: int, address: int, size: int) -> bytes:
    """Read the memory of a process; nothing if it has ended. Raises `UnseenError`."""
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
    """Return the path of an open file; empty if it has none."""
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
    """Yield the paths of what a process has open for writing, with what it is."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError, IndexError, ValueError):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
                    continue
                with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as fields:
                    flags = int(fields.read().partition("flags:")[2].split()[0], 8)
                if flags & (os.O_WRONLY | os.O_RDWR):
                    yield path, read_state(f"/proc/{pid}/fd/{name}", follows=True)


def mapped_files(pid: int) -> Iterator[tuple[str, FileState]]:
    """Yield the paths of files that a process has in its memory, and changes there."""
    path = f"/proc/{pid}/maps"
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[1].startswith("rw-s") and fields[5].startswith("/"):
                yield fields[5], read_state(fields[5])
