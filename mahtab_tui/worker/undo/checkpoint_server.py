"""What a checkpoint does: a fork of the kernel, which keeps an earlier state, and answers questions about it.

A checkpoint may be armed while a cell runs: if the kernel dies, it saves what the kernel had. Once the cell has
ended, the kernel disarms it, and asks questions. `checkpoint_process` has the kernel's end.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import pickle
import select
import signal
import sys
import termios
import time
from typing import Any, Callable, NamedTuple, NoReturn

from .forks import (
    Reply,
    die_with_parent,
    let_parent_read_memory,
    receive_reply,
    send_reply,
    signal_when_parent_ends,
)

READY = b"."
"""What a checkpoint sends when it has closed its copies of files and ports."""
PICKLE_PROTOCOL = 4
"""That of questions and answers."""
DISARM = b"disarm"
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


class Rescue(NamedTuple):
    """What an armed checkpoint does for a kernel that may die. Both run in the checkpoint."""

    prepare: Callable[[], object]
    """Called before the cell runs."""
    save: Callable[[], object]
    """Called after the kernel has died."""


class _KernelDiedError(BaseException):
    """Raised by the signal handler of an armed checkpoint."""


def serve(fd: int, kernel_pid: int, answer: Responder, rescue: Rescue | None) -> NoReturn:
    """Answer until the kernel has gone. The exit runs no code of the kernel and flushes nothing.

    Args:
        fd: The socket to the kernel.
        kernel_pid: The kernel.
        answer: Answers a question.
        rescue: What to do if the kernel dies before it disarms this checkpoint; None if it is not armed.
    """
    try:
        _leave_kernel(fd)
        if rescue is None:
            die_with_parent()
            os.write(fd, READY)
        else:
            _stay_armed(fd, kernel_pid, rescue)
        _offer_to_end_first()
        while True:
            question = receive_reply(fd)
            send_reply(fd, _reply_to(question, answer))
    except BaseException:  # the process's outermost frame
        os._exit(1)


def _stay_armed(fd: int, kernel_pid: int, rescue: Rescue) -> None:
    """Return when the kernel disarms the checkpoint. If it dies before, save and exit.

    The parameters are those of `serve`.
    """
    rescue.prepare()
    # Signals to the kernel's process group, such as the SIGKILL that ends it, must not reach us.
    os.setpgid(0, 0)
    try:
        signal.signal(_KERNEL_DIED, _raise_kernel_died)
        signal_when_parent_ends(_KERNEL_DIED)
        os.write(fd, READY)
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
    """Handle the signal of the kernel's death."""
    # Another signal, sent when a parent of the kernel ends, must not interrupt the rescue.
    signal.signal(number, signal.SIG_IGN)
    raise _KernelDiedError


def _wait_for_disarming(fd: int, kernel_pid: int) -> None:
    """Wait for the kernel's message, and leave it unread: the kernel's death may interrupt everything
    until it changes nothing, and a message that was half read would be lost.

    Raises:
        _KernelDiedError: The kernel has died.
    """
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
        return pickle.dumps(answer(pickle.loads(question)), PICKLE_PROTOCOL)
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
    """Have Linux end this process before others if memory runs out."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
    ):
        score.write(_FIRST_TO_END)
