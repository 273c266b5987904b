"""The processes that let calls go on without the witness: for what outlives the kernel, and if the witness
is killed."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import NoReturn

from .copies import remove_copies
from .listener import CallListener
from .protection import FileProtection

_NEWS_END = b"\0"
_HAS_ENDED = b"\0end\0"
"""What the deputy is told when the witness ends by itself."""


class Deputy:
    """A process that takes the place of the witness if it is killed: so a checkpoint can save what the
    kernel had, and processes that outlive it can go on."""

    def __init__(
        self, listener: CallListener, protection: FileProtection, control_fd: int, folder: str
    ) -> None:
        """Fork the process. Raises `OSError`.

        Args:
            listener: Receives the calls.
            protection: Refuses calls.
            control_fd: Leads to the kernel, with which the deputy does not speak.
            folder: That of the copies, which nobody needs without the witness.
        """
        self._told_folder: str | None = None
        alive_fd, own_fd = os.pipe()
        if os.fork() != 0:
            os.close(alive_fd)
            # It stays open until this process ends.
            self._fd = own_fd
            return
        try:
            os.setsid()
            os.close(own_fd)
            os.close(control_fd)
            _wait_for_end(alive_fd, listener, protection, folder)
        finally:
            os._exit(1)

    def tell_protection(self, own_folder: str) -> None:
        """Tell it that there is code without approval.

        Args:
            own_folder: See `FileProtection`.
        """
        if self._told_folder != own_folder:
            self._told_folder = own_folder
            self._tell(os.fsencode(own_folder) + _NEWS_END)

    def tell_end(self) -> None:
        """Tell it that the witness ends by itself."""
        self._tell(_HAS_ENDED)

    def _tell(self, news: bytes) -> None:
        with suppress(OSError):
            os.write(self._fd, news)


def _wait_for_end(
    alive_fd: int, listener: CallListener, protection: FileProtection, folder: str
) -> NoReturn:
    """Wait for the end of the witness; take its place if it was killed."""
    news = b""
    while chunk := os.read(alive_fd, 4096):
        news += chunk
    if news.endswith(_HAS_ENDED):
        os._exit(0)
    if news:
        # Which processes code without approval has started is not known here.
        protection.own_folder = os.fsdecode(news.split(_NEWS_END)[-2])
        with suppress(Exception):  # all processes count as bound before they are listed
            protection.bound.bind_all()
    _try_to_remove_copies(folder)
    let_calls_go_on(listener, protection)


def serve_survivors(
    listener: CallListener, protection: FileProtection, copies_folder: str
) -> NoReturn:
    """Copy nothing more, and let calls go on until no process is left that makes them.

    Args:
        copies_folder: Empty if there is none.
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
    """Answer calls until no process is left that makes them."""
    poll = select.poll()
    poll.register(listener.fd, select.POLLIN)
    while True:
        for _, events in poll.poll():
            if events & select.POLLHUP:
                os._exit(0)
            try:
                notification = listener.receive()
            except EOFError:
                os._exit(0)
            if notification is None:
                continue
            if protection.refuses(notification):
                listener.refuse(notification)
            else:
                listener.let_go_on(notification)
