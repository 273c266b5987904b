"""Opens and decodes files inside one folder. Each part of a path is opened from the folder before
it, without following links, so that nothing can be exchanged between check and use."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

MAX_FILE_BYTES = 5_000_000

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encodings of files by their first bytes; UTF-32 starts like UTF-16, so it comes first."""

AMBIGUOUS_BYTES = frozenset(range(0x80, 0xA0))
"""Printed in Windows-1252, controls in Latin-1."""
UNDEFINED_BYTES = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Undefined in Windows-1252."""

# A folder that may be entered need not be one that may be listed, which only Linux tells apart.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Those of a folder from which `open_stepwise` begins."""
# Opening a pipe must not wait for a writer, and a terminal must not become that of the process.
_FILE_FLAGS = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
)
KIND_PROBLEMS = {
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a pipe, not a file",
    stat.S_IFSOCK: "is a socket, not a file",
    stat.S_IFCHR: "is a device, not a file",
    stat.S_IFBLK: "is a device, not a file",
}


class BinaryFile(Exception):
    """The bytes are not text."""


def is_encoding(name: str) -> bool:
    """Return whether a codec decodes bytes to text; ``hex`` does not."""
    try:
        b"x".decode(name, "replace")
    except (LookupError, ValueError):
        return False
    return True


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding that a file's byte order mark names; None without a mark."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    return None


def decode(data: bytes, encoding: str | None = None) -> str:
    """Decode as given (``cp037``), by the byte order mark, or as UTF-8, Windows-1252 or Latin-1.

    Raises `BinaryFile`, `LookupError`.
    """
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
    """Return whether text that is not UTF-8 is Windows-1252 or Latin-1."""
    ambiguous_bytes = set(data) & AMBIGUOUS_BYTES
    if ambiguous_bytes and not ambiguous_bytes & UNDEFINED_BYTES:
        return "cp1252"
    return "latin-1"


def split_lines(text: str) -> list[str]:
    """Return the lines of a text. Only a line feed ends one, not a form feed or U+2028."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


class ConfinedFolderError(Exception):
    """A file that cannot be opened; the message is a sentence."""


class ConfinedFolder:
    """Reads files inside one folder; links may not lead out of it."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def open(self, path: str) -> int:
        """Open a regular file; return its descriptor. Raises `ConfinedFolderError`."""
        relative_path = self._relative_path(path)
        real_folder = os.path.realpath(self.folder)
        try:
            folder_descriptor = os.open(real_folder, FOLDER_FLAGS)
        except OSError as error:
            raise ConfinedFolderError(
                f"The folder {self.folder} cannot be read: {error.strerror}."
            ) from None
        try:
            # Links inside the folder are allowed: follow them first, then open without following.
            real_path = os.path.realpath(os.path.join(real_folder, relative_path))
            if os.path.commonpath([real_folder, real_path]) != real_folder:
                raise OSError(errno.ELOOP, "")
            parts = os.path.relpath(real_path, real_folder).split("/")
            descriptor = open_stepwise(folder_descriptor, parts)
        except OSError as error:
            raise self._error(path, error) from None
        finally:
            os.close(folder_descriptor)

        try:
            _check_kind(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.set_blocking(descriptor, True)
        return descriptor

    def read_bytes(self, path: str, limit: int = MAX_FILE_BYTES) -> bytes:
        """Read a file. Raises `ConfinedFolderError`, also for more than `limit` bytes."""
        with open(self.open(path), "rb") as file:
            try:
                data = file.read(limit + 1)
            except OSError as error:
                raise ConfinedFolderError(f"{path} cannot be read: {error.strerror}.") from None
        if len(data) > limit:
            raise ConfinedFolderError(f"{path} is larger than {limit:,} bytes.")
        return data

    def read_text(self, path: str, limit: int = MAX_FILE_BYTES, encoding: str | None = None) -> str:
        """Read in the given or the detected encoding. Raises `ConfinedFolderError`."""
        try:
            return decode(self.read_bytes(path, limit), encoding)
        except BinaryFile:
            raise ConfinedFolderError(f"{path} is a binary file.") from None
        except LookupError:
            raise ConfinedFolderError(f"Unknown encoding {encoding!r}.") from None

    def _relative_path(self, path: str) -> str:
        """Return a path relative to the folder; an absolute one may lie in it.

        Raises `ConfinedFolderError`.
        """
        if "\0" in path or not path.strip():
            raise ConfinedFolderError(f"{path!r} is not a file name.")
        if os.path.isabs(path):
            folder = os.path.abspath(self.folder)
            is_inside = os.path.commonpath([folder, os.path.normpath(path)]) == folder
            if not is_inside or ".." in path.split("/"):
                raise ConfinedFolderError(f"{path} is outside the folder {folder}.")
            path = os.path.relpath(path, folder)
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


def open_stepwise(root: int, parts: Sequence[str]) -> int:
    """Open a file below a folder, one part of its path after the other. Raises `OSError`.

    Args:
        root: The descriptor of the folder, which stays open.
    """
    folder = os.dup(root)
    try:
        for part in parts[:-1]:
            subfolder = os.open(part, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = subfolder
        return os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
    except NotADirectoryError:
        # O_DIRECTORY also raises this for a link.
        mode = 0
        with suppress(OSError):
            mode = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    finally:
        os.close(folder)


def _check_kind(path: str, descriptor: int) -> None:
    """Raise `ConfinedFolderError` unless an open file is a regular one on a disk."""
    status = os.fstat(descriptor)
    if problem := KIND_PROBLEMS.get(stat.S_IFMT(status.st_mode)):
        raise ConfinedFolderError(f"{path} {problem}.")
    for folder in ("/proc", "/sys"):
        with suppress(OSError):
            folder_device = os.stat(folder).st_dev
            if status.st_dev == folder_device != os.stat("/").st_dev:
                raise ConfinedFolderError(f"{path} is not a file on disk: the system generates it.")
