"""Data about cells and variables, as sent by a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Origin = Literal["user", "assistant"]
OutputKind = Literal["stdout", "value", "traceback", "display"]
Mime = Literal["image/png", "image/jpeg", "text/markdown", "text/html", "text/plain"]
"""``text/plain`` is help, which is read from its start."""
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

Lock = Literal["keep", "discard"]


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

    def before(self, cell: int) -> Provenance:
        """Return the state from before a cell."""
        numbers = (n for n, (changed_by, _, _) in enumerate(self._replaced) if changed_by >= cell)
        first = next(numbers, len(self._replaced))
        earlier = Provenance()
        earlier._origins, earlier._replaced = dict(self._origins), self._replaced[:first]
        for _, name, origin in reversed(self._replaced[first:]):
            earlier._origins[name] = origin
        return earlier

    def author(self, name: str) -> Author | None:
        return self._origins.get(name, _Origin()).author

    def described(self, name: str) -> Variable | None:
        return self._origins.get(name, _Origin()).variable
