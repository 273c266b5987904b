"""Inspects the objects of a kernel: requests from a screen, and their results.

The worker answers them in `worker/inspection/inspection.py`.
"""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mahtab_tui.bus.values import VariableKind
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.messages import checked

Step = Sequence[Any]
"""A step of a path, in the kernel's format: ``["name", "df"]``, ``["item", 3]``, ``["attribute",
"x"]``, …"""
ObjectPath = tuple[Step, ...]
"""The path from a variable to an object. That of an `InspectedObject` is valid only while the
variable is the same object."""
ViewKind = Literal["table", "array", "tree", "text", "source", "plot", "picture", "repr"]
ChildState = Literal["", "property", "cycle"]

PlotKind = Literal["line", "histogram", "heat"]

_client_numbers = itertools.count(1)


# Replies of the kernel. The names of their fields are those on the wire.


@dataclass(frozen=True, slots=True)
class InspectedObject:
    """An object, and the views that it has."""

    path: ObjectPath
    type: str
    """The name of its class."""
    summary: str
    """A line about it."""
    kind: VariableKind
    views: tuple[ViewKind, ...]
    """The best first."""
    expression: str
    """Python code for it; empty if unknown."""
    rows: int
    """Rows of a table; 0 for other objects."""
    columns: int
    """Columns of a table; 0 for other objects."""
    size: int
    """The length of a text; 0 for other objects."""
    library_type: str = ""
    """The class of a library that it is shown as, such as ``pandas.DataFrame``, even for subclasses."""
    shown: tuple[DerivedObject, ...] = ()
    """Other objects that show it."""
    problem: str = ""
    """Why its own inspector could not make them, as a sentence; empty if there is no problem."""


@dataclass(frozen=True, slots=True)
class DerivedObject:
    """An object that shows another one, such as the table behind a lazy query."""

    title: str
    opened: InspectedObject


@dataclass(frozen=True, slots=True)
class ChildObject:
    """An item or an attribute of an object."""

    step: Step
    """The last step of its path."""
    label: str
    """Its name or key, as it is shown."""
    type: str
    """The name of its class."""
    summary: str
    """A line about it."""
    kind: VariableKind
    count: int
    """Number of its own children."""
    state: ChildState
    """``property``: only evaluated on request. ``cycle``: it contains itself."""


