"""The thread that runs the cells of an in-process kernel."""

from __future__ import annotations

import builtins
import ctypes
import threading
import time
from concurrent.futures import Future
from typing import Any

from mahtab_tui.kernel.call_answers import CallAnswers
from mahtab_tui.kernel.host import HostDefinitions, KernelHost, host_definitions
from mahtab_tui.kernel.inprocess_output import CellOutput, InProcessEnvironment
from mahtab_tui.kernel.messages import CallMessage, CellEnd, checked
from mahtab_tui.kernel.requests import ControlRequests
from mahtab_tui.kernel.running_cell import RunningCell
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.worker.cells.awaiting import EventLoop
from mahtab_tui.worker.cells.console import Console
from mahtab_tui.worker.cells.executor import Executor
from mahtab_tui.worker.cells.jobs import JobQueue
from mahtab_tui.worker.cells.outcomes import Outcome, interrupted_outcome
from mahtab_tui.worker.link.frames import Frame
from mahtab_tui.worker.link.host_calls import HostCalls
from mahtab_tui.worker.link.interrupts import Interrupts
from mahtab_tui.worker.link.process_facts import working_directory
from mahtab_tui.worker.link.responder import Responder
from mahtab_tui.worker.tools import toolbox
from mahtab_tui.worker.undo.actions import NOTHING_RESTORED
from mahtab_tui.worker.undo.history import UndoHistory

CANNOT_FORK = "it runs inside the program that opened this session"
"""Why cells cannot be undone, as a clause."""
MAX_UNDO_STEPS = 20
"""At most this many of the last cells can be undone."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds for the thread to end; code in C may block it."""
_EARLIER_VALUES = frozenset(("__", "___"))
"""Names of the last value but one and the one before it, as in IPython."""


