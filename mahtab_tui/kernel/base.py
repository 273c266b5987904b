"""The `Kernel` interface, with the table of its operations and their values, and the host
interface."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

from mahtab_tui.worker.protected import ResolvedPath

Origin = Literal["user", "assistant"]
OutputKind = Literal["stdout", "value", "traceback", "display"]
Mime = Literal["image/png", "image/jpeg", "text/markdown", "text/html", "text/plain"]
"""``text/plain`` is help, which is read from its start."""
DisplayAction = Literal["show", "update", "clear"]
VariableKind = Literal["data", "module", "function", "class"]
ChangeKind = Literal["added", "rebound", "changed", "perhaps", "deleted", "restoring", "absent"]
CHANGE_SIGNS: Mapping[str, str] = {
    "added": "+",
    "rebound": "~",
    "changed": "~",
    "perhaps": "?",
    "deleted": "−",
}

RESET = "The kernel was reset."
FRESH = "Started a fresh kernel; its namespace is empty."

Lock = Literal["keep", "discard", "guard"]
"""How code that the user has not approved is confined: to a locked fork whose new names are kept or
discarded, or to the kernel without its protected files."""


class Status(StrEnum):
    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    type: str
    summary: str
    """One line: `10000 × 5`, `18.4 M chars`, `42`."""
    kind: VariableKind
    size: int = 0
    """Bytes of a large array, table or text; 0 for others."""

    @property
    def underscored(self) -> bool:
        return self.name.startswith("_")


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    change: ChangeKind
    """``rebound``: to another object. ``changed``: in place. ``perhaps``: comparing it would take
    too long."""
    variable: Variable | None
    before: Variable | None = None
    columns: str = ""
    """The columns of a table that came or went: ``+ column `z` ``."""


@dataclass(frozen=True, slots=True)
class PrivateUse:
    aliases: tuple[str, ...]
    texts: tuple[str, ...]
    """Texts in their values that are long enough to be recognised."""
    used: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Display:
    """Its text is also a piece of the output, of kind ``display``."""

    mime: Mime
    data: str
    text: str
    value: str = ""
    """The key with which the kernel opens the value; empty if it cannot."""
    name: str = ""
    """By which the cell updates it; empty if it cannot."""
    action: DisplayAction = "show"
    """What to do with it. ``update``: put it in the place of the one with its name. ``clear``:
    remove all output of the cell so far; the display itself is empty."""


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    file: str
    """``In [3]`` for a cell."""
    line: int
    function: str
    row: int
    """The line of the output that names it, counted from its end; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class CellResult:
    cell: int
    status: Status
    output: str
    kinds: tuple[tuple[OutputKind, int], ...]
    duration: float
    changes: tuple[Change, ...]
    detail: str = ""
    """For `died` and `killed`: a sentence on how."""
    displays: tuple[Display, ...] = ()
    frames: tuple[TracebackFrame, ...] = ()
    rewritten: bool = False
    """Whether part of the output was overwritten."""
    needs: str = ""
    """The access that a cell in a locked fork lacked ("wanted to write out.csv")."""


