"""Data about cells and variables that a kernel sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

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