class CellRunner:
    """Runs cells over a namespace, one after the other, on the thread that has created it.

    Its public methods are called from other threads.
    """

    @classmethod
    def start(cls, namespace: dict[str, Any], host: KernelHost) -> CellRunner:
        """Start a thread, and wait until it can run cells. Raises what the host raises."""
        ready: Future[CellRunner] = Future()
        start_thread("mahtab-kernel", cls._run_thread, namespace, host, ready)
        return ready.result()

    def __init__(self, namespace: dict[str, Any], host: KernelHost) -> None:
        """Prepare the namespace, and add the host's functions to it."""
        # First, because it may fail, and nothing must be left behind then.
        definitions = host_definitions(host)

        self._namespace = namespace
        self._host = host
        self._thread = threading.current_thread()
        self._lock = threading.Lock()
        self._cells: list[RunningCell] = []
        """The running cells, the innermost last."""
        self._cell_names: set[str] = set()
        """Names that cells have made."""

        self._jobs = JobQueue()
        self._loop = EventLoop()
        self._host_calls = HostCalls(self._on_message, self._execute)
        self._answers = CallAnswers(host, self._host_calls.deliver)
        self._output = CellOutput(self._on_printed)
        environment = InProcessEnvironment(self._output, Console().replacements())
        self._undo_history = UndoHistory(namespace, MAX_UNDO_STEPS, no_fork=CANNOT_FORK)
        self._executor = Executor(namespace, environment, Interrupts(), self._loop)
        self._executor.undo = self._undo_history

        self.requests = ControlRequests(lambda frame: self._responder.handle(frame))
        """Requests about the namespace, which are answered while a cell runs."""
        self._responder = Responder(
            self.requests.on_reply,
            namespace,
            answers={
                "variables": lambda frame: self._executor.tracker.listing(),
                "undo_steps": lambda frame: self._undo_history.steps(),
                "preview_undo": self._undo_cells,
                "undo": self._undo_cells,
                "redo": self._undo_cells,
            },
            handlers={},
        )

        builtins_before = dict(builtins.__dict__)
        self._add_functions(definitions)
        self._added_builtins = {
            name: value for name, value in builtins.__dict__.items() if name not in builtins_before
        }
        """Functions that this kernel has added to `builtins`."""
        self._added_values = _EARLIER_VALUES.difference(builtins_before)
        """Names of earlier values that cells add to `builtins`."""
        self._forget_changes()

    def run(self, code: str, running: RunningCell, nested: bool) -> CellResult:
        """Run a cell, and wait for its end.

        Args:
            nested: Whether it runs while another cell, which has called the host, waits.
        """
        frame = {"op": "execute", "code": code, "running": running}
        if not nested or not self._host_calls.deliver(frame):
            self._jobs.put(frame)
            self._loop.wake()
        return wait_for_result(running.result)

    def interrupt(self, cell: int | None = None) -> bool:
        """Interrupt the innermost cell; see `Kernel.interrupt`."""
        with self._lock:
            if not self._cells:
                return False
            if cell is not None and all(cell != running.cell for running in self._cells):
                return False
            self._host_calls.interrupt(len(self._cells), self._interrupt_code)
            return True

    def delete_cell_names(self) -> None:
        """Delete the names that cells have made. Call it while no cell runs."""
        for name in self._cell_names:
            self._namespace.pop(name, None)
        self._forget_changes()
        self._undo_history.end()
        self._cell_names.clear()

    def close(self) -> None:
        """Interrupt the running cell, end the thread, and take back what was added to `builtins`."""
        self.interrupt()
        self._jobs.put(None)
        self._loop.wake()
        self._thread.join(CLOSE_TIMEOUT_S)
        # Another session in this process may have replaced a function by its own.
        for name, value in self._added_builtins.items():
            if builtins.__dict__.get(name) is value:
                del builtins.__dict__[name]
        for name in self._added_values:
            builtins.__dict__.pop(name, None)

    def _interrupt_code(self) -> None:
        """Interrupt the code of the innermost cell, which does not wait for the host."""
        if not self._loop.cancel():
            self._raise_in_thread(ctypes.py_object(KeyboardInterrupt))

    def _undo_cells(self, frame: Frame) -> Frame:
        """Undo or redo cells, or preview that, as a request says; return the answer to it."""
        restoration = dict(NOTHING_RESTORED)
        if frame["namespace"]:
            try:
                restoration = self._undo_history.answer(frame["op"], frame["cell"])
            finally:
                self._forget_changes()
        return {"restoration": restoration, "cwd": ""}

    def _forget_changes(self) -> None:
        """Let the next cell report only its own changes, and not those that were made until now."""
        self._executor.tracker.changes(None)

    # On the thread that runs the cells

    @classmethod
    def _run_thread(
        cls, namespace: dict[str, Any], host: KernelHost, ready: Future[CellRunner]
    ) -> None:
        """Create a runner, and run cells until it is closed."""
        try:
            runner = cls(namespace, host)
        except BaseException as error:  # the thread's outermost frame; `start` raises it
            ready.set_exception(error)
            return
        ready.set_result(runner)
        runner._run_jobs()

    def _add_functions(self, definitions: HostDefinitions) -> None:
        """Add the toolbox, and the host's functions and servers, to `builtins`."""
        toolbox.install(self._host_calls.call)
        toolbox.add_functions(definitions.functions)
        if definitions.servers:
            toolbox.add_servers(definitions.servers, self._executor.attribution)

    def _run_jobs(self) -> None:
        """Run cells until the runner is closed."""
        while True:
            try:
                job = self._loop.wait(self._jobs)
                if job is None:
                    break
                self._jobs.finish()
                self._execute(job, None)
            except KeyboardInterrupt:
                # It arrived between two cells.
                continue
        self._loop.close()
        self._output.end()

    def _execute(self, frame: Frame, refusal: str | None) -> None:
        """Run the cell of a job, or refuse it with a sentence."""
        running: RunningCell = frame["running"]
        start = time.perf_counter()
        outcome: Outcome | None = None
        try:
            with self._lock:
                self._cells.append(running)
            outcome = self._executor.run(running.cell, frame["code"], refusal)
            self._finish(running, outcome, start)
        except KeyboardInterrupt:
            # It arrived just before the code began, or after it had ended. What the code changed may
            # be reported with the next cell.
            pass
        finally:
            # An interrupt may have ended `_finish` above, and another one may end it here. Once the
            # result is set, it only takes back an interrupt that came too late.
            try:
                self._finish(running, outcome, start)
            finally:
                self._finish(running, outcome, start)

    def _finish(self, running: RunningCell, outcome: Outcome | None, start: float) -> None:
        """Set the result of a cell, unless it is set.

        Args:
            running: The cell.
            outcome: How it ended; None if it was interrupted outside its code.
            start: When it began, by `time.perf_counter`.
        """
        if outcome is None:
            outcome = interrupted_outcome(changes=[])
        with self._lock:
            if running in self._cells:
                self._cells.remove(running)
            self._raise_in_thread(None)
        if running.result.done():
            return
        for change in outcome.changes:
            if change["change"] == "added":
                self._cell_names.add(change["name"])
            elif change["change"] == "deleted":
                self._cell_names.discard(change["name"])

        cell_end = {
            **outcome._asdict(),
            "cell": running.cell,
            "duration": time.perf_counter() - start,
            "cwd": working_directory(),
        }
        running.done(checked(CellEnd, cell_end))

    def _raise_in_thread(self, error: ctypes.py_object[Any] | None) -> None:
        """Raise an exception in this thread; None takes back one that is not raised yet."""
        thread_id = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, error)

    # Output and calls of the cells

    def _on_printed(self, text: str) -> None:
        if self._cells:
            self._cells[-1].add_output(text)
        else:
            self._host.background_output(text)

    def _on_message(self, frame: Frame) -> None:
        """Handle a message of the worker's code to its host."""
        if frame["op"] == "call" and frame["name"] == "display":
            self._on_display(frame["args"])
            self._host_calls.deliver({"op": "answer", "id": frame["id"], "value": None})
        elif frame["op"] == "call":
            self._answers.begin(checked(CallMessage, frame))
        else:
            self._answers.cancel(frame["id"])

    def _on_display(self, display: Frame) -> None:
        self._output.drain()
        if self._cells:
            self._cells[-1].add_display(display)
        else:
            self._host.background_output(display["text"])
