"""The base class of kernels."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.host import KernelHost, NullHost
from mahtab_tui.kernel.operations import Operation, Operations, T, UndoAnswer
from mahtab_tui.kernel.values import (
    WHOLE_UNDO,
    CellResult,
    Completions,
    Detail,
    Explanation,
    Fingerprint,
    FolderListing,
    KeepResult,
    KernelInfo,
    KernelState,
    Lock,
    NamesRead,
    OutputKind,
    PrivateUse,
    Restoration,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    SaveRequest,
    UndoScope,
    UndoStep,
)
from mahtab_tui.worker.guard.protected_places import ResolvedPath

RESET = "The kernel was reset."

FRESH = "Started a fresh kernel; its namespace is empty."

IMPORT_TIMEOUT_S = 60.0
"""Seconds in which a module must be imported."""

OnOutput = Callable[[OutputKind, str], None]
"""Called with each piece of a cell's output."""

OnDisplay = Callable[[DisplayRecord], None]
"""Called with each picture or formatted text that a cell displays."""


class KernelError(Exception):
    """The kernel cannot do this; the message is a sentence for the user."""


class CellListener(NamedTuple):
    """A cell's number, and where its output goes, as for `Kernel.execute`."""

    cell: int
    on_output: OnOutput
    on_display: OnDisplay | None


