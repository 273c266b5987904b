"""The kernel process: a main thread that runs cells, and a control thread that communicates with
the host."""

from __future__ import annotations

import _thread
import builtins
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .cells.awaiting import EventLoop, warn_about_unawaited_coroutines
from .cells.console import Console
from .cells.environment import CellEnvironment
from .cells.executor import Executor, Outcome, failed_outcome
from .cells.jobs import JobQueue
from .cells.tracebacks import format_safely
from .former_names import install_finder
from .guard import protected
from .link.channel import Channel
from .link.control import Host, HostCalls
from .link.descriptors import duplicate_high, is_readable
from .link.frames import CONNECTION_LOST, TOKEN_BYTES, Frame, FrameError, FrameReader
from .link.interrupts import Interrupts
from .link.process_facts import describe_process, working_directory
from .link.responder import Responder
from .magic import syntax
from .stdlib import bind_library, own_module
from .tools import toolbox

if TYPE_CHECKING:
    from .link.holder import HolderClient
    from .witness.client import FileWatch
    from .witness.forking import ForkThread
    from .witness.shared import WitnessLink

_PR_SET_PDEATHSIG = 1
"""An option of Linux's `prctl`."""

FLUSH_INTERVAL_MS = 50
"""Between two flushes of the output while a cell or a thread runs."""
HOST_SIGNAL_DELAY_S = 0.75
"""Seconds after which the host, which got no answer, may have sent the signal itself."""
HANDLER_GRACE_S = 0.05
"""Seconds for a signal of the host's to be handled."""
REPEAT_SIGNAL_AFTER_S = 1.0
"""Seconds after which an interrupt that nobody handled is sent again."""
SAVE_TIMEOUT_S = 4.0
"""Seconds at the kernel's end for variables that are being saved."""

LOCKS = ("keep", "discard", "guard")
"""The ways to confine a cell that this kernel knows; the host is told at the start."""

_JOBS = "execute answer preview_undo undo redo keep restore watch_files".split()
"""Operations for the main thread."""


