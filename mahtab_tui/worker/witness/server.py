"""The witness: learns of each call that changes files before it happens, and copies the file."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import os
import resource
import select
import signal
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from ..sandbox.call_filter import ARCHITECTURES
from .binding import BoundTasks
from .calls import (
    OPENS_TO_CHANGE,
    RENAME_EXCHANGE,
    FileCall,
    WatchedCall,
    may_change_files,
    watched_calls,
)
from .copies import Copies, remove_copies
from .folders import SHARED_MEMORY_FOLDER, WatchedFolders
from .journal import FileJournal, FileStep, PathChange
from .nodes import Node
from .protected_paths import changed_protected_path, resolve_as
from .redo import RedoStack
from .shared import Message, SharedFields, WitnessConnection, WitnessLink
from .states import FILE, FOLDER, MISSING_KIND, FileState, read_state

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""Its id, the thread, flags; the call's number, architecture, instruction and arguments."""
_ANSWER = struct.Struct("=QqiI")
_ID = struct.Struct("=Q")
_RECEIVE_NOTIFICATION = 0xC0502100
_SEND_ANSWER = 0xC0182101
_IS_ID_VALID = 0x40082102
_SET_LISTENER_FLAGS = 0x40082104
_WAKE_ON_THIS_CPU = 1
_CONTINUE = 1
"""The flag of an answer that lets the system execute the call."""

_AT_FDCWD = -100
_AT_REMOVEDIR = 0x200
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_SYMLINK_FOLLOW = 0x400
_O_TMPFILE = 0o20000000
_HOW = struct.Struct("=3Q")
"""What `openat2` reads in memory: flags, the mode of a new file, and how paths are resolved."""
_RESOLVE_IN_ROOT = 0x10
_MAX_PATH_BYTES = 4096
_IGNORED_SIGNALS = "INT HUP TERM QUIT PIPE TSTP USR1 USR2 ALRM".split()
_PARENT_ENDED = signal.SIGURG
"""The signal that the system sends when the thread has ended that started the witness."""
_NEWS_END = b"\0"
_HAS_ENDED = b"\0end\0"
"""What the deputy is told when the witness ends by itself."""
_OTHER_ROOT = (
    "A program changed files in a container or another root folder, where files are not watched."
)
_REPOSITORY_FOLDERS = frozenset((".git", ".hg", ".svn", ".jj"))
MAX_REPORTED_CHANGES = 100
"""Changes of a cell that the kernel is told."""


def serve(link: WitnessLink, *, dies_with_parent: bool) -> NoReturn:
    """Become the witness of a kernel: serve until it has ended, then end in the same way.

    Args:
        link: To the kernel.
        dies_with_parent: Whether to end with the thread that started this process.
    """
    parent_pid = os.getppid()
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


class _Notification(NamedTuple):
    """A call of a thread, which waits for the answer."""

    number: int
    thread: int
    call: WatchedCall | None
    """None if it is one of another table than the processor's usual one."""
    call_number: int
    arguments: Sequence[int]


class _UnseenError(Exception):
    """It is not known which file a call changes; the message is a sentence."""


