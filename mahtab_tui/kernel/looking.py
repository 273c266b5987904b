"""Looking inside the objects of a kernel: what a screen asks, and what it is told."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mahtab_tui.kernel.base import Kernel, VariableKind

Step = Sequence[Any]
"""One step of a way to an object, as the kernel gave it: ``["name", "df"]``, ``["item", 3]``, ``["attribute", "x"]``, …"""
Path = tuple[Step, ...]
"""The way from a variable to an object. As it was opened (`InspectedObject`), it leads there only as long as the variable is the same object: what is
fetched piece by piece is of one object."""
ViewKind = Literal["table", "array", "tree", "text", "bytes", "source", "plot", "picture", "attributes", "repr"]
ChildState = Literal["", "property", "cycle"]

_screens = itertools.count(1)


@dataclass(frozen=True, slots=True)
class InspectedObject:
    """An object as it is opened."""

    path: Path
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
    size: int
    """Characters of a text, or bytes."""
    known: str = ""
    """The class that it is seen as, with its package: ``pandas.DataFrame`` also for what is derived from it."""
    shown: tuple[DerivedObject, ...] = ()
    """What an inspector of the kernel's environment makes of it."""
    problem: str = ""
    """What went wrong with that inspector, in a sentence."""


@dataclass(frozen=True, slots=True)
class DerivedObject:
    """A view that an inspector has made of an object: another object, to be seen in its own way."""

    title: str
    opened: InspectedObject


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
    columns: int
    """How many columns the table has."""
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
    top: tuple[str, ...]
    """Of texts the commonest with how often each is there, or that all differ."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What an array is."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    """Where a tensor lives; empty for arrays of numpy's."""
    bytes: int
    layout: str
    """``strided`` where its numbers do not stand one behind the other, how a sparse tensor is kept (``sparse_coo``), ``gradient`` where a
    tensor keeps one."""


@dataclass(frozen=True, slots=True)
class ArrayFigures(Figures):
    """All numbers of an array in figures."""

    std: str
    zeros: int | str


@dataclass(frozen=True, slots=True)
class Plot:
    """What a plot is drawn from."""

    kind: Literal["line", "histogram", "heat"]
    xs: tuple[float, ...] = ()
    ys: tuple[float, ...] = ()
    grid: tuple[tuple[float | None, ...], ...] = ()
    """Rows of a heat map; None where there is no number."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text."""

    text: str
    line: int
    """Line ends before it."""
    size: int
    """Characters of the whole."""


@dataclass(frozen=True, slots=True)
class Source:
    """A function, a class or a module as text."""

    signature: str
    doc: str
    where: str
    """File and line; empty where that is not known."""
    line: int
    """Of the source's first line."""
    source: str


@dataclass(frozen=True, slots=True)
class TableArrangement:
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

    def open(self, path: Path, *, again: bool = False) -> InspectedObject:
        """What an object is; `again`: what the variable is by now, also where it is another object."""
        told = self._ask("open", "open", path, again=again)
        shown = tuple(DerivedObject(one["title"], _opened(one)) for one in told["shown"])
        return replace(_opened(told), shown=shown, problem=told["problem"])

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

    def rows(self, path: Path, start: int, stop: int, columns: Sequence[int], arranged: TableArrangement) -> TablePage:
        """Some rows of some columns of a table."""
        told = self._ask(
            "table", "table", path, start=start, stop=stop, columns=list(columns), sort=arranged.sort, filters=[list(one) for one in arranged.filters]
        )
        labels = None if told["labels"] is None else tuple(told["labels"])
        return TablePage(told["rows"], told["of"], told["columns"], tuple(told["positions"]), labels, tuple(map(tuple, told["cells"])))

    def figures(self, path: Path, column: int) -> Figures:
        """A column in figures."""
        told = self._ask("figures", "figures", path, column=column)
        return Figures(**{**told, "bars": tuple(told["bars"]), "top": tuple(told["top"])})

    def array(self, path: Path) -> ArrayFacts:
        """What an array is."""
        told = self._ask("array", "array", path, figures=False)
        return ArrayFacts(**{**told, "shape": tuple(told["shape"])})

    def array_figures(self, path: Path) -> ArrayFigures:
        """All numbers of an array in figures."""
        told = self._ask("array", "array figures", path, figures=True)
        return ArrayFigures(**{**told, "bars": tuple(told["bars"]), "top": tuple(told["top"])})

    def plot(self, path: Path, kind: Literal["line", "histogram", "heat"], width: int, height: int) -> Plot:
        """What a plot of so many cells is drawn from."""
        told = self._ask("plot", "plot", path, kind=kind, width=width, height=height)
        grid = tuple(tuple(row) for row in told.get("grid", ()))
        return Plot(told["kind"], tuple(told.get("xs", ())), tuple(told.get("ys", ())), grid)

    def text(self, path: Path, start: int, end: int) -> TextPart:
        """A part of a text, which may be shorter than was asked for."""
        return TextPart(**self._ask("text", "text", path, start=start, end=end))

    def data(self, path: Path, start: int, end: int) -> bytes:
        """A part of bytes, which may be shorter than was asked for."""
        return bytes.fromhex(self._ask("bytes", "bytes", path, start=start, end=end)["hex"])

    def find(self, path: Path, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        """Where words are next in a text or in bytes (there also ``0x89504e``), or were last."""
        found = self._ask("find", "find", path, words=words, start=start, backwards=backwards)["found"]
        return None if found is None else (found[0], found[1])

    def source(self, path: Path) -> Source:
        """A function, a class or a module as text."""
        return Source(**self._ask("source", "source", path))

    def picture(self, path: Path) -> bytes:
        """A picture as a file: PNG, JPEG, GIF or BMP."""
        return base64.b64decode(self._ask("picture", "picture", path)["picture"])

    def measure(self, path: Path) -> tuple[int, int] | None:
        """Width and height of a picture in pixels, zeros where only drawing it tells; None for what is none. Runs nothing of the object's own."""
        found = self._ask("measure", "measure", path)["size"]
        return None if found is None else (found[0], found[1])

    def representation(self, path: Path) -> tuple[str, bool]:
        """What the object says of itself, by its own code, and whether it was cut."""
        told = self._ask("repr", "repr", path)
        return told["text"], told["cut"]

    def close(self) -> None:
        """Let go of all that was kept for this screen."""
        self._ask("close", "", ())

    def _ask(self, do: str, slot: str, path: Path, **more: Any) -> dict[str, Any]:
        return self._kernel.look({"client": self._client, "slot": slot, "do": do, "path": [list(step) for step in path], **more})


def _opened(told: Mapping[str, Any]) -> InspectedObject:
    names = ("type", "known", "summary", "kind", "expression", "rows", "columns", "size")
    return InspectedObject(**{name: told[name] for name in names}, path=tuple(told["path"]), views=tuple(told["views"]))