class Worker:
    """The kernel: its parts, and the jobs of its main thread."""

    def __init__(
        self,
        fd: int,
        token: bytes,
        holder: HolderClient | None = None,
        witness: WitnessLink | None = None,
    ) -> None:
        """Create the kernel on the main thread.

        Args:
            fd: The descriptor of the socket that leads to the host.
            token: Begins each frame of the host.
            holder: What keeps the kernel when its host goes; None if nothing does.
            witness: The process above that watches files; None if nothing does.
        """
        main = ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        namespace = main.__dict__

        self._jobs = JobQueue()
        self._open: set[int] = set()
        """Cells that have begun and not ended."""
        self._loop = EventLoop()
        self._interrupts = Interrupts()
        self._interrupts.cancel_await = self._loop.cancel
        self._interrupts.idle_task_in_the_way = lambda: self._loop.idle and not self._jobs.empty()

        # Saving variables
        self._keeper: Any = None
        """A `saving.keeper.Keeper`, once one is needed."""
        self._save_settings: tuple[Frame, dict[str, object]] = {}, {}
        """The host's settings, and the namespace as it was then, which is not saved."""
        self._last_save: Frame = {"carried": None, "lost": []}
        """The newest request to save."""
        self._restored_files: set[str] = set()
        """Files whose variables are all in the namespace, or were: a cell may have deleted them."""
        self._unsaved = False
        """Whether a cell has run since variables were saved last."""
        self._saving: Any = None
        """What writes variables now without a host, on the thread `_saver`."""
        self._saver: threading.Thread | None = None

        # The files
        self._witness = witness
        self._file_watch: FileWatch | None = None
        """None if files are not watched."""
        self._fork_thread: ForkThread | None = None
        """None if locked forks can be forked by the main thread."""

        # The connection
        self.holder = holder
        backlog = None if holder is None else holder.backlog
        self.channel = Channel(fd, self._interrupts, token=token, backlog=backlog)
        if holder is not None:
            holder.worker = self
            self.channel.answer_unheard_calls = holder.auto_answer
        self._calls = HostCalls(self.channel.send, self._execute)

        # What cells find
        warn_about_unawaited_coroutines()
        self._console = Console()
        for replacement in self._console.replacements():
            setattr(*replacement)
        toolbox.install(self._calls.call)
        self.environment = CellEnvironment(main, self._interrupts, self._loop.make_current)
        self._executor = Executor(namespace, self.environment, self._interrupts, self._loop)
        self._protected_files = protected.ProtectedFiles(self._executor.attribution)
        self._protected_files.on_program_start = self._protect_files
        self.environment.add_audit_handler(protected.EVENTS, self._protected_files.check)

        self.responder = Responder(
            self.channel.send,
            namespace,
            answers={
                "variables": self._list_variables,
                "interrupt_cell": self._interrupt,
                "cannot_lock": self._lock_unavailable_reason,
                "undo_steps": self._list_undo_steps,
                "saved_namespace": self._saved_namespace,
            },
            handlers={
                **dict.fromkeys(_JOBS, self.on_message),
                "stored": self._on_stored,
                "end": self._on_ending,
                "stay": self._on_leaving_on_purpose,
                "reload": self._reload,
                "undo_limits": self._set_undo_limits,
                "keep_in": self._prepare_saving,
                "elsewhere": self._on_remote_host,
                "functions": self._add_functions,
                "servers": self._add_servers,
            },
            version=self._namespace_version,
        )

    def run(self) -> None:
        """Run jobs until the host closes the connection."""
        hello = self.hello()
        if self.holder is not None:
            self.holder.backlog.state.set_hello(hello)
        threading.Thread(target=ControlThread(self).run, daemon=True).start()
        self.channel.send(hello)
        if self._witness is not None:
            os.write(self._witness.control, b".")
        self._run_jobs()
        if self._saver is not None:
            self._saver.join(SAVE_TIMEOUT_S)
        self._loop.close()

    def hello(self) -> Frame:
        """Return the first frame for a host."""
        return {"op": "ready", "locks": LOCKS, **describe_process()}

    def _run_jobs(self) -> None:
        while True:
            try:
                job = self._loop.wait(self._jobs)
                if job is None:
                    return
                self._run_job(job)
            except BaseException as error:  # raised by the user's code, such as a signal handler
                self.environment.leave_child(error)
                self._report_failure(error)

    def _run_job(self, job: Frame) -> None:
        """Run a job. Whatever fails outside a cell is an error of that job: the kernel goes on."""
        try:
            self._jobs.finish()
            if job["op"] == "execute":
                self._execute(job, None)
                if self._executor.undo is not None:
                    self._executor.undo.enforce_memory_limit()
                self._save_unattended()
            elif job["op"] == "keep":
                self._save(job)
            elif job["op"] == "watch_files":
                self._start_watching(job)
            elif job["op"] == "keep_alone":
                self._save_unattended()
            else:
                if job["op"] == "restore":
                    work = self._restore
                else:
                    work = self._undo
                self.responder.answer(job, work)
        except BaseException as error:
            self.environment.leave_child(error)
            if "id" in job:
                self.responder.fail(job, error)  # the host ignores a second answer
            else:
                self._report_failure(error)

    def _report_failure(self, error: BaseException) -> None:
        """Print an error that belongs to no cell."""
        with suppress(BaseException):  # the stream may be one of the user's
            sys.stderr.write(format_safely(error))

    def _execute(self, frame: Frame, refusal: str | None) -> None:
        """Run a cell, and tell the host how it ended. refusal: why it must not run, or None."""
        start = time.perf_counter()
        # Stored in no object, so that code that reaches the channel cannot report a cell's end.
        seal = frame.pop("seal", "")
        cell = frame["cell"]
        outcome: Outcome | None = None
        needs = ""
        try:
            # Cell 0 is the session's own code.
            watch = self._file_watch if cell and not self._executor.depth else None
            if watch is not None:
                watch.begin(cell, self._oldest_undo_cell(cell))
            outcome, needs = self._run_cell(frame, refusal)
            self._disarm_checkpoint()
            files = [] if watch is None else watch.finish()
            self._send_end(cell, seal, outcome, needs, start, files)
        except BaseException as error:
            self.environment.leave_child(error)
            if outcome is None:
                outcome = failed_outcome(format_safely(error))
            # The host ignores an end that it has already.
            self._send_end(cell, seal, outcome, needs, start)

    def _run_cell(self, frame: Frame, refusal: str | None) -> tuple[Outcome, str]:
        """Return how the cell ended, and why it needs more than its lock allows, if it does."""
        cell = frame["cell"]
        code = frame["code"]
        lock = frame.get("lock")
        self._unsaved = True
        if lock is not None and lock not in LOCKS:
            # The host has a later version.
            refusal = f"this kernel does not know how to confine the cell ({lock})"
        if lock not in ("keep", "discard"):
            return self._run_in_kernel(cell, code, refusal, is_guarded=lock == "guard"), ""
        run_locked = own_module("guard.locked").run_locked
        keep = lock == "keep"
        run = partial(
            run_locked, self._executor, self.environment, self._calls, cell, code, keep=keep
        )
        if self._fork_thread is not None:
            run = partial(run, fork_thread=self._fork_thread)
        return self._executor.run_in_fork(cell, code, run, refusal, keep=keep)

    def _run_in_kernel(
        self, cell: int, code: str, refusal: str | None, *, is_guarded: bool
    ) -> Outcome:
        """Run a cell in this process. is_guarded: whether it may not change protected files."""
        outer_cell = self._executor.attribution.caller_cell()
        if is_guarded:
            self._protected_files.guard(cell)
            self._protect_files()
        elif cell:  # cell 0 is the session's own code
            self._release_files()
        try:
            return self._executor.run(cell, code, refusal)
        finally:
            # Otherwise all stays bound until the user acts.
            if outer_cell is not None and not self._protected_files.is_guarded(outer_cell):
                self._release_files()

    def _protect_files(self) -> None:
        """Let the witness refuse changes of protected files, for the cell that begins or for what one
        has left."""
        if self._file_watch is not None:
            self._file_watch.protect(self._save_settings[0].get("folder", ""))

    def _release_files(self) -> None:
        """Let the innermost cell change protected files: the user has typed or approved it."""
        if self._file_watch is not None:
            self._file_watch.release()

    def _disarm_checkpoint(self) -> None:
        """Note that the outermost cell has ended, and with it the time of its checkpoint."""
        if self._executor.undo is not None and not self._executor.depth:
            self._executor.undo.disarm()

    def _oldest_undo_cell(self, cell: int) -> int:
        """Return the first cell that can be undone; `cell` if none has run."""
        if self._executor.undo is None:
            return cell
        return self._executor.undo.oldest_cell or cell

    def _send_end(
        self,
        cell: int,
        seal: str,
        outcome: Outcome,
        needs: str,
        start: float,
        files: Sequence[Frame] = (),
    ) -> None:
        self._open.discard(cell)
        reply = {
            "cell": cell,
            "duration": time.perf_counter() - start,
            "cwd": working_directory(),
            "needs": needs,
            "files": files,
            **outcome._asdict(),
        }
        self.channel.send({"op": "done", "seal": seal, **reply})

    # Called by the control thread, also through the holder

    def on_message(self, frame: Frame) -> None:
        """Hand a frame to whom it concerns: a call that waits, or the main thread."""
        op = frame["op"]
        if op in ("execute", "restore"):
            self._open.add(frame["cell"])
            if self.holder is not None and op == "execute":
                self.holder.backlog.begin(frame)
        elif op == "keep":
            self._get_keeper()
        elif op == "answer" and self.holder is not None:
            self.holder.backlog.on_answer(frame["id"])
        if (op == "answer" or frame.get("nested")) and self._calls.deliver(frame):
            return
        if op != "answer":
            self._queue_job(frame)

    def is_active(self) -> bool:
        """Return whether code may print now."""
        own_threads = 1 if self._fork_thread is None else 2
        return bool(self._open) or self._loop.used or _thread._count() > own_threads

    def is_busy(self) -> bool:
        """Return whether a cell runs, or variables are being saved without a host."""
        return bool(self._open) or self._saving is not None

    def on_host_left(self) -> None:
        """Save variables now, if no cell runs that will do so at its end."""
        if not self._open:
            self._queue_job({"op": "keep_alone"})

    def on_disconnect(self) -> None:
        """End, because no host will come any more."""
        if self._open:
            self.environment.flush()
            os._exit(0)
        self._queue_job(None)

    def interrupt_abandoned_cell(self) -> None:
        """Interrupt the innermost cell that runs."""
        for cell in sorted(self._open)[-1:]:
            self._interrupt({"cell": cell, "asked": None})

    def _queue_job(self, job: Frame | None) -> None:
        self._jobs.put(job)
        self._loop.wake()

    def _on_stored(self, frame: Frame) -> None:
        """The host has stored cells, so that no other host needs them."""
        if self.holder is not None:
            self.holder.backlog.on_stored(frame["stored"], frame["heard"])

    def _on_ending(self, frame: Frame) -> None:
        """The session ends, so that nothing is to be kept."""
        if self.holder is not None:
            self.holder.is_ending = True

    def _on_leaving_on_purpose(self, frame: Frame) -> None:
        """The user has detached the kernel, so that its cell has no time limit."""
        if self.holder is not None:
            self.holder.on_purpose = True

    def _on_remote_host(self, frame: Frame) -> None:
        Host.is_remote = True

    def _add_functions(self, frame: Frame) -> None:
        """Add the host's functions to `builtins`."""
        self.environment.keep_builtins(toolbox.add_functions(frame["functions"]))

    def _add_servers(self, frame: Frame) -> None:
        """Add the host's MCP servers to `builtins`."""
        servers = toolbox.add_servers(frame["servers"], self._executor.attribution)
        self.environment.keep_builtins(servers)

    def _list_variables(self, frame: Frame) -> object:
        return self._executor.tracker.listing()

    def _list_undo_steps(self, frame: Frame) -> object:
        if self._executor.undo is None:
            return []
        return self._executor.undo.steps()

    def _lock_unavailable_reason(self, frame: Frame) -> object:
        return own_module("guard.read_only").missing()

    def _saved_namespace(self, frame: Frame) -> object:
        return self._get_keeper().index()

    def _namespace_version(self) -> int | None:
        """Return the version of the namespace; None while a cell runs, which may change it."""
        if self._executor.depth:
            return None
        return self._executor.tracker.version

    def _interrupt(self, frame: Frame) -> None:
        """Interrupt a cell, unless a signal of the host's has done so since it asked."""
        cell = frame["cell"]
        requested_at = frame["asked"]
        if requested_at is None:
            # The host is on another machine, whose clock is different.
            requested_at = time.monotonic()
        elif time.monotonic() - requested_at > HOST_SIGNAL_DELAY_S:
            time.sleep(HANDLER_GRACE_S)
        if cell in self._open and self._interrupts.handled_at < requested_at:
            # Sent to the whole process group, like Ctrl+C in a terminal, so that child processes
            # that a cell waits for end too.
            self._interrupts.requested = cell
            os.killpg(0, signal.SIGINT)
            # `os.system` makes the process ignore the signal while it waits; this flag cannot be
            # ignored.
            _thread.interrupt_main()
            again = threading.Timer(
                REPEAT_SIGNAL_AFTER_S, self._repeat_interrupt, (cell, requested_at)
            )
            again.daemon = True
            again.start()

    def _repeat_interrupt(self, cell: int, requested_at: float) -> None:
        """Send the signal again, if nobody has handled it. requested_at: by `time.monotonic`."""
        if (
            cell in self._open
            and self._interrupts.handled_at < requested_at
            and self._executor.depth > 0
        ):
            os.killpg(0, signal.SIGINT)

    def _reload(self, frame: Frame) -> None:
        syntax.Reloading.reloader = None
        if frame["on"]:
            syntax.Reloading.reloader = own_module("magic.reloading").Reloader()

    def _set_undo_limits(self, frame: Frame) -> None:
        history = own_module("undo.history").UndoHistory
        undo = history(
            self._executor.namespace,
            frame["steps"],
            frame["megabytes"],
            scheduled=self._loop.list_scheduled,
            make_rescue=self._make_rescue,
        )
        self._executor.undo = undo
        self.environment.watch(own_module("guard.side_effects").EVENTS, undo.audit)

    def _start_watching(self, frame: Frame) -> None:
        """Watch files from now on. Only this thread, and what it starts, is watched, so that locked
        forks, which the control thread makes, can have a filter that reports to the kernel."""
        if self._witness is not None:
            watch = own_module("witness.client").FileWatch(self._witness, _move_descriptor)
            self._witness = None
            self._fork_thread = own_module("witness.forking").ForkThread(self._executor.namespace)
            watch.start(frame["settings"])
            self._file_watch = watch
            if watch.is_on and self._executor.undo is not None:
                self._executor.undo.watches_files = True
                self._executor.undo.is_watched = watch.is_watched

    def _undo(self, frame: Frame) -> Frame:
        if self._executor.undo is None:
            raise LookupError("Undo is off: the setting undo_steps is 0.")
        try:
            restoration = self._executor.undo.answer(frame["op"], frame["cell"])
        finally:
            self._executor.tracker.changes(None)
        return {
            "restoration": self._with_files(restoration, frame["op"], frame["cell"]),
            "cwd": working_directory(),
        }

    def _with_files(self, restoration: Frame, action: str, cell: int) -> Frame:
        """Preview, undo or redo the changes of files, too. restoration: that of the namespace."""
        if self._file_watch is None:
            return restoration
        answer = self._file_watch.answer(action, cell)
        not_restored = [*answer.get("not_restored", ()), *restoration["not_restored"]]
        return {
            **restoration,
            "files": answer.get("files", []),
            "files_unwatched": self._file_watch.unavailable_reason,
            "not_restored": not_restored,
            "exact": not not_restored,
        }

    def _prepare_saving(self, frame: Frame) -> None:
        folder = os.path.expanduser(frame["folder"])
        if folder != frame["folder"]:
            # The host does not know the home folder here.
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        cloudpickle = frame["cloudpickle"] or os.path.join(
            os.path.dirname(os.path.dirname(__file__)), "cloudpickle"
        )
        self.environment.cloudpickle = cloudpickle
        self._save_settings = (
            {**frame, "folder": folder, "cloudpickle": cloudpickle, "kernel": os.urandom(8).hex()},
            dict(self._executor.namespace),
        )

        if os.path.isdir(folder):
            # What cannot be read is reported when it is to be restored or saved.
            with suppress(OSError, own_module("saving.folder").FolderError):
                self._get_keeper().take_over(wait=frame["wait"])

    def _make_rescue(self) -> Any:
        """Return what a checkpoint does if the kernel dies; None if variables are not saved."""
        if not self._save_settings[0]:
            return None
        return self._get_keeper().make_rescue(self._current_save_request)

    def _current_save_request(self) -> Frame:
        """Return what the host would ask for now, if it could."""
        last = self._last_save if self.holder is None else self.holder.backlog.saved
        carried = last["carried"]
        if carried is None:
            carried = [file["name"] for file in self._get_keeper().index()["files"]]
        unrestored = [name for name in carried if name not in self._restored_files]
        return {"carried": unrestored, "lost": last["lost"]}

    def _get_keeper(self) -> Any:
        if self._keeper is None:
            self._keeper = own_module("saving.keeper").Keeper(
                self._executor.namespace, *self._save_settings, self._console.hidden_lines
            )
        return self._keeper

    def _save(self, frame: Frame) -> None:
        self._unsaved = False
        self._last_save = {"carried": frame["carried"], "lost": frame["lost"]}
        if self.holder is not None:
            self.holder.backlog.saved = self._last_save
        if self._saving is not None:
            self._saving.end()
        try:
            writer = self._keeper.start_writing(frame)
        except OSError as error:
            reason = f"the kernel cannot be forked ({error.strerror})"
            self.responder.answer(frame, lambda frame: {"error": reason})
            return
        finish = own_module("saving.keeper").finish
        threading.Thread(
            target=self.responder.answer, args=(frame, lambda frame: finish(writer)), daemon=True
        ).start()

    def _save_unattended(self) -> None:
        is_needed = self.channel.detached and self._unsaved and self._save_settings[0]
        if self.holder is None or not is_needed:
            return
        self._unsaved = False
        keeper = self._get_keeper()
        with suppress(OSError):
            writer = keeper.start_writing(self._current_save_request())
            self._saving = writer

            def finish() -> None:
                own_module("saving.keeper").finish(writer)
                if self._saving is writer:
                    self._saving = None

            # A host may attach meanwhile, and its cells do not wait: on a busy machine the
            # low-priority writer takes long.
            self._saver = threading.Thread(target=finish, daemon=True)
            self._saver.start()

    def _restore(self, frame: Frame) -> Frame:
        loading = self._keeper.loading(frame["file"])
        with suppress(KeyboardInterrupt), self._interrupts.allowed(frame["cell"]):
            loading.run()
        if not loading.missing():
            self._restored_files.add(frame["file"])
        if self._executor.undo is not None:
            self._executor.undo.invalidate("variables have come back since")
        self._open.discard(frame["cell"])
        return {"changes": self._executor.tracker.changes(None), "missing": loading.missing()}