class WitnessServer:
    """Answers the calls of the kernel's processes, and the kernel's questions."""

    def __init__(self, control: WitnessConnection, fields: SharedFields, kernel_pid: int) -> None:
        self._control = control
        self._is_connected = True
        """Whether the kernel can still ask."""
        self._fields = fields
        self._kernel_pid = kernel_pid
        self._listener = -1
        self._machine = os.uname().machine
        self._calls = watched_calls(self._machine)
        self._bound = BoundTasks(kernel_pid, lambda: descendants(os.getpid()))
        self._own_folder = ""
        """Where the kernel keeps variables, which is not protected."""
        self._refused_paths: dict[str, None] = {}
        """Protected files that were not changed, until the kernel is told."""
        self._folders: WatchedFolders | None = None
        self._journal: FileJournal | None = None
        self._unavailable_reason = "files are not watched yet"
        self._deputy_fd = -1
        """Leads to the process that takes the place of this one if it is killed."""
        self._is_deputy_told = False
        """Whether it knows that there is code without approval."""
        self._redo: RedoStack | None = None
        self._watches_open_files = False
        """Whether any file was opened for writing, so that it may still be."""
        self._undo_cell = 0
        """The newest cell at the last undo; what writes before the next one does not end its redo."""
        self._buffer = bytearray(_NOTIFICATION.size)
        self._namespace = os.stat("/proc/self/ns/mnt").st_ino
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
                if fd == self._listener:
                    self._answer_call()
                elif fd == self._control.fd:
                    self._answer_kernel()
                else:
                    with suppress(BlockingIOError):
                        os.read(self._wakeup, 4096)
                    self._reap()

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
            if self._listener >= 0 and os.fork() == 0:
                self._serve_survivors()
        self._tell_deputy(_HAS_ENDED)
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            os._exit(code)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(128 - code)

    def _serve_survivors(self) -> NoReturn:
        """Copy nothing more, and let calls go on until no process is left that makes them."""
        try:
            os.setsid()
            self._is_connected = False
            if self._journal is not None:
                remove_copies(self._journal.copies.folder)
            self._journal = None
            self._let_calls_go_on()
        finally:
            os._exit(1)

    def _tell_deputy(self, news: bytes) -> None:
        with suppress(OSError):
            os.write(self._deputy_fd, news)

    def _start_deputy(self, copies_folder: str) -> None:
        """Fork a process that takes the place of this one if it is killed: so a checkpoint can save what
        the kernel had, and processes that outlive it can go on. Raises `OSError`."""
        alive_fd, own_fd = os.pipe()
        if os.fork() != 0:
            os.close(alive_fd)
            # It stays open until this process ends.
            self._deputy_fd = own_fd
            return
        try:
            os.setsid()
            os.close(own_fd)
            os.close(self._control.fd)
            self._is_connected = False
            self._become_deputy(alive_fd, copies_folder)
        finally:
            os._exit(1)

    def _become_deputy(self, alive_fd: int, copies_folder: str) -> NoReturn:
        """Wait for the end of the witness; take its place if it was killed."""
        news = b""
        while chunk := os.read(alive_fd, 4096):
            news += chunk
        if news.endswith(_HAS_ENDED):
            os._exit(0)
        remove_copies(copies_folder)
        if news:
            # Which processes code without approval has started is not known here.
            self._own_folder = os.fsdecode(news.split(_NEWS_END)[-2])
            self._bound.bind_all()
        self._let_calls_go_on()

    def _let_calls_go_on(self) -> NoReturn:
        """Answer calls until no process is left that makes them."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            for _, events in poll.poll():
                if events & select.POLLHUP:
                    os._exit(0)
                self._answer_call()

    # The kernel's questions

    def _answer_kernel(self) -> None:
        try:
            message, fd = self._control.receive()
        except (OSError, EOFError):
            self._poll.unregister(self._control.fd)
            self._is_connected = False
            return
        if message["op"] == "watch" and fd is not None:
            self._start_watching(message, fd)
            return
        if message["op"] == "protect":
            self._protect(message["own_folder"])
            return
        if message["op"] == "release":
            self._bound.release()
            return
        try:
            answer = self._answer(message)
        except Exception as error:  # whatever one question does, the next must be answered
            reason = f"The changes of files are unknown ({type(error).__name__}: {error})."
            answer = {"files": [], "not_restored": [{"name": "", "reason": reason}]}
        with suppress(OSError):
            self._control.send({**answer, "serial": message["serial"]})

    def _protect(self, own_folder: str) -> None:
        folder = own_folder and os.path.realpath(own_folder) + os.sep
        if not self._is_deputy_told or folder != self._own_folder:
            self._is_deputy_told = True
            self._tell_deputy(os.fsencode(folder) + _NEWS_END)
        self._own_folder = folder
        self._bound.bind_all()

    def _start_watching(self, message: Message, listener: int) -> None:
        self._listener = listener
        self._folders = WatchedFolders(message["folders"], message["ignored"])
        folder = os.path.join(message["copies"], str(os.getpid()))
        try:
            self._start_deputy(folder)
            copies = Copies(
                folder,
                message["cell_megabytes"] * 2**20,
                message["megabytes"] * 2**20,
            )
        except OSError as error:
            self._unavailable_reason = f"no copies can be made ({error.strerror})"
        else:
            self._journal = FileJournal(copies)
            self._redo = RedoStack(self._journal)
        # Calls are answered in any case: without an answer, they wait for ever.
        with suppress(OSError):  # Linux 6.6
            fcntl.ioctl(listener, _SET_LISTENER_FLAGS, _WAKE_ON_THIS_CPU)
        self._poll.register(listener, select.POLLIN)

    def _answer(self, message: Message) -> Message:
        journal = self._journal
        redo = self._redo
        if journal is None or redo is None:
            reason = f"The changes of files are unknown: {self._unavailable_reason}."
            return {"files": self._pop_refused(), "not_restored": [{"name": "", "reason": reason}]}
        op = message["op"]
        if op == "begin":
            self._begin(message["cell"])
            return {}
        if op == "finish":
            return {"files": [*self._finish(), *self._pop_refused()]}
        self._note_open_files()
        if op == "preview_undo":
            plan = redo.plan(message["cell"])
        elif op == "undo":
            self._undo_cell = self._fields.cell
            plan = redo.undo(message["cell"])
        else:
            plan = redo.redo()
        return {
            "files": [
                {**file._asdict(), "path": self._shown(path)} for path, file in plan.files.items()
            ],
            "not_restored": [
                {"name": self._shown(item.name), "reason": item.reason} for item in plan.unrestored
            ],
        }

    def _begin(self, cell: int) -> None:
        """Copy what is open for writing, because the cell can write it without another call."""
        assert self._journal is not None
        self._forget_old(cell)
        self._fields.cell = cell
        self._note_open_files()
        self._fields.has_news = bool(self._journal.open_nodes)
        self._journal.begin(cell)

    def _step(self) -> FileStep:
        """Return the step to which a change belongs."""
        assert self._journal is not None
        return self._journal.step(self._fields.cell, is_background=not self._fields.is_running)

    def _forget_old(self, cell: int) -> None:
        assert self._journal is not None
        assert self._redo is not None
        has_step = self._journal.steps and self._journal.steps[-1].cell == cell
        if not has_step and cell != self._undo_cell:
            self._redo.forget()
        self._journal.forget_before(self._fields.oldest_cell)

    def _finish(self) -> list[Message]:
        """Return what the cell has changed."""
        journal = self._journal
        assert journal is not None
        self._note_open_files()
        self._fields.has_news = bool(journal.open_nodes)
        step = journal.step(self._fields.cell)
        changes = journal.finish(step)
        reported = [self._describe(change) for change in changes[:MAX_REPORTED_CHANGES]]
        omitted_count = len(changes) - len(reported)
        if omitted_count:
            reported.append({"change": "more", "path": f"{omitted_count:,}", "old_path": ""})
        if step.is_empty:
            journal.steps.remove(step)
        return reported

    def _pop_refused(self) -> list[Message]:
        """Return the protected files that the cell was kept from changing."""
        paths = list(self._refused_paths)[:MAX_REPORTED_CHANGES]
        self._refused_paths.clear()
        return [{"change": "refused", "path": self._shown(path), "old_path": ""} for path in paths]

    def _describe(self, change: PathChange) -> Message:
        path = self._shown(change.path)
        if read_state(change.path).kind == FOLDER:
            path += os.sep
        return {
            "change": change.change,
            "path": path,
            "old_path": self._shown(change.old_path),
        }

    def _shown(self, path: str) -> str:
        """Return a path as text, relative to the kernel's folder at its start."""
        first_folder = self._folders.folders[0] if self._folders is not None else ""
        if path.startswith(first_folder + os.sep):
            path = path[len(first_folder) + 1 :]
        return os.fsencode(path).decode("utf-8", "backslashreplace")

    # Files that are open

    def _note_open_files(self) -> None:
        """Find the files that processes of the kernel have open for writing, or mapped."""
        assert self._journal is not None
        if not self._watches_open_files:
            return
        journal = self._journal
        pids = list(descendants(os.getpid()))
        mapped = set(self._find_nodes(path for pid in pids for path in _mapped_files(pid)))
        written = set(self._find_nodes(path for pid in pids for path in _written_files(pid)))
        for node in journal.open_nodes | mapped:
            node.is_mapped = node in mapped
        journal.open_nodes = mapped | written
        self._watches_open_files = bool(journal.open_nodes)

    def _find_nodes(self, files: Iterable[tuple[str, FileState]]) -> Iterator[Node]:
        """Yield files that are open, by their paths, if they are watched."""
        assert self._journal is not None
        nodes = self._journal.nodes
        for path, state in files:
            node = nodes.known(state)
            if node is None and self._is_watched(path) and read_state(path).inode == state.inode:
                name = nodes.name(path)
                node = nodes.identify(name, state) if name is not None else None
            if node is not None:
                yield node

    # Calls

    def _answer_call(self) -> None:
        """Answer the next call: refuse it if it changes a protected file; else copy what it changes, and
        let it go on."""
        self._buffer[:] = bytes(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE_NOTIFICATION, self._buffer)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                self._poll.unregister(self._listener)
            return
        notification = self._read_notification()
        if self._refuses(notification):
            answer = _ANSWER.pack(notification.number, 0, -errno.EPERM, 0)
        else:
            self._try_to_witness(notification)
            answer = _ANSWER.pack(notification.number, 0, 0, _CONTINUE)
        with suppress(OSError):  # its thread has ended
            fcntl.ioctl(self._listener, _SEND_ANSWER, answer)

    def _read_notification(self) -> _Notification:
        number, thread, _, call_number, architecture, _, *arguments = _NOTIFICATION.unpack(
            self._buffer
        )
        call = None
        if architecture == ARCHITECTURES[self._machine]:
            call = self._calls.get(call_number)
        return _Notification(number, thread, call, call_number, arguments)

    def _refuses(self, notification: _Notification) -> bool:
        """Return whether a call must fail, because it would change a protected file for code that the
        user has not approved."""
        # All that the kernel has said before the call counts.
        while self._is_connected and _is_readable(self._control.fd):
            self._answer_kernel()
        if not self._bound.contains(notification.thread):
            return False
        try:
            path = self._protected_path(notification)
        except (FileNotFoundError, ProcessLookupError):  # the call fails by itself
            return False
        except Exception:  # what is not known may be a protected file
            path = "a file whose name cannot be read"
        if not path:
            return False
        self._refused_paths[path] = None
        self._fields.has_news = True
        return True

    def _protected_path(self, notification: _Notification) -> str:
        """Return the protected path that a call would change; empty if there is none. Raises
        `OSError` and `_UnseenError`."""
        call = notification.call
        arguments = notification.arguments
        thread = notification.thread
        if call is None:
            is_refused = may_change_files(self._machine, notification.call_number, arguments)
            return "a file (by a 32-bit program)" if is_refused else ""
        if call.action == "hide":
            return f"files (by the system call {call.name})"
        flags = 0 if call.flags is None else arguments[call.flags] & 0xFFFF_FFFF
        if call.action == "open2":
            flags = _read_open_flags(thread, arguments[2])
        paths = []
        for index, (folder, path) in enumerate(call.paths):
            follows = index == 0 and _follows(call.action, flags)
            paths.append(self._seen_path(notification, folder, path, follows=follows))
        file_call = FileCall(call.name, call.action, flags, paths)
        return changed_protected_path(file_call, thread, self._own_folder)

    def _seen_path(
        self, notification: _Notification, folder: int | None, path: int | None, *, follows: bool
    ) -> str:
        """Return the path that a call changes, resolved as its process sees it; empty for a descriptor
        without a path. Raises `OSError` and `_UnseenError`."""
        thread = notification.thread
        arguments = notification.arguments
        folder_fd = _AT_FDCWD
        if folder is not None:
            folder_fd = ctypes.c_int(arguments[folder] & 0xFFFF_FFFF).value
        name = ""
        if path is not None and arguments[path]:
            name = _read_text(thread, arguments[path])
        if name.startswith("/"):
            return resolve_as(thread, name, follows=follows)
        base = "cwd" if folder_fd == _AT_FDCWD else f"fd/{folder_fd}"
        base_path = os.readlink(f"/proc/{thread}/{base}")
        if not base_path.startswith("/"):
            return ""
        return resolve_as(thread, f"{base_path}/{name}", follows=follows and bool(name))

    def _try_to_witness(self, notification: _Notification) -> None:
        if self._journal is not None:
            try:
                self._witness(notification)
            except _UnseenError as error:
                self._note_problem(str(error))
            except Exception as error:  # the call must go on in any case
                self._note_problem(f"A change of a file was not seen ({type(error).__name__}).")

    def _note_problem(self, sentence: str) -> None:
        assert self._journal is not None
        if self._fields.cell:
            self._step().problems[sentence] = None
            self._fields.has_news = True

    def _witness(self, notification: _Notification) -> None:
        call = notification.call
        # Owners and attributes are watched for protected files only.
        if call is None or call.action in ("own", "ownlink") or not self._fields.cell:
            return
        thread = notification.thread
        flags = 0
        if call.flags is not None:
            flags = notification.arguments[call.flags] & 0xFFFF_FFFF
        if call.action == "open2":
            flags = _read_open_flags(thread, notification.arguments[2])
        paths = [
            self._path(
                notification, folder, path, follows=index == 0 and _follows(call.action, flags)
            )
            for index, (folder, path) in enumerate(call.paths)
        ]
        try:
            # If the thread has ended meanwhile, something else may have been read.
            fcntl.ioctl(self._listener, _IS_ID_VALID, _ID.pack(notification.number))
        except OSError:
            return
        self._note_change(call.action, flags, paths)

    def _path(
        self, notification: _Notification, folder: int | None, path: int | None, *, follows: bool
    ) -> str:
        """Return the path that a call changes, resolved as its process sees it; empty if there is none."""
        thread = notification.thread
        arguments = notification.arguments
        folder_fd = _AT_FDCWD
        if folder is not None:
            folder_fd = ctypes.c_int(arguments[folder] & 0xFFFF_FFFF).value
        if path is None or not arguments[path]:
            return _descriptor_path(thread, folder_fd)
        name = _read_text(thread, arguments[path])
        if not name:
            return ""
        name = _own_view(thread, name)
        if name.startswith(("/dev/", "/sys/")) and not name.startswith(SHARED_MEMORY_FOLDER):
            return ""
        if not shares_files(thread, self._namespace):
            raise _UnseenError(_OTHER_ROOT)
        if not name.startswith("/"):
            base = "cwd" if folder_fd == _AT_FDCWD else f"fd/{folder_fd}"
            name = f"/proc/{thread}/{base}/{name}"
        return _resolve(name, follows=follows)

    def _is_watched(self, path: str) -> bool:
        working_folder = ""
        with suppress(OSError):
            working_folder = os.readlink(f"/proc/{self._kernel_pid}/cwd")
        return self._folders is not None and self._folders.contains(path, working_folder)

    def _leaves_alone(self, path: str) -> bool:
        """Return whether a path belongs to a repository's own files, which only it can change safely;
        the undo names them."""
        parts = path.split(os.sep)
        for index, part in enumerate(parts):
            if part in _REPOSITORY_FOLDERS:
                repository = self._shown(os.sep.join(parts[: index + 1]))
                self._note_problem(f"{repository}: the history of versions stays as it is now.")
                return True
        return False

    def _note_change(self, action: str, flags: int, paths: Sequence[str]) -> None:
        """Note what a call is about to do, with what it needs for an undo."""
        watched_paths = [
            path if self._is_watched(path) and not self._leaves_alone(path) else ""
            for path in paths
        ]
        if not any(watched_paths):
            return
        journal = self._journal
        assert journal is not None
        self._forget_old(self._fields.cell)
        step = self._step()
        self._fields.has_news = True
        if action == "rename":
            for path, watched_path in zip(paths, watched_paths):
                if watched_path:
                    journal.note_name(step, path)
                else:
                    journal.note_existing(step, path)
            for path in watched_paths if flags & RENAME_EXCHANGE else watched_paths[:1]:
                if path and not all(watched_paths):
                    journal.note_leaving(path)
            return
        path = watched_paths[0]
        if action == "link":
            if watched_paths[1]:
                journal.note_existing(step, paths[0])
                journal.note_name(step, paths[1])
            return
        state = read_state(path)
        exists = state.kind != MISSING_KIND
        if action in ("open", "open2"):
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC)
            if exists and (not changes or (flags & os.O_EXCL and flags & os.O_CREAT)):
                return
            if (exists and state.kind != FILE) or not (exists or flags & os.O_CREAT):
                return
            if flags & _O_TMPFILE == _O_TMPFILE:
                return
            self._watches_open_files = True
        elif exists == (action == "create") and action != "write":
            return
        if action == "unlink" or not exists:
            journal.note_name(step, path)
        else:
            journal.note_content(step, path, is_written=action not in ("mark", "markfd"))


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _follows(action: str, flags: int) -> bool:
    """Return whether a call changes what a link leads to, not the link."""
    if action in ("mark", "own"):
        return not flags & _AT_SYMLINK_NOFOLLOW
    if action == "link":
        return bool(flags & _AT_SYMLINK_FOLLOW)
    return action in ("open", "open2", "write")


