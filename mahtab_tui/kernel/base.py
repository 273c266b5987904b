"""The `Kernel` interface that the rest of the program uses, and the host interface that kernels
call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn, Protocol

from mahtab_tui.kernel.values import (
    CellResult,
    Completions,
    Detail,
    Display,
    Explanation,
    KeepResult,
    Lock,
    OutputKind,
    PrivateUse,
    Restoration,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    UndoStep,
    Variable,
)

OnOutput = Callable[[OutputKind, str], None]

OUTPUT_LIMIT = 10_000
"""Characters that a cell of the model may print before it is stopped."""


class KernelState(StrEnum):
    """The state of a kernel, as shown in the header."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DEAD = "dead"
    CLAIMED_ELSEWHERE = "taken over"

    @property
    def is_over(self) -> bool:
        """Whether this program no longer has a kernel."""
        return self in (KernelState.DEAD, KernelState.CLAIMED_ELSEWHERE)


class KernelError(Exception):
    """The kernel cannot do this; the message is a sentence for the user."""


OnDisplay = Callable[[Display], None]


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's Python, folder and process."""

    python: str
    """The version, such as "3.12.1"."""
    executable: str
    cwd: str
    pid: int
    state: KernelState
    host: str = ""
    """The machine, or the command that connects to the kernel; empty for this machine."""
    next_try: float = 0.0
    """While the connection to the kernel is lost: the time of the next attempt, in seconds since
    the epoch."""
    address: str = ""
    """As for ``--kernel``, without a token; empty for this machine."""
    language: str = ""
    """The language in lower case, if it is not Python."""

    @property
    def local_folder(self) -> str:
        """The folder on this machine that paths in questions and tools refer to."""
        return os.getcwd() if self.host else self.cwd


class HostFunction(NamedTuple):
    """A function in every namespace that calls `KernelHost.call`."""

    name: str
    called: str
    """Its name in `KernelHost.call`."""
    parameters: Sequence[tuple[str, str, str | None]]
    """Name, annotation and default of each, as source text; None for no default. Values are sent as
    JSON."""
    doc: str


class HostServer(NamedTuple):
    """An MCP server: an object in every namespace whose tools `KernelHost.call` describes and
    calls."""

    name: str
    """A Python name."""
    about: str
    """One line for its `repr`."""


