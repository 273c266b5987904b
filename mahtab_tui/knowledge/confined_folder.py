"""Opens and decodes files inside one folder, without a gap between check and use.

Linux checks the whole path while it opens (``openat2`` with RESOLVE_BENEATH, from Linux 5.6 on).
Elsewhere each part of the path is opened from the folder before it, without following links, so
that nothing can be exchanged between a check and its use; there links are refused."""

from __future__ import annotations

import codecs
import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


_SPECIAL = frozenset(range(0x80, 0xA0))
"""Printed characters in Windows-1252, controls in Latin-1."""
_UNUSED = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Undefined in Windows-1252."""


class BinaryFile(Exception):
    """The bytes are not text."""


def is_encoding(name: str) -> bool:
    """Tell whether a codec decodes bytes to text; ``hex`` does not."""
    try:
        b"x".decode(name, "replace")
    except (LookupError, ValueError):
        return False
    return True


def byte_order_mark(data: bytes) -> bytes:
    """Return the byte order mark at the start; empty if there is none."""
    return next((mark for mark, _ in _MARKS if data.startswith(mark)), b"")


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding that the byte order mark indicates, if any."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def decode(data: bytes, encoding: str | None = None) -> str:
    """Decode by the given encoding (``cp037``), by the byte order mark, or as UTF-8, Windows-1252
    or Latin-1. Raises `BinaryFile`; `LookupError` for an unknown encoding."""
    if encoding is not None:
        if not is_encoding(encoding):
            raise LookupError(encoding)
        # Mainframes end lines with NEL.
        return data.decode(codecs.lookup(encoding).name, "replace").replace("\x85", "\n")
    if (marked := marked_encoding(data)) is not None:
        return data.decode(marked, "replace")
    if b"\0" in data:
        raise BinaryFile
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(single_byte_encoding(data))


def single_byte_encoding(data: bytes) -> str:
    """Return the encoding of a Western text that is not UTF-8."""
    special = set(data) & _SPECIAL
    return "cp1252" if special and not special & _UNUSED else "latin-1"


def split_lines(text: str) -> list[str]:
    """Split a text into lines as editors do: only a line feed ends one, not a form feed or
    U+2028."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


READ_LIMIT = 5_000_000
"""Larger files (in bytes) are not read."""

_OPENAT2 = 437
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_KINDS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a pipe, not a file"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)
_REASONS = {
    errno.EACCES: "may not be read",
    errno.EPERM: "may not be read",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENXIO: "is a socket or a device, not a file",
}


class ConfinedFolderError(Exception):
    """A file that cannot be opened; the message is a sentence."""


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class ConfinedFolder:
    """Reads files inside one folder. Links may point elsewhere inside it, never out of it."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def open(self, path: str) -> int:
        """Open a regular file for reading and return its descriptor. Raises `ConfinedFolderError`."""
        parts = self._parts(path)
        try:
            root = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfinedFolderError(
                f"The folder {self.folder} cannot be read: {error.strerror}."
            ) from None
        try:
            opened = _open_beneath(root, parts)
        except OSError as error:
            raise ConfinedFolderError(self._sentence(path, error)) from None
        finally:
            os.close(root)
        try:
            self._check(path, opened)
        except BaseException:
            os.close(opened)
            raise
        os.set_blocking(opened, True)
        return opened

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Read a file. Raises `ConfinedFolderError`, also if it has more than `limit` bytes."""
        with open(self.open(path), "rb") as file:
            try:
                data = file.read(limit + 1)
            except OSError as error:
                raise ConfinedFolderError(f"{path} cannot be read: {error.strerror}.") from None
        if len(data) > limit:
            raise ConfinedFolderError(f"{path} is larger than {limit:,} bytes.")
        return data

    def read_text(self, path: str, limit: int = READ_LIMIT, encoding: str | None = None) -> str:
        """Read a file as text, in the given or the detected encoding. Raises `ConfinedFolderError`."""

        try:
            return decode(self.read_bytes(path, limit), encoding)
        except BinaryFile:
            raise ConfinedFolderError(f"{path} is a binary file.") from None
        except LookupError:
            raise ConfinedFolderError(f"Unknown encoding {encoding!r}.") from None

    def _parts(self, path: str) -> list[str]:
        """Split a path in the folder, which may be absolute."""
        if "\0" in path or not path.strip():
            raise ConfinedFolderError(f"{path!r} is not a file name.")
        if os.path.isabs(path):
            own = os.path.abspath(self.folder)
            if os.path.commonpath([own, os.path.normpath(path)]) != own or ".." in path.split("/"):
                raise ConfinedFolderError(f"{path} is outside the folder {own}.")
            path = os.path.relpath(path, own)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ConfinedFolderError(f'{path} is refused: a path must not contain "..".')
        return parts or ["."]

    def _check(self, path: str, opened: int) -> None:
        mode = os.fstat(opened).st_mode
        for is_kind, words in _KINDS:
            if is_kind(mode):
                raise ConfinedFolderError(f"{path} {words}.")
        if _is_kernels(opened):
            raise ConfinedFolderError(f"{path} is not a file on disk: the system generates it.")

    def _sentence(self, path: str, error: OSError) -> str:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return f"File not found: {path}"
        if error.errno in (errno.EXDEV, errno.ELOOP):
            return f"{path} is refused: a link in it leads outside the folder {self.folder}."
        return f"{path} {_REASONS.get(error.errno or 0, f'cannot be read: {error.strerror}')}."


def _open_beneath(root: int, parts: list[str]) -> int:
    if sys.platform == "linux":
        try:
            return _openat2(root, "/".join(parts))
        except OSError as error:
            # Before Linux 5.6, or in a container that forbids unknown system calls.
            if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
                raise
    return _open_stepwise(root, parts)


def _openat2(root: int, path: str) -> int:
    how = _OpenHow(flags=_FLAGS, mode=0, resolve=_BENEATH | _NO_MAGIC_LINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(50):
        opened = libc.syscall(
            _OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)
        )
        if opened >= 0:
            return int(opened)
        # EAGAIN: something was renamed meanwhile, so the kernel could not tell whether the path
        # stays inside.
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number))


def _open_stepwise(root: int, parts: list[str]) -> int:
    """Open each part from its parent folder, without following links."""
    here = os.dup(root)
    try:
        for part in parts[:-1]:
            there = os.open(
                part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here
            )
            os.close(here)
            here = there
        return os.open(parts[-1], _FLAGS | os.O_NOFOLLOW, dir_fd=here)
    except NotADirectoryError:
        # O_DIRECTORY also raises this for a link.
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    finally:
        os.close(here)


def _is_kernels(opened: int) -> bool:
    """Tell whether it is a file of /proc or /sys, whichever path led to it."""
    with suppress(OSError):
        own = os.fstat(opened).st_dev
        return any(
            own == os.stat(folder).st_dev != os.stat("/").st_dev
            for folder in ("/proc", "/sys")
            if os.path.isdir(folder)
        )
    return False