def shares_files(thread: int, namespace: int) -> bool:
    """Return whether a process has a namespace of mounts and the root folder, or has ended, so that its
    call changes nothing. namespace: its number."""
    try:
        return (
            os.stat(f"/proc/{thread}/ns/mnt").st_ino == namespace
            and os.readlink(f"/proc/{thread}/root") == "/"
        )
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False


def _read_text(thread: int, address: int) -> str:
    """Read a path in the memory of a process."""
    return os.fsdecode(read_memory(thread, address, _MAX_PATH_BYTES).split(b"\0", 1)[0])


def _read_open_flags(thread: int, address: int) -> int:
    """Read the flags of `openat2` in the memory of a process. Raises `_UnseenError` if it takes a folder
    for the root folder."""
    data = read_memory(thread, address, _HOW.size)
    if len(data) < _HOW.size:
        return 0
    flags, _mode, resolution = _HOW.unpack(data)
    if resolution & _RESOLVE_IN_ROOT and flags & OPENS_TO_CHANGE:
        raise _UnseenError(_OTHER_ROOT)
    return int(flags)


def read_memory(thread: int, address: int, size: int) -> bytes:
    """Read the memory of a process; nothing if it has ended."""
    try:
        fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, address)
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except (OSError, OverflowError):
        raise _UnseenError(
            "A program changed files whose memory cannot be read, so that they are unknown."
        ) from None