class Kernel(ABC):
    """A namespace in which code runs. Methods may be called from any thread except the kernel's
    own; those that ask the kernel raise `KernelError`. Those that describe variables work while a
    cell runs, and run no code of the user's classes.

    A kind of kernel defines the abstract methods. What it cannot do otherwise, it overrides."""

    _save_unavailable_reason: ClassVar[str] = ""
    """Why this kind of kernel cannot save variables, as a sentence."""

    def __init__(self) -> None:
        self._host: KernelHost = NullHost()
        """What the kernel reports to, from `start` on."""
        self._state = KernelState.DEAD
        """The last state that was reported."""
        self._turn = threading.Lock()
        """Held while a cell runs that is not nested, and while cells are undone."""

    def _report(self, state: KernelState, text: str) -> None:
        """Report a new state to the host.

        Args:
            text: A sentence for the user, or empty.
        """
        self._state = state
        self._host.kernel_state(self.info(), text)

    @contextmanager
    def _busy(self, nested: bool) -> Iterator[None]:
        """Report that the kernel is busy within this context.

        A nested cell changes nothing, because the kernel is busy already.
        """
        if nested:
            yield
            return
        self._report(KernelState.BUSY, "")
        try:
            yield
        finally:
            # The kernel may have died meanwhile.
            if self._state is KernelState.BUSY:
                self._report(KernelState.IDLE, "")

    def _refuse_lock(self, lock: Lock | None) -> None:
        """Raise `KernelError` for a lock that needs a fork, in a kernel that has no worker of its
        own. It ignores ``guard``: only the text of the code has been checked before."""
        if lock in ("keep", "discard"):
            raise KernelError(
                f"The cell did not run: it cannot run in a locked fork, because {self.lock_unavailable_reason}."
            )

    @abstractmethod
    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        """Send a request to the kernel, and wait for the answer.

        Args:
            operation: What to do.
            timeout: In seconds; by default that of the operation.
            fields: The arguments.

        Raises:
            KernelError: The kernel does not answer, or its answer is an error.
        """

    @abstractmethod
    def start(self, host: KernelHost) -> None:
        """Start the kernel, and wait until it can run cells. Call it once.

        Args:
            host: What the kernel reports to and calls, on its own threads.

        Raises:
            KernelError: It could not start.
        """

    def execute(
        self,
        code: str,
        *,
        cell: int,
        on_output: OnOutput,
        nested: bool = False,
        on_display: OnDisplay | None = None,
        lock: Lock | None = None,
    ) -> CellResult:
        """Run a cell, and wait for its end.

        Nothing that the cell does makes this raise, not even the kernel's death.

        Args:
            code: The code.
            cell: Its number.
            on_output: Called with each piece of output, on a thread of the kernel.
            nested: Whether it runs while another cell, which has called the host, waits.
            on_display: Called with each display, before `on_output` gets its text.
            lock: How the code is confined; None if the user has approved it.

        Returns:
            How the cell has ended, with its output and changes.
        """
        return self._run_cell(code, CellListener(cell, on_output, on_display), nested, lock)

    @abstractmethod
    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        """Run a cell as `execute` describes."""

    @property
    def can_detach(self) -> bool:
        """Whether the kernel can outlive its screen."""
        return False

    @property
    def was_reattached(self) -> bool:
        """Whether the kernel outlived an earlier screen, and still has its variables."""
        return False

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        """Wait for the end of a cell that began on an earlier screen.

        All its output is sent again. Return None if the kernel does not know the cell.
        """
        return None

    def acknowledge(self, cell: int) -> None:
        """Note that a result is stored, so that it is not sent to another screen."""
        return

    def last_save_request(self) -> SaveRequest:
        """Return the last arguments of `keep` on an earlier screen."""
        return SaveRequest(carried=None, lost=())

    @abstractmethod
    def interrupt(self, cell: int | None = None) -> bool:
        """Interrupt the running cell, the innermost one.

        Return False if no cell runs, or if the given one does not.
        """

    @abstractmethod
    def kill(self) -> None:
        """Kill the kernel (SIGKILL) and start a new one."""

    @abstractmethod
    def reset(self) -> None:
        """Start a new kernel with an empty namespace."""

    @abstractmethod
    def activate(self, python: str) -> None:
        """Switch to another interpreter (a file, or the folder of a virtual environment).

        If it raises `KernelError`, the old one stays.
        """

    def change_directory(self, path: str) -> str:
        """Change the working directory, and return its full path."""
        return self._ask(Operations.change_directory, path=path)

    def can_import(self, module: str) -> bool:
        """Return whether a module can be imported from anywhere except the working directory.

        Works while a cell runs.
        """
        return self._ask(Operations.installed, module=module, load=False)

    def import_module(self, module: str) -> bool:
        """Import a module from anywhere except the working directory, so that later code does not
        import one from that folder. Works while a cell runs. Returns whether that succeeded."""
        return self._ask(Operations.installed, IMPORT_TIMEOUT_S, module=module, load=True)

    def packages(self, names: Sequence[str]) -> dict[str, str]:
        """Return the versions of those packages that are installed, from their metadata."""
        return self._ask(Operations.packages, names=list(names))

    def list_folder(self, limit: int) -> FolderListing:
        """Return the first entries of the working directory."""
        return self._ask(Operations.list_folder, limit=limit)

    def set_size(self, columns: int, lines: int) -> None:
        """Set the size of the screen, to which output is fitted."""
        return

    def set_reload(self, on: bool) -> None:
        """Set whether changed modules of the project are reloaded before a cell."""
        return

    def variables(self) -> list[Variable]:
        """Return the variables of the namespace."""
        return self._ask(Operations.variables)

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Return where the values of some variables occur, and which of them each code reaches."""
        return self._ask(Operations.private_use, names=list(names), codes=list(codes))

    def names_read(self, name: str) -> NamesRead:
        """Return a name and those that a call of it may read.

        Names of modules are not among them.
        """
        return self._ask(Operations.names_read, name=name)

    def resolve_paths(self, texts: Sequence[str]) -> list[ResolvedPath | None]:
        """Return where texts lead if the kernel's code uses them as paths.

        None for those that cannot be paths.
        """
        return self._ask(Operations.resolve_paths, texts=list(texts))

    def files_changed_by_commands(self, commands: list[str]) -> list[str]:
        """Return, for each shell command, the protected file that it may change, as far as the files
        show it to which its words lead; empty if there is none, and ``a protected file`` if there are
        too many to look at."""
        return self._ask(Operations.files_changed_by_commands, commands=commands)

    def fingerprints(self, names: Sequence[str]) -> dict[str, Fingerprint]:
        """Return those of variables that exist.

        They are the same for equal values of equal types in any kernel of the same interpreter.
        """
        return self._ask(Operations.fingerprints, names=list(names))

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        """Describe a variable.

        Args:
            run_code: Whether code of the user's classes may run.
        """
        return self._ask(Operations.inspect, name=name, run_code=run_code)

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Describe variables for a model, in at most `limit` characters each.

        Names that do not exist or look like secrets are left out, and those that take too long.
        """
        return self._ask(Operations.describe, names=list(names), limit=limit)

    def named_values(self, names: Sequence[str], question: str) -> dict[str, str]:
        """Return, for each variable, which values of its table a question names, and how the table
        writes them. Variables of which the question names no value are left out."""
        return self._ask(Operations.named_values, names=list(names), question=question)

    def result_doubts(
        self, names: Sequence[str], code: str, question: str = "", output: str = ""
    ) -> Sequence[str]:
        """Return a sentence for each thing that is probably wrong with the result of code.

        Args:
            names: The tables whose values may be told.
            code: The code.
            question: The question that the result must fit; empty if it need not fit one.
            output: What the code printed, if there is a question.
        """
        return self._ask(
            Operations.result_doubts,
            names=list(names),
            code=code,
            question=question,
            output=output,
        )

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve a request of an `InspectorClient`."""
        return self._ask(Operations.inspect_object, request=request)

    def complete(self, code: str, cursor: int) -> Completions:
        """Return completions at the cursor (in characters), within a time limit.

        Imports no modules.
        """
        return self._ask(Operations.complete, code=code, cursor=cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the function in whose call the cursor is, or else the name at the cursor."""
        return self._ask(Operations.explain, code=code, cursor=cursor)

    @property
    @abstractmethod
    def lock_unavailable_reason(self) -> str:
        """The reason why cells cannot run in a locked fork, as a clause; empty if they can."""

    @property
    def protects_files(self) -> bool:
        """Whether programs that code starts cannot change protected files unless the user has approved
        the code."""
        return False

    @property
    @abstractmethod
    def undo_unavailable_reason(self) -> str:
        """The reason why changes inside objects cannot be undone, as a clause.

        Empty if they can.
        """

    def undo_steps(self) -> tuple[UndoStep, ...]:
        """Return the cells that can be undone."""
        return self._ask(Operations.undo_steps)

    def preview_undo(self, cell: int, scope: UndoScope = WHOLE_UNDO) -> Restoration:
        """Return what `undo` would restore, without restoring it."""
        return self._undo(Operations.preview_undo, cell, scope)

    def undo(self, cell: int, scope: UndoScope = WHOLE_UNDO) -> Restoration:
        """Restore the namespace with the objects in it, and files, to the state before a cell; later
        cells are undone too.

        Args:
            cell: The cell.
            scope: What is restored.

        Returns:
            What was restored. A file that cannot be restored stays as it is, and is named there.

        Raises:
            KernelError: A cell is running, or a step in the namespace failed; then nothing was changed.
        """
        return self._undo(Operations.undo, cell, scope)

    def redo(self, scope: UndoScope = WHOLE_UNDO) -> Restoration:
        """Reverse the last `undo`, if no other cell has run since.

        Args:
            scope: That of the undo.
        """
        return self._undo(Operations.redo, 0, scope)

    def _undo(self, operation: Operation[UndoAnswer], cell: int, scope: UndoScope) -> Restoration:
        if not self._turn.acquire(blocking=False):
            raise KernelError("A cell is running. Wait until it ends, or interrupt it; then undo.")
        try:
            return self._ask(operation, cell=cell, **scope._asdict()).restoration
        finally:
            self._turn.release()

    def saved_namespace(self) -> SavedNamespace | None:
        """Return the variables saved from an earlier kernel of the session.

        None if this kernel saves nothing.
        """
        return None

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        """Save the namespace in a forked process, after the running cell.

        Args:
            carried: Files to keep, although nothing from them is in the namespace.
            lost: Names that could not be saved before, and that were not made again since.
            seconds: How long to wait at most.
        """
        raise KernelError(self._save_unavailable_reason)

    def restore(self, file: SavedFile) -> RestoredFile:
        """Restore the variables in a file, after the running cell; other calls wait meanwhile.

        `interrupt` stops it.
        """
        raise KernelError(self._save_unavailable_reason)

    @abstractmethod
    def info(self) -> KernelInfo:
        """Return the kernel's interpreter, process and state, without asking it."""

    @abstractmethod
    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        """End the kernel for good, with its processes, threads and descriptors.

        Args:
            leave: Whether to detach it instead, if it can run without a screen.
            on_purpose: Whether the user asked for that, so its cell has no time limit.
        """
