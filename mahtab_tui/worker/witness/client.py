"""The kernel's side of the witness."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Callable

from ..link.held_signals import HeldSignals
from ..sandbox import system_calls
from ..sandbox.call_filter import machine
from .calls import watching_filter
from .folders import WatchedFolders
from .shared import Message, SharedFields, WitnessConnection, WitnessLink

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_SET_FILTER = 1
_ALLOW_SPECULATION = 1 << 2
"""Without it, older systems slow down all code of a filtered process."""
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5
"""A call that the witness looks at is not interrupted by signals (Linux 5.19)."""

MIN_LINUX_VERSION = (5, 9)
"""Earlier ones do not tell the witness when no process is left that it must answer."""

NO_ANSWER = "the process that watches files does not answer"


class FileWatch:
    """Asks the witness what cells have done to files. Used on the main thread."""

    def __init__(self, link: WitnessLink, hide: Callable[[int], int]) -> None:
        """
        Args:
            hide: Moves a descriptor to a number that cells do not hit by accident.
        """
        self._fields = SharedFields(link.page)
        self._connection = WitnessConnection(hide(link.control))
        self.unavailable_reason = "the kernel has just started"
        """Why files are not watched, as a clause; empty if they are."""
        self._folders: WatchedFolders | None = None
        self._serial = 0
        """Serial number of the newest question."""
        self._protections = 0
        """How often `protect` was called."""
        self._released_protections = 0
        """How many of these had been called at the last `release`, so that a cell costs no message."""

    def start(self, settings: Message) -> None:
        """Begin to watch, for good.

        Args:
            settings: Those of the host, for `server.WitnessServer`.
        """
        self._folders = WatchedFolders(settings["folders"], settings["ignored"])
        self.unavailable_reason = self._start(settings)

    def _start(self, settings: Message) -> str:
        architecture = machine()
        if architecture is None:
            return f"this processor ({os.uname().machine}) is not supported"
        if _linux_version() < MIN_LINUX_VERSION:
            return f"that needs Linux {'.'.join(map(str, MIN_LINUX_VERSION))} or later"
        try:
            listener = _install_filter(watching_filter(architecture))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return "another program watches this one already"
            return f"this system does not allow it ({error.strerror})"
        try:
            self._connection.send({"op": "watch", **settings}, listener)
        except OSError:
            return NO_ANSWER
        finally:
            os.close(listener)
        return ""

    def is_watched(self, path: str) -> bool:
        """Return whether the files at an absolute path are watched."""
        working_folder = ""
        with suppress(OSError):
            working_folder = os.getcwd()
        folder, name = os.path.split(path)
        resolved = os.path.join(os.path.realpath(folder), name)
        return self._folders is not None and self._folders.contains(resolved, working_folder)

    @property
    def is_on(self) -> bool:
        return not self.unavailable_reason

    def protect(self, own_folder: str) -> None:
        """Let the witness refuse changes of protected files until `release`. Any thread may call it.

        Args:
            own_folder: Where the kernel keeps variables, which is not protected; empty if it keeps none.
        """
        if self.is_on:
            with suppress(OSError):
                self._connection.send({"op": "protect", "own_folder": own_folder})
            self._protections += 1

    def release(self) -> None:
        """Let what begins now change protected files: the user has typed or approved it."""
        protections = self._protections
        if self.is_on and protections != self._released_protections:
            self._released_protections = protections
            with suppress(OSError):
                self._connection.send({"op": "release"})

    def begin(self, cell: int, oldest_cell: int) -> None:
        """Note that a cell begins.

        Args:
            oldest_cell: The first that can be undone.
        """
        if self.is_on:
            if self._fields.has_news:
                self._ask({"op": "begin", "cell": cell})
            self._fields.oldest_cell = oldest_cell
            self._fields.cell = cell
            self._fields.is_running = True

    def finish(self) -> list[Message]:
        """Return what the cell has done to files (see `changes.FileChange`)."""
        self._fields.is_running = False
        if self.is_on and self._fields.has_news:
            return list(self._ask({"op": "finish"}).get("files", ()))
        return []

    def answer(self, action: str, cell: int) -> Message:
        """Preview, undo or redo the changes of files. Returns ``files`` and ``not_restored``."""
        if not self.is_on:
            return {"files": [], "not_restored": []}
        return self._ask({"op": action, "cell": cell})

    def _ask(self, question: Message) -> Message:
        # The function of a signal could raise an exception between question and answer.
        with HeldSignals():
            self._serial += 1
            try:
                self._connection.send({**question, "serial": self._serial})
                while True:
                    answer, _ = self._connection.receive()
                    if answer["serial"] == self._serial:
                        return answer
            except (OSError, EOFError):
                self.unavailable_reason = NO_ANSWER
                return {}


def _linux_version() -> tuple[int, int]:
    numbers = os.uname().release.split(".")
    try:
        return int(numbers[0]), int(numbers[1].partition("-")[0])
    except (IndexError, ValueError):
        return 0, 0


def _install_filter(program: bytes) -> int:
    """Filter the system calls of this thread, and return the descriptor of the listener. Raises
    `OSError`."""
    array = system_calls.buffer_of(program)
    header = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(array))
    # Root needs no promise to gain no privileges, so that for it `su` and `sudo` still work.
    try:
        return _set_filter(header)
    except OSError as error:
        if error.errno != errno.EACCES:
            raise
    system_calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return _set_filter(header)


def _set_filter(header: Any) -> int:
    flags: Sequence[int] = (_WAIT_KILLABLE, 0)
    for flag in flags:
        try:
            return system_calls.syscall(
                _SECCOMP_CALL[os.uname().machine],
                _SET_FILTER,
                _NEW_LISTENER | _ALLOW_SPECULATION | flag,
                header,
            )
        except OSError as error:
            if error.errno != errno.EINVAL or not flag:
                raise
    raise AssertionError
