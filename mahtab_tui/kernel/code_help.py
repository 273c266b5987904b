"""Answers of a kernel about variables and code while the user types and inspects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mahtab_tui.kernel.values import Variable

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
