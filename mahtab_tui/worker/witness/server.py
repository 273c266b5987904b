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
from .deputy import Deputy, serve_survivors, start_deputy
from .folders import WatchedFolders
from .journal import FileJournal
from .listener import CallListener
from .protection import FileProtection
from .recorder import ChangeRecorder
from .shared import Message, SharedFields, WitnessConnection, WitnessLink

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED_SIGNALS = "INT HUP TERM QUIT PIPE TSTP USR1 USR2 ALRM".split()
"""The names of the signals that do not end the witness, which has to outlive the kernel."""
_PARENT_ENDED = signal.SIGURG
"""The signal that the system sends when the thread has ended that started the witness."""
_MAX_FDS = 65_536
"""Descriptors below this number that come from whoever started the witness are closed."""
_WAKEUP_BYTES = 4096
"""Bytes of the wakeup pipe that are read at once: one for each signal."""
_SIGNAL_CODE_BASE = 128
"""What shells add to the number of a signal for the exit code of a process that it has ended."""


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
    """Close what was inherited, but for one descriptor; input and output lead nowhere."""
    null_fd = os.open(os.devnull, os.O_RDWR)
    for standard_fd in (0, 1, 2):
        os.dup2(null_fd, standard_fd)
    os.closerange(3, kept_fd)
    os.closerange(kept_fd + 1, _MAX_FDS)


class WitnessServer:
    """Answers the calls of the kernel's processes, and the kernel's questions.

    Calls arrive once the kernel has sent the first question ("watch"), with the descriptor of the
    `CallListener`. From then on each of them must be answered, whether or not copies can be made.
    """

    def __init__(self, control: WitnessConnection, fields: SharedFields, kernel_pid: int) -> None:
        """Begin without files to watch.

        Args:
            control: Leads to the kernel, which asks through it.
            fields: The numbers that the kernel and the witness tell each other.
            kernel_pid: The kernel, a child of this process.
        """
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
        """Notes what calls change; None if files are not watched, or no copies can be made."""
        self._answers: ChangeAnswers | None = None
        """Answers questions about what the recorder has noted."""
        self._unavailable_reason = "files are not watched yet"
        """Why there is no recorder, as a clause."""
        self._poll = select.poll()
        # A signal that tells of the end of a child writes into this pipe, so that `poll` returns.
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
        """Answer until the kernel has ended."""
        for fd in (self._control.fd, self._wakeup):
            self._poll.register(fd, select.POLLIN)
        self._reap()
        while True:
            for fd, _events in self._poll.poll():
                if fd == self._control.fd:
                    self._answer_kernel()
                elif fd == self._wakeup:
                    with suppress(BlockingIOError):
                        os.read(self._wakeup, _WAKEUP_BYTES)
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
        """Leave a successor for the kernel's processes that go on, and end in the way in which the kernel
        has ended.

        Args:
            status: The kernel's, from `os.waitpid`.
        """
        if self._listener is not None:
            with suppress(OSError):
                if os.fork() == 0:
                    serve_survivors(self._listener, self._protection, self._copies_folder())
        if self._deputy is not None:
            self._deputy.tell_end()
        exit_code = os.waitstatus_to_exitcode(status)
        if exit_code >= 0:
            os._exit(exit_code)
        _end_by_signal(-exit_code)

    def _copies_folder(self) -> str:
        """Return the folder with the copies of files; empty if none are made."""
        if self._recorder is None:
            return ""
        return self._recorder.journal.copies.folder

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
        """Do what the kernel's next message asks for."""
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
            answer = self._try_to_answer(message)
            with suppress(OSError):
                self._control.send({**answer, "serial": message["serial"]})

    def _start_watching(self, settings: Message, listener_fd: int) -> None:
        """Begin to answer calls, and to note what they change if copies can be made.

        Args:
            settings: The folders to watch, where to make copies, and how many megabytes they may need.
            listener_fd: The descriptor of the `CallListener`.
        """
        self._listener = CallListener(listener_fd)
        self._folders = WatchedFolders(settings["folders"], settings["ignored"])
        try:
            self._start_recording(self._listener, self._folders, settings)
        except OSError as error:
            self._unavailable_reason = f"no copies can be made ({error.strerror})"
        except Exception as error:  # whatever it is, calls must be answered
            self._unavailable_reason = f"no copies can be made ({type(error).__name__}: {error})"
        # Calls are answered in any case: without an answer, they wait for ever.
        self._poll.register(listener_fd, select.POLLIN)

    def _start_recording(
        self, listener: CallListener, folders: WatchedFolders, settings: Message
    ) -> None:
        """Start the deputy, and begin to note what calls change; the arguments are those of
        `_start_watching`. May raise anything."""
        copies_folder = os.path.join(settings["copies"], str(os.getpid()))
        self._deputy = start_deputy(listener, self._protection, self._control.fd, copies_folder)
        max_cell_bytes = settings["cell_megabytes"] * 2**20
        max_bytes = settings["megabytes"] * 2**20
        journal = FileJournal(Copies(copies_folder, max_cell_bytes, max_bytes))
        self._recorder = ChangeRecorder(self._kernel_pid, self._fields, folders, journal)
        self._answers = ChangeAnswers(self._recorder, folders)

    def _protect(self, own_folder: str) -> None:
        """Refuse changes of protected files by the code that begins.

        Args:
            own_folder: Where the kernel keeps variables, which is not protected; empty if it keeps none.
        """
        folder = ""
        if own_folder:
            folder = os.path.realpath(own_folder) + os.sep
        if self._deputy is not None:
            self._deputy.tell_protection(folder)
        self._protection.own_folder = folder
        self._protection.bound.bind_all()

    def _try_to_answer(self, question: Message) -> Message:
        """Return the answer to a question; if that fails, one that says so."""
        try:
            return self._answer(question)
        except Exception as error:  # whatever one question does, the next must be answered
            return unknown_changes(
                f"The changes of files are unknown ({type(error).__name__}: {error})."
            )

    def _answer(self, question: Message) -> Message:
        """Return the answer to a question about changes of files. May raise anything."""
        op = question["op"]
        refused: list[Message] = []
        if op == "finish" or self._answers is None:
            refused = describe_refused(self._protection.pop_refused_paths(), self._folders)
        if self._recorder is None or self._answers is None:
            reason = f"The changes of files are unknown: {self._unavailable_reason}."
            return {**unknown_changes(reason), "files": refused}
        if op == "begin":
            self._recorder.begin(question["cell"])
            return {}
        if op == "finish":
            return {"files": [*self._answers.finish(), *refused]}
        return self._answers.restore(op, question["cell"])


def _end_by_signal(number: int) -> NoReturn:
    """End this process by a signal, or else with the exit code that shells have for it."""
    with suppress(OSError, ValueError):
        # The kernel has left a core file if it should; a second one would be about the witness.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(_SIGNAL_CODE_BASE + number)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
