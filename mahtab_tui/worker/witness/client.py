"""The kernel's side of the witness: has the system report calls to it, and asks what cells have done.

`worker.Worker` has a `FileWatch` once the host has said which files to watch.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from typing import Any, Callable

from ..link.held_signals import HeldSignals
from ..sandbox import system_calls
from ..sandbox.call_filter import machine
from .calls import watching_filter
from .folders import WatchedFolders
from .shared import Message, SharedFields, WitnessConnection, WitnessLink

# Of `linux/prctl.h` and `linux/seccomp.h`
_PR_SET_NO_NEW_PRIVS = 38
_SET_FILTER = 1
"""The operation of `seccomp` that adds a filter."""
_ALLOW_SPECULATION = 1 << 2
"""Without it, older systems slow down all code of a filtered process."""
_NEW_LISTENER = 1 << 3
"""Makes `seccomp` return the descriptor of the listener."""
_WAIT_KILLABLE = 1 << 5
"""A call that the witness looks at is not interrupted by signals (Linux 5.19)."""

_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
"""The number of the system call `seccomp` on each processor."""
_INSTRUCTION_BYTES = 8
"""The size of an instruction of a filter."""

MIN_LINUX_VERSION = (5, 9)
"""Earlier ones do not tell the witness when no process is left that it must answer."""

NO_ANSWER = "the process that watches files does not answer"


class FileWatch:
    """Asks the witness what cells have done to files. Used on the main thread, except for `protect`.

    If the witness does not answer, files are not watched any more (`unavailable_reason`).
    """

    def __init__(self, link: WitnessLink, hide: Callable[[int], int]) -> None:
        """Connect to the witness, without watching anything.

        Args:
            link: Leads to the witness.
            hide: Moves a descriptor to a number that cells do not hit by accident.
        """
        self._fields = SharedFields(link.page)
        self._connection = WitnessConnection(hide(link.control))
        self.unavailable_reason = "the kernel has just started"
        """Why files are not watched, as a clause; empty if they are."""
        self._folders: WatchedFolders | None = None
        self._serial = 0
        """Serial number of the newest question."""
        # A cell with approval is announced only if there was one without since, which saves a message.
        self._protection_count = 0
        """How often `protect` was called."""
        self._released_protection_count = 0
        """How often it had been called at the last `release`."""

    def start(self, settings: Message) -> None:
        """Begin to watch, for good, if the system can. If not, `unavailable_reason` says why.

        Args:
            settings: Those of the host, for `server.WitnessServer`.
        """
        self._folders = WatchedFolders(settings["folders"], settings["ignored"])
        self.unavailable_reason = self._start(settings)

    def _start(self, settings: Message) -> str:
        """Begin to watch; return why files are not watched, as a clause, or nothing."""
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

    @property
    def is_on(self) -> bool:
        """Whether files are watched."""
        return not self.unavailable_reason

    def is_watched(self, path: str) -> bool:
        """Return whether the files at an absolute path are watched."""
        if self._folders is None:
            return False
        working_folder = ""
        with suppress(OSError):  # somebody has removed it
            working_folder = os.getcwd()
        folder, name = os.path.split(path)
        resolved = os.path.join(os.path.realpath(folder), name)
        return self._folders.contains(resolved, working_folder)

    def protect(self, own_folder: str) -> None:
        """Let the witness refuse changes of protected files until `release`. Any thread may call it.

        Args:
            own_folder: Where the kernel keeps variables, which is not protected; empty if it keeps none.
        """
        if self.is_on:
            with suppress(OSError):
                self._connection.send({"op": "protect", "own_folder": own_folder})
            self._protection_count += 1

    def release(self) -> None:
        """Let what begins now change protected files: the user has typed or approved it."""
        # Read once, because another thread may protect files meanwhile.
        protection_count = self._protection_count
        if self.is_on and protection_count != self._released_protection_count:
            self._released_protection_count = protection_count
            with suppress(OSError):
                self._connection.send({"op": "release"})

    def begin(self, cell: int, oldest_cell: int) -> None:
        """Note that a cell begins.

        Args:
            cell: The cell.
            oldest_cell: The first that can be undone.
        """
        if not self.is_on:
            return
        if self._fields.has_news:
            self._ask({"op": "begin", "cell": cell})
        self._fields.oldest_cell = oldest_cell
        self._fields.cell = cell
        self._fields.is_running = True

    def finish(self) -> list[Message]:
        """Note that the cell has ended, and return what it has done to files, as rows with ``change``,
        ``path`` and ``old_path`` (see `path_changes.PathChange`)."""
        self._fields.is_running = False
        if self.is_on and self._fields.has_news:
            return list(self._ask({"op": "finish"}).get("files", ()))
        return []

    def answer(self, action: str, cell: int) -> Message:
        """Preview, undo or redo the changes of files.

        Args:
            action: ``preview_undo``, ``undo`` or ``redo``.
            cell: The first cell whose changes are meant.

        Returns:
            ``files`` and ``not_restored``; nothing at all if the witness does not answer.
        """
        if not self.is_on:
            return {"files": [], "not_restored": []}
        return self._ask({"op": action, "cell": cell})

    def _ask(self, question: Message) -> Message:
        """Return the witness's answer; nothing, and watch no files from then on, if it does not answer."""
        # The function of a signal could raise an exception between question and answer.
        with HeldSignals():
            self._serial += 1
            try:
                self._connection.send({**question, "serial": self._serial})
                return self._receive_answer()
            except (OSError, EOFError):
                self.unavailable_reason = NO_ANSWER
                return {}

    def _receive_answer(self) -> Message:
        """Return the answer to the newest question, after those to earlier ones for which nobody waits
        any more. Raises `OSError` and `EOFError`."""
        while True:
            answer, _fd = self._connection.receive()
            if answer["serial"] == self._serial:
                return answer


def _linux_version() -> tuple[int, int]:
    """Return the first two numbers of the version; zeros if it has none."""
    numbers = os.uname().release.split(".")
    try:
        return int(numbers[0]), int(numbers[1].partition("-")[0])
    except (IndexError, ValueError):
        return 0, 0


def _install_filter(program: bytes) -> int:
    """Filter the system calls of this thread.

    Args:
        program: The instructions of the filter.

    Returns:
        The descriptor of the listener.

    Raises:
        OSError: The system does not allow it.
    """
    array = system_calls.buffer_of(program)
    instruction_count = len(program) // _INSTRUCTION_BYTES
    # As `struct sock_fprog`, whose first field is padded to the size of the second.
    header = (ctypes.c_uint64 * 2)(instruction_count, ctypes.addressof(array))
    # Root needs no promise to gain no privileges, so that for it `su` and `sudo` still work.
    try:
        return _set_filter(header)
    except OSError as error:
        if error.errno != errno.EACCES:
            raise
    system_calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return _set_filter(header)


def _set_filter(header: Any) -> int:
    """Set a filter with all flags that the system knows; return the descriptor of the listener. Raises
    `OSError`."""
    flags = _NEW_LISTENER | _ALLOW_SPECULATION
    try:
        return _call_seccomp(flags | _WAIT_KILLABLE, header)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return _call_seccomp(flags, header)


def _call_seccomp(flags: int, header: Any) -> int:
    number = _SECCOMP_CALL[os.uname().machine]
    return system_calls.syscall(number, _SET_FILTER, flags, header)
