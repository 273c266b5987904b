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
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import magics, protected, toolbox
from .awaiting import EventLoop, warn_about_unawaited_coroutines
from .control import (
    Channel,
    Host,
    HostCalls,
    Interrupts,
    Responder,
    describe_process,
    working_directory,
)
from .descriptors import duplicate_high, is_readable
from .environment import CellEnvironment, Console
from .executor import Executor, Outcome, failed_outcome
from .frames import CONNECTION_LOST, TOKEN_SIZE, Frame, FrameError, FrameReader
from .jobs import JobQueue
from .stdlib import bind_library, own_module
from .tracebacks import format_safely

if TYPE_CHECKING:
    from .holder import HolderClient

_PR_SET_PDEATHSIG = 1

FLUSH_EVERY = 50

HOST_SIGNAL_DELAY = 0.75
HANDLER_GRACE = 0.05

SAVE_TIMEOUT = 4.0

REPEAT_SIGNAL_AFTER = 1.0

_JOBS = "execute answer preview_undo undo redo keep restore".split()


class Worker:
    def __init__(self, fd: int, token: bytes, holder: HolderClient | None = None) -> None:
        main = ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        self._jobs = JobQueue()
        self._open: set[int] = set()
        self._keeper: Any = None
        self._save_settings: tuple[Frame, dict[str, Any]] = {}, {}
        self._unsaved = False
        self._saving: Any = None
        self._saver: threading.Thread | None = None
        self._loop = EventLoop()
        self._interrupts = Interrupts()
        self._interrupts.cancel_await = self._loop.cancel
        self._interrupts.idle_task_in_the_way = lambda: self._loop.idle and not self._jobs.empty()
        self.holder = holder
        if holder is not None:
            holder.worker = self
        self.channel = Channel(fd, self._interrupts, token=token, holder=holder)
        self._calls = HostCalls(self.channel.send, self._execute)
        warn_about_unawaited_coroutines()
        self._console = Console()
        for replacement in self._console.replacements():
            setattr(*replacement)
        toolbox.install(self._calls.call)
        self.environment = CellEnvironment(main, self._interrupts, self._loop.make_current)
        self._executor = Executor(main.__dict__, self.environment, self._interrupts, self._loop)
        self._protected_files = protected.ProtectedFiles(self._executor.attribution)
        self.environment.add_audit_handler(protected.EVENTS, self._protected_files.check)
        self.responder = Responder(
            self.channel.send,
            main.__dict__,
            {
                "variables": lambda frame: self._executor.tracker.listing(),
                "interrupt_cell": self._interrupt,
                "cannot_lock": lambda frame: own_module("sandbox.read_only").missing(),
                "undo_steps": lambda frame: (
                    [] if self._executor.undo is None else self._executor.undo.steps()
                ),
                "saved_namespace": lambda frame: self._get_keeper().index(),
            },
            {
                **dict.fromkeys(_JOBS, self.on_message),
                **dict.fromkeys(("stored", "end", "stay"), self._on_detach_message),
                "reload": self._reload,
                "undo_limits": self._set_undo_limits,
                "keep_in": self._prepare_saving,
                "elsewhere": lambda frame: setattr(Host, "is_remote", True),
                "functions": lambda frame: self.environment.keep_builtins(
                    toolbox.add_functions(frame["functions"])
                ),
                "servers": lambda frame: self.environment.keep_builtins(
                    toolbox.add_servers(frame["servers"], self._executor.attribution)
                ),
            },
            lambda: None if self._executor.depth else self._executor.tracker.version,
        )

    def run(self) -> None:
        hello = self.hello()
        if self.holder is not None:
            self.holder.backlog.state.set_hello(hello)
        threading.Thread(target=ControlThread(self).run, daemon=True).start()
        self.channel.send(hello)
        self._run_jobs()
        if self._saver is not None:
            self._saver.join(SAVE_TIMEOUT)
        self._loop.close()

    def hello(self) -> Frame:
        return {"op": "ready", **describe_process()}

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
            elif job["op"] == "keep_alone":
                self._save_unattended()
            else:
                work = self._restore if job["op"] == "restore" else self._undo
                self.responder.answer(job, work)
        except BaseException as error:
            self.environment.leave_child(error)
            if "id" in job:
                self.responder.fail(job, error)  # the host ignores a second answer
            else:
                self._report_failure(error)

    def _report_failure(self, error: BaseException) -> None:
        with suppress(BaseException):  # the stream may be one of the user's
            sys.stderr.write(format_safely(error))

    def _execute(self, frame: Frame, refusal: str | None) -> None:
        start = time.perf_counter()
        # Stored in no object, so that code that reaches the channel cannot report a cell's end.
        seal = frame.pop("seal", "")
        cell = frame["cell"]
        outcome: Outcome | None = None
        needs = ""
        try:
            outcome, needs = self._run_cell(frame, refusal)
            self._send_end(cell, seal, outcome, needs, start)
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
        if lock == "guard":
            self._protected_files.guard(cell)
        if lock not in ("keep", "discard"):
            return self._executor.run(cell, code, refusal), ""
        run_locked = own_module("locked").run_locked
        run = partial(run_locked, self._executor, self.environment, self._calls, cell, code)
        return self._executor.run_in_fork(cell, code, run, refusal, keep=lock == "keep")

    def _send_end(self, cell: int, seal: str, outcome: Outcome, needs: str, start: float) -> None:
        self._open.discard(cell)
        reply = {
            "cell": cell,
            "duration": time.perf_counter() - start,
            "cwd": working_directory(),
            "needs": needs,
            **outcome._asdict(),
        }
        self.channel.send({"op": "done", "seal": seal, **reply})

    # Called by the control thread, also through the holder

    def on_message(self, frame: Frame) -> None:
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
        return bool(self._open) or self._loop.used or _thread._count() > 1

    def is_busy(self) -> bool:
        return bool(self._open) or self._saving is not None

    def on_host_left(self) -> None:
        if not self._open:
            self._queue_job({"op": "keep_alone"})

    def on_disconnect(self) -> None:
        if self._open:
            self.environment.flush()
            os._exit(0)
        self._queue_job(None)

    def interrupt_abandoned_cell(self) -> None:
        for cell in sorted(self._open)[-1:]:
            self._interrupt({"cell": cell, "asked": None})

    def _queue_job(self, job: Frame | None) -> None:
        self._jobs.put(job)
        self._loop.wake()

    def _on_detach_message(self, frame: Frame) -> None:
        if self.holder is None:
            return
        if frame["op"] == "stored":
            self.holder.backlog.on_stored(frame["stored"], frame["heard"])
        elif frame["op"] == "end":
            self.holder.is_ending = True
        elif frame["op"] == "stay":
            self.holder.on_purpose = True

    def _interrupt(self, frame: Frame) -> None:
        cell, asked = frame["cell"], frame["asked"]
        if asked is None:  # from a host on another machine, whose clock is different
            asked = time.monotonic()
        elif time.monotonic() - asked > HOST_SIGNAL_DELAY:
            time.sleep(HANDLER_GRACE)
        if cell in self._open and self._interrupts.handled_at < asked:
            # Sent to the whole process group, like Ctrl+C in a terminal, so that child processes
            # that a cell waits for end too.
            self._interrupts.requested = cell
            os.killpg(0, signal.SIGINT)
            # `os.system` makes the process ignore the signal while it waits; this flag cannot be
            # ignored.
            _thread.interrupt_main()
            again = threading.Timer(REPEAT_SIGNAL_AFTER, self._repeat_interrupt, (cell, asked))
            again.daemon = True
            again.start()

    def _repeat_interrupt(self, cell: int, asked: float) -> None:
        if cell in self._open and self._interrupts.handled_at < asked and self._executor.depth > 0:
            os.killpg(0, signal.SIGINT)

    def _reload(self, frame: Frame) -> None:
        magics.Reloading.reloader = own_module("magic_commands").Reloader() if frame["on"] else None

    def _set_undo_limits(self, frame: Frame) -> None:
        history = own_module("undo.history").UndoHistory
        undo = history(
            self._executor.namespace,
            frame["steps"],
            frame["megabytes"],
            scheduled=self._loop.list_scheduled,
        )
        self._executor.undo = undo
        self.environment.watch(own_module("side_effects").EVENTS, undo.audit)

    def _undo(self, frame: Frame) -> Frame:
        if self._executor.undo is None:
            raise LookupError("Undo is off: the setting undo_steps is 0.")
        try:
            restoration = self._executor.undo.answer(frame["op"], frame["cell"])
        finally:
            self._executor.tracker.changes(None)
        return {"restoration": restoration, "cwd": working_directory()}

    def _prepare_saving(self, frame: Frame) -> None:
        folder = os.path.expanduser(frame["folder"])
        if folder != frame["folder"]:  # the host does not know the home folder here
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        cloudpickle = frame["cloudpickle"] or os.path.join(
            os.path.dirname(os.path.dirname(__file__)), "cloudpickle"
        )
        self.environment.cloudpickle = cloudpickle
        self._save_settings = (
            {**frame, "folder": folder, "cloudpickle": cloudpickle},
            dict(self._executor.namespace),
        )

    def _get_keeper(self) -> Any:
        if self._keeper is None:
            self._keeper = own_module("saving.keeper").Keeper(
                self._executor.namespace, *self._save_settings, self._console.hidden_lines
            )
        return self._keeper

    def _save(self, frame: Frame) -> None:
        self._unsaved = False
        if self.holder is not None:
            self.holder.backlog.saved = {"carried": frame["carried"], "lost": frame["lost"]}
        if self._saving is not None:
            self._saving.end()
        try:
            writer = self._keeper.start_writing(frame)
        except OSError as error:
            why = f"the kernel cannot be forked ({error.strerror})"
            self.responder.answer(frame, lambda frame: {"error": why})
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
        saved, keeper = self.holder.backlog.saved, self._get_keeper()
        carried = saved["carried"]
        if carried is None:
            carried = [file["name"] for file in keeper.index()["files"]]
        with suppress(OSError):
            writer = keeper.start_writing({"carried": carried, "lost": saved["lost"]})
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
        if self._executor.undo is not None:
            self._executor.undo.invalidate("variables have come back since")
        self._open.discard(frame["cell"])
        return {"changes": self._executor.tracker.changes(None), "missing": loading.missing()}


