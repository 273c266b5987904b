"""The folder in which a session's namespace is saved.

A pickle runs code when it is loaded, so files that others own, can write, or have not signed with
the user's key are not loaded."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import mmap
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Any

INDEX = "index.json"
OWNER = "owner"
"""Names the kernel that may write. Checkpoints that may save hold a lock of this file."""
FORMAT = 1
_LOCK_POLL_S = 0.02
_MAX_FILE_BYTES = 200_000_000
MAX_REASON_CHARS = 300
_MOVE = "Move it away to save variables again."
_PIECE_BYTES = 2**24

_BEATS_PER_UPDATE = 4096


class FolderError(Exception):
    """The message is a sentence for the user."""


class SaveFolder:
    """Must be closed."""

    def __init__(
        self, path: str, key: bytes, *, create: bool = False, waits_for_disk: bool = True
    ) -> None:
        """path: a folder inside the user's private folder. waits_for_disk: whether what is written
        survives the machine's crash. Raises `OSError` and `FolderError`."""
        self.path = path
        self._waits_for_disk = waits_for_disk
        self._key = key
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        parent, name = os.path.split(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        above = os.open(parent, flags)
        try:
            _check_owner(above, parent)
            self._fd = os.open(name, flags, dir_fd=above)
        finally:
            os.close(above)
        try:
            _check_owner(self._fd, path)
        except FolderError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._fd)

    def index(self) -> dict[str, Any] | None:
        """Return the index; None if there is none. Raises `FolderError` if it is not the user's
        own, and `OSError`."""
        try:
            with self.open(INDEX) as file:
                data = file.read(_MAX_FILE_BYTES)
        except FileNotFoundError:
            return None
        signature, _, text = data.partition(b"\n")
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
        """Write a file atomically. Raises `OSError`."""
        new = name + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, 0o600, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                if self._waits_for_disk:
                    os.fsync(fd)
            os.replace(new, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new, dir_fd=self._fd)
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

    def wait_for_checkpoints(self, timeout: float) -> None:
        """Wait until no checkpoint of an earlier kernel saves. timeout: in seconds. Raises
        `OSError`."""
        owner_fd = self._open_owner()
        until = time.monotonic() + timeout
        try:
            while not _try_to_lock(owner_fd) and time.monotonic() < until:
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

    def _open_owner(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(OWNER, flags, 0o600, dir_fd=self._fd)

    def remove_all_but(self, names: set[str]) -> None:
        for name in os.listdir(self._fd):
            if name not in (INDEX, OWNER) and name not in names:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._fd)

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


def compute_digest(parts: Iterable[object]) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        for piece in split_pieces(part):
            digest.update(piece)
    return digest.hexdigest()


def split_pieces(part: Any) -> Iterator[memoryview]:
    view = memoryview(part).cast("B")
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]


def _check_owner(fd: int, path: str, *, regular: bool = False) -> None:
    status = os.fstat(fd)
    if regular and not stat.S_ISREG(status.st_mode):
        reason = f"{path} is not a regular file. {_MOVE}"
    elif status.st_uid != os.geteuid():
        reason = f"{path} belongs to another user. {_MOVE}"
    elif status.st_mode & 0o022:
        reason = f"others can write {path}. If you trust what is in it, run: chmod go-w {path}"
    else:
        return
    raise FolderError(f"Variables are neither read nor saved, because {reason}")


class ProgressCounter:
    """A counter in memory, shared by a process and its forks."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)
        self._beats = 0

    def count(self) -> int:
        return int.from_bytes(self._shared[:], "little")

    def beat(self) -> None:
        self._beats += 1
        if not self._beats % _BEATS_PER_UPDATE:
            self._publish()

    def track(self, parts: Iterable[object]) -> Iterator[memoryview]:
        for part in parts:
            for piece in split_pieces(part):
                self._publish()
                yield piece

    def _publish(self) -> None:
        self._shared[:] = (self.count() + 1).to_bytes(8, "little")
