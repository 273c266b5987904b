"""What a kernel is to the rest of the program: one Protocol and its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol

Origin = Literal["user", "assistant"]
OutputKind = Literal["stdout", "value", "traceback", "display"]
Mime = Literal["image/png", "image/jpeg", "text/markdown", "text/html", "text/plain"]
"""``text/plain`` is help: a text to be read from its beginning. It has no data, its text is all."""
VariableKind = Literal["data", "module", "function", "class"]
CompletionKind = Literal[
    "data", "module", "function", "class", "property", "argument", "key", "column", "keyword", "name", "file", "folder", "magic", "command"
]
ChangeKind = Literal["added", "rebound", "changed", "perhaps", "deleted", "restoring", "absent"]
CHANGE_SIGNS: Mapping[str, str] = {"added": "+", "rebound": "~", "changed": "~", "perhaps": "?", "deleted": "−"}
"""How each kind of change is drawn."""
OnOutput = Callable[[OutputKind, str], None]

OUTPUT_LIMIT = 10_000
"""Characters that a cell of the model's may print before it is stopped (`LimitedOutput`)."""


class Status(StrEnum):
    """How a cell ended. The terms are exact: nothing is called killed that was only interrupted."""

    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    """The kernel was killed because the user asked for it, or by `reset`."""
    DIED = "died"
    """The kernel ended by itself or by somebody else's hand."""


class KernelState(StrEnum):
    """The life of a kernel as the header shows it."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DEAD = "dead"


class KernelError(Exception):
    """The kernel cannot do this; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name of the namespace, described from metadata only."""

    name: str
    type: str
    """The type's name, with its module where that helps (`DataFrame`, `PosixPath`)."""
    summary: str
    """Shape, length or the value of simple things: `10000 × 5`, `18.4 M chars`, `42`. One line."""
    kind: VariableKind

    @property
    def private(self) -> bool:
        return self.name.startswith("_")


@dataclass(frozen=True, slots=True)
class Change:
    """What a cell did to one name."""

    name: str
    change: ChangeKind
    """``rebound``: the name stands for another object. ``changed``: the same object holds something else. ``perhaps``: the cell may have
    changed the object in place; nobody can tell."""
    variable: Variable | None
    """As it is after the change; None where it was deleted."""
    before: Variable | None = None
    """As it was before the change, where that is told (of an undo); else None."""


@dataclass(frozen=True, slots=True)
class NotRestored:
    """Something that an undo leaves as it is."""

    name: str
    """The variable; empty where it is about more than one."""
    reason: str
    """A sentence for the user."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """What an undo or a redo does, or would do."""

    changes: tuple[Change, ...]
    """What it does to each name, by kind: ``added`` (the name comes back), ``deleted`` (it goes), ``rebound``, ``changed`` (inside)."""
    kept_as_is: tuple[NotRestored, ...]
    exact: bool
    """Everything will be as it was; nothing is kept as it is."""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A cell whose start can be gone back to."""

    cell: int
    bytes: int
    """Memory that only this step needs."""


class KeepPlace(NamedTuple):
    """Where and how a namespace is kept."""

    folder: str
    """The session's own, in a folder for all sessions that only the user can write."""
    key: str
    """Hexadecimal: signs what the user's own sessions have written."""
    megabytes: int
    """At most; the largest variables are left out first."""


@dataclass(frozen=True, slots=True)
class NotKept:
    """A variable that is not kept, and why: the end of a sentence."""

    variable: Variable
    reason: str


@dataclass(frozen=True, slots=True)
class KeptFile:
    """Variables that are read together."""

    name: str
    size: int
    """Bytes."""
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class KeptNamespace:
    """What is kept of an earlier kernel of the session."""

    files: tuple[KeptFile, ...]
    missing: tuple[NotKept, ...]


@dataclass(frozen=True, slots=True)
class KeepResult:
    """What came of writing the namespace."""

    size: int = 0
    """Bytes of all that is kept."""
    names: int = 0
    missing: int = 0
    """How many variables are kept, and how many are not."""
    error: str = ""
    """Why nothing was written, as the end of a sentence; what was kept before is still there."""


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """What came of reading variables that were kept."""

    changes: tuple[Change, ...]
    """The names that are back."""
    missing: Mapping[str, str]
    """The names that are not, and why: the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Display:
    """What a cell showed that is more than text. Its text is a piece of the output too, of kind ``display``."""

    mime: Mime
    data: str
    """Of pictures: base64."""
    text: str
    """For who cannot see the rest."""


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """Where a line of a traceback leads."""

    file: str
    """As Python has it; of a cell ``In [3]``."""
    line: int
    """0 where it is not known."""
    function: str
    """Empty of a place that does not compile."""
    row: int
    """Lines of the output from this frame's to the end: 1 is the last; 0 where it is not told."""