@dataclass(frozen=True, slots=True)
class NotRestored:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restoration:
    changes: tuple[Change, ...]
    not_restored: tuple[NotRestored, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class UndoStep:
    cell: int
    bytes: int


class SaveTarget(NamedTuple):
    folder: str
    key: str
    """In hexadecimal. Signs the files, so that only the user's own are read."""
    megabytes: int


@dataclass(frozen=True, slots=True)
class NotSaved:
    """`reason` is the end of a sentence."""

    variable: Variable
    reason: str


@dataclass(frozen=True, slots=True)
class SavedFile:
    name: str
    size: int
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class SavedNamespace:
    files: tuple[SavedFile, ...]
    missing: tuple[NotSaved, ...]


@dataclass(frozen=True, slots=True)
class KeepResult:
    size: int = 0
    names: int = 0
    missing: int = 0
    error: str = ""
    """The end of a sentence; empty if it was saved."""


@dataclass(frozen=True, slots=True)
class RestoredFile:
    changes: tuple[Change, ...]
    missing: Mapping[str, str]
    """The names that were not restored, with the end of a sentence."""


CompletionKind = Literal[
    "data",
    "module",
    "function",
    "class",
    "property",
    "argument",
    "key",
    "column",
    "keyword",
    "name",
    "file",
    "folder",
    "magic",
    "command",
]


@dataclass(frozen=True, slots=True)
class Detail:
    name: str
    type: str
    summary: str
    text: str
    cut: int
    doc: str
    source: str
    where: str
    error: str


@dataclass(frozen=True, slots=True)
class Completion:
    label: str
    text: str
    kind: CompletionKind
    doc: str


@dataclass(frozen=True, slots=True)
class Completions:
    start: int
    items: tuple[Completion, ...]
    more: int
    pending: bool = False
    """Whether more will follow, because an MCP server is starting."""


@dataclass(frozen=True, slots=True)
class Explanation:
    name: str
    signature: str
    doc: str
    where: str
    source: str


class Author(NamedTuple):
    party: str
    cell: int
    perhaps: bool


class _Origin(NamedTuple):
    """Where a name comes from."""

    author: Author | None = None
    """Of the last change."""
    variable: Variable | None = None
    maker: str = ""
    """Who made the name, whoever has changed it since; empty if unknown."""


class Provenance:
    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}
        self._replaced: list[tuple[int, str, _Origin]] = []

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        for change in changes:
            before = self._origins.get(change.name, _Origin())
            author: Author | None = Author(party, cell, change.change == "perhaps")
            maker = party if change.change == "added" else before.maker
            if change.change == "deleted":
                author = None
                maker = ""
            elif change.change == "perhaps" and before.author is not None:
                author = before.author._replace(perhaps=True)
            after = _Origin(author, change.variable, maker)
            if after != before:
                self._origins[change.name] = after
                self._replaced.append((cell, change.name, before))

    def before(self, cell: int) -> Provenance:
        """Return the state from before a cell."""
        indices = (
            index for index, (changed_by, _, _) in enumerate(self._replaced) if changed_by >= cell
        )
        first = next(indices, len(self._replaced))
        earlier = Provenance()
        earlier._origins = dict(self._origins)
        earlier._replaced = self._replaced[:first]
        for _, name, origin in reversed(self._replaced[first:]):
            earlier._origins[name] = origin
        return earlier

    def author(self, name: str) -> Author | None:
        return self._origins.get(name, _Origin()).author

    def is_made_by(self, name: str, party: str) -> bool:
        """Return whether a party made a name, or nobody else is known to have made it."""
        return self._origins.get(name, _Origin()).maker in (party, "")

    def described(self, name: str) -> Variable | None:
        return self._origins.get(name, _Origin()).variable


OnOutput = Callable[[OutputKind, str], None]


