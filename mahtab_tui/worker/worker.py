"""The kernel: its parts, and the jobs of its main thread.

The control thread reads what the host sends, and gives each frame to the `Responder`. That answers
the frame itself, lets a part of the kernel handle it, or passes it to `Worker.on_message`, which
queues it as a job. The main thread runs the jobs one after the other, and the user's tasks between
them."""

from __future__ import annotations

import _thread
import builtins
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .cells.awaiting import EventLoop, warn_about_unawaited_coroutines
from .cells.console import Console
from .cells.environment import CellEnvironment
from .cells.executor import Executor
from .cells.interrupter import CellInterrupter
from .cells.jobs import JobQueue
from .cells.outcomes import Outcome, failed_outcome
from .cells.tracebacks import format_safely
from .link.channel import Channel
from .link.descriptors import hide_descriptor
from .link.frames import Frame
from .link.host import Host
from .link.host_calls import HostCalls
from .link.interrupts import Interrupts
from .link.process_facts import describe_process, working_directory
from .link.responder import Responder
from .magic.state import Reloading
from .saving.save_jobs import SaveJobs
from .stdlib import own_module
from .tools import toolbox

if TYPE_CHECKING:
    from .link.holder_client import HolderClient
    from .witness.client import FileWatch
    from .witness.forking import ForkThread
    from .witness.shared import WitnessLink

LOCKS = ("keep", "discard", "guard")
"""The ways to confine a cell that this kernel knows, which its first frame names."""

_JOBS = "execute answer preview_undo undo redo keep restore watch_files".split()
"""Operations for the main thread."""


