"""Data about cells and variables, as a kernel sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, TypeVar

Origin = Literal["user", "assistant"]
OutputKind = Literal["stdout", "value", "traceback", "display"]
Mime = Literal["image/png", "image/jpeg", "text/markdown", "text/html", "text/plain"]
"""``text/plain`` is help: only its text is used, and it is read from the beginning."""
VariableKind = Literal["data", "module", "function", "class"]
ChangeKind = Literal["added", "rebound", "changed", "perhaps", "deleted", "restoring", "absent"]
CHANGE_SIGNS: Mapping[str, str] = {
    "added": "+",
    "rebound": "~",
    "changed": "~",
    "perhaps": "?",
    "deleted": "−",
}
"""How each kind of change is drawn."""


RESET = "The kernel was reset."
"""The detail of a cell's result that a reset ended."""

Lock = Literal["keep", "discard"]
"""A cell runs in a locked fork: what it makes comes back, or stays there."""


class Status(StrEnum):
    """How a cell ended."""

    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    """The kernel was killed because the user asked for it, or by `reset`."""
    DIED = "died"
    """The kernel ended by itself, or another program ended it."""


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
    def underscored(self) -> bool:
        """Whether its name begins with ``_``: it is hidden in lists."""
        return self.name.startswith("_")


@dataclass(frozen=True, slots=True)
class Change:
    """Change that a cell made to a name."""

    name: str
    change: ChangeKind
    """``rebound``: the name refers to another object. ``changed``: the object was changed in place.
    ``perhaps``: it may have been changed in place, but comparing it would take too long."""
    variable: Variable | None
    """As it is after the change; None if it was deleted."""
    before: Variable | None = None
    """As it was before the change, for an undo; otherwise None."""


@dataclass(frozen=True, slots=True)
class PrivateUse:
    """Places where variables show that the user has marked as private."""

    aliases: tuple[str, ...]
    """Other names of the same objects."""
    texts: tuple[str, ...]
    """Texts in their values, as far as they are long enough to be recognised, and not too many."""
    used: tuple[tuple[str, ...], ...]
    """For each code, the variables that it can reach."""


@dataclass(frozen=True, slots=True)
class Display:
    """A display of a cell beside text. Its text is also a piece of the output, of kind
    ``display``."""

    mime: Mime
    data: str
    """Base64 for pictures."""
    text: str
    """A description, for readers who cannot see the data."""
    value: str = ""
    """The key with which the kernel opens the value; empty if it cannot."""


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """A place that a traceback names."""

    file: str
    """As Python names it; ``In [3]`` for a cell."""
    line: int
    """0 if it is not known."""
    function: str
    """Empty for code that does not compile."""
    row: int
    """The line of the output that names it, counted from the end: 1 is the last; 0 if it is not
    known."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of one cell."""

    cell: int
    status: Status
    output: str
    """Its output as a terminal shows it at the end, its value and its traceback, in order."""
    kinds: tuple[tuple[OutputKind, int], ...]
    """The kinds of the pieces of `output`, in order, with their lengths in characters."""
    duration: float
    """Seconds."""
    changes: tuple[Change, ...]
    detail: str = ""
    """For `died` and `killed`: a sentence that says how."""
    displays: tuple[Display, ...] = ()
    """One for each piece of kind ``display``."""
    frames: tuple[TracebackFrame, ...] = ()
    """The places that the traceback names, in its order."""
    rewritten: bool = False
    """Whether a part of what was printed was overwritten, and is not in `output`."""
    needs: str = ""
    """Need of a cell in a locked fork beyond the lock, as a clause ("wanted to write out.csv").
    Nothing of it was kept."""


@dataclass(frozen=True, slots=True)
class NotRestored:
    """Something that an undo cannot restore."""

    name: str
    """The variable; empty if it concerns several."""
    reason: str
    """A sentence for the user."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """Effect of an undo or a redo."""

    changes: tuple[Change, ...]
    """Effect on each name, by kind: ``added`` (the name comes back), ``deleted`` (it goes away),
    ``rebound``, ``changed`` (in place)."""
    kept_as_is: tuple[NotRestored, ...]
    exact: bool
    """Whether everything is restored."""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A cell that can be undone."""

    cell: int
    bytes: int
    """Memory that this step alone uses."""


class SaveTarget(NamedTuple):
    """Folder and limits for saving a namespace."""

    folder: str
    """The session's folder, inside a folder that only the user can write."""
    key: str
    """Hexadecimal; it signs the files, so that only files of the user's own sessions are read."""
    megabytes: int
    """The limit; the largest variables are left out first."""


