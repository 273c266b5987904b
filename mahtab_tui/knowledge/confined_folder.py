"""Opens and reads files inside one folder.

Each part of a path is opened from the folder before it, without following links, so that nothing can be
exchanged between check and use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mahtab_tui.knowledge.text_decoding import BinaryFile, decode

MAX_FILE_BYTES = 5_000_000
"""A larger file is not read, unless a caller sets another limit."""

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
"""What is wrong with what a path names, as the end of a sentence, by its kind."""


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
        """Return the content of a file.

        Args:
            path: Relative to the folder, or absolute within it.
            limit: The most bytes that it may have.

        Raises:
            ConfinedFolderError: It cannot be read, or is larger.
        """
        with open(self.open(path), "rb") as file:
            try:
                data = file.read(limit + 1)
            except OSError as error:
                raise ConfinedFolderError(f"{path} cannot be read: {error.strerror}.") from None
        if len(data) > limit:
            raise ConfinedFolderError(f"{path} is larger than {limit:,} bytes.")
        return data

    def read_text(self, path: str, limit: int = MAX_FILE_BYTES, encoding: str | None = None) -> str:
        """Return the text of a file.

        Args:
            path: As for `read_bytes`.
            limit: As for `read_bytes`.
            encoding: Its encoding; None to detect it.

        Raises:
            ConfinedFolderError: It cannot be read, is larger, or is not text.
        """
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
        """Return the error for a file that could not be opened."""
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
        parts: The names of the folders below it, and of the file.

    Returns:
        The descriptor of the file, which does not block.
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