OnDisplay = Callable[[Display], None]


@dataclass(frozen=True, slots=True)
class CellResult:
    """What became of one cell."""

    cell: int
    status: Status
    output: str
    """All that it printed, as a terminal shows it in the end, its value and its traceback, in order."""
    kinds: tuple[tuple[OutputKind, int], ...]
    """What the characters of `output` are, in order."""
    duration: float
    """Seconds."""
    changes: tuple[Change, ...]
    detail: str = ""
    """For `died` and `killed`: how, in a sentence."""
    displays: tuple[Display, ...] = ()
    """One for each piece of kind ``display``."""
    frames: tuple[TracebackFrame, ...] = ()
    """The places that the traceback names, in its order."""
    rewritten: bool = False
    """More was printed than `output` has: a part was written over."""


@dataclass(frozen=True, slots=True)
class Detail:
    """A look inside one variable. Getting it may run the object's own code, under a time limit."""

    name: str
    type: str
    summary: str
    text: str
    """The full representation, cut at the size limit."""
    cut: int
    """Characters that were left out of `text`."""
    attributes: tuple[Variable, ...]
    """Its attributes by exact type, no property run."""
    doc: str
    source: str
    """Of functions and classes; else empty."""
    where: str
    """File and line of the source; else empty."""
    error: str
    """What went wrong while it was described (a `__repr__` that raised, a time limit), or empty."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Something that may stand at the cursor."""

    label: str
    """As it is shown."""
    text: str
    """What is put in its place."""
    kind: CompletionKind
    doc: str
    """One line: type and summary of data, parameters and first line of the docstring of functions."""


@dataclass(frozen=True, slots=True)
class Completions:
    """What may stand at a cursor, the best first."""

    start: int
    """Where in the code the text begins that a completion replaces, up to the cursor; in characters."""
    items: tuple[Completion, ...]
    more: int
    """How many more there are."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a thing is."""

    name: str
    """The expression that it was asked for by."""
    signature: str
    """Of what can be called; of other things type and summary."""
    doc: str
    where: str
    """File and line of its source; else empty."""
    source: str
    """Empty but where it was asked for."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What a kernel runs on."""

    python: str
    """Version, as in "3.12.1"."""
    executable: str
    cwd: str
    pid: int
    state: KernelState


class HostFunction(NamedTuple):
    """A function of every namespace that the host answers: its call goes to `KernelHost.call`."""

    name: str
    called: str
    """Under which name the host knows it."""
    parameters: Sequence[tuple[str, str, str | None]]
    """Name, annotation and default of each, as they are written; None where there is no default. Their values go as JSON."""
    doc: str


class KernelHost(Protocol):
    """What a kernel tells and asks its host. Called from the kernel's own threads."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """The state changed; `text` is a sentence ("The kernel died: segmentation fault (SIGSEGV).")."""

    def late_output(self, text: str) -> None:
        """Something was printed while no cell ran: by a thread, a child, a task of the loop."""

    def functions(self) -> Sequence[HostFunction]:
        """What every new namespace gets beside the tools that the kernel has by itself."""

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Code in the kernel calls the host by name and waits; arguments and answer are JSON values.

        Runs on a thread of its own, so it may block, and may call `Kernel.execute` with ``nested=True``. An exception's text goes to the caller
        in the kernel as `RuntimeError`; a `KeyboardInterrupt` there ends the wait, and `cancelled` is told.
        """

    def call_cancelled(self, name: str) -> None:
        """The kernel no longer waits for the answer to `call` (it was interrupted)."""


class NoHost:
    """The `KernelHost` of a kernel that was not started yet."""

    def kernel_state(self, info: KernelInfo, text: str) -> None: ...

    def late_output(self, text: str) -> None: ...

    def functions(self) -> Sequence[HostFunction]:
        return ()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        raise RuntimeError("The kernel was not started.")

    def call_cancelled(self, name: str) -> None: ...


