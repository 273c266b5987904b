"""Runs a kernel's process, and starts another one when it dies or is replaced."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field

from mahtab_tui.kernel.base import (
    KernelError,
    KernelHost,
    KernelInfo,
    KernelState,
    NullHost,
    OnDisplay,
    OnOutput,
)
from mahtab_tui.kernel.cells import Chunks, RunningCell, RunningCells
from mahtab_tui.kernel.launch import ConnectionState, Launcher
from mahtab_tui.kernel.requests import CellEnd, HostCall, checked
from mahtab_tui.kernel.values import Display, OutputKind, SaveTarget, Status
from mahtab_tui.kernel.worker_process import CLAIMED, SeekableOutput, WorkerProcess
from mahtab_tui.system.processes import existing_folder, moved_message

if TYPE_CHECKING:
    from mahtab_tui.kernel.worker_process import WorkerProcess


@dataclass(frozen=True, slots=True)
class SavedBefore:
    """The previous host's report on the saved variables."""

    carried: tuple[str, ...] | None
    """None if it reported nothing."""
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventBacklog:
    """Events in order, to replay on attach. `at` is the offset of the output up to an event.

    The aliases are used by waiting kernels of earlier versions.
    """

    acknowledged: Annotated[int, Field(validation_alias=AliasChoices("acknowledged", "told"))]
    """The offset up to which the output outside cells is stored."""
    events: tuple[dict[str, Any], ...]
    """Each is the start of a cell, a display, or the end of a cell."""
    calls: tuple[HostCall, ...]
    """Calls that wait for an answer."""
    saved: Annotated[SavedBefore, Field(validation_alias=AliasChoices("saved", "kept"))]


class BufferedListener:
    """Buffers a cell's output until there is a listener, and then passes it on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[OnOutput, OnDisplay], None]] = []
        self._listener: tuple[OnOutput, OnDisplay] | None = None

    def output(self, kind: OutputKind, text: str) -> None:
        self._pass_on(lambda on_output, _: on_output(kind, text))

    def display(self, display: Display) -> None:
        self._pass_on(lambda _, on_display: on_display(display))

    def listen(self, on_output: OnOutput, on_display: OnDisplay) -> None:
        """Pass on the buffered output, and all later output."""
        with self._lock:
            self._listener = on_output, on_display
            waiting, self._waiting = self._waiting, []
            for send in waiting:
                send(on_output, on_display)

    def _pass_on(self, send: Callable[[OnOutput, OnDisplay], None]) -> None:
        with self._lock:
            if self._listener is None:
                self._waiting.append(send)
            else:
                send(*self._listener)


BacklogCells = dict[int, tuple[RunningCell, BufferedListener]]
"""The cells of a backlog, by number."""


def backlog_cells(story: EventBacklog) -> BacklogCells:
    cells: BacklogCells = {}
    for event in story.events:
        if "begin" in event:
            late = BufferedListener()
            cells[event["begin"]] = (
                RunningCell(event["begin"], late.output, event["limit"], late.display),
                late,
            )
    return cells


def replay(
    story: EventBacklog,
    output: SeekableOutput,
    cells: BacklogCells,
    running: RunningCells,
    chunks: Chunks,
    shown: Callable[[dict[str, Any]], None],
    done: Callable[[CellEnd], None],
) -> None:
    """Replay a backlog, with the output of that time. May raise any exception if the backlog is
    malformed.

    cells: the cells of the backlog. shown, done: called for displays and ends.
    """
    output.go_to(story.events[0]["at"] if story.events else story.acknowledged)
    depth = 0

    def feed(data: Iterable[bytes]) -> None:
        for piece in data:
            chunks.feed(piece)

    for event in story.events:
        if not depth:
            output.go_to(min(story.acknowledged, event["at"]))
        feed(output.until(event["at"]))
        if "begin" in event:
            chunks.flush()
            running.add_replayed(cells[event["begin"]][0])
            depth += 1
        elif "shown" in event:
            chunks.flush()
            shown(event["shown"])
        else:
            chunks.end()
            done(checked(CellEnd, event["done"]))
            depth -= 1
    if not depth:
        output.go_to(story.acknowledged)
    feed(output.available())


ATTEMPTS = 3
"""Failed starts in a row after which a dead kernel stays dead."""

STARTUP_OUTPUT = 4_000
"""Characters of the startup code's output to report if it fails."""

CLOSED = "The session was closed."


