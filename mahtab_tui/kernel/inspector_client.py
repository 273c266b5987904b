"""Inspects the objects of a kernel: requests from a screen, and their results."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.values import VariableKind

Step = Sequence[Any]
"""A step of a path to an object, in the kernel's format: ``["name", "df"]``, ``["item", 3]``,
``["attribute", "x"]``, …"""
ObjectPath = tuple[Step, ...]
"""The path from a variable to an object. The path of an `InspectedObject` is valid only while the
variable is the same object, so that all fetched parts belong to one object."""
ViewKind = Literal[
    "table", "array", "tree", "text", "source", "plot", "picture", "attributes", "repr"
]
ChildState = Literal["", "property", "cycle"]

_screens = itertools.count(1)


@dataclass(frozen=True, slots=True)
class InspectedObject:
    """An opened object."""

    path: ObjectPath
    type: str
    summary: str
    kind: VariableKind
    views: tuple[ViewKind, ...]
    """Its views, most suitable first."""
    expression: str
    """Python code for it; empty if unknown."""
    rows: int
    columns: int
    """Number of a table's columns."""
    size: int
    """Characters of a text, or bytes."""
    known: str = ""
    """The known class that it is shown as, with its package: ``pandas.DataFrame``, for example,
    even for subclasses."""
    shown: tuple[DerivedObject, ...] = ()
    """Views from a registered inspector."""
    problem: str = ""
    """A sentence about that inspector's failure; empty if there was none."""


@dataclass(frozen=True, slots=True)
class DerivedObject:
    """An object returned by a registered inspector as a view of another one."""

    title: str
    opened: InspectedObject


@dataclass(frozen=True, slots=True)
class Child:
    """An item or attribute of an object."""

    step: Step
    label: str
    type: str
    summary: str
    kind: VariableKind
    count: int
    """Number of its children."""
    state: ChildState
    """``property``: computed by code, so only evaluated on request. ``cycle``: it contains
    itself."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's name and type."""

    name: str
    type: str
    right: bool
    """Whether its values are right-aligned, like numbers."""


@dataclass(frozen=True, slots=True)
class TablePage:
    """Some rows of some columns of a table."""

    rows: int
    """Number of rows that match the filters."""
    total_rows: int
    """Number of rows of the table."""
    columns: int
    """Number of columns of the table."""
    positions: tuple[int, ...]
    """Positions of these rows in the table."""
    labels: tuple[str, ...] | None
    """Labels of the rows; None if they are only numbered."""
    cells: tuple[tuple[str | None, ...], ...]
    """Texts by column; None for missing values."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column."""

    missing: int
    min: str
    max: str
    mean: str
    bars: tuple[int, ...]
    """Counts of a small histogram from min to max."""
    top: tuple[str, ...]
    """The most common texts with their counts, or a sentence that all are different."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """Properties of an array."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    """The device of a tensor; empty for numpy arrays."""
    bytes: int
    layout: str
    """``strided`` if it is not contiguous, the layout of a sparse tensor (``sparse_coo``), or
    ``gradient`` if a tensor requires one."""


@dataclass(frozen=True, slots=True)
class ArrayStatistics(ColumnStatistics):
    """Statistics of an array."""

    std: str
    zeros: int | str


@dataclass(frozen=True, slots=True)
class Plot:
    """The data of a plot."""

    kind: Literal["line", "histogram", "heat"]
    xs: tuple[float, ...] = ()
    ys: tuple[float, ...] = ()
    grid: tuple[tuple[float | None, ...], ...] = ()
    """Rows of a heat map; None for parts without numbers."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text."""

    text: str
    line: int
    """Number of line breaks before it."""
    size: int
    """Length of the whole text in characters."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a function, class or module."""

    signature: str
    doc: str
    where: str
    """File and line; empty if unknown."""
    line: int
    """Number of the source's first line."""
    source: str


@dataclass(frozen=True, slots=True)
class TableArrangement:
    """How a table is sorted and filtered."""

    sort: tuple[int, bool] | None = None
    """The column to sort by, and whether the order is descending."""
    filters: tuple[tuple[int, str], ...] = ()
    """Columns with conditions, such as ``> 5``, ``= berlin``, ``missing`` or a contained text."""