class Worker:
    """The kernel of one namespace. Used on the main thread, except for what says otherwise."""

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
        self._open_cells: set[int] = set()
        """Cells that have begun and not ended."""
        self._loop = EventLoop()
        self._interrupts = Interrupts()
        self._interrupts.is_open = self._open_cells.__contains__
        self._interrupts.cancel_await = self._loop.cancel
        self._interrupts.idle_task_in_the_way = lambda: self._loop.idle and not self._jobs.empty()

        # The files
        self._witness = witness
        self._file_watch: FileWatch | None = None
        """Watches what cells do to files; None if files are not watched."""
        self._fork_thread: ForkThread | None = None
        """Makes locked forks; None if the main thread can make them."""

        # The connection
        self.holder = holder
        backlog = None if holder is None else holder.backlog
        self.channel = Channel(fd, self._interrupts, token=token, backlog=backlog)
        if holder is not None:
            holder.worker = self
            self.channel.answer_unheard_calls = holder.auto_answer
        self.calls = HostCalls(self.channel.send, self._execute, shielded=self._interrupts.shielded)
        self._interrupts.waits_for_host = self.calls.is_waiting

        # What cells find
        warn_about_unawaited_coroutines()
        self._console = Console()
        for replacement in self._console.replacements():
            setattr(*replacement)
        toolbox.install(self.calls.call)
        self.environment = CellEnvironment(main, self._interrupts, self._loop.make_current)
        self._executor = Executor(namespace, self.environment, self._interrupts, self._loop)
        self._protected_files: Any = None
        """Refuses changes by cells without approval, once it is loaded."""
        self._left_running: Any = None
        """Watches cells without approval, once there is one."""

        self._interrupter = CellInterrupter(
            self._interrupts, self._open_cells, is_executing=lambda: self._executor.depth > 0
        )
        self._save_jobs = SaveJobs(namespace, self._console.hidden_lines, self.channel, backlog)
        self.responder = Responder(
            self.channel.send,
            namespace,
            answers={
                "variables": self._list_variables,
                "interrupt_cell": self._interrupter.on_request,
                "cannot_lock": self._lock_unavailable_reason,
                "protects_files": self._has_witness,
                "undo_steps": self._list_undo_steps,
                "saved_namespace": self._save_jobs.index,
            },
            last_cell_with_leftovers=self._last_cell_with_leftovers,
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

    def announce(self) -> None:
        """Tell the host, holder and witness that the kernel has started."""
        hello = self.hello()
        if self.holder is not None:
            self.holder.backlog.state.set_hello(hello)
        self.channel.send(hello)
        if self._witness is not None:
            os.write(self._witness.control, b".")

    def load_protection(self) -> None:
        """Load what protects files from cells. The host does not wait for that, but it comes before
        the first cell, which could keep it from being loaded."""
        protected = own_module("guard.protected")
        self._protected_files = protected.ProtectedFiles(self._executor.attribution)
        self._protected_files.protect_from_programs = self._protect_files
        self.environment.add_audit_handler(protected.EVENTS, self._protected_files.check)

    def run(self) -> None:
        """Run jobs until the host closes the connection."""
        self._run_jobs()
        self._save_jobs.wait_at_end()
        self._loop.close()

    def hello(self) -> Frame:
        """Return the first frame for a host."""
        return {"op": "ready", "locks": LOCKS, **describe_process()}

    def _run_jobs(self) -> None:
        """Run jobs one after the other, until there are no more."""
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
                self._save_jobs.save_unattended()
            elif job["op"] == "keep":
                self._save_jobs.save(job, self.responder.answer)
            elif job["op"] == "watch_files":
                self._start_watching(job)
            elif job["op"] == "keep_alone":
                self._save_jobs.save_unattended()
            elif job["op"] == "restore":
                self.responder.answer(job, self._restore)
            else:
                self.responder.answer(job, self._undo)
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
        """Run a cell, and tell the host how it ended.

        Args:
            frame: The host's request.
            refusal: Why it must not run, or None.
        """
        start = time.perf_counter()
        # Stored in no object, so that code that reaches the channel cannot report a cell's end.
        seal = frame.pop("seal", "")
        cell = frame["cell"]
        outcome: Outcome | None = None
        needs = ""
        files: Sequence[Frame] = ()
        try:
            # Cell 0 is the session's own code.
            watch = self._file_watch if cell and not self._executor.depth else None
            if watch is not None:
                watch.begin(cell, self._oldest_undo_cell(cell))
            outcome, needs = self._run_cell(frame, refusal)
            self._disarm_checkpoint()
            if watch is not None:
                files = watch.finish()
            self._send_end(cell, seal, outcome, needs, start, files)
        except BaseException as error:
            self.environment.leave_child(error)
            has_ended = cell not in self._open_cells
            if outcome is None:
                outcome = failed_outcome(format_safely(error))
            # The host ignores an end that it has already.
            self._send_end(cell, seal, outcome, needs, start, files)
            if has_ended and self._executor.depth:
                raise  # it is for the cell around this one, such as an interrupt

    def _run_cell(self, frame: Frame, refusal: str | None) -> tuple[Outcome, str]:
        """Return how the cell ended, and why it needs more than its lock allows, if it does."""
        cell = frame["cell"]
        code = frame["code"]
        lock = frame.get("lock")
        self._save_jobs.is_outdated = True
        if lock is not None and lock not in LOCKS:
            # The host has a later version.
            refusal = f"this kernel does not know how to confine the cell ({lock})"
        if lock not in ("keep", "discard"):
            return self._run_in_kernel(cell, code, refusal, is_guarded=lock == "guard"), ""
        run_locked = own_module("guard.locked").run_locked
        keep = lock == "keep"
        run = partial(
            run_locked, self._executor, self.environment, self.calls, cell, code, keep=keep
        )
        if self._fork_thread is not None:
            run = partial(run, fork_thread=self._fork_thread)
        return self._executor.run_in_fork(cell, code, run, refusal, keep=keep)

    def _run_in_kernel(
        self, cell: int, code: str, refusal: str | None, *, is_guarded: bool
    ) -> Outcome:
        """Run a cell in this process.

        Args:
            cell: The number of the cell.
            code: Its code.
            refusal: Why it must not run, or None.
            is_guarded: Whether it may not change protected files.
        """
        outer_cell = self._executor.attribution.caller_cell()
        if is_guarded:
            self._protected_files.guard(cell)
            self._protect_files()
        elif cell:  # cell 0 is the session's own code
            self._release_files()
        try:
            if not is_guarded:
                return self._executor.run(cell, code, refusal)
            return self._run_watched(cell, code, refusal)
        finally:
            # A nested cell may have had other rights than the one that goes on now.
            if outer_cell is not None:
                if self._protected_files.is_guarded(outer_cell):
                    self._protect_files()
                else:
                    self._release_files()

    def _run_watched(self, cell: int, code: str, refusal: str | None) -> Outcome:
        """Run a cell without approval, and note whether it leaves code running."""
        outcome: Outcome | None = None
        try:
            with self._watch_left_running(cell):
                outcome = self._executor.run(cell, code, refusal)
        except BaseException as error:  # of a signal handler of the cell's, after it
            if outcome is None:
                raise
            self._report_failure(error)
        return outcome

    def _watch_left_running(self, cell: int) -> AbstractContextManager[None]:
        """Note whether a cell without approval leaves code running."""
        if self._left_running is None:
            left_running = own_module("guard.left_running").LeftRunning
            self._left_running = left_running(self._loop, self._executor.attribution)
        watching: AbstractContextManager[None] = self._left_running.watch(cell)
        return watching

    def _last_cell_with_leftovers(self) -> int:
        """Return the last cell without approval that has left code running; 0 if there is none."""
        return 0 if self._left_running is None else int(self._left_running.last_cell)

    def _protect_files(self) -> bool:
        """Let the witness refuse changes of protected files, for the cell that begins or for what one
        has left. Returns whether there is a witness."""
        if self._file_watch is None:
            return False
        self._file_watch.protect(self._save_jobs.folder)
        return self._file_watch.is_on

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
        files: Sequence[Frame],
    ) -> None:
        """Tell the host how a cell has ended.

        Args:
            cell: The number of the cell.
            seal: What the host has given the cell, to prove that this is its end.
            outcome: How it ended.
            needs: Why it needs more than its lock allows; empty if it does not.
            start: When it began, by `time.perf_counter`.
            files: The changes of files.
        """
        self._note_end(cell)
        reply = {
            "cell": cell,
            "duration": time.perf_counter() - start,
            "cwd": working_directory(),
            "needs": needs,
            "files": files,
            **outcome._asdict(),
        }
        self.channel.send({"op": "done", "seal": seal, **reply})

    def _note_end(self, cell: int) -> None:
        """Note that a cell has ended, or a restoring, so that it cannot be interrupted any more."""
        self._open_cells.discard(cell)
        self._interrupts.forget(cell)

    # Called by the control thread, also through the holder

    def on_message(self, frame: Frame) -> None:
        """Hand a frame to whom it concerns: a call that waits, or the main thread."""
        op = frame["op"]
        if op in ("execute", "restore"):
            self._open_cells.add(frame["cell"])
            if self.holder is not None and op == "execute":
                self.holder.backlog.begin(frame)
        elif op == "keep":
            self._save_jobs.load_keeper()
        elif op == "answer" and self.holder is not None:
            self.holder.backlog.on_answer(frame["id"])
        if (op == "answer" or frame.get("nested")) and self.calls.deliver(frame):
            return
        if op != "answer":
            self._queue_job(frame)

    def is_active(self) -> bool:
        """Return whether code may print now."""
        own_threads = 1 if self._fork_thread is None else 2
        return bool(self._open_cells) or self._loop.used or _thread._count() > own_threads

    def is_busy(self) -> bool:
        """Return whether a cell runs, or variables are being saved without a host."""
        return bool(self._open_cells) or self._save_jobs.is_saving_unattended

    def on_host_left(self) -> None:
        """Save variables now, if no cell runs that will do so at its end."""
        if not self._open_cells:
            self._queue_job({"op": "keep_alone"})

    def on_disconnect(self) -> None:
        """End, because no host will come any more."""
        if self._open_cells:
            self.environment.flush()
            os._exit(0)
        self._queue_job(None)

    def interrupt_abandoned_cell(self) -> None:
        """Interrupt the innermost cell that runs."""
        self._interrupter.interrupt_innermost()

    def _queue_job(self, job: Frame | None) -> None:
        """Give the main thread a job; None ends it."""
        self._jobs.put(job)
        self._loop.wake()

    def _on_stored(self, frame: Frame) -> None:
        """Note that the host has stored cells, so that no other host needs them."""
        if self.holder is not None:
            self.holder.backlog.on_stored(frame["stored"], frame["heard"])

    def _on_ending(self, frame: Frame) -> None:
        """Note that the session ends, so that nothing is to be kept."""
        if self.holder is not None:
            self.holder.is_ending = True

    def _on_leaving_on_purpose(self, frame: Frame) -> None:
        """Note that the user has detached the kernel, so that its cell has no time limit."""
        if self.holder is not None:
            self.holder.on_purpose = True

    def _on_remote_host(self, frame: Frame) -> None:
        """Note that the host is on another machine, so that no files are exchanged."""
        Host.is_remote = True

    def _add_functions(self, frame: Frame) -> None:
        """Add the host's functions to `builtins`."""
        self.environment.keep_builtins(toolbox.add_functions(frame["functions"]))

    def _add_servers(self, frame: Frame) -> None:
        """Add the host's MCP servers to `builtins`."""
        servers = toolbox.add_servers(frame["servers"], self._executor.attribution)
        self.environment.keep_builtins(servers)

    def _list_variables(self, frame: Frame) -> object:
        """Describe all variables."""
        return self._executor.tracker.listing()

    def _list_undo_steps(self, frame: Frame) -> object:
        """Describe the cells that can be undone."""
        if self._executor.undo is None:
            return []
        return self._executor.undo.steps()

    def _has_witness(self, frame: Frame) -> object:
        """Return whether files are watched."""
        return self._file_watch is not None and self._file_watch.is_on

    def _lock_unavailable_reason(self, frame: Frame) -> object:
        """Return why cells cannot be confined here."""
        return own_module("guard.read_only").missing()

    def _namespace_version(self) -> int | None:
        """Return the version of the namespace; None while a cell runs, which may change it."""
        if self._executor.depth:
            return None
        return self._executor.tracker.version

    def _reload(self, frame: Frame) -> None:
        """Begin or end to reload changed modules before a cell."""
        Reloading.reloader = None
        if frame["on"]:
            Reloading.reloader = own_module("magic.reloading").Reloader(automatic=True)

    def _set_undo_limits(self, frame: Frame) -> None:
        """Begin an undo history with the host's limits."""
        undo = own_module("undo.history").UndoHistory(
            self._executor.namespace,
            frame["steps"],
            frame["megabytes"],
            scheduled=self._loop.list_scheduled,
            make_rescue=self._save_jobs.make_rescue,
        )
        self._executor.undo = undo
        self.environment.watch(own_module("guard.side_effects").EVENTS, undo.audit)
        self.environment.watch(("exec",), undo.note_code)

    def _start_watching(self, frame: Frame) -> None:
        """Watch files from now on. Only this thread, and what it starts, is watched, so that locked
        forks, which the control thread makes, can have a filter that reports to the kernel."""
        if self._witness is not None:
            watch = own_module("witness.client").FileWatch(self._witness, hide_descriptor)
            self._witness = None
            self._fork_thread = own_module("witness.forking").ForkThread(self._executor.namespace)
            watch.start(frame["settings"])
            self._file_watch = watch
            if watch.is_on and self._executor.undo is not None:
                self._executor.undo.watches_files = True
                self._executor.undo.is_watched = watch.is_watched

    def _undo(self, frame: Frame) -> Frame:
        """Preview, undo or redo cells, as a request says; return the answer to it."""
        if self._executor.undo is None:
            raise LookupError("Undo is off: the setting undo_steps is 0.")
        restoration = dict(own_module("undo.actions").NOTHING_RESTORED)
        # A host of an earlier version takes back both.
        if frame.get("namespace", True):
            try:
                restoration = self._executor.undo.answer(frame["op"], frame["cell"])
            finally:
                self._executor.tracker.changes(None)
            if frame["op"] != "preview_undo":
                self._executor.tracker.number_restored(restoration["changes"])
        if frame.get("files", True):
            file_cell = frame.get("file_cell") or frame["cell"]
            restoration = self._with_files(restoration, frame["op"], file_cell)
        return {"restoration": restoration, "cwd": working_directory()}

    def _with_files(self, restoration: Frame, action: str, cell: int) -> Frame:
        """Preview, undo or redo the changes of files, and return what is restored of both.

        Args:
            restoration: What is restored of the namespace.
            action: "preview_undo", "undo" or "redo".
            cell: The first cell whose changes are meant.
        """
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
        """Set where and how variables are saved."""
        cloudpickle = frame["cloudpickle"] or os.path.join(
            os.path.dirname(os.path.dirname(__file__)), "cloudpickle"
        )
        self.environment.imports.cloudpickle = cloudpickle
        self._save_jobs.prepare({**frame, "cloudpickle": cloudpickle})

    def _restore(self, frame: Frame) -> Frame:
        """Restore the variables in a file, and return the answer to the request."""
        cell = frame["cell"]
        try:
            missing = self._save_jobs.restore(frame["file"], self._interrupts, cell)
        finally:
            self._note_end(cell)
        if self._executor.undo is not None:
            self._executor.undo.invalidate("variables have come back since")
        return {"changes": self._executor.tracker.changes(None), "missing": missing}
