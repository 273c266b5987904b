"""Values that kernels make, records contain, and screens display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, cast

from mahtab_tui.bus.marks import WORD, Name, Word

MAX_DESCRIBED_FILES = 30
"""At most this many of the files that a cell has changed are named to a model."""

Mode = Literal["python", "ask"]
"""Whether an input of the user is code or a question."""
VariableKind = Literal["data", "module", "function", "class"]
ChangeKind = Literal["added", "rebound", "changed", "perhaps", "deleted", "restoring", "absent"]
CHANGE_SIGNS: Mapping[str, str] = {
    "added": "+",
    "rebound": "~",
    "changed": "~",
    "perhaps": "?",
    "deleted": "−",
}
"""What stands before a changed variable in text, by kind of change."""


class Status(StrEnum):
    """How a cell has ended."""

    OK = "ok"
    ERROR = "error"
    """It raised an exception."""
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    """Its kernel was killed on purpose."""
    DIED = "died"
    """Its kernel ended by itself."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable as its metadata describes it."""

    name: Name
    type: Name
    summary: str
    """One line: `10,000 × 5`, `18.4 M chars`, `42`."""
    kind: Annotated[VariableKind, WORD]
    size: int = 0
    """Bytes of a large array, table or text; 0 for others."""

    @property
    def underscored(self) -> bool:
        """Whether its name says that it is not meant for others."""
        return self.name.startswith("_")


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a variable."""

    name: Name
    change: Annotated[ChangeKind, WORD]
    """``rebound``: to another object. ``changed``: in place. ``perhaps``: comparing it would take
    too long. For names from an earlier kernel: ``restoring``, or ``absent``, where the summary says
    why."""
    variable: Variable | None
    """The variable after the change; None if it was deleted."""
    before: Variable | None = None
    """The variable before the change; None if it is new or was not described."""
    columns: str = ""
    """What changed of a table's columns and index, or a dict's keys: ``+ column `z` ``, or
    ``column `date`: str → datetime64[us]``. Empty for other changes."""
    value_number: int | None = None
    """Equal values of the variable have the same number; None if the kernel could not compare it."""
    is_equal: bool = False
    """Whether the value is equal to that before; false if the kernel could not compare it."""

    @property
    def sign(self) -> str:
        """What stands before the variable in text, also for a kind that this version does not
        know."""
        return CHANGE_SIGNS.get(self.change, "~")

    @property
    def described(self) -> Variable:
        """The variable; if it was deleted, as it was before.

        Its type is empty if that is unknown.
        """
        return self.variable or self.before or Variable(self.name, "", "", "data")

    @property
    def old_description(self) -> Variable | None:
        """The variable as it was before, if it is described differently now."""
        variable = self.variable
        before = self.before
        if variable is None or before is None:
            return None
        is_same = (before.type, before.summary) == (variable.type, variable.summary)
        return None if is_same else before


class StoredChange(NamedTuple):
    """A change as it is written in sessions and in JSON. Fields that are None are left out.

    The type, summary, kind and size are those of the variable; if it was deleted, as it was before.
    """

    name: Name
    change: Word
    type: Name | None = None
    summary: str | None = None
    kind: Word | None = None
    was_type: Name | None = None
    """The previous type, if it or the summary is different now."""
    was: str | None = None
    """The previous summary, if it or the type is different now."""
    columns: str | None = None
    size: int | None = None
    """In bytes."""
    was_kind: Word | None = None
    """The previous kind, if it is different now."""
    value_number: int | None = None
    is_equal: bool | None = None

    @classmethod
    def from_change(cls, change: Change) -> StoredChange:
        """Return a change as it is written."""
        columns = change.columns or None
        is_equal = change.is_equal or None
        variable = change.variable or change.before
        if variable is None:
            return cls(
                change.name,
                change.change,
                columns=columns,
                value_number=change.value_number,
                is_equal=is_equal,
            )
        was_type: str | None = None
        was: str | None = None
        was_kind: str | None = None
        before = change.old_description
        if before is not None:
            was_type = before.type
            was = before.summary
            if before.kind != variable.kind:
                was_kind = before.kind
        return cls(
            change.name,
            change.change,
            type=variable.type,
            summary=variable.summary,
            kind=variable.kind,
            was_type=was_type,
            was=was,
            columns=columns,
            size=variable.size or None,
            was_kind=was_kind,
            value_number=change.value_number,
            is_equal=is_equal,
        )

    def as_change(self) -> Change:
        """Return the change.

        A newer version may have written it, with words that are not in `ChangeKind` or
        `VariableKind`.
        """
        kind = cast(VariableKind, self.kind or "data")
        variable: Variable | None = None
        before: Variable | None = None
        if self.type is not None:
            variable = Variable(self.name, self.type, self.summary or "", kind, self.size or 0)
        if self.was_type is not None:
            old_kind = cast(VariableKind, self.was_kind or kind)
            before = Variable(self.name, self.was_type, self.was or "", old_kind)
        # The fields of a deleted variable describe what it was.
        if self.change == "deleted":
            before = variable
            variable = None
        return Change(
            self.name,
            cast(ChangeKind, self.change),
            variable,
            before,
            self.columns or "",
            self.value_number,
            is_equal=bool(self.is_equal),
        )


class FileChange(NamedTuple):
    """What a cell has done to a file or a folder."""

    change: Word
    """``new``, ``changed``, ``renamed`` or ``removed``; ``refused`` if it is protected, and the cell
    was kept from changing it; ``more`` if others are only counted."""
    path: Name
    """Relative to the folder in which the kernel started, or absolute; ends with a slash for a
    folder. The number of files for ``more``."""
    old_path: Name = ""
    """The earlier path of what was renamed; empty for other changes."""


def describe_files(files: Sequence[FileChange], max_count: int = MAX_DESCRIBED_FILES) -> str:
    """Return ``files: `out.csv` new, `old.txt` removed``; empty without files.

    Args:
        max_count: Others are counted.
    """
    changes = [file for file in files if file.change != "refused"]
    refusals = [file for file in files if file.change == "refused"]
    parts = []
    if changes:
        parts.append(f"files: {_join(list(map(_describe_file, changes)), max_count)}")
    if refusals:
        names = _join([f"`{file.path}`" for file in refusals], max_count)
        parts.append(f"refused: {names} (only code that the user approves by hand may change that)")
    return "; ".join(parts)


def _join(descriptions: Sequence[str], max_count: int) -> str:
    omitted_count = len(descriptions) - max_count
    if omitted_count > 0:
        descriptions = [*descriptions[:max_count], f"and {omitted_count:,} more"]
    return ", ".join(descriptions)


def _describe_file(file: FileChange) -> str:
    if file.change == "more":
        return f"and {file.path} more"
    if file.change == "renamed":
        return f"`{file.old_path}` renamed to `{file.path}`"
    return f"`{file.path}` {file.change}"


class FileRestoration(NamedTuple):
    """What an undo does to a file or a folder."""

    path: Name
    action: Word
    """``restore``, ``create again``, ``remove`` or ``rename back``."""
    diff: str = ""
    """How a small text changes by it, in the lines of a unified diff; empty for others."""


class NotRestored(NamedTuple):
    """Something that an undo could not restore."""

    name: Name
    """The variable; empty if it is something else."""
    reason: str


class TracebackFrame(NamedTuple):
    """A line of a traceback that names a place in a file. It is written as a list."""

    file: str
    """``In [3]`` for a cell."""
    line: int
    function: str
    row: int
    """The line of the output that names it, counted from its end; 0 if unknown."""
