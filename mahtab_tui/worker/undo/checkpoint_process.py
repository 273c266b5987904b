"""A forked process that keeps an earlier state of the kernel, and answers questions about it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import pickle
import select
import signal
import sys
import termios
import time
from _socket import socketpair
from typing import Any, Callable, NamedTuple, NoReturn

from ..link.descriptors import duplicate_high, identify_file
from ..link.held_signals import HeldSignals
from .forks import (
    Reply,
    die_with_parent,
    let_parent_read_memory,
    read_exactly,
    receive_reply,
    send_reply,
    signal_when_parent_ends,
)

START_TIMEOUT_S = 10.0
"""Seconds until a new checkpoint must be ready."""
_READY = b"."
"""What it sends then."""
_LOWEST_FD = 500
"""Cells close low descriptors, and open files with their numbers."""
_PICKLE_PROTOCOL = 4
_DISARM = b"disarm"
"""A message to an armed checkpoint, which gets no answer."""
_KERNEL_DIED = signal.SIGUSR2
"""What Linux sends to an armed checkpoint when the kernel has died."""
_COUNT_BYTES = 4
"""Size of a C `int`, in which the system gives the number of unread bytes."""
_PARENT_CHECK_S = 1.0
"""Seconds between two looks whether the kernel lives, after the end of the connection."""
_DEFAULT_SIGNALS = "TERM HUP ALRM CHLD USR1 USR2".split()
"""Signals whose handlers a checkpoint does not have from the kernel."""
_FIRST_TO_END = "1000"
"""Linux ends processes with this score before others if memory runs out."""

Responder = Callable[[Any], object]
"""Answers a question in the checkpoint. Both are pickled on their way."""


class CheckpointError(Exception):
    """The process with the earlier state fails. The message is a sentence for the user."""


class Rescue(NamedTuple):
    """What an armed checkpoint does for a kernel that may die. Both run in the checkpoint."""

    prepare: Callable[[], object]
    """Called before the cell runs."""
    save: Callable[[], object]
    """Called after the kernel has died."""


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
            send_reply(self._connection, pickle.dumps(question, _PICKLE_PROTOCOL), deadline)
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
            send_reply(self._connection, _DISARM, time.monotonic() + START_TIMEOUT_S)
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
            pid = held.fork(lambda: _serve(checkpoint_fd, kernel_pid, answer, rescue))
        except BaseException:
            os.close(kernel_fd)
            raise
        finally:
            os.close(checkpoint_fd)

        checkpoint = Checkpoint(pid, kernel_fd)
        try:
            with held.passed_on():
                read_exactly(kernel_fd, len(_READY), time.monotonic() + START_TIMEOUT_S)
        except BaseException:
            checkpoint.end()
            checkpoint.wait()
            raise
    return checkpoint


# In the checkpoint


class _KernelDiedError(BaseException):
    """Raised by the signal handler of an armed checkpoint."""


def _serve(fd: int, kernel_pid: int, answer: Responder, rescue: Rescue | None) -> NoReturn:
    """Answer until the kernel has gone. The exit runs no code of the kernel and flushes nothing."""
    try:
        _leave_kernel(fd)
        if rescue is None:
            die_with_parent()
            os.write(fd, _READY)
        else:
            _stay_armed(fd, kernel_pid, rescue)
        _offer_to_end_first()
        while True:
            question = receive_reply(fd)
            send_reply(fd, _reply_to(question, answer))
    except BaseException:  # the process's outermost frame
        os._exit(1)


def _stay_armed(fd: int, kernel_pid: int, rescue: Rescue) -> None:
    """Return when the kernel disarms the checkpoint. If it dies before, save and exit."""
    rescue.prepare()
    # Signals to the kernel's process group, such as the SIGKILL that ends it, must not reach us.
    os.setpgid(0, 0)
    try:
        signal.signal(_KERNEL_DIED, _raise_kernel_died)
        signal_when_parent_ends(_KERNEL_DIED)
        os.write(fd, _READY)
        _wait_for_disarming(fd, kernel_pid)
        # From here on, the kernel's death changes nothing, whenever it comes.
        signal.signal(_KERNEL_DIED, signal.SIG_DFL)
        die_with_parent()
        if os.getppid() != kernel_pid:
            os._exit(0)
        receive_reply(fd)
    except _KernelDiedError:
        if not _was_disarmed(fd):
            rescue.save()
        os._exit(0)


def _raise_kernel_died(number: int, frame: object) -> NoReturn:
    # Another signal, sent when a parent of the kernel ends, must not interrupt the rescue.
    signal.signal(number, signal.SIG_IGN)
    raise _KernelDiedError


def _wait_for_disarming(fd: int, kernel_pid: int) -> None:
    """Wait for the kernel's message, and leave it unread: the kernel's death may interrupt everything
    until it changes nothing, and a message that was half read would be lost. Raises
    `_KernelDiedError`."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll()
    if not _has_unread_bytes(fd):
        # Code of the user's may have closed the kernel's end while the kernel lives.
        while os.getppid() == kernel_pid:
            time.sleep(_PARENT_CHECK_S)
        raise _KernelDiedError


def _has_unread_bytes(fd: int) -> bool:
    """Return whether something was sent; else the other end is closed."""
    count = fcntl.ioctl(fd, termios.FIONREAD, bytes(_COUNT_BYTES))
    return int.from_bytes(count, sys.byteorder) > 0


def _was_disarmed(fd: int) -> bool:
    """Return whether the kernel sent its message just before it died."""
    try:
        receive_reply(fd, time.monotonic())
    except OSError:
        return False
    return True


def _reply_to(question: Any, answer: Responder) -> Reply:
    """Return the answer to a pickled question, or the reason for having none."""
    try:
        return pickle.dumps(answer(pickle.loads(question)), _PICKLE_PROTOCOL)
    except Exception as error:  # whatever one question does, the next must be answered
        return str(error) or type(error).__name__


def _leave_kernel(fd: int) -> None:
    """Drop what a fork has from the kernel and may not use.

    Args:
        fd: The socket to the kernel.
    """
    gc.disable()
    sys.settrace(None)
    sys.setprofile(None)
    for name in _DEFAULT_SIGNALS:
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    let_parent_read_memory()
    _close_all_but(fd)


def _close_all_but(fd: int) -> None:
    """Close all descriptors but one; the standard streams lead nowhere."""
    null_fd = os.open(os.devnull, os.O_RDWR)
    for standard_fd in (0, 1, 2):
        os.dup2(null_fd, standard_fd)
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        open_fd = int(name)
        if open_fd > 2 and open_fd != fd:
            with contextlib.suppress(OSError):
                os.close(open_fd)


def _offer_to_end_first() -> None:
    with (
        contextlib.suppress(OSError),
        open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
    ):
        score.write(_FIRST_TO_END)
