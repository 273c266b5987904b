"""Tries what must not work; a sandbox in which one of these attempts succeeds is not used."""

from __future__ import annotations

import mmap
import os
import socket
from typing import Any, Callable

_ATTEMPTS: dict[str, Callable[[], Any]] = {
    "a folder can be opened": lambda: os.open("/", os.O_RDONLY),
    "a file can be asked about": lambda: os.stat("/"),
    "a link can be read": lambda: os.readlink("/proc/self/exe"),
    "a folder can be listed": lambda: os.listdir("/"),
    "a folder can be made": lambda: os.mkdir("/proc/none"),
    "the working directory can be changed": lambda: os.chdir("/"),
    "the internet can be reached": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "local sockets can be reached": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "datagrams can be sent": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "processes can be made": lambda: _fork(),
    "programs can be started": lambda: os.execv("/proc/none", ["none"]),
    "processes can be signalled": lambda: os.kill(os.getpid(), 0),
    "priorities can be changed": lambda: os.nice(0),
    "memory can be made code": lambda: mmap.mmap(
        -1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC
    ),
}


def files_are_closed() -> bool:
    """Test Landlock, before the system call filter hides it."""
    return _refused(lambda: os.open("/", os.O_RDONLY))


def find_escapes() -> list[str]:
    """Return what is possible and must not be; empty if the sandbox is safe."""
    return [what for what, attempt in _ATTEMPTS.items() if not _refused(attempt)]


def _refused(attempt: Callable[[], Any]) -> bool:
    """Tell whether an attempt was refused; any other error means that it was not."""
    try:
        attempt()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
