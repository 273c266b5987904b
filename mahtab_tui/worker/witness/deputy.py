"""The processes that let calls go on without the witness: for what outlives the kernel, and if the witness
is killed.

A watched call waits until somebody answers it. If the witness ends by itself, it forks
`serve_survivors` as its successor. If it is killed, its deputy (`start_deputy`) takes its place.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import NoReturn

from .copies import remove_copies
from .listener import CallListener
from .protection import FileProtection

_READ_BYTES = 4096
"""Bytes of messages that the deputy reads at once."""
_END_OF_FOLDER = b"\0"
"""Follows each folder that the deputy is told, as no path contains it."""
_HAS_ENDED = b"\0end\0"
"""What the deputy is told when the witness ends by itself."""


class Deputy:
    """The witness's end of the pipe to its deputy: a process that takes the place of the witness if it
    is killed. So a checkpoint can save what the kernel had, and processes that outlive it can go on."""

    def __init__(self, fd: int) -> None:
        """Take over the pipe.

        Args:
            fd: The end of the pipe to write to. The deputy learns of the end of the witness when it is
                closed, so it stays open until this process ends.
        """
        self._fd = fd
        self._own_folder: str | None = None
        """The folder that the deputy was told last; None if it knows of no code without approval."""

    def tell_protection(self, own_folder: str) -> None:
        """Tell it that there is code without approval.

        Args:
            own_folder: See `FileProtection`.
        """
        if self._own_folder != own_folder:
            self._own_folder = own_folder
            self._tell(os.fsencode(own_folder) + _END_OF_FOLDER)

    def tell_end(self) -> None:
        """Tell it that the witness ends by itself, and has another successor."""
        self._tell(_HAS_ENDED)

    def _tell(self, message: bytes) -> None:
        with suppress(OSError):  # somebody has killed it
            os.write(self._fd, message)


def start_deputy(
    listener: CallListener, protection: FileProtection, control_fd: int, copies_folder: str
) -> Deputy:
    """Fork the deputy of this process.

    Args:
        listener: Receives the calls.
        protection: Refuses calls.
        control_fd: Leads to the kernel, with which the deputy does not speak.
        copies_folder: The folder of the copies, which nobody needs without the witness.

    Raises:
        OSError: It cannot be forked.
    """
    alive_fd, own_fd = os.pipe()
    if os.fork() != 0:
        os.close(alive_fd)
        return Deputy(own_fd)
    try:
        # A session of its own, so that signals for the witness's do not reach it.
        os.setsid()
        os.close(own_fd)
        os.close(control_fd)
        _wait_for_end(alive_fd, listener, protection, copies_folder)
    finally:
        os._exit(1)


def _wait_for_end(
    alive_fd: int, listener: CallListener, protection: FileProtection, copies_folder: str
) -> NoReturn:
    """Wait for the end of the witness; take its place if it was killed.

    Args:
        alive_fd: The end of the pipe to read from, which ends with the witness.
        listener: Receives the calls.
        protection: Refuses calls.
        copies_folder: The folder of the copies.
    """
    messages = b""
    while chunk := os.read(alive_fd, _READ_BYTES):
        messages += chunk
    if messages.endswith(_HAS_ENDED):
        os._exit(0)
    if messages:
        # Nothing follows the end of the newest one.
        newest_folder = messages.split(_END_OF_FOLDER)[-2]
        protection.own_folder = os.fsdecode(newest_folder)
        # Which processes code without approval has started is not known here, so all are bound. They
        # count as bound before they are listed, which may fail.
        with suppress(Exception):
            protection.bound.bind_all()
    _try_to_remove_copies(copies_folder)
    let_calls_go_on(listener, protection)


def serve_survivors(
    listener: CallListener, protection: FileProtection, copies_folder: str
) -> NoReturn:
    """Copy nothing more, and let calls go on until no process is left that makes them.

    Args:
        listener: Receives the calls.
        protection: Refuses calls.
        copies_folder: The folder of the copies; empty if there is none.
    """
    try:
        os.setsid()
        if copies_folder:
            _try_to_remove_copies(copies_folder)
        let_calls_go_on(listener, protection)
    finally:
        os._exit(1)


def _try_to_remove_copies(folder: str) -> None:
    # Whatever goes wrong with it, calls must be answered: without this process, each of them fails.
    with suppress(Exception):
        remove_copies(folder)


def let_calls_go_on(listener: CallListener, protection: FileProtection) -> NoReturn:
    """Answer calls until no process is left that makes them.

    Args:
        listener: Receives the calls.
        protection: Refuses those by which code without approval would change protected files.
    """
    poll = select.poll()
    poll.register(listener.fd, select.POLLIN)
    while True:
        for _fd, events in poll.poll():
            if events & select.POLLHUP:
                os._exit(0)
            _answer_next_call(listener, protection)


def _answer_next_call(listener: CallListener, protection: FileProtection) -> None:
    """Answer the next call; end this process if none can be received any more."""
    try:
        notification = listener.receive()
    except EOFError:
        os._exit(0)
    if notification is None:
        return
    if protection.refuses(notification):
        listener.refuse(notification)
    else:
        listener.let_go_on(notification)