class InspectorClient:
    """Sends requests to the kernel for one screen. All methods wait for the kernel and raise
    `KernelError`; any thread may call them.

    A new request in a slot makes the kernel abandon the older one.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._client = f"{os.getpid()}-{next(_screens)}"

    def open(self, path: ObjectPath, *, again: bool = False) -> InspectedObject:
        """Open an object. again: accept that the variable now refers to a different object."""
        reply = self._ask("open", path, again=again)
        shown = tuple(DerivedObject(one["title"], _opened(one)) for one in reply["shown"])
        return replace(_opened(reply), shown=shown, problem=reply["problem"])

    def children(
        self, path: ObjectPath, start: int, stop: int, *, attributes: bool = False
    ) -> tuple[int, tuple[Child, ...]]:
        """Return the number of an object's children, and some of them by position; or those of its
        attributes."""
        reply = self._ask(
            "children",
            path,
            f"children {path} {start}",
            start=start,
            stop=stop,
            of="attributes" if attributes else "items",
        )
        return reply["count"], tuple(Child(**row) for row in reply["rows"])

    def evaluate(self, path: ObjectPath, name: str) -> Child:
        """Evaluate a property at the user's request; its code runs with a time limit."""
        return Child(**self._ask("evaluate", path, name=name))

    def headings(self, path: ObjectPath, columns: Sequence[int]) -> tuple[Heading, ...]:
        return tuple(
            Heading(**row) for row in self._ask("columns", path, columns=list(columns))["columns"]
        )

    def rows(
        self,
        path: ObjectPath,
        start: int,
        stop: int,
        columns: Sequence[int],
        arranged: TableArrangement,
    ) -> TablePage:
        reply = self._ask(
            "table",
            path,
            start=start,
            stop=stop,
            columns=list(columns),
            sort=arranged.sort,
            filters=[list(one) for one in arranged.filters],
        )
        labels = None if reply["labels"] is None else tuple(reply["labels"])
        return TablePage(
            reply["rows"],
            reply["of"],
            reply["columns"],
            tuple(reply["positions"]),
            labels,
            tuple(map(tuple, reply["cells"])),
        )

    def figures(self, path: ObjectPath, column: int) -> ColumnStatistics:
        reply = self._ask("figures", path, column=column)
        return ColumnStatistics(
            **{**reply, "bars": tuple(reply["bars"]), "top": tuple(reply["top"])}
        )

    def array(self, path: ObjectPath) -> ArrayFacts:
        reply = self._ask("array", path, figures=False)
        return ArrayFacts(**{**reply, "shape": tuple(reply["shape"])})

    def array_figures(self, path: ObjectPath) -> ArrayStatistics:
        reply = self._ask("array", path, "array figures", figures=True)
        return ArrayStatistics(
            **{**reply, "bars": tuple(reply["bars"]), "top": tuple(reply["top"])}
        )

    def plot(
        self, path: ObjectPath, kind: Literal["line", "histogram", "heat"], width: int, height: int
    ) -> Plot:
        """Compute the data of a plot with that many cells."""
        reply = self._ask("plot", path, kind=kind, width=width, height=height)
        grid = tuple(tuple(row) for row in reply.get("grid", ()))
        return Plot(reply["kind"], tuple(reply.get("xs", ())), tuple(reply.get("ys", ())), grid)

    def text(self, path: ObjectPath, start: int, end: int) -> TextPart:
        """Return a part of a text, possibly shorter than requested."""
        return TextPart(**self._ask("text", path, start=start, end=end))

    def find(
        self, path: ObjectPath, words: str, start: int, *, backwards: bool
    ) -> tuple[int, int] | None:
        """Find the next or previous occurrence of words in a text."""
        found = self._ask("find", path, words=words, start=start, backwards=backwards)["found"]
        return None if found is None else (found[0], found[1])

    def source(self, path: ObjectPath) -> Source:
        return Source(**self._ask("source", path))

    def picture(self, path: ObjectPath) -> bytes:
        """Return a picture's file: PNG, JPEG, GIF or BMP."""
        return base64.b64decode(self._ask("picture", path)["picture"])

    def measure(self, path: ObjectPath) -> tuple[int, int] | None:
        """Return a picture's size in pixels without running user code; zeros if it must be drawn
        for that; None if it is not a picture."""
        found = self._ask("measure", path)["size"]
        return None if found is None else (found[0], found[1])

    def representation(self, path: ObjectPath) -> tuple[str, bool]:
        """Return the object's repr, and whether it was truncated."""
        reply = self._ask("repr", path)
        return reply["text"], reply["cut"]

    def close(self) -> None:
        """Release everything held for this screen."""
        self._ask("close", (), "")

    def _ask(
        self, do: str, path: ObjectPath, slot: str | None = None, **more: Any
    ) -> dict[str, Any]:
        slot = do if slot is None else slot
        return self._kernel.inspect_object(
            {
                "client": self._client,
                "slot": slot,
                "do": do,
                "path": [list(step) for step in path],
                **more,
            }
        )


def _opened(reply: Mapping[str, Any]) -> InspectedObject:
    names = ("type", "known", "summary", "kind", "expression", "rows", "columns", "size")
    return InspectedObject(
        **{name: reply[name] for name in names},
        path=tuple(reply["path"]),
        views=tuple(reply["views"]),
    )