@dataclass(frozen=True, slots=True)
class ChildPage:
    """Some children of an object, in its order."""

    count: int
    """Number of all children."""
    children: tuple[ChildObject, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a table's column."""

    name: str
    type: str
    right: bool
    """Whether its values are aligned at the right."""


@dataclass(frozen=True, slots=True)
class TablePage:
    """Some rows and columns of a table."""

    rows: int
    """Rows of the whole table that fulfil the conditions."""
    total_rows: int
    """All rows of the table."""
    columns: int
    """All columns of the table."""
    positions: tuple[int, ...]
    """The numbers in the table of the rows on this page."""
    labels: tuple[str, ...] | None
    """The labels of these rows; None if the table has none."""
    cells: tuple[tuple[str | None, ...], ...]
    """For each column, the texts in these rows; None for a missing value."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """A summary of a column's or an array's values."""

    missing: int
    """Number of missing values."""
    min: str
    max: str
    mean: str
    bars: tuple[int, ...]
    """The histogram: numbers of values in ranges of the same width."""
    top: tuple[str, ...]
    """The most common texts."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """The shape and the type of an array."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    """Where a tensor lies; empty for an array of NumPy."""
    bytes: int
    """The size of its values in memory."""


@dataclass(frozen=True, slots=True)
class Plot:
    """The points of a plot, reduced to the size of the screen."""

    kind: PlotKind
    xs: tuple[float, ...] = ()
    """The positions of the points of a line, or the middles of a histogram's ranges."""
    ys: tuple[float, ...] = ()
    """The values of these points, or the numbers of values in these ranges."""
    grid: tuple[tuple[float | None, ...], ...] = ()
    """The rows of a heat map; None for a value that cannot be drawn."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text."""

    text: str
    line: int
    """The number of its first line, counted from 0."""
    size: int
    """Characters of the whole text."""


@dataclass(frozen=True, slots=True)
class SourceCode:
    """The source of a function, a class or a module."""

    signature: str
    doc: str
    """The docstring."""
    where: str
    """The file and the line, as they are shown."""
    line: int
    """The number of the first line in the file; 1 if it is unknown."""
    source: str


@dataclass(frozen=True, slots=True)
class TableArrangement:
    """How the rows of a table are sorted and filtered."""

    sort: tuple[int, bool] | None = None
    """A column, and whether it is descending; None for the table's own order."""
    filters: tuple[tuple[int, str], ...] = ()
    """Columns with conditions, such as ``> 5``, ``= berlin`` or ``missing``."""


class InspectorClient:
    """Sends requests for one screen; methods wait for the kernel and raise `KernelError`.

    A new request in a slot makes the kernel abandon the older one.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._client = f"{os.getpid()}-{next(_client_numbers)}"

    def open(self, path: ObjectPath, *, again: bool = False) -> InspectedObject:
        """Open an object.

        Args:
            path: The path to it.
            again: Accept that the variable now refers to a different object.
        """
        reply = self._ask("open", path, again=again)
        derived_objects = [
            {"title": derived["title"], "opened": derived} for derived in reply["shown"]
        ]
        return checked(InspectedObject, {**reply, "shown": derived_objects})

    def children(self, path: ObjectPath, start: int, stop: int) -> ChildPage:
        """Return the children from one position to before another."""
        reply = self._ask("children", path, f"children {path} {start}", start=start, stop=stop)
        return ChildPage(reply["count"], checked(tuple[ChildObject, ...], reply["rows"]))

    def evaluate(self, path: ObjectPath, name: str) -> ChildObject:
        """Evaluate a property, which runs the user's code."""
        return checked(ChildObject, self._ask("evaluate", path, name=name))

    def headings(self, path: ObjectPath, columns: Sequence[int]) -> tuple[Heading, ...]:
        """Return the heads of a table's columns, without those that do not exist."""
        reply = self._ask("columns", path, columns=list(columns))
        return checked(tuple[Heading, ...], reply["columns"])

    def rows(
        self,
        path: ObjectPath,
        start: int,
        stop: int,
        columns: Sequence[int],
        arrangement: TableArrangement,
    ) -> TablePage:
        """Return some rows and columns, by position in the arranged table."""
        reply = self._ask(
            "table",
            path,
            start=start,
            stop=stop,
            columns=list(columns),
            sort=arrangement.sort,
            filters=arrangement.filters,
        )
        return checked(TablePage, {**reply, "total_rows": reply["of"]})

    def figures(self, path: ObjectPath, column: int) -> ColumnStatistics:
        """Return the statistics of a table's column."""
        return checked(ColumnStatistics, self._ask("figures", path, column=column))

    def array(self, path: ObjectPath) -> ArrayFacts:
        """Return what an array is."""
        return checked(ArrayFacts, self._ask("array", path, figures=False))

    def array_figures(self, path: ObjectPath) -> ColumnStatistics:
        """Return the statistics of an array's values."""
        return checked(ColumnStatistics, self._ask("array", path, "array figures", figures=True))

    def plot(self, path: ObjectPath, kind: PlotKind, width: int, height: int) -> Plot:
        """Return a plot for an area of `width` by `height` points."""
        return checked(Plot, self._ask("plot", path, kind=kind, width=width, height=height))

    def text(self, path: ObjectPath, start: int, end: int) -> TextPart:
        """Return the part of a text from one position to before another."""
        return checked(TextPart, self._ask("text", path, start=start, end=end))

    def find(
        self, path: ObjectPath, words: str, start: int, *, backwards: bool
    ) -> tuple[int, int] | None:
        """Search a text from a position.

        Returns:
            The start and the end of what was found; None if there is nothing.
        """
        reply = self._ask("find", path, words=words, start=start, backwards=backwards)
        match = reply["found"]
        if match is None:
            return None
        return checked(tuple[int, int], match)

    def source(self, path: ObjectPath) -> SourceCode:
        """Return the source of a function, a class or a module."""
        return checked(SourceCode, self._ask("source", path))

    def picture(self, path: ObjectPath) -> bytes:
        """Draw a picture, and return its file."""
        return base64.b64decode(self._ask("picture", path)["picture"])

    def measure(self, path: ObjectPath) -> tuple[int, int] | None:
        """Return a picture's size in pixels without running user code; zeros if it must be drawn
        for that; None if it is not a picture."""
        size = self._ask("measure", path)["size"]
        if size is None:
            return None
        return checked(tuple[int, int], size)

    def representation(self, path: ObjectPath) -> tuple[str, bool]:
        """Return the `repr` of an object, and whether it is shortened."""
        reply = self._ask("repr", path)
        return reply["text"], reply["cut"]

    def close(self) -> None:
        """Let the kernel forget the objects that the screen has opened."""
        self._ask("close", (), "")

    def _ask(
        self, action: str, path: ObjectPath, slot: str | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Send a request, and return the reply, which is not checked.

        Args:
            action: What to do.
            path: The path to the object.
            slot: Where it takes the place of an older request; by default the same for each action.
            arguments: Further fields of the request.
        """
        request = {
            "client": self._client,
            "slot": action if slot is None else slot,
            "do": action,
            "path": path,
            **arguments,
        }
        return self._kernel.inspect_object(request)