class KernelHost(Protocol):
    """The interface that a kernel calls, on its own threads."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """Report a new state. `text` is a sentence for the user, or empty."""

    def background_output(self, text: str) -> None:
        """A thread, a child process or a task printed something while no cell ran."""

    def functions(self) -> Sequence[HostFunction]:
        """The functions for every new namespace, in addition to the kernel's own tools."""

    def servers(self) -> Sequence[HostServer]:
        """The MCP servers for every new namespace."""

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve a call by code in the kernel, which waits; arguments and result are JSON values.

        Runs on a separate thread, so it may block, and may call `Kernel.execute` with
        ``nested=True``. The message of an exception is raised in the kernel as `RuntimeError`; a
        `KeyboardInterrupt` there ends the wait, and calls `call_cancelled`.
        """

    def call_cancelled(self, name: str) -> None:
        """The kernel was interrupted, and no longer waits for the result of `call`."""


class NullHost:
    """A `KernelHost` that does nothing, for a kernel that has not been started."""

    def kernel_state(self, info: KernelInfo, text: str) -> None: ...

    def background_output(self, text: str) -> None: ...

    def functions(self) -> Sequence[HostFunction]:
        return ()

    def servers(self) -> Sequence[HostServer]:
        return ()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        raise RuntimeError("The kernel was not started.")

    def call_cancelled(self, name: str) -> None: ...


class Kernel(Protocol):
    """A namespace in which code runs. Methods may be called from any thread except the kernel's
    own."""

    def start(self, host: KernelHost) -> None:
        """Start the kernel, and return when it is ready. Raises `KernelError`."""

    def execute(
        self,
        code: str,
        *,
        cell: int,
        on_output: OnOutput,
        limit: int | None = None,
        nested: bool = False,
        on_display: OnDisplay | None = None,
        lock: Lock | None = None,
    ) -> CellResult:
        """Run a cell, and wait for its end. Nothing that the cell does raises here, not even the
        kernel's death.

        Cells of several threads run one after another, except nested ones.

        limit: characters of output after which the cell is stopped. nested: run it while the cell
        that called the host waits. on_display: called before `on_output` gets the display's text.
        lock: run it in a locked fork, which can only read and compute, and return plain data from
        it, or nothing; see `cannot_lock`.
        """

    @property
    def can_detach(self) -> bool:
        """Whether the kernel can continue without its screen, and wait for another one."""

    @property
    def was_reattached(self) -> bool:
        """Whether the kernel outlived an earlier screen, and still has its variables."""

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        """Wait for the end of a cell that began on an earlier screen; only its code is stored. The
        other arguments are those of `execute`. All its output is sent again. Returns None if the
        kernel does not know the cell. Raises `KernelError`."""

    def acknowledge(self, cell: int) -> None:
        """Note that the result of a cell is stored, so that it is not sent to another screen."""

    def saved_before(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Return the last arguments of `keep` on an earlier screen; None for the first if there
        were none. Raises `KernelError`."""

    def interrupt(self) -> bool:
        """Interrupt the running cell (SIGINT); returns False if none runs."""

    def kill(self) -> None:
        """Kill the kernel (SIGKILL) and start a new one."""

    def reset(self) -> None:
        """End this kernel, start a new one with an empty namespace, and return when it is ready.
        Raises `KernelError`."""

    def activate(self, python: str) -> None:
        """Switch to another interpreter (a file, or the folder of a virtual environment). If it
        raises `KernelError`, the old one stays."""

    def change_directory(self, path: str) -> str:
        """Change the kernel's working directory; returns the new one. Raises `KernelError`."""

    def installed(self, module: str, *, load: bool = False) -> bool:
        """Return whether a module with this top-level name can be imported from anywhere except the
        working directory. Raises `KernelError`.

        load: also import it, so that later code does not import a module from that folder instead.
        Works while a cell runs.
        """

    def set_size(self, columns: int, lines: int) -> None:
        """Set the size of the transcript for code (COLUMNS, LINES)."""

    def set_reload(self, on: bool) -> None:
        """Set whether the project's modules are reloaded before a cell if their files have
        changed."""

    def variables(self) -> list[Variable]:
        """Return all names in the namespace. Works while a cell runs, and runs no code of the
        user's classes."""

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Return where the values of some variables occur, and which of them each code can reach.
        Works while a cell runs, and runs no code of the user's classes."""

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        """Describe a variable. Works while a cell runs. Raises `KernelError` if there is no such
        name.

        run_code: whether code of the user's classes may run, such as a `__repr__`.
        """

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Describe variables for a model in a few lines each, of at most `limit` characters, from
        metadata and first values.

        Names that do not exist or look like secrets are left out, and variables that cannot be
        described in time. Works while a cell runs, and runs no code of the user's classes. Raises
        `KernelError`.
        """

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of an object's contents (see `inspector_client.InspectorClient`). Works
        while a cell runs. Raises `KernelError`."""

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete the code at the cursor (in characters). Works while a cell runs, within a time
        limit. Runs no code of the user's classes, and imports nothing. Raises `KernelError` if the
        kernel does not answer in time."""

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the function in whose call the cursor is (in characters), or else the name at the
        cursor; None if it is unknown. Otherwise like `complete`."""

    @property
    def cannot_lock(self) -> str:
        """Return the reason why cells cannot run in a locked fork, as a clause; empty if they can.
        Raises `KernelError`."""

    @property
    def cannot_undo(self) -> str:
        """Return the reason why changes inside objects cannot be undone, as a clause; empty if they
        can."""

    def undo_steps(self) -> tuple[UndoStep, ...]:
        """Return the cells that can be undone, oldest first. Works while a cell runs. Raises
        `KernelError`."""

    def preview_undo(self, cell: int) -> Restoration:
        """Return the effect that `undo` would have. Otherwise like `undo`."""

    def undo(self, cell: int) -> Restoration:
        """Restore the namespace, and the objects in it, to the state before a cell; the cells after
        it are undone too.

        If a step fails, nothing is changed. Raises `KernelError` while a cell runs, and for a cell
        that cannot be undone.
        """

    def redo(self) -> Restoration:
        """Reverse the last `undo`, if no other cell has run since. Otherwise like `undo`."""

    def saved_namespace(self) -> SavedNamespace | None:
        """Return the variables saved from an earlier kernel of the session; None if this kernel
        saves nothing. Raises `KernelError`."""

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        """Save the namespace in a forked process, after the running cell, and wait at most that
        long. Raises `KernelError`.

        carried: files to keep, although nothing from them is in the namespace. lost: names that
        could not be saved before, and that were not made again since.
        """

    def restore(self, file: SavedFile) -> RestoredFile:
        """Restore the variables in a file, after the running cell; other calls wait meanwhile.
        `interrupt` stops it. Raises `KernelError`."""

    def info(self) -> KernelInfo: ...

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        """End the kernel for good, with its processes, threads and descriptors. leave: detach it,
        if it can run without a screen.

        on_purpose: the user asked for that, so its cell has no time limit.
        """


class NullPersistence:
    """The persistence methods of a `Kernel` that saves no variables and ends with its program."""

    can_detach = False
    was_reattached = False

    def __init__(self, why: str) -> None:
        """why: a sentence on why nothing is saved."""
        self._reason = why

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> None:
        """Return None, because it knows no cells of an earlier screen."""

    def acknowledge(self, cell: int) -> None: ...

    def saved_before(self) -> tuple[None, tuple[()]]:
        return None, ()

    def saved_namespace(self) -> None: ...

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> NoReturn:
        raise KernelError(self._reason)

    def restore(self, file: SavedFile) -> NoReturn:
        raise KernelError(self._reason)