class ControlThread:
    """Reads what host and holder send, and flushes the output of running code."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._channel = worker.channel
        self._holder = worker.holder
        self._reader = FrameReader()
        self._host_gone = False

    def run(self) -> None:
        """Serve until the kernel has to end."""
        # The signal is for the main thread, because only there does it end a `sleep`.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        was_busy = False
        while True:
            try:
                busy = self._worker.is_active()
                # Once more, because a thread may have printed just before its end.
                active = busy or was_busy
                was_busy = busy
                ready = self._ready(active)
                if active:
                    self._worker.environment.flush()
                if not self._serve(ready):
                    break
            except FrameError:  # code has read from the descriptor, or closed it
                os._exit(CONNECTION_LOST)
            except:  # noqa: E722  (the thread's outermost frame; even the name BaseException may be gone)
                self._worker.environment.repair_builtins()
        self._worker.on_disconnect()

    def _ready(self, active: bool) -> list[int]:
        """Wait for something to read; return the descriptors. active: whether code may print."""
        poll = select.poll()
        timeout = FLUSH_INTERVAL_MS if active else None
        if not self._host_gone:
            poll.register(self._channel.fd, select.POLLIN)
        if self._holder is not None:
            if self._holder.fd >= 0:
                poll.register(self._holder.fd, select.POLLIN)
            timeout = timeout or (1000 if self._channel.detached else None)
        return [fd for fd, _ in poll.poll(timeout)]

    def _serve(self, ready: list[int]) -> bool:
        """Read what has come; return whether the kernel goes on. ready: descriptors to read."""
        if self._channel.fd in ready and not self._read():
            return False
        if self._holder is None:
            return True
        if self._holder.fd in ready:
            while not self._host_gone and is_readable(self._channel.fd):
                if not self._read():
                    return False
            if not self._holder.on_message():
                return False
            self._reader = FrameReader()
            self._host_gone = self._channel.detached
        return not self._holder.has_expired()

    def _read(self) -> bool:
        """Handle what the host has sent; return whether the kernel goes on."""
        data = os.read(self._channel.fd, 65536)
        for frame in self._reader.feed(data):
            self._worker.responder.handle(frame)
        self._host_gone = not data
        return bool(data) or (self._holder is not None and self._holder.on_host_closed())


def main(fd: int, holder: str = "", watches_files: bool = False) -> None:
    """Run a kernel in this process.

    Args:
        fd: the descriptor of a socket that leads to the host, which sends a token first.
        holder: the fields of `HolderSettings` or `StationSettings` as JSON; empty for a kernel
            that ends with its host.
        watches_files: whether this process becomes the witness of the kernel's files, and its child
            the kernel.
    """
    witness = None
    if watches_files and sys.platform == "linux":
        witness = own_module("witness.split").split(dies_with_parent=not holder)
    _restore_default_signals()
    token = os.read(fd, TOKEN_BYTES)
    fd = _move_descriptor(fd)
    settings = json.loads(holder) if holder else {}
    client = None
    if holder:
        client = own_module("link.holder").connect(settings, _move_descriptor)
    if witness is not None:
        _die_with_parent()
        if os.getppid() != witness.other_pid:
            os._exit(1)
    elif client is None or "control" in settings:
        _die_with_parent()
    worker = Worker(fd, token, client, witness)
    bind_library()
    install_finder()
    sys.argv = [""]
    # Hides these objects from the collector, and keeps their pages shared when the user forks.
    gc.freeze()
    gc.enable()
    worker.run()


def _restore_default_signals() -> None:
    """Let this process wait for its children: a program that ignores SIGCHLD hands that on."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _move_descriptor(fd: int) -> int:
    """Move a descriptor to a number that child processes do not inherit and cells do not hit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        descriptor_count = 1000
    else:
        descriptor_count = min(soft, 1000)
    margin = min(40, descriptor_count // 3)
    choices = max(1, descriptor_count - 2 * margin)
    lowest = margin + int.from_bytes(os.urandom(2), "big") % choices
    hidden_fd = duplicate_high(fd, lowest)
    os.close(fd)
    return hidden_fd


def _die_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