class Kernel(Protocol):
    """A namespace and the means to run code in it. Every method may be called from any thread but the kernel's own."""

    def start(self, host: KernelHost) -> None:
        """Start it; returns when it is ready. host: what it tells and asks from now on. Raises `KernelError`."""

    def execute(
        self,
        code: str,
        *,
        cell: int,
        origin: Origin,
        on_output: OnOutput,
        limit: int | None = None,
        nested: bool = False,
        on_display: OnDisplay | None = None,
    ) -> CellResult:
        """Run one cell and wait for its end. Cells of several threads run one after the other, but `nested` ones, which run while
        the cell that called the host waits. `limit`: characters of output after which it is stopped. Never raises for what the cell
        does, not even for the kernel's death. `on_display`: called before `on_output` has its text."""

    def interrupt(self) -> bool:
        """Stop the running cell (SIGINT); False when none runs."""

    def kill(self) -> None:
        """Kill the kernel (SIGKILL) and start a new one."""

    def reset(self) -> None:
        """A fresh namespace: ends this kernel, starts a new one; returns when it is ready. Raises `KernelError`."""

    def activate(self, python: str) -> None:
        """Go on with another interpreter (a file, or a virtual environment's folder). Raises `KernelError`, and the old one stays."""

    def change_directory(self, path: str) -> str:
        """Change the kernel's working directory; returns the new one. Raises `KernelError`."""

    def installed(self, module: str, *, load: bool = False) -> bool:
        """Whether a module of this name, without dots, can be imported from elsewhere than the working directory. Raises `KernelError`.

        load: import it, too, so that code which names it later does not take one of that folder. Works while a cell runs.
        """

    def set_size(self, columns: int, lines: int) -> None:
        """Tell the code how wide the screen's transcript is (COLUMNS, LINES)."""

    def set_reload(self, on: bool) -> None:
        """Whether modules of the project are loaded anew before a cell when their file has changed."""

    def variables(self) -> list[Variable]:
        """All names of the namespace. Works while a cell runs. No code of the user's classes runs."""

    def inspect(self, name: str) -> Detail:
        """A look inside one variable, as text. Works while a cell runs. Raises `KernelError` where there is no such name."""

    def look(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a question of a screen that looks inside objects, a page at a time (see `looking.Look`). Works while a cell runs. Raises
        `KernelError`."""

    def complete(self, code: str, cursor: int) -> Completions:
        """What may stand at the cursor (in characters). Works while a cell runs, within a time limit. No code of the user's classes
        runs, and nothing is imported. Raises `KernelError` where the kernel does not answer in time."""

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """The function in whose call the cursor (in characters) stands, else the thing that it stands on; None where it is not known.
        Otherwise as `complete`."""

    @property
    def cannot_undo(self) -> str:
        """Why changes inside objects cannot be undone, as a clause; empty if they can."""

    def undo_steps(self) -> tuple[UndoStep, ...]:
        """The cells whose start can be gone back to, the oldest first. Works while a cell runs. Raises `KernelError`."""

    def preview_undo(self, cell: int) -> Restoration:
        """What `undo` would do. Otherwise as `undo`."""

    def undo(self, cell: int) -> Restoration:
        """Make the namespace as it was before this cell ran, and the objects in it: the cells after it are undone, too.

        If anything fails, all is as it was. Raises `KernelError` while a cell runs, and for a cell that cannot be undone."""

    def redo(self) -> Restoration:
        """Make everything as it was before the last `undo`, until another cell runs. Otherwise as `undo`."""

    def branch(self, cell: int, place: KeepPlace) -> KeepResult:
        """Write the namespace to a new place as it was before this cell ran. Raises `KernelError` as `undo` does, and where nothing was written."""

    def kept(self) -> KeptNamespace | None:
        """What is kept of an earlier kernel of the session; None where this kernel keeps nothing. Raises `KernelError`."""

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        """Write the namespace to disk in a forked process, after the running cell, and wait for it at most so long. Raises `KernelError`.

        carried: files that stay, though nothing of them is in the namespace. lost: names that were not kept before, and were not made since."""

    def restore(self, file: KeptFile) -> RestoredFile:
        """Bring the variables of a file back, after the running cell; others wait meanwhile. `interrupt` stops it. Raises `KernelError`."""

    def info(self) -> KernelInfo: ...

    def close(self) -> None:
        """End it for good. Nothing is left behind: no process, thread or descriptor."""