def _descriptor_path(thread: int, fd: int) -> str:
    """Return the path of an open file; empty if it has none."""
    with suppress(OSError):
        path = os.readlink(f"/proc/{thread}/fd/{fd}")
        if path.startswith("/") and not path.endswith(" (deleted)"):
            return path
    return ""


def _own_view(thread: int, path: str) -> str:
    """Replace the beginning of a path that means something else for each process."""
    for prefix, target in (
        ("/proc/self/", ""),
        ("/proc/thread-self/", ""),
        ("/dev/fd/", "fd/"),
    ):
        if path.startswith(prefix):
            return f"/proc/{thread}/{target}{path[len(prefix) :]}"
    return path


def _resolve(path: str, *, follows: bool) -> str:
    """Return a path without links and dots; empty if its folder does not exist.

    Args:
        path: Of anything, or of nothing.
        follows: Whether a link at its end is followed.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    path = path.rstrip("/") or "/"
    folder, name = os.path.split(path)
    if follows or name in ("", ".", ".."):
        with suppress(OSError):
            return _path_of(os.open(path, flags))
    try:
        folder = _path_of(os.open(folder, flags | os.O_DIRECTORY))
    except OSError:
        return ""
    resolved = os.path.join(folder, name)
    if follows and os.path.islink(resolved):  # it leads to nothing yet
        return os.path.realpath(resolved)
    return resolved


def _path_of(fd: int) -> str:
    """Return the path of a descriptor, and close it. Raises `OSError`."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def descendants(pid: int) -> Iterator[int]:
    """Yield a process and those that it, or one of them, has started."""
    pending_pids = [pid]
    while pending_pids:
        pid = pending_pids.pop()
        yield pid
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                    pending_pids += map(int, children.read().split())


def _written_files(pid: int) -> Iterator[tuple[str, FileState]]:
    """Yield the paths of what a process has open for writing, with what it is."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError, IndexError, ValueError):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
                    continue
                with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as fields:
                    flags = int(fields.read().partition("flags:")[2].split()[0], 8)
                if flags & (os.O_WRONLY | os.O_RDWR):
                    yield path, read_state(f"/proc/{pid}/fd/{name}", follows=True)


def _mapped_files(pid: int) -> Iterator[tuple[str, FileState]]:
    """Yield the paths of files that a process has in its memory, and changes there."""
    path = f"/proc/{pid}/maps"
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[1].startswith("rw-s") and fields[5].startswith("/"):
                yield fields[5], read_state(fields[5])
