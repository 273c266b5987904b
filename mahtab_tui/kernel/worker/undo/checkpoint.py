"""A forked process that keeps the state before a cell and answers questions about it. It never
becomes the kernel, and it ends with the kernel."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import select
import signal
import struct
import sys
import time
from typing import Any, Callable, NoReturn

from ..stdlib import late_import

_LENGTH = struct.Struct("!Q")
_READY = b"."
STARTING = 10.0
"""Seconds for a forked process to begin."""
_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_LOWEST_FD = 500
"""High enough not to disturb cells that count descriptors or write to low ones."""

Answer = Callable[[Any], Any]


class CheckpointError(Exception):
    """A checkpoint does not answer; the message is a sentence for the user."""


class Checkpoint:
    """A forked process, as seen by the kernel."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd

    def ask(
        self, question: Any, seconds: float, meanwhile: Callable[[], object] = lambda: None
    ) -> Any:
        """Ask the process for an answer, while `meanwhile` runs. It is ended if it does not answer
        in time. Raises `CheckpointError`."""
        until = time.monotonic() + seconds
        pickle = late_import("pickle")
        try:
            _write(self._fd, pickle.dumps(question, 4), until)
            meanwhile()
            data = _read(self._fd, until)
        except TimeoutError:
            self.end()
            raise CheckpointError(
                f"The state before this cell could not be read within {seconds:.0f} s."
            ) from None
        except OSError:
            self.end()
            raise CheckpointError(
                "The process that keeps the state before this cell has ended."
            ) from None
        good, value = pickle.loads(data)
        if not good:
            raise CheckpointError(value)
        return value

    def end(self) -> None:
        """Kill it. `gone` tells when it is gone: freeing much memory takes a while."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # somebody else has closed it, or has waited for it
            os.close(self._fd)
            os.kill(self.pid, signal.SIGKILL)
        self._fd = -1

    def gone(self) -> bool:
        """Return whether it has ended and its memory is free."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except OSError:  # somebody else has waited for it
            return True

    def wait(self) -> None:
        """Wait until it has ended and its memory is free."""
        with contextlib.suppress(OSError):  # somebody else has waited for it
            os.waitpid(self.pid, 0)


def fork(answer: Answer) -> Checkpoint:
    """Fork a checkpoint that answers questions, and wait until it has closed its copies of files
    and ports. Raises `OSError`."""
    ours, theirs = _channel()
    try:
        pid = fork_uninterrupted()
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise
    if pid == 0:
        _live(theirs, answer)
    os.close(theirs)
    checkpoint = Checkpoint(pid, ours)
    try:
        read_exactly(ours, len(_READY), time.monotonic() + STARTING)
    except OSError:
        checkpoint.end()
        raise
    return checkpoint


def fork_uninterrupted() -> int:
    """Fork a process that ignores interrupts: they are meant for the kernel, but reach its whole
    process group."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = -1
    try:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def die_with_parent() -> None:
    """Let Linux end this process with the one that forked it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _channel() -> tuple[int, int]:
    sockets = late_import("_socket").socketpair()
    ours, theirs = (each.detach() for each in sockets)
    os.set_blocking(ours, False)
    try:
        hidden = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    except OSError:  # so many are not allowed
        return ours, theirs
    os.close(ours)
    return hidden, theirs


# The forked process.


def _live(fd: int, answer: Answer) -> NoReturn:
    """Answer questions until the kernel has gone. At the end no code of the kernel runs, and
    nothing is flushed."""
    try:
        gc.disable()
        sys.settrace(None)
        sys.setprofile(None)
        for number in (
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGALRM,
            signal.SIGCHLD,
            signal.SIGUSR1,
            signal.SIGUSR2,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        die_with_parent()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, os.getppid(), 0, 0, 0)
        _close_all_but(fd)
        os.write(fd, _READY)
        _first_to_go()
        while True:
            _write(fd, _answer(answer, _read(fd)))
    except BaseException:  # the process's outermost frame; there is nobody to tell
        os._exit(1)
    finally:
        os._exit(0)


def _answer(answer: Answer, question: bytes) -> bytes:
    pickle = late_import("pickle")
    try:
        reply = (True, answer(pickle.loads(question)))
    except Exception as error:  # whatever one question does, the next must be answered
        reply = (False, str(error) or type(error).__name__)
    return bytes(pickle.dumps(reply, 4))


def _first_to_go() -> None:
    """Let Linux end this process before others if memory runs out."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
    ):
        score.write("1000")


def _close_all_but(fd: int) -> None:
    """Close all descriptors, so that nobody waits for us at a pipe or a port. What is printed here
    is lost."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        number = int(name)
        if number > 2 and number != fd:
            with contextlib.suppress(OSError):
                os.close(number)


# Both.


def _write(fd: int, data: bytes, until: float = float("inf")) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        _wait(fd, select.POLLOUT, until)
        view = view[os.write(fd, view[:65536]) :]


def _read(fd: int, until: float = float("inf")) -> bytes:
    (size,) = _LENGTH.unpack(read_exactly(fd, _LENGTH.size, until))
    return read_exactly(fd, size, until)


def read_exactly(fd: int, size: int, until: float) -> bytes:
    """Read so many bytes. Raises `TimeoutError`, `ConnectionResetError`."""
    parts = bytearray()
    while len(parts) < size:
        _wait(fd, select.POLLIN, until)
        data = os.read(fd, min(size - len(parts), 2**20))
        if not data:
            raise ConnectionResetError("nobody is there")
        parts += data
    return bytes(parts)


def _wait(fd: int, event: int, until: float) -> None:
    if until == float("inf"):
        return
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError
