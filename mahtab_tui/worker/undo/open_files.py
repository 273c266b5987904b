"""How far open files are read or written. An undo compares it, but does not put it back."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..values.objects import own_dict
from .opaque import file_class

_KERNEL_PID = os.getpid()
"""The process that imported this module. A checkpoint is a fork of it, where `os.getpid` differs."""


class FileState(NamedTuple):
    """How far a file is read or written, and how long it is."""

    position: int
    """As `tell` counts: bytes, or an opaque number for a text file that is only read; -1 if the file is
    closed."""
    size_bytes: int
    """Size of a file that may be written; -1 if it is closed, cannot be written or has no descriptor."""


def read_file_state(file: Any) -> FileState | None:
    """Return the state of an object for which `file_class` returns a class.

    In the kernel, this flushes a text file that may be written: nothing tells how much text waits in it.
    What the user's code has written to it is then on disk, earlier than it would be otherwise.

    Returns:
        None if the position is unknown, as for pipes and for compressed files that are written.
    """
    position = _read_position(file)
    if position is None:
        return None
    return FileState(position, _read_size_bytes(file))


def read_descriptor(file: Any) -> int | None:
    """Return the descriptor of an open file; None if it is closed, or in memory."""
    try:
        return int(file_class(type(file)).fileno(file))
    except (OSError, ValueError, AttributeError):
        # It is closed (a compressed file then has no attribute to ask), or in memory.
        return None


def file_label(file: Any) -> str:
    """Return what to call an open file that no variable leads to: its name without the folder, or "a file"
    if it is closed."""
    descriptor = read_descriptor(file)
    if descriptor is None:
        return "a file"
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "a file"
    return os.path.basename(path)


def find_library_files(holders: Iterable[object]) -> list[Any]:
    """Return the open files of libraries: those of the handlers of `logging`, and those that are
    attributes of the holders.

    Args:
        holders: Modules, classes and objects.
    """
    values = [value for holder in holders for value in list(own_dict(holder).values())]
    # `logging` keeps weak references to all handlers that were made.
    handlers = own_dict(sys.modules.get("logging")).get("_handlerList")
    if type(handlers) is list:
        references = [item for item in handlers if type(item) is weakref.ref]
        values += [own_dict(reference()).get("stream") for reference in references]
    return [value for value in values if file_class(type(value)) is not None]


# A class of the user's may be derived from one of `io`, and define `closed` or `tell` anew. Therefore these
# functions call the methods of the class of `io`, and read its properties by their descriptors.


def _read_position(file: Any) -> int | None:
    """Return the position of `FileState`; None if it is unknown."""
    cls = file_class(type(file))
    try:
        if cls.closed.__get__(file):
            return -1
        if not cls.seekable(file):
            return None
        is_written_text = hasattr(cls, "buffer") and cls.writable(file)
        if not is_written_text:
            return int(cls.tell(file))
        return _read_text_position(file, cls)
    except (OSError, ValueError, AttributeError):
        return None


def _read_text_position(file: Any, cls: Any) -> int | None:
    """Return how far a text file is written, in bytes; None if this is unknown. Flushes the file in the
    kernel.

    Args:
        file: The file.
        cls: The class of `io` that the file's class is or is derived from.
    """
    buffer = cls.buffer.__get__(file)
    buffer_class = file_class(type(buffer))
    if buffer_class is None:
        return None
    # Nothing tells how much text waits in the file, so it is written; in a fork of the kernel it would
    # be written twice.
    if os.getpid() == _KERNEL_PID:
        cls.flush(file)
    return int(buffer_class.tell(buffer))


def _read_size_bytes(file: Any) -> int:
    """Return the size of `FileState`; -1 if there is none."""
    cls = file_class(type(file))
    try:
        if cls.writable(file):
            return os.fstat(cls.fileno(file)).st_size
    except (OSError, ValueError, AttributeError):  # closed, or in memory
        pass
    return -1
