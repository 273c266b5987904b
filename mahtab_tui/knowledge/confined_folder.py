"""Opens and decodes files inside one folder. Each part of a path is opened from the folder before
it, without following links, so that nothing can be exchanged between check and use."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


_SPECIAL = frozenset(range(0x80, 0xA0))
"""Printed in Windows-1252, controls in Latin-1."""
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


def marked_encoding(data: bytes) -> str | None:
    return next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)


def decode(data: bytes, encoding: str | None = None) -> str:
    """Decode as given (``cp037``), by the byte order mark, or as UTF-8, Windows-1252 or Latin-1.
    Raises `BinaryFile`, `LookupError`."""
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
    special = set(data) & _SPECIAL
    return "cp1252" if special and not special & _UNUSED else "latin-1"


def split_lines(text: str) -> list[str]:
    """Only a line feed ends a line, not a form feed or U+2028."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


READ_LIMIT = 5_000_000
"""Bytes of a file."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_KINDS = {
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a pipe, not a file",
    stat.S_IFSOCK: "is a socket, not a file",
    **dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "is a device, not a file"),
}


class ConfinedFolderError(Exception):
    """A file that cannot be opened; the message is a sentence."""


class ConfinedFolder:
    """Reads files inside one folder; links may not lead out of it."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def open(self, path: str) -> int:
        """Open a regular file. Raises `ConfinedFolderError`."""
        relative = self._relative(path)
        own = os.path.realpath(self.folder)
        try:
            root = os.open(own, _FOLDER_FLAGS)
        except OSError as error:
            raise ConfinedFolderError(
                f"The folder {self.folder} cannot be read: {error.strerror}."
            ) from None
        try:
            real = os.path.realpath(os.path.join(own, relative))
            if os.path.commonpath([own, real]) != own:
                raise OSError(errno.ELOOP, "")
            opened = _open_stepwise(root, os.path.relpath(real, own).split("/"))
        except OSError as error:
            raise self._error(path, error) from None
        finally:
            os.close(root)
        try:
            _check(path, opened)
        except BaseException:
            os.close(opened)
            raise
        os.set_blocking(opened, True)
        return opened

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Raises `ConfinedFolderError`, also for more than `limit` bytes."""
        with open(self.open(path), "rb") as file:
            try:
                data = file.read(limit + 1)
            except OSError as error:
                raise ConfinedFolderError(f"{path} cannot be read: {error.strerror}.") from None
        if len(data) > limit:
            raise ConfinedFolderError(f"{path} is larger than {limit:,} bytes.")
        return data

    def read_text(self, path: str, limit: int = READ_LIMIT, encoding: str | None = None) -> str:
        """Read in the given or the detected encoding. Raises `ConfinedFolderError`."""
        try:
            return decode(self.read_bytes(path, limit), encoding)
        except BinaryFile:
            raise ConfinedFolderError(f"{path} is a binary file.") from None
        except LookupError:
            raise ConfinedFolderError(f"Unknown encoding {encoding!r}.") from None

    def _relative(self, path: str) -> str:
        """An absolute path may lie in the folder."""
        if "\0" in path or not path.strip():
            raise ConfinedFolderError(f"{path!r} is not a file name.")
        if os.path.isabs(path):
            own = os.path.abspath(self.folder)
            if os.path.commonpath([own, os.path.normpath(path)]) != own or ".." in path.split("/"):
                raise ConfinedFolderError(f"{path} is outside the folder {own}.")
            path = os.path.relpath(path, own)
        if ".." in path.split("/"):
            raise ConfinedFolderError(f'{path} is refused: a path must not contain "..".')
        return path

    def _error(self, path: str, error: OSError) -> ConfinedFolderError:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return ConfinedFolderError(f"File not found: {path}")
        if error.errno == errno.ELOOP:
            return ConfinedFolderError(
                f"{path} is refused: a link in it leads outside the folder {self.folder}."
            )
        return ConfinedFolderError(f"{path} cannot be read: {error.strerror}.")


def _open_stepwise(root: int, parts: list[str]) -> int:
    here = os.dup(root)
    try:
        for part in parts[:-1]:
            there = os.open(part, _FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = there
        return os.open(parts[-1], _FLAGS, dir_fd=here)
    except NotADirectoryError:
        # O_DIRECTORY also raises this for a link.
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, "") from None
        raise
    finally:
        os.close(here)


def _check(path: str, opened: int) -> None:
    found = os.fstat(opened)
    if words := _KINDS.get(stat.S_IFMT(found.st_mode)):
        raise ConfinedFolderError(f"{path} {words}.")
    for folder in ("/proc", "/sys"):
        with suppress(OSError):
            if found.st_dev == os.stat(folder).st_dev != os.stat("/").st_dev:
                raise ConfinedFolderError(f"{path} is not a file on disk: the system generates it.")