class ControlThread:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._channel = worker.channel
        self._holder = worker.holder
        self._reader = FrameReader()
        self._host_gone = False

    def run(self) -> None:
        # The signal is for the main thread, because only there does it end a `sleep`.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        was_busy = False
        while True:
            try:
                busy = self._worker.is_active()
                # Once more, because a thread may have printed just before its end.
                active, was_busy = busy or was_busy, busy
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
        poll = select.poll()
        timeout = FLUSH_EVERY if active else None
        if not self._host_gone:
            poll.register(self._channel.fd, select.POLLIN)
        if self._holder is not None:
            if self._holder.fd >= 0:
                poll.register(self._holder.fd, select.POLLIN)
            timeout = timeout or (1000 if self._channel.detached else None)
        return [fd for fd, _ in poll.poll(timeout)]

    def _serve(self, ready: list[int]) -> bool:
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
            self._reader, self._host_gone = FrameReader(), self._channel.detached
        return not self._holder.has_expired()

    def _read(self) -> bool:
        data = os.read(self._channel.fd, 65536)
        for frame in self._reader.feed(data):
            self._worker.responder.handle(frame)
        self._host_gone = not data
        return bool(data) or (self._holder is not None and self._holder.on_host_closed())


def main(fd: int, holder: str = "") -> None:
    _restore_default_signals()
    token = os.read(fd, TOKEN_SIZE)
    fd = _move_descriptor(fd)
    settings = json.loads(holder) if holder else {}
    client = own_module("holder").connect(settings, _move_descriptor) if holder else None
    if client is None or "control" in settings:
        _die_with_parent()
    worker = Worker(fd, token, client)
    bind_library()
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
    descriptor_count = 1000 if soft == resource.RLIM_INFINITY else min(soft, 1000)
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
