"""The kernel's end of a checkpoint: a forked process that keeps an earlier state of the kernel, and answers
questions about it (`checkpoint_server`)."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import time
from _socket import socketpair
from typing import Any, Callable

from ..link.descriptors import duplicate_high, identify_file
from ..link.held_signals import HeldSignals
from .checkpoint_server import DISARM, PICKLE_PROTOCOL, READY, Rescue, Responder, serve
from .forks import read_exactly, receive_reply, send_reply

START_TIMEOUT_S = 10.0
"""Seconds until a new checkpoint must be ready."""
_LOWEST_FD = 500
"""Cells close low descriptors, and open files with their numbers."""


class CheckpointError(Exception):
    """The process with the earlier state fails. The message is a sentence for the user."""


class Checkpoint:
    """The kernel's end of a checkpoint."""

    def __init__(self, pid: int, fd: int) -> None:
        """Own a process that was forked.

        Args:
            pid: The process.
            fd: The socket to it, which does not block.
        """
        self.pid = pid
        self._fd = fd
        self._socket_identity = identify_file(fd)

    @property
    def _connection(self) -> int:
        """The descriptor of the socket.

        Raises `OSError` if code of the user's has closed it, or given its number to another file.
        """
        if identify_file(self._fd) != self._socket_identity:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._fd

    def ask(
        self, question: object, timeout_s: float, meanwhile: Callable[[], object] = lambda: None
    ) -> Any:
        """Ask the process a question.

        Args:
            question: What its responder gets.
            timeout_s: Seconds until it is killed if it has not answered.
            meanwhile: Runs before the answer is read.

        Returns:
            The answer.

        Raises:
            CheckpointError: It did not answer, has ended, or its responder raised an error.
        """
        deadline = time.monotonic() + timeout_s
        try:
            send_reply(self._connection, pickle.dumps(question, PICKLE_PROTOCOL), deadline)
            meanwhile()
            reply = receive_reply(self._connection, deadline)
        except TimeoutError:
            self.end()
            raise CheckpointError(
                f"The state before this cell could not be read within {timeout_s:.0f} s."
            ) from None
        except OSError:
            self.end()
            raise CheckpointError(
                "The process that keeps the state before this cell has ended."
            ) from None
        if isinstance(reply, str):
            raise CheckpointError(reply)
        return pickle.loads(reply)

    def disarm(self) -> None:
        """Let an armed checkpoint end with the kernel from now on, without a rescue.

        One that cannot be told ends now: later, what it saves would be outdated.
        """
        try:
            send_reply(self._connection, DISARM, time.monotonic() + START_TIMEOUT_S)
        except OSError:
            self.end()

    def end(self) -> None:
        """Kill the process; a second call does nothing."""
        if self._fd < 0:
            return
        # Code of the user's may have waited for the process or closed the descriptor. The process
        # is killed first: an armed one would take the end of the connection for the kernel's.
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.close(self._connection)
        self._fd = -1

    def has_exited(self) -> bool:
        """Return whether the process is gone, or somebody else has waited for it."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except OSError:
            return True

    def wait(self) -> None:
        """Wait until the process is gone."""
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)


def fork(answer: Responder, rescue: Rescue | None = None) -> Checkpoint:
    """Fork a checkpoint; return once it has closed its copies of files and ports.

    Args:
        answer: Called in the checkpoint with each question.
        rescue: Arms the checkpoint: until it is disarmed, it gets no questions, and saves if the
            kernel dies.

    Raises:
        OSError: The kernel cannot be forked.
    """
    kernel_pid = os.getpid()
    with HeldSignals() as held:
        low_fd, checkpoint_fd = (end.detach() for end in socketpair())
        kernel_fd = low_fd
        with contextlib.suppress(OSError):  # the process may have no more descriptors
            kernel_fd = duplicate_high(low_fd, _LOWEST_FD)
            os.close(low_fd)
        os.set_blocking(kernel_fd, False)
        # A cell may have called `socket.setdefaulttimeout`.
        os.set_blocking(checkpoint_fd, True)
        try:
            pid = held.fork(lambda: serve(checkpoint_fd, kernel_pid, answer, rescue))
        except BaseException:
            os.close(kernel_fd)
            raise
        finally:
            os.close(checkpoint_fd)

        checkpoint = Checkpoint(pid, kernel_fd)
        try:
            with held.passed_on():
                read_exactly(kernel_fd, len(READY), time.monotonic() + START_TIMEOUT_S)
        except BaseException:
            checkpoint.end()
            checkpoint.wait()
            raise
    return checkpoint