class KernelState(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DEAD = "dead"


class KernelError(Exception):
    """The kernel cannot do this; the message is a sentence for the user."""


OnDisplay = Callable[[Display], None]


class CellListener(NamedTuple):
    """A cell's number, and where its output goes, as for `Kernel.execute`."""

    cell: int
    on_output: OnOutput
    on_display: OnDisplay | None


@dataclass(frozen=True, slots=True)
class KernelInfo:
    python: str
    executable: str
    cwd: str
    pid: int
    state: KernelState
    host: str = ""
    """The machine or the connecting command; empty for this machine."""
    next_try: float = 0.0
    address: str = ""
    """As for ``--kernel``."""

    @property
    def local_folder(self) -> str:
        """The folder on this machine that paths in questions and tools refer to."""
        return os.getcwd() if self.host else self.cwd


@dataclass(frozen=True, slots=True)
class FolderEntry:
    name: str
    size: int | None
    """In bytes; None for a folder."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    entries: tuple[FolderEntry, ...]
    """The first ones by name, without hidden ones."""
    total: int


class HostFunction(NamedTuple):
    """A function in every namespace that calls `KernelHost.call`."""

    name: str
    called: str
    parameters: Sequence[tuple[str, str, str | None]]
    """Name, annotation and default of each, as source text; None for no default."""
    doc: str


class HostServer(NamedTuple):
    """An MCP server: an object in every namespace whose tools `KernelHost.call` serves."""

    name: str
    about: str
    """One line for its `repr`."""


class KernelHost(Protocol):
    """The interface that a kernel calls, on its own threads."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """Report a new state. text: a sentence for the user, or empty."""
        return

    def background_output(self, text: str) -> None:
        """Something was printed while no cell ran."""
        return

    def functions(self) -> Sequence[HostFunction]:
        return ()

    def servers(self) -> Sequence[HostServer]:
        return ()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve a call by code in the kernel, which waits; arguments and result are JSON values.
        Runs on a separate thread, so it may block, and may call `Kernel.execute` with
        ``nested=True``. The message of an exception is raised in the kernel as `RuntimeError`."""
        raise RuntimeError("The kernel was not started.")

    def call_cancelled(self, name: str) -> None:
        """The kernel no longer waits for the result of `call`."""
        return


class NullHost(KernelHost):
    """A `KernelHost` for a kernel that has not been started."""


def host_definitions(host: KernelHost) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the host's functions and servers, as requests that define them in the kernel."""
    yield "functions", [function._asdict() for function in host.functions()]
    if servers := host.servers():
        yield "servers", [server._asdict() for server in servers]


T = TypeVar("T")

ALL = "*"
"""Leaves the whole result unmasked, instead of some fields."""


class Operation(Generic[T]):
    """A request to a kernel's worker, or another method of `Kernel`."""

    name = ""

    def __init__(self, result: type[T], unmasked: str = "", *, timeout: float = 5.0) -> None:
        """unmasked: fields of the result, at any depth, whose texts are not masked, because they
        identify something or are our own words. timeout: seconds."""
        self.result = result
        self.unmasked = frozenset(unmasked.split())
        self.timeout = timeout

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    restoration: Restoration
    cwd: str


CHANGES = "name kind change"

LOAD_TIMEOUT = 60.0


class Operations:
    """All operations whose result holds text, and all requests."""

    execute = Operation(CellResult, f"{CHANGES} kinds mime value file")
    resume_cell = Operation(CellResult, f"{CHANGES} kinds mime value file")
    info = Operation(KernelInfo, ALL)
    saved_before = Operation(tuple[Any, ...], ALL)
    change_directory = Operation(str)
    installed = Operation(bool)
    packages = Operation(dict[str, str])
    list_folder = Operation(FolderListing)
    variables = Operation(list[Variable], "name kind")
    private_use = Operation(PrivateUse, ALL, timeout=15.0)
    resolve_paths = Operation[list[ResolvedPath | None]](
        cast("Any", list[ResolvedPath | None]), ALL, timeout=15.0
    )
    inspect = Operation(Detail, "name", timeout=10.0)
    describe = Operation(dict[str, str])
    inspect_object = Operation(
        dict[str, Any], "step path expression known kind state views picture", timeout=15.0
    )
    complete = Operation(Completions, "text kind", timeout=0.5)
    explain = Operation[Explanation | None](cast("Any", Explanation | None), "name")
    cannot_lock = Operation(str)
    undo_steps = Operation(tuple[UndoStep, ...])
    preview_undo = Operation(UndoAnswer, CHANGES, timeout=120.0)
    undo = Operation(UndoAnswer, CHANGES, timeout=120.0)
    redo = Operation(UndoAnswer, CHANGES, timeout=120.0)
    saved_namespace = Operation(SavedNamespace, "name kind", timeout=30.0)
    keep = Operation(KeepResult)
    restore = Operation(RestoredFile, CHANGES, timeout=30.0)

    # Requests that are no operations of `Kernel`.
    interrupt_cell = Operation(object, timeout=1.0)
    functions = Operation(object, timeout=60.0)
    servers = Operation(object, timeout=60.0)
    ended = Operation(dict[str, Any], timeout=10.0)
    leave = Operation(object)


class Kernel(Protocol):
    """A namespace in which code runs. Methods may be called from any thread except the kernel's
    own; those that ask the kernel raise `KernelError`. Those that describe variables work while a
    cell runs, and run no code of the user's classes."""

    _host: KernelHost = NullHost()
    _state: KernelState = KernelState.DEAD
    _turn: threading.Lock
    _cannot_save: str = ""

    def _report(self, state: KernelState, text: str) -> None:
        self._state = state
        self._host.kernel_state(self.info(), text)

    @contextmanager
    def _busy(self, nested: bool) -> Iterator[None]:
        if nested:
            yield
            return
        self._report(KernelState.BUSY, "")
        try:
            yield
        finally:
            if self._state is KernelState.BUSY:
                self._report(KernelState.IDLE, "")

    def _refuse_lock(self, lock: Lock | None) -> None:
        """Refuse what this kernel cannot do. Without its own worker, it guards no files: then only
        the text of the code is checked before it runs."""
        if lock in ("keep", "discard"):
            raise KernelError(
                f"The cell did not run: it cannot run in a locked fork, because {self.cannot_lock}."
            )

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T: ...

    def start(self, host: KernelHost) -> None: ...

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
        """Run a cell, and wait for its end. Nothing that the cell does raises here, not even the
        kernel's death. nested: run it while the cell that called the host waits. on_display: called
        before `on_output` gets the display's text. lock: how the code is confined."""
        return self._run_cell(code, CellListener(cell, on_output, on_display), nested, lock)

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult: ...

    @property
    def can_detach(self) -> bool:
        return False

    @property
    def was_reattached(self) -> bool:
        """Whether the kernel outlived an earlier screen, and still has its variables."""
        return False

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        """Wait for the end of a cell that began on an earlier screen. All its output is sent again.
        Returns None if the kernel does not know the cell."""
        return None

    def acknowledge(self, cell: int) -> None:
        """Note that a result is stored, so that it is not sent to another screen."""
        return

    def saved_before(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Return the last arguments of `keep` on an earlier screen; None for the first if there
        were none."""
        return None, ()

    def interrupt(self) -> bool: ...

    def kill(self) -> None:
        """Kill the kernel (SIGKILL) and start a new one."""

    def reset(self) -> None:
        """Start a new kernel with an empty namespace."""

    def activate(self, python: str) -> None:
        """Switch to another interpreter (a file, or the folder of a virtual environment). If it
        raises `KernelError`, the old one stays."""

    def change_directory(self, path: str) -> str:
        return self._ask(Operations.change_directory, path=path)

    def installed(self, module: str, *, load: bool = False) -> bool:
        """Return whether a module can be imported from anywhere except the working directory. load:
        also import it, so that later code does not import one from that folder. Works while a cell
        runs."""
        timeout = LOAD_TIMEOUT if load else None
        return self._ask(Operations.installed, timeout, module=module, load=load)

    def packages(self, names: Sequence[str]) -> dict[str, str]:
        """Return the versions of those packages that are installed, from their metadata."""
        return self._ask(Operations.packages, names=list(names))

    def list_folder(self, limit: int) -> FolderListing:
        """Return the first entries of the working directory."""
        return self._ask(Operations.list_folder, limit=limit)

    def set_size(self, columns: int, lines: int) -> None:
        return

    def set_reload(self, on: bool) -> None:
        """Set whether changed modules of the project are reloaded before a cell."""
        return

    def variables(self) -> list[Variable]:
        return self._ask(Operations.variables)

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Return where the values of some variables occur, and which of them each code reaches."""
        return self._ask(Operations.private_use, names=list(names), codes=list(codes))

    def resolve_paths(self, texts: Sequence[str]) -> list[ResolvedPath | None]:
        """Return where texts lead if the kernel's code uses them as paths; None for those that
        cannot be paths."""
        return self._ask(Operations.resolve_paths, texts=list(texts))

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        """Describe a variable. run_code: whether code of the user's classes may run."""
        return self._ask(Operations.inspect, name=name, run_code=run_code)

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Describe variables for a model, in at most `limit` characters each. Names that do not
        exist or look like secrets are left out, and those that take too long."""
        return self._ask(Operations.describe, names=list(names), limit=limit)

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask(Operations.inspect_object, request=request)

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete at the cursor (in characters), within a time limit. Imports nothing."""
        return self._ask(Operations.complete, code=code, cursor=cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the function in whose call the cursor is, or else the name at the cursor."""
        return self._ask(Operations.explain, code=code, cursor=cursor)

    @property
    def cannot_lock(self) -> str:
        """The reason why cells cannot run in a locked fork, as a clause; empty if they can."""

    @property
    def cannot_undo(self) -> str:
        """The reason why changes inside objects cannot be undone, as a clause; empty if they
        can."""

    def undo_steps(self) -> tuple[UndoStep, ...]:
        return self._ask(Operations.undo_steps)

    def preview_undo(self, cell: int) -> Restoration:
        return self._undo(Operations.preview_undo, cell)

    def undo(self, cell: int) -> Restoration:
        """Restore the namespace, and the objects in it, to the state before a cell; later cells are
        undone too. If a step fails, nothing is changed. Raises `KernelError` while a cell runs."""
        return self._undo(Operations.undo, cell)

    def redo(self) -> Restoration:
        """Reverse the last `undo`, if no other cell has run since."""
        return self._undo(Operations.redo, 0)

    def _undo(self, operation: Operation[UndoAnswer], cell: int) -> Restoration:
        if not self._turn.acquire(blocking=False):
            raise KernelError("A cell is running. Wait until it ends, or interrupt it; then undo.")
        try:
            return self._ask(operation, cell=cell).restoration
        finally:
            self._turn.release()

    def saved_namespace(self) -> SavedNamespace | None:
        """Return the variables saved from an earlier kernel of the session; None if this kernel
        saves nothing."""
        return None

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        """Save the namespace in a forked process, after the running cell, and wait at most that
        long.

        carried: files to keep, although nothing from them is in the namespace. lost: names that
        could not be saved before, and that were not made again since.
        """
        raise KernelError(self._cannot_save)

    def restore(self, file: SavedFile) -> RestoredFile:
        """Restore the variables in a file, after the running cell; other calls wait meanwhile.
        `interrupt` stops it."""
        raise KernelError(self._cannot_save)

    def info(self) -> KernelInfo: ...

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        """End the kernel for good, with its processes, threads and descriptors. leave: detach it,
        if it can run without a screen.

        on_purpose: the user asked for that, so its cell has no time limit.
        """
