"""Inspects the objects of a kernel: requests from a screen, and their results."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mahtab_tui.kernel.base import Kernel, VariableKind
from mahtab_tui.kernel.requests import checked

Step = Sequence[Any]
"""A step of a path, in the kernel's format: ``["name", "df"]``, ``["item", 3]``, ``["attribute",
"x"]``, …"""
ObjectPath = tuple[Step, ...]
"""The path from a variable to an object. That of an `InspectedObject` is valid only while the
variable is the same object."""
ViewKind = Literal["table", "array", "tree", "text", "source", "plot", "picture", "repr"]
ChildState = Literal["", "property", "cycle"]

_screens = itertools.count(1)


@dataclass(frozen=True, slots=True)
class InspectedObject:
    path: ObjectPath
    type: str
    summary: str
    kind: VariableKind
    views: tuple[ViewKind, ...]
    expression: str
    """Python code for it; empty if unknown."""
    rows: int
    columns: int
    size: int
    known: str = ""
    """The known class that it is shown as, such as ``pandas.DataFrame``, even for subclasses."""
    shown: tuple[DerivedObject, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DerivedObject:
    title: str
    opened: InspectedObject


@dataclass(frozen=True, slots=True)
class Child:
    step: Step
    label: str
    type: str
    summary: str
    kind: VariableKind
    count: int
    state: ChildState
    """``property``: only evaluated on request. ``cycle``: it contains itself."""


@dataclass(frozen=True, slots=True)
class Heading:
    name: str
    type: str
    right: bool


@dataclass(frozen=True, slots=True)
class TablePage:
    rows: int
    total_rows: int
    columns: int
    positions: tuple[int, ...]
    labels: tuple[str, ...] | None
    cells: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    missing: int
    min: str
    max: str
    mean: str
    bars: tuple[int, ...]
    top: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Plot:
    kind: Literal["line", "histogram", "heat"]
    xs: tuple[float, ...] = ()
    ys: tuple[float, ...] = ()
    grid: tuple[tuple[float | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str
    line: int
    size: int


@dataclass(frozen=True, slots=True)
class Source:
    signature: str
    doc: str
    where: str
    line: int
    source: str


@dataclass(frozen=True, slots=True)
class TableArrangement:
    sort: tuple[int, bool] | None = None
    filters: tuple[tuple[int, str], ...] = ()
    """Columns with conditions, such as ``> 5``, ``= berlin`` or ``missing``."""


class InspectorClient:
    """Sends requests for one screen; methods wait for the kernel and raise `KernelError`. A new
    request in a slot makes the kernel abandon the older one."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._client = f"{os.getpid()}-{next(_screens)}"

    def open(self, path: ObjectPath, *, again: bool = False) -> InspectedObject:
        """again: accept that the variable now refers to a different object."""
        reply = self._ask("open", path, again=again)
        shown = [{"title": one["title"], "opened": one} for one in reply["shown"]]
        return checked(InspectedObject, {**reply, "shown": shown})

    def children(self, path: ObjectPath, start: int, stop: int) -> tuple[int, tuple[Child, ...]]:
        """Return the number of items, and some of them by position."""
        reply = self._ask("children", path, f"children {path} {start}", start=start, stop=stop)
        return reply["count"], checked(tuple[Child, ...], reply["rows"])

    def evaluate(self, path: ObjectPath, name: str) -> Child:
        return checked(Child, self._ask("evaluate", path, name=name))

    def headings(self, path: ObjectPath, columns: Sequence[int]) -> tuple[Heading, ...]:
        reply = self._ask("columns", path, columns=list(columns))
        return checked(tuple[Heading, ...], reply["columns"])

    def rows(
        self,
        path: ObjectPath,
        start: int,
        stop: int,
        columns: Sequence[int],
        arranged: TableArrangement,
    ) -> TablePage:
        wanted = {"start": start, "stop": stop, "columns": list(columns)}
        reply = self._ask(
            "table", path, None, **wanted, sort=arranged.sort, filters=arranged.filters
        )
        return checked(TablePage, {**reply, "total_rows": reply["of"]})

    def figures(self, path: ObjectPath, column: int) -> ColumnStatistics:
        return checked(ColumnStatistics, self._ask("figures", path, column=column))

    def array(self, path: ObjectPath) -> ArrayFacts:
        return checked(ArrayFacts, self._ask("array", path, figures=False))

    def array_figures(self, path: ObjectPath) -> ColumnStatistics:
        return checked(ColumnStatistics, self._ask("array", path, "array figures", figures=True))

    def plot(
        self, path: ObjectPath, kind: Literal["line", "histogram", "heat"], width: int, height: int
    ) -> Plot:
        return checked(Plot, self._ask("plot", path, kind=kind, width=width, height=height))

    def text(self, path: ObjectPath, start: int, end: int) -> TextPart:
        return checked(TextPart, self._ask("text", path, start=start, end=end))

    def find(
        self, path: ObjectPath, words: str, start: int, *, backwards: bool
    ) -> tuple[int, int] | None:
        found = self._ask("find", path, words=words, start=start, backwards=backwards)["found"]
        return None if found is None else (found[0], found[1])

    def source(self, path: ObjectPath) -> Source:
        return checked(Source, self._ask("source", path))

    def picture(self, path: ObjectPath) -> bytes:
        return base64.b64decode(self._ask("picture", path)["picture"])

    def measure(self, path: ObjectPath) -> tuple[int, int] | None:
        """Return a picture's size in pixels without running user code; zeros if it must be drawn
        for that; None if it is not a picture."""
        found = self._ask("measure", path)["size"]
        return None if found is None else (found[0], found[1])

    def representation(self, path: ObjectPath) -> tuple[str, bool]:
        reply = self._ask("repr", path)
        return reply["text"], reply["cut"]

    def close(self) -> None:
        self._ask("close", (), "")

    def _ask(
        self, do: str, path: ObjectPath, slot: str | None = None, **more: Any
    ) -> dict[str, Any]:
        slot = do if slot is None else slot
        request = {"client": self._client, "slot": slot, "do": do, "path": path, **more}
        return self._kernel.inspect_object(request)
