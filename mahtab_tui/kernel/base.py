"""The kernel that the rest of the program uses, and the host that it calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
"""Characters that a cell of the model's may print before it is stopped (`LimitedOutput`)."""


class KernelState(StrEnum):
    """The life of a kernel as the header shows it."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DEAD = "dead"
    CLAIMED_ELSEWHERE = "taken over"

    @property
    def is_over(self) -> bool:
        """Whether this program has no kernel."""
        return self in (KernelState.DEAD, KernelState.CLAIMED_ELSEWHERE)


class KernelError(Exception):
    """The kernel cannot do this; the message is a sentence for the user."""


OnDisplay = Callable[[Display], None]


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's Python, folder and process."""

    python: str
    """Version, as in "3.12.1"."""
    executable: str
    cwd: str
    pid: int
    state: KernelState
    host: str = ""
    """The machine, or the command that leads to the kernel; empty for here."""
    next_try: float = 0.0
    """While the connection to the kernel is lost: when it is tried again, in seconds since the
    epoch."""
    address: str = ""
    """For ``--kernel``, without a token; empty for here."""
    language: str = ""
    """In small letters, of a kernel that does not run Python."""

    @property
    def local_folder(self) -> str:
        """The folder of this machine to which paths of questions and tools belong."""
        return os.getcwd() if self.host else self.cwd


class HostFunction(NamedTuple):
    """A function that every namespace gets, and that calls `KernelHost.call`."""

    name: str
    called: str
    """Its name in `KernelHost.call`."""
    parameters: Sequence[tuple[str, str, str | None]]
    """Name, annotation and default of each, as source; None for no default. Values are sent as
    JSON."""
    doc: str


class HostServer(NamedTuple):
    """An MCP server: an object that every namespace gets, whose tools `KernelHost.call` describes
    and calls."""

    name: str
    """A Python name."""
    about: str
    """A line for its `repr`."""


