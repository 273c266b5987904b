"""The kernel process: a main thread that runs cells, and a control thread that communicates with
the host."""

from __future__ import annotations

import _thread
import builtins
import ctypes
import fcntl
import gc
import json
import os
import queue
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import magics, toolbox
from .awaiting import EventLoop, UnawaitedCoroutines
from .control import (
    Channel,
    Control,
    Host,
    HostCalls,
    Interrupts,
    Responder,
    python_version,
    working_directory,
)
from .environment import CellEnvironment, Console
from .executor import Executor
from .frames import TOKEN_SIZE, Frame
from .stdlib import bind_library, late_import

if TYPE_CHECKING:
    from .holder import HolderClient

_PR_SET_PDEATHSIG = 1
_NO_UNDO = "Undo is off: the setting undo_steps is 0."

HOST_SIGNAL_DELAY = 0.75
HANDLER_GRACE = 0.05
"""Seconds after which the host may have sent the signal itself, and seconds that the main thread's
handler then gets to start."""

SAVE_TIMEOUT = 4.0
"""Seconds that a kernel without a host, which must end, gives to the process that saves its
namespace."""

REPEAT_SIGNAL_AFTER = 1.0
"""Seconds after which an unresponsive cell is signalled once more."""


class Worker:
    """Assembles the parts of a kernel process."""

    def __init__(self, fd: int, token: bytes, holder: HolderClient | None = None) -> None:
        """holder: the holder with which the kernel may outlive its host; None for none."""
        main = ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        self._jobs: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._open: set[int] = set()
        """Cells that run or wait; the control thread knows of one before the main thread does."""
        self._keeper: Any = None
        self._save_settings: tuple[Frame, dict[str, Any]] = {}, {}
        self._loop = EventLoop()
        self._interrupts = Interrupts()
        self._interrupts.cancel_await = self._loop.cancel
        self._interrupts.idle_task_in_the_way = lambda: self._loop.idle and not self._jobs.empty()
        self._channel = Channel(fd, self._interrupts, token=token, holder=holder)
        self._backlog = None if holder is None else holder.backlog
        self._unsaved = False
        """Whether a cell has run since the variables were last saved."""
        self._saving: Any = None
        """The process that saves the namespace while there is no host."""
        self._saver: threading.Thread | None = None
        self._calls = HostCalls(self._channel.send, self._execute)
        self._channel.auto_reply = self._auto_reply
        self._detach_controller: Any = None
        if holder is not None:
            controller = late_import(f"{__package__}.holder").DetachController
            self._detach_controller = controller(
                holder,
                self._channel,
                self._hello,
                lambda: bool(self._open) or self._saving is not None,
                self._auto_reply,
                self._on_host_left,
                self._stop_cells,
            )
        self._console = Console(self._calls.call)
        for replacement in self._console.replacements():
            setattr(*replacement)
        toolbox.install(self._calls.call)
        self._environment = CellEnvironment(main, self._interrupts, self._loop.make_current)
        self._executor = Executor(main.__dict__, self._environment, self._interrupts, self._loop)
        self._executor.never_awaited = UnawaitedCoroutines()
        self._executor.never_awaited.install()
        self._responder = Responder(
            self._channel.send,
            main.__dict__,
            {
                "variables": lambda frame: self._executor.tracker.listing(),
                "interrupt_cell": self._interrupt,
                "cannot_lock": lambda frame: late_import(
                    f"{__package__}.sandbox.read_only"
                ).missing(),
                "undo_steps": lambda frame: (
                    [] if self._executor.undo is None else self._executor.undo.steps()
                ),
                "saved_namespace": lambda frame: self._get_keeper().index(),
            },
            {
                **dict.fromkeys(
                    "execute answer preview_undo undo redo keep restore".split(), self._on_message
                ),
                "reload": self._reload,
                "undo_limits": self._set_undo_limits,
                "keep_in": self._prepare_saving,
                "elsewhere": self._set_remote_host,
                "functions": lambda frame: self._environment.keep_builtins(
                    toolbox.add_functions(frame["functions"])
                ),
                "servers": self._add_servers,
                "stored": self._stored,
                "end": self._end,
                "stay": self._detach,
            },
        )
        self._control = Control(
            self._channel,
            self._responder.handle,
            active=lambda: bool(self._open) or self._loop.used,
            flush=self._environment.flush,
            repair=self._environment.repair_builtins,
            ended=self._on_disconnect,
            detach_controller=self._detach_controller,
        )

    def run(self) -> None:
        """Serve until the host ends the connection."""
        hello = self._hello()
        if self._backlog is not None:
            self._backlog.state.set_hello(hello)
        threading.Thread(target=self._control.run, daemon=True).start()
        self._channel.send(hello)
        while True:
            job = self._loop.wait(self._jobs)
            if job is None:
                break
            if job["op"] == "execute":
                self._execute(job, None)
                if self._executor.undo is not None:
                    self._executor.undo.enforce_memory_limit()
                if self._channel.detached:
                    self._save_unattended()
            elif job["op"] == "keep":
                self._save(job)
            elif job["op"] == "keep_alone":
                self._save_unattended()
            else:
                work = self._restore if job["op"] == "restore" else self._undo
                self._responder.answer(job, work)
        if self._saver is not None:
            self._saver.join(SAVE_TIMEOUT)
        self._loop.close()

    def _hello(self) -> Frame:
        return {
            "op": "ready",
            "python": python_version(),
            "executable": sys.executable,
            "cwd": working_directory(),
            "pid": os.getpid(),
        }

    def _execute(self, frame: Frame, refusal: str | None) -> None:
        start = time.perf_counter()
        # Stored in no object, so that code that reaches the channel cannot report a cell's end.
        seal = frame.pop("seal", "")
        cell, code, limit, needs = frame["cell"], frame["code"], frame["limit"], ""
        self._unsaved = True
        if lock := frame.get("lock"):
            run_locked = late_import(f"{__package__}.locked").run_locked
            parts = self._executor, self._environment, self._calls
            run = partial(run_locked, *parts, cell, code, limit)
            outcome, needs = self._executor.run_in_fork(
                cell, code, run, refusal, keep=lock == "keep"
            )
        else:
            outcome = self._executor.run(cell, code, limit, refusal)
        self._open.discard(cell)
        reply = {
            "cell": cell,
            "duration": time.perf_counter() - start,
            "cwd": working_directory(),
            "needs": needs,
            **outcome._asdict(),
        }
        self._channel.send({"op": "done", "seal": seal, **reply})

    def _on_message(self, frame: Frame) -> None:
        if frame["op"] in ("execute", "restore"):
            self._open.add(frame["cell"])
            if self._backlog is not None and frame["op"] == "execute":
                self._stored(frame)
                self._backlog.begin(frame)
        elif frame["op"] == "keep":
            self._get_keeper()
        elif frame["op"] == "answer" and self._backlog is not None:
            self._backlog.on_answer(frame["id"])
        if (frame["op"] == "answer" or frame.get("nested")) and self._calls.deliver(frame):
            return
        if frame["op"] != "answer":
            self._jobs.put(frame)
            self._loop.wake()

    def _interrupt(self, frame: Frame) -> None:
        cell, asked = frame["cell"], frame["asked"]
        if asked is None:  # from a host on another machine, whose clock is different
            asked = self._interrupts.now()
        elif self._interrupts.now() - asked > HOST_SIGNAL_DELAY:
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
        """Signal again, because a child process that had not started at the first signal did not
        get it, and the cell waits for the child."""
        if cell in self._open and self._interrupts.handled_at < asked and self._executor.depth > 0:
            os.killpg(0, signal.SIGINT)

    def _reload(self, frame: Frame) -> None:
        magics.Reloading.reloader = (
            late_import(f"{__package__}.magic_commands").Reloader() if frame["on"] else None
        )

    def _set_undo_limits(self, frame: Frame) -> None:
        """Set how much can be undone: steps and megabytes."""
        history = late_import(f"{__package__}.undo.history").UndoHistory
        undo = history(self._executor.namespace, frame["steps"], frame["megabytes"])
        self._executor.undo = undo
        self._environment.watch(late_import(f"{__package__}.side_effects").EVENTS, undo.audit)

    def _undo(self, frame: Frame) -> Frame:
        """Undo, redo or preview, between two cells."""
        if self._executor.undo is None:
            raise LookupError(_NO_UNDO)
        try:
            restoration = self._executor.undo.answer(frame["op"], frame["cell"])
        finally:
            self._executor.tracker.changes(None)
        return {"restoration": restoration, "cwd": working_directory()}

    def _prepare_saving(self, frame: Frame) -> None:
        """Prepare saving the namespace. The code for this is loaded on demand, not at the start."""
        folder = os.path.expanduser(frame["folder"])
        if folder != frame["folder"]:  # the host does not know the home folder here
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        cloudpickle = frame["cloudpickle"] or os.path.join(
            os.path.dirname(os.path.dirname(__file__)), "cloudpickle"
        )
        self._environment.cloudpickle = cloudpickle
        self._save_settings = (
            {**frame, "folder": folder, "cloudpickle": cloudpickle},
            dict(self._executor.namespace),
        )

    def _get_keeper(self) -> Any:
        """Return the namespace's keeper, created on the control thread when a host asks for it, so
        that no cell waits for it."""
        if self._keeper is None:
            self._keeper = late_import(f"{__package__}.saving.keeper").Keeper(
                self._executor.namespace, *self._save_settings, self._console.hidden_lines
            )
        return self._keeper

    def _save(self, frame: Frame) -> None:
        """Fork the process that saves the namespace; the reply is sent once that has ended."""
        self._unsaved = False
        if self._backlog is not None:
            self._backlog.saved = {"carried": frame["carried"], "lost": frame["lost"]}
        if self._saving is not None:  # it would save an older state
            self._saving.end()
        try:
            writer = self._keeper.start_writing(frame)
        except OSError as error:
            why = f"the kernel cannot be forked ({error.strerror})"
            self._responder.answer(frame, lambda frame: {"error": why})
            return
        finish = late_import(f"{__package__}.saving.keeper").finish
        threading.Thread(
            target=self._responder.answer, args=(frame, lambda frame: finish(writer)), daemon=True
        ).start()

    def _save_unattended(self) -> None:
        """Save the namespace without a host to ask for it. The kernel does not end before that."""
        if (
            self._backlog is None
            or not self._channel.detached
            or not self._unsaved
            or not self._save_settings[0]
        ):
            return
        self._unsaved = False
        saved, keeper = self._backlog.saved, self._get_keeper()
        carried = (
            [file["name"] for file in keeper.index()["files"]]
            if saved["carried"] is None
            else saved["carried"]
        )
        with suppress(OSError):
            self._saving = writer = keeper.start_writing(
                {"carried": carried, "lost": saved["lost"]}
            )

            def finish() -> None:
                late_import(f"{__package__}.saving.keeper").finish(writer)
                if self._saving is writer:
                    self._saving = None

            # A host may attach meanwhile, and its cells do not wait: on a busy machine the
            # low-priority writer takes long.
            self._saver = threading.Thread(target=finish, daemon=True)
            self._saver.start()

    def _auto_reply(self, number: int) -> None:
        """Answer a call that needs no host, in place of the host."""
        if self._backlog is not None and number in self._backlog.auto_answered_calls():
            self._on_message({"op": "answer", "id": number, "value": None})

    def _on_host_left(self) -> None:
        if not self._open:
            self._jobs.put({"op": "keep_alone"})
            self._loop.wake()

    def _stored(self, frame: Frame) -> None:
        """Note that the host has stored cells, or the output outside cells up to an offset."""
        if self._backlog is not None and "stored" in frame:
            self._backlog.on_stored(frame["stored"], frame["heard"])

    def _end(self, frame: Frame) -> None:
        """End, because the host wants the kernel to end with it."""
        if self._detach_controller is not None:
            self._detach_controller.asked_to_end = True

    def _detach(self, frame: Frame) -> None:
        """Detach, because the user wants the kernel to continue without a screen."""
        if self._detach_controller is not None:
            self._detach_controller.on_purpose = True

    def _stop_cells(self) -> None:
        """Interrupt running cells, because no screen has attached again."""
        for cell in sorted(self._open)[-1:]:
            self._interrupt({"cell": cell, "asked": None})

    def _restore(self, frame: Frame) -> Frame:
        """Restore saved variables, between two cells."""
        loading = self._keeper.loading(frame["file"])
        with suppress(KeyboardInterrupt), self._interrupts.allowed(frame["cell"]):
            loading.run()
        if self._executor.undo is not None:
            self._executor.undo.invalidate("variables have come back since")
        self._open.discard(frame["cell"])
        return {"changes": self._executor.tracker.changes(None), "missing": loading.missing()}

    def _set_remote_host(self, frame: Frame) -> None:
        Host.is_remote = True

    def _add_servers(self, frame: Frame) -> None:
        self._executor.attribution = origins = late_import(
            f"{__package__}.executor"
        ).CellAttribution()
        self._environment.keep_builtins(toolbox.add_servers(frame["servers"], origins))

    def _on_disconnect(self) -> None:
        if self._open:
            self._environment.flush()
            os._exit(0)
        self._jobs.put(None)
        self._loop.wake()


