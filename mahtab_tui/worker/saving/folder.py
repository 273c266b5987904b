"""The folder in which a session's namespace is saved.

A pickle runs code when it is loaded, so files that others own, can write, or have not signed with
the user's key are not loaded."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import stat
import time
from collections.abc import Iterable
from typing import Any

INDEX = "index.json"
"""The file that names the others, with a signature in its first line."""
OWNER = "owner"
"""The file with the name of the kernel that may write. Checkpoints that may save lock it."""
FORMAT = 1
"""The version of the index."""
MAX_REASON_CHARS = 300
"""Characters of a reason why a variable is not saved, in the index."""
_MAX_INDEX_BYTES = 200_000_000
"""Bytes of the index that are read."""
_LOCK_POLL_S = 0.02
"""Seconds between two looks whether a checkpoint still saves."""
_OTHERS_CAN_WRITE = 0o022
"""The permissions of the group and of all others to write."""
_MOVE = "Move it away to save variables again."


class FolderError(Exception):
    """A folder of saved variables cannot be used. The message is a sentence for the user."""


class SaveFolder:
    """An open folder with saved variables: an index, and data files that it names. Must be closed."""

    def __init__(
        self, path: str, key: bytes, *, create: bool = False, waits_for_disk: bool = True
    ) -> None:
        """Open the folder.

        Args:
            path: Inside the user's private folder.
            key: The user's, which signs the index.
            create: Whether to make the folder if there is none.
            waits_for_disk: Whether what is written survives the machine's crash.

        Raises:
            FolderError: Others own the folder, or can write into it.
            OSError: It cannot be opened.
        """
        self.path = path
        self._waits_for_disk = waits_for_disk
        self._key = key
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        parent, name = os.path.split(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        parent_fd = os.open(parent, flags)
        try:
            _check_owner(parent_fd, parent)
            self._fd = os.open(name, flags, dir_fd=parent_fd)
        finally:
            os.close(parent_fd)
        try:
            _check_owner(self._fd, path)
        except FolderError:
            self.close()
            raise

    def close(self) -> None:
        """Close the folder. A second call is an error."""
        os.close(self._fd)

    def index(self) -> dict[str, Any] | None:
        """Return the index; None if there is none.

        Raises `FolderError` if it is not the user's own, and `OSError`.
        """
        try:
            with self.open(INDEX) as file:
                data = file.read(_MAX_INDEX_BYTES)
        except FileNotFoundError:
            return None
        signature, _newline, text = data.partition(b"\n")
        if not hmac.compare_digest(signature, self._signature(text)):
            raise FolderError(
                f"The variables in {self.path} are neither read nor saved, because they were not written there by a session of yours. {_MOVE}"
            )
        index: dict[str, Any] = json.loads(text)
        if index["format"] != FORMAT:
            raise FolderError(
                "The variables were saved by another version of mahtab-tui, whose files this one cannot read."
            )
        return index

    def write_index(self, index: dict[str, object]) -> None:
        """Replace the index atomically. Raises `OSError`."""
        text = json.dumps({**index, "format": FORMAT}).encode()
        self.write(INDEX, [self._signature(text), b"\n", text])
        if self._waits_for_disk:
            os.fsync(self._fd)

    def open(self, name: str) -> Any:
        """Open a file that nobody else can have written. Raises `OSError` and `FolderError`."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.fdopen(os.open(name, flags, dir_fd=self._fd), "rb", buffering=0)
        try:
            _check_owner(file.fileno(), f"{self.path}/{name}", regular=True)
        except FolderError:
            file.close()
            raise
        return file

    def write(self, name: str, parts: Iterable[Any]) -> None:
        """Write a file atomically.

        Args:
            name: The file.
            parts: Its bytes, one after the other.

        Raises:
            OSError: It cannot be written.
        """
        draft_name = name + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(draft_name, flags, 0o600, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                if self._waits_for_disk:
                    os.fsync(fd)
            os.replace(draft_name, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft_name, dir_fd=self._fd)
            raise

    def lock_for_checkpoint(self, kernel: str) -> int:
        """Lock the folder until the calling process ends.

        Args:
            kernel: The name of its kernel, which becomes the owner if there is none.

        Returns:
            The descriptor that holds the lock.

        Raises:
            OSError: The file of the owner cannot be used.
        """
        owner_fd = self._open_owner()
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(owner_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if not os.fstat(owner_fd).st_size:
            os.pwrite(owner_fd, kernel.encode(), 0)
        return owner_fd

    def wait_for_checkpoints(self, timeout_s: float) -> None:
        """Wait until no checkpoint of an earlier kernel saves. Raises `OSError`."""
        owner_fd = self._open_owner()
        deadline = time.monotonic() + timeout_s
        try:
            while not _try_to_lock(owner_fd) and time.monotonic() < deadline:
                time.sleep(_LOCK_POLL_S)
        finally:
            os.close(owner_fd)

    def set_owner(self, kernel: str) -> None:
        """Let only this kernel write from now on. Raises `OSError`."""
        owner_fd = self._open_owner()
        try:
            os.pwrite(owner_fd, kernel.encode(), 0)
        finally:
            os.close(owner_fd)

    def is_owner(self, kernel: str) -> bool:
        """Return whether this kernel may write, because no other one is named. Raises `OSError`."""
        owner_fd = self._open_owner()
        try:
            return os.pread(owner_fd, len(kernel) + 1, 0) in (b"", kernel.encode())
        finally:
            os.close(owner_fd)

    def remove_all_but(self, names: set[str]) -> None:
        """Remove the data files with other names, as far as possible."""
        for name in os.listdir(self._fd):
            if name not in (INDEX, OWNER) and name not in names:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._fd)

    def _open_owner(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(OWNER, flags, 0o600, dir_fd=self._fd)

    def _signature(self, text: bytes) -> bytes:
        return hmac.new(self._key, text, "sha256").hexdigest().encode()


def _try_to_lock(fd: int) -> bool:
    """Return whether nobody holds the lock, or nobody can: some file systems have no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _check_owner(fd: int, path: str, *, regular: bool = False) -> None:
    """Raise `FolderError` unless only the user can have written a file or folder.

    Args:
        fd: Its descriptor.
        path: Its path, for the message.
        regular: Whether it must be a regular file.
    """
    status = os.fstat(fd)
    if regular and not stat.S_ISREG(status.st_mode):
        reason = f"{path} is not a regular file. {_MOVE}"
    elif status.st_uid != os.geteuid():
        reason = f"{path} belongs to another user. {_MOVE}"
    elif status.st_mode & _OTHERS_CAN_WRITE:
        reason = f"others can write {path}. If you trust what is in it, run: chmod go-w {path}"
    else:
        return
    raise FolderError(f"Variables are neither read nor saved, because {reason}")