class KernelHost(Protocol):
    """Interface that a kernel calls. Its methods are called from the kernel's own threads."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """The state changed; `text` is a sentence ("The kernel died: segmentation fault
        (SIGSEGV).")."""

    def background_output(self, text: str) -> None:
        """A thread, a child process or a task printed something while no cell ran."""

    def functions(self) -> Sequence[HostFunction]:
        """The functions that every new namespace gets, beside the kernel's own tools."""

    def servers(self) -> Sequence[HostServer]:
        """The MCP servers that every new namespace gets."""

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Code in the kernel calls the host by name and waits; arguments and answer are JSON
        values.

        Runs on a thread of its own, so it may block, and may call `Kernel.execute` with
        ``nested=True``. An exception's text goes to the caller in the kernel as `RuntimeError`; a
        `KeyboardInterrupt` there ends the wait, and calls `cancelled`.
        """

    def call_cancelled(self, name: str) -> None:
        """The kernel was interrupted and no longer waits for the answer to `call`."""


class NullHost:
    """A `KernelHost` that wants nothing, as that of a kernel that was not started yet."""

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
    """A namespace in which code runs. Every method may be called from any thread but the kernel's
    own."""

    def start(self, host: KernelHost) -> None:
        """Start it, and return when it is ready. Raises `KernelError`."""

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
        """Run one cell, and wait for its end. Nothing that the cell does raises here, not even the
        kernel's death.

        Cells of several threads run one after another, except nested ones.

        limit: characters of output after which the cell is stopped. nested: run it while the cell
        that called the host waits. on_display: called before `on_output` gets the display's text.
        lock: run it in a locked fork, which reads and computes only, and bring plain data back, or
        nothing; see `cannot_lock`.
        """

    @property
    def can_detach(self) -> bool:
        """Whether it can go on without its screen, and wait for another one."""

    @property
    def was_reattached(self) -> bool:
        """Whether it had outlived its screen and has waited for this one, with its variables."""

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        """Wait for the end of a cell that began on an earlier screen, and of which nothing is
        stored but its code. The arguments are those of `execute`. Everything that it has printed is
        told. Returns None if the kernel does not know it. Raises `KernelError`."""

    def acknowledge(self, cell: int) -> None:
        """The result of a cell is stored: do not send it to another screen."""

    def saved_before(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Return the last arguments of `keep` of a kernel that has waited, None for the first if
        there were none. Raises `KernelError`."""

    def interrupt(self) -> bool:
        """Interrupt the running cell (SIGINT); returns False if none runs."""

    def kill(self) -> None:
        """Kill the kernel (SIGKILL) and start a new one."""

    def reset(self) -> None:
        """End this kernel, start a new one with an empty namespace, and return when it is ready.
        Raises `KernelError`."""

    def activate(self, python: str) -> None:
        """Switch to another interpreter (a file, or a virtual environment's folder). Raises
        `KernelError`, and then keeps the old one."""

    def change_directory(self, path: str) -> str:
        """Change the kernel's working directory; returns the new one. Raises `KernelError`."""

    def installed(self, module: str, *, load: bool = False) -> bool:
        """Whether a module of this name, without dots, can be imported from elsewhere than the
        working directory. Raises `KernelError`.

        load: import it, too, so that later code does not import a module of that folder instead.
        Works while a cell runs.
        """

    def set_size(self, columns: int, lines: int) -> None:
        """Tell the code the size of the transcript (COLUMNS, LINES)."""

    def set_reload(self, on: bool) -> None:
        """Set whether modules of the project are reloaded before a cell if their files have
        changed."""

    def variables(self) -> list[Variable]:
        """All names of the namespace. Works while a cell runs. No code of the user's classes
        runs."""

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Tell where some variables show, and which of them each code can reach. Works while a cell
        runs. No code of the user's classes runs."""

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        """Describe one variable. Works while a cell runs. Raises `KernelError` if there is no such
        name.

        run_code: code of the user's classes may run, such as a `__repr__`.
        """

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Describe variables for a model: a few lines each, at most `limit` characters each, from
        metadata and first values.

        Left out are names that do not exist or look like secrets, and variables that cannot be
        described in time. Works while a cell runs. No code of the user's classes runs. Raises
        `KernelError`."""

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of what is inside an object (see `looking.Look`). Works while a cell runs.
        Raises `KernelError`."""

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete the code at the cursor (in characters). Works while a cell runs, within a time
        limit. No code of the user's classes runs, and nothing is imported. Raises `KernelError` if
        the kernel does not answer in time."""

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the function whose call surrounds the cursor (in characters), or else the name at
        the cursor; None if it is unknown. Otherwise as `complete`."""

    @property
    def cannot_lock(self) -> str:
        """Why cells cannot run in a locked fork, as a clause; empty if they can. Raises
        `KernelError`."""

    @property
    def cannot_undo(self) -> str:
        """Why changes inside objects cannot be undone, as a clause; empty if they can."""

    def undo_steps(self) -> tuple[UndoStep, ...]:
        """The cells that can be undone, the oldest first. Works while a cell runs. Raises
        `KernelError`."""

    def preview_undo(self, cell: int) -> Restoration:
        """Return the effect that `undo` would have. Otherwise as `undo`."""

    def undo(self, cell: int) -> Restoration:
        """Restore the namespace, and the objects in it, to what they were before this cell ran; the
        cells after it are undone, too.

        If a step fails, nothing is changed. Raises `KernelError` while a cell runs, and for a cell
        that cannot be undone."""

    def redo(self) -> Restoration:
        """Take back the last `undo`, if no other cell has run since. Otherwise as `undo`."""

    def saved_namespace(self) -> SavedNamespace | None:
        """Return the variables saved from an earlier kernel of the session; None if this kernel
        saves nothing. Raises `KernelError`."""

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        """Write the namespace to disk in a forked process, after the running cell, and wait for it
        at most so long. Raises `KernelError`.

        carried: files that stay, though nothing of them is in the namespace. lost: names that were
        not kept before, and were not made since."""

    def restore(self, file: SavedFile) -> RestoredFile:
        """Bring the variables of a file back, after the running cell; others wait meanwhile.
        `interrupt` stops it. Raises `KernelError`."""

    def info(self) -> KernelInfo: ...

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        """End it for good, with its processes, threads and descriptors. leave: let it go on without
        a screen, if it can.

        on_purpose: the user wants that, so its cell may take as long as it likes.
        """


@contextmanager
def between_cells(turn: threading.Lock, work: str) -> Iterator[None]:
    """Keep cells from running within this context. turn: held while a cell runs. work: what a user
    is told to do later. Raises `KernelError`."""
    if not turn.acquire(blocking=False):
        raise KernelError(f"A cell is running. Wait until it ends, or interrupt it; then {work}.")
    try:
        yield
    finally:
        turn.release()


class NullPersistence:
    """Answers of a `Kernel` that saves no variables and ends with its program."""

    can_detach = False
    was_reattached = False

    def __init__(self, why: str) -> None:
        """why: a sentence that says why nothing is saved."""
        self._reason = why

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> None:
        """Nothing: it knows no cells of an earlier screen."""

    def acknowledge(self, cell: int) -> None: ...

    def saved_before(self) -> tuple[None, tuple[()]]:
        return None, ()

    def saved_namespace(self) -> None: ...

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> NoReturn:
        raise KernelError(self._reason)

    def restore(self, file: SavedFile) -> NoReturn:
        raise KernelError(self._reason)