def main(fd: int, holder: str = "") -> None:
    """Run the kernel over the socket `fd`. The imports from the standard library are already done.

    holder: `HolderSettings` or `StationSettings`, as JSON; empty for none.
    """
    token = os.read(fd, TOKEN_SIZE)
    fd = _move_descriptor(fd)
    client: HolderClient | None = None
    if holder:
        holder_module, settings = late_import(f"{__package__}.holder"), json.loads(holder)
        if "control" in settings:
            _die_with_parent()
            client = holder_module.join_station(
                holder_module.StationSettings(**settings), _move_descriptor
            )
        else:
            client = holder_module.begin_holder(
                holder_module.HolderSettings(**settings), _move_descriptor
            )
    if client is None:
        _die_with_parent()
    worker = Worker(fd, token, client)
    bind_library()
    sys.argv = [""]
    # Hides these objects from the collector, and keeps their pages shared when the user forks.
    gc.freeze()
    gc.enable()
    worker.run()


def _move_descriptor(fd: int) -> int:
    """Move the socket to a descriptor that child processes do not inherit, and that a cell does not
    hit by writing to small numbers."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1000 if soft == resource.RLIM_INFINITY else min(soft, 1000)
    lowest = 40 + int.from_bytes(os.urandom(2), "big") % max(1, most - 80)
    hidden = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
    os.close(fd)
    return hidden


def _die_with_parent() -> None:
    """Let Linux kill this process when the host or station ends, even while C code runs. (What
    counts is the *thread* that started it.)"""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
