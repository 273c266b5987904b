"""The witness: learns of each call that changes files before it happens, and copies the file."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
from contextlib import suppress
from typing import NoReturn

from .answers import ChangeAnswers, describe_refused, unknown_changes
from .copies import Copies
from .deputy import Deputy, serve_survivors
from .folders import WatchedFolders
from .journal import FileJournal
from .listener import CallListener
from .protection import FileProtection
from .recorder import ChangeRecorder
from .shared import Message, SharedFields, WitnessConnection, WitnessLink

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED_SIGNALS = "INT HUP TERM QUIT PIPE TSTP USR1 USR2 ALRM".split()
_PARENT_ENDED = signal.SIGURG
"""The signal that the system sends when the thread has ended that started the witness."""


def serve(link: WitnessLink, *, dies_with_parent: bool) -> NoReturn:
    """Become the witness of a kernel: serve until it has ended, then end in the same way.

    Args:
        link: To the kernel.
        dies_with_parent: Whether to end with the thread that started this process.
    """
    parent_pid = os.getppid()
    # The host may block signals. Blocked, those that tell of an end would never arrive.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for name in _IGNORED_SIGNALS:
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    control = WitnessConnection(link.control)
    _close_descriptors(control.fd)
    os.chdir("/")
    libc = ctypes.CDLL(None)
    # Processes that outlive their parents stay descendants, whose memory can be read.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = WitnessServer(control, SharedFields(link.page), link.other_pid)
    if dies_with_parent:
        # Not SIGKILL, because processes that outlive the kernel need somebody to answer them.
        signal.signal(_PARENT_ENDED, lambda number, frame: server.kill_kernel())
        libc.prctl(_PR_SET_PDEATHSIG, _PARENT_ENDED, 0, 0, 0)
        if os.getppid() != parent_pid:
            server.kill_kernel()
    gc.freeze()
    gc.enable()
    server.run()


def _close_descriptors(kept_fd: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.closerange(3, kept_fd)
    os.closerange(kept_fd + 1, 65_536)


class WitnessServer:
    """Answers the calls of the kernel's processes, and the kernel's questions."""

    def __init__(self, control: WitnessConnection, fields: SharedFields, kernel_pid: int) -> None:
        self._control = control
        self._is_connected = True
        """Whether the kernel can still ask."""
        self._fields = fields
        self._kernel_pid = kernel_pid
        self._protection = FileProtection(kernel_pid, os.uname().machine)
        self._listener: CallListener | None = None
        self._deputy: Deputy | None = None
        self._folders: WatchedFolders | None = None
        self._recorder: ChangeRecorder | None = None
        self._answers: ChangeAnswers | None = None
        self._unavailable_reason = "files are not watched yet"
        self._poll = select.poll()
        self._wakeup, wakeup_end = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(wakeup_end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)

    def kill_kernel(self) -> None:
        """Kill the kernel, because whoever started it has ended."""
        with suppress(OSError):
            os.kill(self._kernel_pid, signal.SIGKILL)

    def run(self) -> NoReturn:
        for fd in (self._control.fd, self._wakeup):
            self._poll.register(fd, select.POLLIN)
        self._reap()
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._control.fd:
                    self._answer_kernel()
                elif fd == self._wakeup:
                    with suppress(BlockingIOError):
                        os.read(self._wakeup, 4096)
                    self._reap()
                elif self._listener is not None:
                    self._answer_call(self._listener)

    # The kernel's end

    def _reap(self) -> None:
        """Wait for processes that have ended; end if the kernel is among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._kernel_pid:
                self._end(status)

    def _end(self, status: int) -> NoReturn:
        """End like the kernel. Its processes that go on need somebody who lets their calls go on."""
        with suppress(OSError):
            if self._listener is not None and os.fork() == 0:
                copies_folder = ""
                if self._recorder is not None:
                    copies_folder = self._recorder.journal.copies.folder
                serve_survivors(self._listener, self._protection, copies_folder)
        if self._deputy is not None:
            self._deputy.tell_end()
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            os._exit(code)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(128 - code)

    # Calls

    def _answer_call(self, listener: CallListener) -> None:
        """Answer the next call: refuse it if it changes a protected file; else copy what it changes, and
        let it go on."""
        try:
            notification = listener.receive()
        except EOFError:
            self._poll.unregister(listener.fd)
            return
        if notification is None:
            return
        # All that the kernel has said before the call counts.
        while self._is_connected and _is_readable(self._control.fd):
            self._answer_kernel()
        if self._protection.refuses(notification):
            self._fields.has_news = True
            listener.refuse(notification)
            return
        if self._recorder is not None:
            self._recorder.try_to_note(listener, notification)
        listener.let_go_on(notification)

    # The kernel's questions

    def _answer_kernel(self) -> None:
        try:
            message, fd = self._control.receive()
        except (OSError, EOFError):
            self._poll.unregister(self._control.fd)
            self._is_connected = False
            return
        op = message["op"]
        if op == "watch" and fd is not None:
            self._start_watching(message, fd)
        elif op == "protect":
            self._protect(message["own_folder"])
        elif op == "release":
            self._protection.bound.release()
        else:
            try:
                answer = self._answer(message)
            except Exception as error:  # whatever one question does, the next must be answered
                answer = unknown_changes(
                    f"The changes of files are unknown ({type(error).__name__}: {error})."
                )
            with suppress(OSError):
                self._control.send({**answer, "serial": message["serial"]})

    def _start_watching(self, message: Message, listener_fd: int) -> None:
        self._listener = CallListener(listener_fd)
        self._folders = WatchedFolders(message["folders"], message["ignored"])
        folder = os.path.join(message["copies"], str(os.getpid()))
        try:
            self._deputy = Deputy(self._listener, self._protection, self._control.fd, folder)
            copies = Copies(
                folder,
                message["cell_megabytes"] * 2**20,
                message["megabytes"] * 2**20,
            )
        except OSError as error:
            self._unavailable_reason = f"no copies can be made ({error.strerror})"
        except Exception as error:  # whatever it is, calls must be answered
            self._unavailable_reason = f"no copies can be made ({type(error).__name__}: {error})"
        else:
            journal = FileJournal(copies)
            self._recorder = ChangeRecorder(self._kernel_pid, self._fields, self._folders, journal)
            self._answers = ChangeAnswers(self._recorder, self._folders)
        # Calls are answered in any case: without an answer, they wait for ever.
        self._poll.register(listener_fd, select.POLLIN)

    def _protect(self, own_folder: str) -> None:
        folder = own_folder and os.path.realpath(own_folder) + os.sep
        if self._deputy is not None:
            self._deputy.tell_protection(folder)
        self._protection.own_folder = folder
        self._protection.bound.bind_all()

    def _answer(self, message: Message) -> Message:
        op = message["op"]
        refused: list[Message] = []
        if op == "finish" or self._answers is None:
            refused = describe_refused(self._protection.pop_refused_paths(), self._folders)
        if self._recorder is None or self._answers is None:
            reason = f"The changes of files are unknown: {self._unavailable_reason}."
            return {**unknown_changes(reason), "files": refused}
        if op == "begin":
            self._recorder.begin(message["cell"])
            return {}
        if op == "finish":
            return {"files": [*self._answers.finish(), *refused]}
        return self._answers.restore(op, message["cell"])


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
