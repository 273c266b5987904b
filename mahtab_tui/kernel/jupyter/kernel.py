"""A Jupyter kernel as the session's kernel."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import FRESH, RESET, CellListener, Kernel, KernelError
from mahtab_tui.kernel.host import KernelHost
from mahtab_tui.kernel.jupyter.conversation import JupyterConversation
from mahtab_tui.kernel.jupyter.messages import Channel, Message
from mahtab_tui.kernel.messages import KernelReady
from mahtab_tui.kernel.operations import Operation, Operations, T, UndoAnswer
from mahtab_tui.kernel.process import CLOSED, startup_failure
from mahtab_tui.kernel.running_cell import RunningCell
from mahtab_tui.kernel.values import CellResult, KernelInfo, KernelState, Lock, UndoScope, UndoStep
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.kernel.jupyter.local import ZmqConnection

LOCAL_PREFIX = "jupyter:"
EXISTING_PREFIX = "existing:"
WATCH_INTERVAL_S = 0.5
"""Seconds between checks whether the kernel has died."""
DEFAULT_SCREEN_SIZE = (80, 24)

_STARTED = "Started a new kernel; its namespace is empty."
_NOT_OURS = "Only the program that started this kernel can restart it."


def parse_address(address: str) -> str:
    """Return a kernel's name, or its connection file. Raises `KernelError`."""
    name = address.removeprefix(LOCAL_PREFIX).removeprefix(EXISTING_PREFIX).strip()
    if not name or not address.startswith((LOCAL_PREFIX, EXISTING_PREFIX)):
        raise KernelError("Not a Jupyter kernel. Use jupyter:NAME or existing:CONNECTION.json.")
    return name