@dataclass(frozen=True, slots=True)
class NotSaved:
    """A variable that is not kept, and why: the end of a sentence."""

    variable: Variable
    reason: str


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of variables that are read together."""

    name: str
    size: int
    """Bytes."""
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class SavedNamespace:
    """Variables saved from an earlier kernel of the session."""

    files: tuple[SavedFile, ...]
    missing: tuple[NotSaved, ...]


@dataclass(frozen=True, slots=True)
class KeepResult:
    """The result of writing the namespace."""

    size: int = 0
    """Bytes of everything that is kept."""
    names: int = 0
    missing: int = 0
    """How many variables are kept, and how many are not."""
    error: str = ""
    """Why nothing was written, as the end of a sentence; what was kept before is still there. Empty
    if it was written."""


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """The result of reading kept variables."""

    changes: tuple[Change, ...]
    """The names that are back."""
    missing: Mapping[str, str]
    """The names that are not, and why: the end of a sentence."""


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
    """One variable in full. Making it may run the object's own code, under a time limit."""

    name: str
    type: str
    summary: str
    text: str
    """The representation, up to the size limit."""
    cut: int
    """Characters that were left out of `text`."""
    attributes: tuple[Variable, ...]
    """Its attributes; no property was run."""
    doc: str
    source: str
    """For functions and classes; otherwise empty."""
    where: str
    """File and line of the source; empty if it has none."""
    error: str
    """The failure while it was described (a `__repr__` that raised, the time limit); empty if there
    was none."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that can complete the code at the cursor."""

    label: str
    """As it is shown."""
    text: str
    """The text that is inserted."""
    kind: CompletionKind
    doc: str
    """One line: the type and summary of data; the parameters and the first line of the docstring of
    a function."""


@dataclass(frozen=True, slots=True)
class Completions:
    """The completions at a cursor, the best first."""

    start: int
    """The start, in characters, of the text that a completion replaces; its end is the cursor."""
    items: tuple[Completion, ...]
    more: int
    """The number of completions that were left out."""
    pending: bool = False
    """Whether there will soon be others: an MCP server is starting."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Help on the name or call at the cursor."""

    name: str
    """The expression, as it is written."""
    signature: str
    """The signature of a callable; the type and summary of anything else."""
    doc: str
    where: str
    """File and line of its source; empty if it has none."""
    source: str
    """Empty unless it was asked for."""


_T = TypeVar("_T")


class Author(NamedTuple):
    """The party and cell that changed a name."""

    party: str
    cell: int
    perhaps: bool
    """Whether a later cell may have changed it in place."""


class _PreviousState(NamedTuple):
    """The author and description of a name before a cell changed it."""

    cell: int
    name: str
    author: Author | None
    variable: Variable | None


class Provenance:
    """Folds the changes of cells."""

    def __init__(self) -> None:
        self._authors: dict[str, Author] = {}
        self._described: dict[str, Variable] = {}
        self._replaced: list[_PreviousState] = []

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        for change in changes:
            name = change.name
            before = _PreviousState(cell, name, self._authors.get(name), self._described.get(name))
            if change.variable is None:
                self._described.pop(change.name, None)
            else:
                self._described[change.name] = change.variable
            known = self._authors.get(change.name)
            if change.change == "deleted":
                self._authors.pop(change.name, None)
            elif change.change == "perhaps" and known is not None:
                self._authors[change.name] = known._replace(perhaps=True)
            else:
                self._authors[change.name] = Author(party, cell, change.change == "perhaps")
            if (self._authors.get(name), self._described.get(name)) != before[2:]:
                self._replaced.append(before)

    def rewind(self, cell: int) -> None:
        """Restore what was known before a cell ran."""
        first = next((n for n, entry in enumerate(self._replaced) if entry.cell >= cell), None)
        if first is None:
            return
        for _, name, author, variable in reversed(self._replaced[first:]):
            _put(self._authors, name, author)
            _put(self._described, name, variable)
        del self._replaced[first:]

    def author(self, name: str) -> Author | None:
        """Return who made or last changed a name; None if no cell has."""
        return self._authors.get(name)

    def described(self, name: str) -> Variable | None:
        """Return the variable as it was after the last cell that changed it; None if no cell
        has."""
        return self._described.get(name)

    def copy(self) -> Provenance:
        other = Provenance()
        other.restore(self)
        return other

    def restore(self, other: Provenance) -> None:
        """Know again what was known when `other` was copied."""
        self._authors = dict(other._authors)
        self._described = dict(other._described)
        self._replaced = list(other._replaced)

    def clear(self) -> None:
        """Forget everything, for a new namespace."""
        self._authors.clear()
        self._described.clear()
        self._replaced.clear()


def _put(known: dict[str, _T], name: str, value: _T | None) -> None:
    if value is None:
        known.pop(name, None)
    else:
        known[name] = value
