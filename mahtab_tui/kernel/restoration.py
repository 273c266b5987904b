"""Answers of a kernel about undo, and about the namespace that it saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mahtab_tui.kernel.values import Change, Variable


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


class KeepPlace(NamedTuple):
    """Folder and limits for saving a namespace."""

    folder: str
    """The session's folder, inside a folder that only the user can write."""
    key: str
    """Hexadecimal; it signs the files, so that only files of the user's own sessions are read."""
    megabytes: int
    """The limit; the largest variables are left out first."""


@dataclass(frozen=True, slots=True)
class NotKept:
    """A variable that is not kept, and why: the end of a sentence."""

    variable: Variable
    reason: str


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of variables that are read together."""

    name: str
    size: int
    """Bytes."""
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class KeptNamespace:
    """Variables saved from an earlier kernel of the session."""

    files: tuple[KeptFile, ...]
    missing: tuple[NotKept, ...]


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