class JupyterKernel(Kernel):
    """A Jupyter kernel, which we have started or which belongs to another program."""

    lock_unavailable_reason = "it runs in a Jupyter kernel"
    undo_unavailable_reason = "a Jupyter kernel is not ours to fork"
    _save_unavailable_reason = "The variables of a Jupyter kernel are not saved."

    def __init__(self, connection: ZmqConnection, startup: str = "") -> None:
        super().__init__()
        self._connection = connection
        self._startup = startup if connection.is_ours else ""
        self._process_lock = threading.Lock()
        """Held while the process is replaced."""
        self._conversation: JupyterConversation | None = None
        self._failure = "The kernel was not started."
        """Why there is no conversation, as a sentence."""
        self._closed = threading.Event()
        self._size = DEFAULT_SCREEN_SIZE

    def start(self, host: KernelHost) -> None:
        self._host = host
        self._report(KernelState.STARTING, "")
        try:
            with self._process_lock:
                self._check_open()
                self._connection.open(self._on_message)
                self._begin_conversation()
        except KernelError as error:
            self._failure = str(error)
            self._connection.close()
            self._report(KernelState.DEAD, "")
            raise
        start_thread("mahtab-jupyter-watch", self._watch)
        self._report(KernelState.IDLE, self._run_startup())

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        self._refuse_lock(lock)
        if nested:
            detail = "A Jupyter kernel runs no cell inside another one."
            return _not_run(listener.cell, Status.INTERRUPTED, detail)
        with self._turn:
            with self._process_lock:
                conversation = self._conversation
            if conversation is None:
                return _not_run(listener.cell, Status.DIED, self._failure)
            with self._busy(nested):
                return conversation.run(code, RunningCell(*listener))

    def interrupt(self, cell: int | None = None) -> bool:
        conversation = self._conversation
        return conversation is not None and conversation.interrupt(cell)

    def kill(self) -> None:
        self._replace("The kernel was killed.", _STARTED)

    def reset(self) -> None:
        self._replace(RESET, FRESH)

    def activate(self, python: str) -> NoReturn:
        raise KernelError(
            "A Jupyter kernel has its own interpreter. Start mahtab-tui with another --kernel instead."
        )

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        if self._conversation is not None:
            self._conversation.send_size(columns, lines)

    def undo_steps(self) -> tuple[UndoStep, ...]:
        return ()

    def _undo(self, operation: Operation[UndoAnswer], cell: int, scope: UndoScope) -> NoReturn:
        raise KernelError(f"Cells cannot be undone here, because {self.undo_unavailable_reason}.")

    def info(self) -> KernelInfo:
        return self._info_as(self._state)

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        with self._process_lock:
            conversation = self._conversation
            self._conversation = None
            self._failure = CLOSED
            if conversation is not None and not self._connection.is_ours:
                with suppress(KernelError, TimeoutError):
                    conversation.leave()
            if conversation is not None:
                conversation.end(Status.KILLED, CLOSED)
            # Also after a death or a failed start, which leave the connection open.
            self._connection.close()
        self._report(KernelState.DEAD, "")

    # Life cycle of the kernel

    def _check_open(self) -> None:
        """Raise `KernelError` after `close`.

        Call it while holding `_process_lock`, for which `close` waits.
        """
        if self._closed.is_set():
            raise KernelError(CLOSED)

    def _begin_conversation(self) -> None:
        """Begin a conversation with a kernel that has started. Raises `KernelError`."""
        conversation = JupyterConversation(self._connection, self._host)
        self._conversation = conversation
        try:
            conversation.begin()
        except (KernelError, TimeoutError) as error:
            self._conversation = None
            conversation.end(Status.DIED, str(error))
            raise KernelError(str(error) or "The kernel does not answer.") from None
        conversation.send_size(*self._size)

    def _run_startup(self) -> str:
        """Run the startup code; returns a sentence if it failed."""
        conversation = self._conversation
        if conversation is None or not self._startup:
            return ""
        startup_cell = RunningCell(0, lambda kind, text: None)
        with self._turn:
            result = conversation.run(self._startup, startup_cell, quiet=True)
        if result.status is Status.OK:
            if result.output:
                self._host.background_output(result.output)
            return ""
        return startup_failure(result)

    def _replace(self, reason: str, text: str) -> None:
        """Replace the kernel's process.

        Args:
            reason: A sentence for the running cell.
            text: A sentence about the new process.

        Raises:
            KernelError: It belongs to another program, could not start, or was
                closed.
        """
        with self._process_lock:
            self._check_open()
            if not self._connection.is_ours:
                raise KernelError(_NOT_OURS)
            self._end_conversation(Status.KILLED, reason)
            self._restart()
        self._report(KernelState.IDLE, f"{text} {self._run_startup()}".strip())

    def _end_conversation(self, status: Status, reason: str) -> None:
        conversation = self._conversation
        self._conversation = None
        if conversation is not None:
            conversation.end(status, reason)
        self._host.kernel_state(self._info_as(KernelState.DEAD), reason)

    def _restart(self) -> None:
        """Start a new process. Raises `KernelError`."""
        self._report(KernelState.STARTING, "")
        try:
            self._connection.restart()
            self._begin_conversation()
        except KernelError as error:
            self._failure = str(error)
            self._report(KernelState.DEAD, f"Could not start a new kernel: {error}")
            raise

    def _watch(self) -> None:
        """Start a new process if the kernel dies. Runs on a thread."""
        while not self._closed.wait(WATCH_INTERVAL_S):
            with self._process_lock:
                conversation = self._conversation
            if conversation is None:
                continue
            end_reason = self._connection.end_reason()
            if end_reason:
                self._on_death(end_reason, conversation)

    def _on_death(self, reason: str, conversation: JupyterConversation) -> None:
        with self._process_lock:
            # The kernel may have been replaced or closed in the meantime.
            if conversation is not self._conversation or self._closed.is_set():
                return
            self._failure = reason
            self._end_conversation(Status.DIED, reason)
            self._state = KernelState.DEAD
            if not self._connection.is_ours:
                return
            try:
                self._restart()
            except KernelError:
                return
        self._report(KernelState.IDLE, f"{_STARTED} {self._run_startup()}".strip())

    def _on_message(self, channel: Channel, message: Message) -> None:
        conversation = self._conversation
        if conversation is not None:
            conversation.on_message(channel, message)

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        conversation = self._conversation
        if conversation is None:
            raise KernelError(self._failure)
        reply = conversation.ask(operation, timeout, **fields)
        if isinstance(reply, str) and operation is Operations.change_directory:
            conversation.cwd = reply
        return reply

    def _info_as(self, state: KernelState) -> KernelInfo:
        conversation = self._conversation
        ready = KernelReady(python="", executable="", cwd="", pid=0)
        cwd = ""
        if conversation is not None:
            ready = conversation.ready
            cwd = conversation.cwd
        return KernelInfo(
            python=ready.python,
            executable=ready.executable,
            cwd=cwd,
            pid=ready.pid,
            state=state,
            host=self._connection.label,
            address=self._connection.address,
        )


def _not_run(cell: int, status: Status, detail: str) -> CellResult:
    """Return the result of a cell that did not run.

    Args:
        cell: The number of the cell.
        status: How it has ended.
        detail: A sentence saying why.
    """
    return CellResult(cell, status, output="", kinds=(), duration=0.0, changes=(), detail=detail)


def jupyter_kernel(address: str, cwd: str, startup: str) -> Kernel:
    """Create a kernel without starting it.

    Args:
        address: As for ``--kernel``.
        cwd: The working directory of a new kernel.
        startup: Code that runs first in a new kernel.

    Raises:
        KernelError: The address is wrong, or Jupyter's client libraries are missing.
    """
    name = parse_address(address)
    try:
        from mahtab_tui.kernel.jupyter.local import ExistingConnection, LocalConnection
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("mahtab_tui"):
            raise
        raise KernelError(
            "Kernels of Jupyter need its client libraries: install mahtab-tui[jupyter]."
        ) from None
    if address.startswith(EXISTING_PREFIX):
        return JupyterKernel(ExistingConnection(name))
    return JupyterKernel(LocalConnection(name, cwd), startup)
