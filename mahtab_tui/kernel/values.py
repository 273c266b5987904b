"""Data about cells and variables, as sent by a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Origin = Literal["user", "assistant"]
OutputKind = Literal["stdout", "value", "traceback", "display"]
Mime = Literal["image/png", "image/jpeg", "text/markdown", "text/html", "text/plain"]
"""``text/plain`` is help: only its text is used, and it is read from its start."""
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
"""The detail of the result of a cell ended by a reset."""

Lock = Literal["keep", "discard"]
"""Whether the results of a cell in a locked fork are brought back or discarded."""


class Status(StrEnum):
    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    """The kernel was killed at the user's request, or by `reset`."""
    DIED = "died"
    """The kernel ended by itself, or another program ended it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name in the namespace, described only from metadata."""

    name: str
    type: str
    """The type's name, with its module if that helps (`DataFrame`, `PosixPath`)."""
    summary: str
    """Shape or length, or the value of simple objects: `10000 × 5`, `18.4 M chars`, `42`. One
    line."""
    kind: VariableKind

    @property
    def underscored(self) -> bool:
        """Whether its name begins with ``_``, so that lists hide it."""
        return self.name.startswith("_")


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    change: ChangeKind
    """``rebound``: the name refers to another object. ``changed``: the object was changed in place.
    ``perhaps``: it may have been changed in place, but comparing it would take too long."""
    variable: Variable | None
    before: Variable | None = None
    """The variable before the change, for an undo; otherwise None."""


@dataclass(frozen=True, slots=True)
class PrivateUse:
    aliases: tuple[str, ...]
    texts: tuple[str, ...]
    """Texts in their values, as far as they are long enough to be recognised, and not too many."""
    used: tuple[tuple[str, ...], ...]
    """For each code, the variables it can reach."""


@dataclass(frozen=True, slots=True)
class Display:
    """A display of a cell in addition to text. Its text is also a piece of the output, of kind
    ``display``."""

    mime: Mime
    data: str
    text: str
    """A description, for readers that cannot see the data."""
    value: str = ""
    """The key with which the kernel opens the value; empty if it cannot."""


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    file: str
    """As named by Python; ``In [3]`` for a cell."""
    line: int
    """0 if unknown."""
    function: str
    """Empty for code that does not compile."""
    row: int
    """The line of the output that names it, counted from the end, where 1 is the last; 0 if
    unknown."""


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
    """Locations named by the traceback, in its order."""
    rewritten: bool = False
    """Whether part of the output was overwritten, and is not in `output`."""
    needs: str = ""
    """Clause that names the access a cell in a locked fork lacked ("wanted to write out.csv"). Then
    none of its results were saved."""


@dataclass(frozen=True, slots=True)
class NotRestored:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restoration:
    changes: tuple[Change, ...]
    """The effect on each name: ``added`` (the name is restored), ``deleted`` (it is removed),
    ``rebound``, ``changed`` (in place)."""
    not_restored: tuple[NotRestored, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class UndoStep:
    cell: int
    bytes: int


class SaveTarget(NamedTuple):
    folder: str
    """The session's folder, inside a folder that only the user can write."""
    key: str
    """In hexadecimal. It signs the files, so that only files of the user's own sessions are
    read."""
    megabytes: int
    """The limit; the largest variables are left out first."""


@dataclass(frozen=True, slots=True)
class NotSaved:
    """A variable that was not saved, and why, as the end of a sentence."""

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
    """Number of variables that are saved, and that are not."""
    error: str = ""
    """Why nothing was saved, as the end of a sentence; empty if it was. Earlier saved variables are
    not affected."""


@dataclass(frozen=True, slots=True)
class RestoredFile:
    changes: tuple[Change, ...]
    missing: Mapping[str, str]
    """The names that were not restored, and why, as the end of a sentence."""


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
    """A full description of a variable. Creating it may run the object's own code, within a time
    limit."""

    name: str
    type: str
    summary: str
    text: str
    cut: int
    doc: str
    source: str
    """The source of a function or class; otherwise empty."""
    where: str
    error: str
    """Failure of the description (a `__repr__` that raised, the time limit); empty if there was
    none."""


@dataclass(frozen=True, slots=True)
class Completion:
    label: str
    text: str
    kind: CompletionKind
    doc: str
    """One line: type and summary for data; parameters and first line of the docstring for a
    function."""


@dataclass(frozen=True, slots=True)
class Completions:
    start: int
    """The start, in characters, of the text that a completion replaces; its end is the cursor."""
    items: tuple[Completion, ...]
    more: int
    pending: bool = False
    """Whether more will follow soon, because an MCP server is starting."""


@dataclass(frozen=True, slots=True)
class Explanation:
    name: str
    signature: str
    """The signature of a callable; type and summary of anything else."""
    doc: str
    where: str
    source: str
    """Empty unless requested."""


class Author(NamedTuple):
    party: str
    cell: int
    perhaps: bool
    """Whether a later cell may have changed it in place."""


class _Origin(NamedTuple):
    author: Author | None = None
    variable: Variable | None = None


class Provenance:
    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}
        self._replaced: list[tuple[int, str, _Origin]] = []

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        for change in changes:
            before = self._origins.get(change.name, _Origin())
            author: Author | None = Author(party, cell, change.change == "perhaps")
            if change.change == "deleted":
                author = None
            elif change.change == "perhaps" and before.author is not None:
                author = before.author._replace(perhaps=True)
            after = _Origin(author, change.variable)
            if after != before:
                self._origins[change.name] = after
                self._replaced.append((cell, change.name, before))

    def rewind(self, cell: int) -> None:
        """Restore the state from before a cell."""
        numbers = (n for n, (changed_by, _, _) in enumerate(self._replaced) if changed_by >= cell)
        first = next(numbers, len(self._replaced))
        for _, name, before in reversed(self._replaced[first:]):
            self._origins[name] = before
        del self._replaced[first:]

    def author(self, name: str) -> Author | None:
        """Return the author of the last change to a name; None if no cell changed it."""
        return self._origins.get(name, _Origin()).author

    def described(self, name: str) -> Variable | None:
        """Return a variable's description after its last change; None if no cell changed it."""
        return self._origins.get(name, _Origin()).variable

    def copy(self) -> Provenance:
        other = Provenance()
        other.restore(self)
        return other

    def restore(self, other: Provenance) -> None:
        self._origins = dict(other._origins)
        self._replaced = list(other._replaced)

    def clear(self) -> None:
        self._origins.clear()
        self._replaced.clear()