class KernelSupervisor:
    """Starts a kernel's processes, one after the other, and reports their states to the host."""

    def __init__(
        self,
        launcher: Launcher,
        cwd: str | None,
        color: bool,
        *,
        startup: str,
        reload: bool,
        undo_limits: Mapping[str, int],
        keep: SaveTarget | None,
    ) -> None:
        """undo_limits: steps and megabytes. The other arguments are those of `ProcessKernel`."""
        self.reload = reload
        """Whether new processes reload changed modules."""
        self.size = (80, 24)
        """Columns and lines for new processes."""
        self._size_sent = self.size
        """The size with which the newest process was started."""
        self.state = KernelState.DEAD
        self.worker: WorkerProcess | None = None
        """The running process."""
        self.failure = "The kernel was not started."
        """Why there is no process."""
        self.attached = launcher.will_reattach
        """Whether the process was waiting for this host."""
        self._launcher = launcher
        self._wire = ConnectionState(
            launcher.label,
            lambda text: self._host.kernel_state(self.info(), text),
            lambda name, args: self._host.call(name, args),
        )
        self._save_target = keep
        self._undo_limits = undo_limits
        self._host: KernelHost = NullHost()
        self._startup = startup
        self.executable = ""
        """The interpreter of the last process; empty before the first one."""
        self._color = color
        self._cwd = cwd or ("" if launcher.label else os.getcwd())
        self._moved = ""
        """A sentence that a new process runs on another machine, until it is reported."""
        self._swap = threading.Lock()
        """Held while one process replaces another."""
        self._changed = threading.Condition()
        self._closed = False
        self._starting: WorkerProcess | None = None

    def start(self, host: KernelHost, python: str | None) -> None:
        """Start the first process. python: as for `launch.Launcher.find`. Raises `KernelError`."""
        self._host = host
        self.report(KernelState.STARTING, "")
        try:
            executable = self._launcher.find(python)
            with self._swap:
                self._set_worker(self._launch(executable), executable)
        except KernelError as error:
            if not self._closed:
                self.failure = str(error)
                self.report(KernelState.DEAD, "")  # the caller reports the reason
            raise
        self._begin("")

    def kill(self) -> None:
        """Kill the process, and wait for the next one. Raises `KernelError`."""
        with self._changed:
            worker = self.worker
        if worker is None:
            raise KernelError("There is no kernel to kill.")
        worker.kill("The kernel was killed.")
        with self._changed:
            self._changed.wait_for(
                lambda: self.worker is not worker and self.state is not KernelState.STARTING
            )

    def replace(self, executable: str, why: str, now: str) -> None:
        """Replace the running process by another one. Raises `KernelError`.

        why: a detail for the results of the old one's cells. now: the notice once the new one is
        ready, with placeholders for its ready message.
        """
        with self._swap:
            if self._closed:
                raise KernelError(self.failure)
            old = self.worker
            new = self._launch(executable)
            self._set_worker(new, executable)
            self.state = KernelState.STARTING
        if old is not None:
            old.end(Status.KILLED, why)
        self._begin(now.format(python=new.hello.python, executable=new.hello.executable))

    def new_process_text(self, event: str) -> str:
        """Return the sentence about a new process. If variables are saved, the session reports
        which of them are restored."""
        return f"{event}{'; its namespace is empty' if self._save_target is None else ''}."

    def ready(self) -> WorkerProcess | None:
        """Return the process, once it has started; None if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self.state is not KernelState.STARTING)
            return self.worker

    def require(self, *, wait: bool = True) -> WorkerProcess:
        """Return the process. wait: also wait for one that is starting. Raises `KernelError` if
        there is none."""
        worker = self.ready() if wait else self.worker
        if worker is None:
            raise KernelError(self.failure)
        return worker

    def report(self, state: KernelState, text: str) -> None:
        """Report a state to the host. text: a sentence, or empty."""
        with self._changed:
            if self.state is KernelState.CLAIMED_ELSEWHERE:  # no state follows
                return
            self.state = state
            self._changed.notify_all()
        self._host.kernel_state(self.info(), text)

    @contextmanager
    def busy(self, nested: bool) -> Iterator[None]:
        """Report to the host that a cell runs within this context, unless it is inside another."""
        if nested:
            yield
            return
        self.report(KernelState.BUSY, "")
        try:
            yield
        finally:
            if self.state is KernelState.BUSY:
                self.report(KernelState.IDLE, "")

    def info(self) -> KernelInfo:
        worker = self.worker
        if worker is None:
            return KernelInfo(
                "",
                self.executable,
                self._cwd,
                0,
                self.state,
                self._launcher.label,
                address=self._launcher.address,
            )
        return self._worker_info(worker, self.state)

    def close(self, *, leave: bool, on_purpose: bool) -> None:
        """End the process, or leave it to the next host."""
        self._closed, self.failure = True, CLOSED
        if not leave or self.worker is None:
            self._wire.given_up.set()
        if (starting := self._starting) is not None:
            starting.kill(CLOSED)
        with self._swap:
            worker, self.worker = self.worker, None
        if worker is not None and leave:
            worker.leave(on_purpose)
        elif worker is not None:
            worker.end(Status.KILLED, CLOSED)
        self.report(KernelState.DEAD, "")

    # Implements the `Listener` of a `WorkerProcess`

    def claimed(self, worker: WorkerProcess, how: str) -> None:
        with self._changed:
            if self._closed or self.worker not in (worker, None):  # None: right after its start
                return
            self.worker = None
            self._cwd = worker.cwd
            self._closed, self.failure = True, how  # a new one would wait for the same session
        self.report(KernelState.CLAIMED_ELSEWHERE, how)

    def ended(self, worker: WorkerProcess, how: str) -> None:
        with self._changed:
            if self._closed or self.worker is not worker:
                return
            self.worker = None
            self._cwd = worker.cwd
            self.state = KernelState.STARTING
        try:
            self._host.kernel_state(self._worker_info(worker, KernelState.DEAD), how)
            self._restart()
        except (
            Exception
        ) as error:  # the thread's outermost frame, because cells wait for the outcome
            self._failed(f"Could not start a new kernel: {type(error).__name__}: {error}")

    def _restart(self) -> None:
        """Replace a process that died by a new one. Runs on the dead one's reader thread."""
        for attempt in range(1, ATTEMPTS + 1):
            with self._swap:
                if self._closed or self.worker is not None:
                    return
                try:
                    self._set_worker(self._launch(self.executable), self.executable)
                except KernelError as error:
                    if attempt == ATTEMPTS:
                        self._failed(
                            f"A new kernel failed to start {ATTEMPTS} times in a row: {error}"
                        )
                    continue
            self._begin(self.new_process_text("Started a new kernel"))
            return

    def _begin(self, text: str) -> None:
        """Run the startup code of a new process, and report that it is ready. Cells wait until
        then."""
        with self._changed:
            worker, startup = self.worker, self._startup
            if startup:
                self._startup = ""  # startup code that ends the process must not end the next one
        if worker is None:
            return
        if self.attached:
            self.report(KernelState.IDLE, "")
            return
        if self._launcher.label:
            worker.send("elsewhere")
        worker.send(
            "functions", functions=[function._asdict() for function in self._host.functions()]
        )
        if servers := self._host.servers():
            worker.send("servers", servers=[server._asdict() for server in servers])
        if self.reload:
            worker.send("reload", on=True)
        if self._undo_limits["steps"]:
            worker.send("undo_limits", **self._undo_limits)
        if startup:
            result = worker.execute(startup, 0, lambda kind, text: None, None, False)
            if result.output and result.status is Status.OK:
                self._host.background_output(result.output)
            if result.status in (Status.DIED, Status.KILLED):
                return
            self._startup = startup
            if result.status is not Status.OK:
                text = f"{text} The code that every kernel starts with failed:\n{result.output[-STARTUP_OUTPUT:].rstrip()}".lstrip()
        if self._save_target is not None:
            with suppress(KernelError):  # `saved_before` raises it
                worker.send("keep_in", **self._launcher.keep_settings(self._save_target))
        text, self._moved = f"{text} {self._moved} {self._launcher.problem}".strip(), ""
        self.report(KernelState.IDLE, text)

    def _launch(self, executable: str) -> WorkerProcess:

        cwd = self.worker.cwd if self.worker is not None else self._cwd
        folder = cwd if self._launcher.label else existing_folder(cwd)  # a station checks itself
        self._size_sent = self.size
        start = partial(
            self._launcher.start, executable, folder, self._color, self._size_sent, self._wire
        )
        worker = WorkerProcess(executable, folder, start, self._host, self)
        self._starting = worker
        try:
            worker.start()
        finally:
            self._starting = None
        self.attached = worker.was_reattached
        self._wire.next_try = 0.0
        if worker.cwd != cwd and (folder != cwd or (self._launcher.label and cwd)):
            self._moved = moved_message(cwd, worker.cwd)
        return worker

    def _set_worker(self, worker: WorkerProcess, executable: str) -> None:
        with self._changed:
            if worker.over:
                raise KernelError(f"The kernel of {executable} ended as soon as it was ready.")
            if worker.claimed:
                raise KernelError(CLAIMED)
            self.worker, self.executable = worker, executable
        if self.size != self._size_sent:  # it was changed meanwhile
            columns, lines = self.size
            worker.send("size", columns=columns, lines=lines)

    def _failed(self, text: str) -> None:
        self.failure = text
        self.report(KernelState.DEAD, text)

    def _worker_info(self, worker: WorkerProcess, state: KernelState) -> KernelInfo:
        hello = worker.hello
        launcher = self._launcher
        return KernelInfo(
            hello.python,
            hello.executable,
            worker.cwd,
            hello.pid,
            state,
            launcher.label,
            self._wire.next_try,
            launcher.address,
        )
