"""What a kernel's methods take and return."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.bus.values import (
    Change,
    FileChange,
    FileRestoration,
    NotRestored,
    Status,
    TracebackFrame,
    Variable,
)

OutputKind = Literal["stdout", "value", "traceback", "display"]

Mime = Literal["image/png", "image/jpeg", "text/markdown", "text/html", "text/plain"]
"""The kinds of displays. ``text/plain`` is help, which is read from its start."""

Lock = Literal["keep", "discard", "guard"]
"""How code that the user has not approved is confined: to a locked fork whose new names are kept or
discarded, or to the kernel without its protected files."""

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


class KernelState(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's interpreter, process and state."""

    python: str
    """The interpreter's version."""
    executable: str
    """Path of the interpreter."""
    cwd: str
    """The working directory."""
    pid: int
    state: KernelState
    host: str = ""
    """The machine or the connecting command; empty for this machine."""
    next_try: float = 0.0
    """When the next attempt to connect is made, in seconds since the epoch; 0 if connected."""
    address: str = ""
    """The kernel's address as ``--kernel`` takes it."""

    @property
    def local_folder(self) -> str:
        """The folder on this machine that paths in questions and tools refer to."""
        return os.getcwd() if self.host else self.cwd


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a cell has printed and changed, however it has ended: also without a message from the
    kernel, if that has died. The session stores it as `bus.records.ReplOut`, without what other
    records have."""

    cell: int
    """Its number."""
    status: Status
    output: str
    kinds: tuple[tuple[OutputKind, int], ...]
    """The kinds of the pieces of the output, with the characters of each."""
    duration: float
    """In seconds."""
    changes: tuple[Change, ...]
    detail: str = ""
    """A sentence saying how it `died` or was `killed`; empty for another status."""
    displays: tuple[DisplayRecord, ...] = ()
    frames: tuple[TracebackFrame, ...] = ()
    """The frames of its traceback."""
    rewritten: bool = False
    """Whether part of the output was overwritten."""
    needs: str = ""
    """The access that a cell in a locked fork lacked ("wanted to write out.csv"); empty if it has
    done its work."""
    files: tuple[FileChange, ...] = ()
    """What it has done to files in watched folders."""


class UndoScope(NamedTuple):
    """What an undo takes back. The fields are those on the wire."""

    namespace: bool = True
    files: bool = True
    file_cell: int = 0
    """The first cell whose changes of files are taken back; 0 for that of the namespace."""


WHOLE_UNDO = UndoScope()


@dataclass(frozen=True, slots=True)
class Restoration:
    """What an undo or a redo has restored, or would restore."""

    changes: tuple[Change, ...]
    not_restored: tuple[NotRestored, ...]
    exact: bool
    """Whether everything is as it was."""
    files: tuple[FileRestoration, ...] = ()
    files_unwatched: str = "file_undo is off, or has no effect here"
    """Why changes of files are not known, as a clause; empty if they are."""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A cell that can be undone."""

    cell: int
    bytes: int
    """Memory that the state before the cell takes."""


class FileWatching(NamedTuple):
    """How the files of a kernel are watched, so that an undo can restore them.

    The fields are those on the wire.
    """

    folders: tuple[str, ...]
    """Watched folders; the first is the one in which the kernel starts."""
    ignored: tuple[str, ...]
    """Folders in them that are not watched."""
    copies: str
    """The folder for copies."""
    cell_megabytes: int
    """Maximum size of the copies that a cell needs."""
    megabytes: int = 2048
    """Maximum size of all copies."""


class SaveTarget(NamedTuple):
    """Where a namespace is saved."""

    folder: str
    """Path of the folder with the files."""
    key: str
    """The key that signs the files, in hexadecimal, so that only the user's own are read."""
    megabytes: int
    """Maximum size of all files."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file with variables that share objects, so that they are restored together."""

    name: str
    size: int
    """In bytes."""
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class NotSaved:
    """A variable that is not in the saved files."""

    variable: Variable
    reason: str
    """A clause that ends a sentence, such as "the kernel ended while reading it"."""


@dataclass(frozen=True, slots=True)
class SavedNamespace:
    """What was saved of an earlier kernel's namespace."""

    files: tuple[SavedFile, ...]
    missing: tuple[NotSaved, ...]
    """The variables that could not be saved."""


class SaveRequest(NamedTuple):
    """Arguments of `Kernel.keep`. The fields are those on the wire."""

    carried: tuple[str, ...] | None
    """None if it was not called."""
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeepResult:
    """What `Kernel.keep` has saved."""

    size: int = 0
    """In bytes."""
    names: int = 0
    """Number of saved variables."""
    missing: int = 0
    """Number of variables that could not be saved."""
    error: str = ""
    """The end of a sentence; empty if it was saved."""


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """What a saved file has brought back."""

    changes: tuple[Change, ...]
    missing: Mapping[str, str]
    """The names that were not restored, with the end of a sentence."""


class Fingerprint(NamedTuple):
    """By which the values of variables in different kernels are compared.

    The fields are those on the wire.
    """

    digest: str
    """The digest in hexadecimal; empty if there is none."""
    reason: str
    """Why there is none, as a clause, such as "values of the type socket cannot be compared"."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything about a variable, as texts; those that do not apply are empty."""

    name: str
    type: str
    summary: str
    text: str
    """The value as text."""
    cut: int
    """Number of characters that were cut from `text`."""
    doc: str
    """Its docstring."""
    source: str
    """Its source code."""
    where: str
    """Where it is defined."""
    error: str
    """A sentence saying why the text is not the value's own, or is missing."""


@dataclass(frozen=True, slots=True)
class PrivateUse:
    """Where the values of private variables occur, in answer to `Kernel.private_use`."""

    aliases: tuple[str, ...]
    """Other names of their objects."""
    texts: tuple[str, ...]
    """Texts in their values that are long enough to be recognised."""
    used: tuple[tuple[str, ...], ...]
    """The private variables that each piece of code reaches, in the order of the codes."""


@dataclass(frozen=True, slots=True)
class NamesRead:
    """The names on which a call depends, in answer to `Kernel.names_read`."""

    names: tuple[str, ...]
    """The name that is called, those in its function, those in the functions of these names, and so
    on."""
    is_complete: bool
    """Whether all objects were looked at, so that there are no other names."""
    last_cell_with_leftovers: int = 0
    """The last cell without approval that has left code running, which may have changed names since; 0
    if there is none."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that may be inserted at the cursor."""

    label: str
    """The text as it is listed."""
    text: str
    """The text as it is inserted."""
    kind: CompletionKind
    doc: str
    """Its documentation; may be empty."""


@dataclass(frozen=True, slots=True)
class Completions:
    """The texts that may be inserted at the cursor, and where they begin."""

    start: int
    """In characters, from the beginning of the code."""
    items: tuple[Completion, ...]
    more: int
    """Number of completions that are left out."""
    pending: bool = False
    """Whether more will follow, because an MCP server is starting."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The help on a name; texts that do not apply are empty."""

    name: str
    signature: str
    doc: str
    """Its docstring."""
    where: str
    """Where it is defined."""
    source: str
    """Its source code."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or a folder."""

    name: str
    size: int | None
    """In bytes; None for a folder."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The content of a folder."""

    entries: tuple[FolderEntry, ...]
    """The first entries by name, without hidden ones."""
    total: int
    """Number of all of them."""
