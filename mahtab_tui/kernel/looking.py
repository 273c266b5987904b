"""Looking inside the objects of a kernel: what a screen asks, and what it is told."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mahtab_tui.kernel.base import Kernel, VariableKind

Step = Sequence[Any]
"""One step of a way to an object, as the kernel gave it: ``["name", "df"]``, ``["item", 3]``, ``["attribute", "x"]``, …"""
Path = tuple[Step, ...]
"""The way from a variable to an object."""
ViewKind = Literal["table", "array", "tree", "text", "bytes", "source", "picture", "attributes", "repr"]
ChildState = Literal["", "property", "cycle"]

_screens = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Opened:
    """An object as it is opened."""

    type: str
    summary: str
    kind: VariableKind
    views: tuple[ViewKind, ...]
    """In which views it can be seen, the likeliest first."""
    expression: str
    """How it is written in code; empty where that is not known."""
    rows: int
    columns: int
    """Of a table."""


@dataclass(frozen=True, slots=True)
class Child:
    """Something inside an object."""

    step: Step
    label: str
    type: str
    summary: str
    kind: VariableKind
    count: int
    """How many children it has itself."""
    state: ChildState
    """``property``: it is told only on demand, since code tells it. ``cycle``: it is an object that it stands in."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's name and type."""

    name: str
    type: str
    right: bool
    """Whether its values stand right, as numbers do."""


@dataclass(frozen=True, slots=True)
class TablePage:
    """Some rows of some columns of a table."""

    rows: int
    """How many rows there are as it is filtered."""
    of: int
    """How many there are without a filter."""
    positions: tuple[int, ...]
    """Where these rows stand in the table itself."""
    labels: tuple[str, ...] | None
    """The rows' names; None where they have only numbers."""
    cells: tuple[tuple[str | None, ...], ...]
    """Texts by column; None where a value is missing."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A column in figures."""

    missing: int
    min: str
    max: str
    mean: str
    bars: tuple[int, ...]
    """Counts of a small histogram from min to max."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """How a table is sorted and filtered."""

    sort: tuple[int, bool] | None = None
    """A column, and whether it is descending."""
    filters: tuple[tuple[int, str], ...] = ()
    """Columns, and conditions such as ``> 5``, ``= berlin``, ``missing`` or a text that is contained."""


class Look:
    """One screen's questions. All methods wait for the kernel, and raise `KernelError`; they may be called from any thread.

    What is asked again in the same slot makes the kernel give the older question up.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._client = f"{os.getpid()}-{next(_screens)}"

    def open(self, path: Path) -> Opened:
        """What an object is."""
        told = self._ask("open", "open", path)
        names = ("type", "summary", "kind", "expression", "rows", "columns")
        return Opened(**{name: told[name] for name in names}, views=tuple(told["views"]))

    def children(self, path: Path, start: int, stop: int, *, attributes: bool = False) -> tuple[int, tuple[Child, ...]]:
        """How many children an object has, and some of them, by position; or its attributes."""
        told = self._ask("children", f"children {path} {start}", path, start=start, stop=stop, of="attributes" if attributes else "items")
        return told["count"], tuple(Child(**row) for row in told["rows"])

    def evaluate(self, path: Path, name: str) -> Child:
        """A property of an object, asked because the person wants it: its code runs, under a time limit."""
        return Child(**self._ask("evaluate", "evaluate", path, name=name))

    def headings(self, path: Path, columns: Sequence[int]) -> tuple[Heading, ...]:
        """Name and type of some columns of a table."""
        return tuple(Heading(**row) for row in self._ask("columns", "columns", path, columns=list(columns))["columns"])

    def rows(self, path: Path, start: int, stop: int, columns: Sequence[int], arranged: Arranged) -> TablePage:
        """Some rows of some columns of a table."""
        told = self._ask(
            "table", "table", path, start=start, stop=stop, columns=list(columns), sort=arranged.sort, filters=[list(one) for one in arranged.filters]
        )
        labels = None if told["labels"] is None else tuple(told["labels"])
        return TablePage(told["rows"], told["of"], tuple(told["positions"]), labels, tuple(map(tuple, told["cells"])))

    def figures(self, path: Path, column: int) -> Figures:
        """A column in figures."""
        told = self._ask("figures", "figures", path, column=column)
        return Figures(**{**told, "bars": tuple(told["bars"])})

    def representation(self, path: Path) -> tuple[str, bool]:
        """What the object says of itself, by its own code, and whether it was cut."""
        told = self._ask("repr", "repr", path)
        return told["text"], told["cut"]

    def close(self) -> None:
        """Let go of all that was kept for this screen."""
        self._ask("close", "", ())

    def _ask(self, do: str, slot: str, path: Path, **more: Any) -> dict[str, Any]:
        return self._kernel.look({"client": self._client, "slot": slot, "do": do, "path": [list(step) for step in path], **more})
