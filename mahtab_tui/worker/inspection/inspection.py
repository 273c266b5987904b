"""Answers the screens' requests about objects, a page at a time."""

from __future__ import annotations

import base64
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..completion.explanations import explain_with_source
from ..stdlib import late_import
from ..values.objects import (
    SCALARS,
    as_library_type,
    class_dict,
    class_module,
    get_if_loaded,
    limited_repr,
    mro_of,
)
from ..values.summaries import summary, type_name, variable_kind
from . import arrays, pictures, plots, texts
from .children import Child, count_children, describe_child, list_children
from .columns import Column
from .limits import AbandonedError, Deadline, InspectionError, error_text, run_limited
from .object_paths import ComputedValue, ResolvedObject, resolve_path
from .table_pages import arrange, headings, page
from .tables import RecordTable, Table, as_table

ENTRY_POINT_GROUP = "mahtab_tui.inspectors"
"""The group of the entry points by which packages register inspectors."""
MAX_VIEWS = 7
"""Views of a package's own inspector."""
PICTURE_TIMEOUT_S = 10.0
"""Seconds for drawing a picture."""
WORK_TIMEOUT_S = 10.0
"""Seconds for sorting, filtering and statistics."""
MAX_REPR_CHARS = 200_000
MAX_REPR_BYTES = 50_000
"""Bytes of a bytes object that are written."""
MAX_PAGE_ROWS = 500
"""A request gets at most this many rows."""

_VIEWS_BY_KIND = {
    "function": ["source"],
    "class": ["source", "tree"],
    "module": ["tree", "source"],
}
"""The views of what is not data."""

Fields = dict[str, Any]
"""The fields of a request or of its answer, by name."""


class _Arrangement(NamedTuple):
    """The rows of a table, sorted and filtered."""

    table: object
    order: tuple[object, ...]
    """The size of the table, and how it is sorted and filtered."""
    rows: Sequence[int]


def find_inspector(value: object) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return the inspector that a package registers for a class (``shapes.Polygon``) as an entry
    point: a function that returns a mapping of titles to objects."""
    names = [name for name in map(_full_name, mro_of(type(value))) if name]
    if not names:
        return None
    points = _entry_points(tuple(entry for entry in sys.path if type(entry) is str))
    for name in names:
        if name in points:
            inspector: Callable[[Any], Mapping[str, Any]] = points[name].load()
            return inspector
    return None


@lru_cache(1)
def _entry_points(path: tuple[str, ...]) -> dict[str, Any]:
    """Return the entry points of inspectors by name.

    Args:
        path: `sys.path`, on which they depend.
    """
    all_points = late_import("importlib.metadata").entry_points()
    # A dict before Python 3.10.
    if hasattr(all_points, "select"):
        points = all_points.select(group=ENTRY_POINT_GROUP)
    else:
        points = all_points.get(ENTRY_POINT_GROUP, ())
    return {point.name: point for point in points}


def _full_name(cls: type) -> str:
    """Return the module and the name by which a class can be imported; empty if it cannot be."""
    module = class_dict(cls).get("__module__")
    name = type.__dict__["__qualname__"].__get__(cls)
    if type(module) is not str or module in ("builtins", "__main__"):
        return ""
    if get_if_loaded(module, name) is cls:
        return f"{module}.{name}"
    return ""


class Inspection:
    """Answers requests on any thread. A new request in a slot cancels the older one."""

    def __init__(self, namespace: dict[str, object]) -> None:
        """
        Args:
            namespace: The user's namespace.
        """
        self._namespace = namespace
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        """Counts requests and computed values."""
        self._newest: dict[tuple[str, str], int] = {}
        """The number of the newest request by client and slot."""
        self._computed: dict[str, dict[int, ComputedValue]] = {}
        """Computed values by client and number."""
        self._arrangements: dict[str, _Arrangement] = {}
        """What each client has last sorted or filtered."""
        self._answers: dict[str, Callable[[ResolvedObject, Fields, Deadline], Fields]] = {
            "open": self._open,
            "children": self._children,
            "table": self._table,
            "columns": self._columns,
            "figures": self._figures,
            "array": self._array,
            "plot": self._plot,
            "text": self._text,
            "find": self._find,
            "source": self._source,
            "measure": self._measure,
            "evaluate": self._evaluate,
            "picture": self._picture,
            "repr": self._repr,
        }

    def answer(self, request: Fields) -> Fields:
        """Answer a request of a screen (`client`, `slot`): an action (`do`) on an object (`path`).

        Raises `InspectionError` or `AbandonedError`.
        """
        client = request["client"]
        if request["do"] == "close":
            self._close(client)
            return {}
        slot = (client, request["slot"])
        with self._lock:
            number = next(self._numbers)
            self._newest[slot] = number
        deadline = Deadline(WORK_TIMEOUT_S, lambda: self._newest.get(slot) != number)

        start_step, *further_steps = request["path"]
        if request.get("again") and start_step[0] == "name":
            start_step = start_step[:2]  # whatever object the variable is now
        path = [start_step, *further_steps]
        try:
            at = resolve_path(path, self._namespace, self._computed.get(client, {}))
            return self._answers[request["do"]](at, request, deadline)
        except (InspectionError, AbandonedError):
            raise
        except Exception as error:  # a library's object in an inconsistent state
            raise InspectionError(f"The object cannot be shown: {error_text(error)}") from None

    def _close(self, client: str) -> None:
        """Forget what is kept for a client."""
        with self._lock:
            self._computed.pop(client, None)
            self._arrangements.pop(client, None)
            for slot in [slot for slot in self._newest if slot[0] == client]:
                del self._newest[slot]

    def _open(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        self._arrangements.pop(request["client"], None)
        own_views = []
        problem = ""
        try:
            own_views = self._inspector_views(at.target, request["client"])
        except InspectionError as error:
            problem = str(error)
        about = describe_object(at.target, at.expression)
        return {**about, "path": at.path, "shown": own_views, "problem": problem}

    def _inspector_views(self, value: object, client: str) -> list[Fields]:
        """Return the views that the inspector of an object's package has made."""
        inspector = run_limited(lambda: find_inspector(value), "Loading its inspector")
        if inspector is None:
            return []

        def run_inspector() -> list[tuple[str, Any]]:
            inspector_view = inspector(value)
            if not isinstance(inspector_view, Mapping):
                kind = type(inspector_view).__name__
                raise TypeError(f"an inspector returns a mapping of titles to objects, not {kind}")
            return [(str(title), view) for title, view in list(inspector_view.items())[:MAX_VIEWS]]

        views = []
        for title, view in run_limited(run_inspector, "Its inspector"):
            path = [["computed", self._store_computed(client, view, "")]]
            views.append({"title": title, "path": path, **describe_object(view, "")})
        return views

    def _children(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        start, stop = _page_bounds(request)
        children = list_children(at.target, start, stop)
        count = count_children(at.target)
        return {"count": count, "rows": [describe_child(child, at.objects) for child in children]}

    def _table(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        table = _table_at(at)
        rows = self._arrange(at, table, request, deadline)
        return page(table, rows, *_page_bounds(request), request["columns"], deadline)

    def _arrange(
        self, at: ResolvedObject, table: Table, request: Fields, deadline: Deadline
    ) -> Sequence[int] | None:
        """Return the rows of a table as a client wants them; None for the table's own order."""
        sort = request["sort"]
        filters = request["filters"]
        if not sort and not filters:
            return None
        order = (table.rows, table.columns, sort, filters)
        last = self._arrangements.get(request["client"])
        if last is not None and last.table is at.target and last.order == order:
            return last.rows
        rows = arrange(table, sort, filters, deadline)
        self._arrangements[request["client"]] = _Arrangement(at.target, order, rows)
        return rows

    def _columns(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        return {"columns": headings(_table_at(at), request["columns"])}

    def _figures(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        column = _table_at(at).column(request["column"])
        return column.statistics(deadline)._asdict()

    def _source(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        return explain_with_source(at.target, at.expression)

    def _array(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        value = at.library_value
        if not arrays.is_array(value):
            raise InspectionError("This is no longer an array; press r to reload.")
        if request["figures"]:
            return arrays.array_statistics(value, deadline)
        return arrays.describe_array(value)

    def _plot(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        if arrays.is_array(at.library_value):
            values = arrays.as_numpy(at.library_value)
        else:
            column = _plottable_column(_table_at(at))
            values = None if column is None else column.numbers()
        if values is None or values.dtype.kind not in arrays.DRAWN_KINDS:
            raise InspectionError("There are no numbers to plot.")
        if request["kind"] == "histogram":
            return plots.histogram(values, deadline)
        width = max(1, request["width"])
        height = max(1, request["height"])
        if values.ndim == 2:
            return plots.heat_map(values, width, height)
        return plots.line_plot(values, width, deadline)

    def _text(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        text = _text_at(at)
        start = request["start"]
        piece = texts.text_slice(text, start, request["end"])
        line = str.count(text, "\n", 0, start)
        return {"text": piece, "line": line, "size": texts.text_length(text)}

    def _find(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        text = _text_at(at)
        words = request["words"]
        offset = texts.find_text(text, words, request["start"], request["backwards"], deadline)
        return {"found": offset}

    def _evaluate(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        name = request["name"]
        value = run_limited(lambda: getattr(at.target, name), f"The property {name}")
        deadline.check()  # do not store anything for a closed screen
        expression = ""
        if at.expression:
            expression = f"{at.expression}.{name}"
        number = self._store_computed(request["client"], value, expression)
        return describe_child(Child(["computed", number], name, value), at.objects)

    def _repr(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        value = at.target
        # The repr of long bytes would take four times their memory.
        if texts.text_class(value) not in (None, str):
            text = repr(texts.text_slice(value, 0, MAX_REPR_BYTES))
            cut = texts.text_length(value) > MAX_REPR_BYTES
        else:
            text, cut = run_limited(lambda: limited_repr(value, MAX_REPR_CHARS), "Its __repr__")
        return {"text": text, "cut": cut}

    def _picture(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        value = at.library_value
        drawing = run_limited(lambda: pictures.draw_picture(value), "Drawing it", PICTURE_TIMEOUT_S)
        return {"picture": base64.b64encode(drawing).decode()}

    def _measure(self, at: ResolvedObject, request: Fields, deadline: Deadline) -> Fields:
        picture = pictures.picture_of(at.library_value)
        return {"size": None if picture is None else picture.size}

    def _store_computed(self, client: str, value: object, expression: str) -> int:
        """Keep a value until its client closes; return its number."""
        with self._lock:
            number = next(self._numbers)
            self._computed.setdefault(client, {})[number] = ComputedValue(value, expression)
        return number


def _table_at(at: ResolvedObject) -> Table:
    """Return an object as a table. Raises `InspectionError` if it is not one any more."""
    table = as_table(at.library_value)
    if table is None:
        raise InspectionError("This is no longer a table; press r to reload.")
    return table


def _text_at(at: ResolvedObject) -> str:
    """Return an object as a text. Raises `InspectionError` if it is not one any more."""
    if texts.text_class(at.target) is not str:
        raise InspectionError("This is no longer a text; press r to reload.")
    return at.target  # type: ignore[no-any-return]


def _page_bounds(request: Fields) -> tuple[int, int]:
    """Return the first position of a page, and the position after its last one."""
    start = max(0, request["start"])
    return start, min(request["stop"], start + MAX_PAGE_ROWS)


def describe_object(value: object, expression: str) -> Fields:
    """Describe an object for the head of an inspector.

    Args:
        expression: Code for it, or empty.
    """
    plain_value = as_library_type(value)
    table = as_table(plain_value)
    package = class_module(type(plain_value)).partition(".")[0]
    return {
        "type": type_name(value),
        "library_type": f"{package}.{type_name(plain_value)}",
        "summary": summary(plain_value),
        "kind": variable_kind(value),
        "views": _list_views(plain_value, table),
        "expression": expression,
        "rows": table.rows if table else 0,
        "columns": table.columns if table else 0,
        "size": 0 if texts.text_class(value) is None else texts.text_length(value),
    }


def _list_views(value: object, table: Table | None) -> list[str]:
    """Return the names of the views of an object, the best first."""
    views = _own_views(value, table)
    picture = pictures.picture_of(value)
    if picture and picture.on_request:
        views = [*views, "picture"]
    elif picture:
        views = ["picture", *views]
    return list(dict.fromkeys([*views, "repr"]))


def _own_views(value: Any, table: Table | None) -> list[str]:
    """Return the names of the views besides picture and repr.

    Args:
        table: The value as a table.
    """
    if arrays.is_array(value):
        if not value.shape:
            return ["repr"]
        return ["array", "plot"] if arrays.can_be_drawn(value) else ["array"]
    if isinstance(table, RecordTable):
        return ["table", "tree"]
    if table is not None:
        return ["table"] if _plottable_column(table) is None else ["table", "plot"]
    text_class = texts.text_class(value)
    if text_class is not None:
        return ["text"] if text_class is str else ["repr"]

    kind = variable_kind(value)
    if kind in _VIEWS_BY_KIND:
        return _VIEWS_BY_KIND[kind]
    return ["repr"] if type(value) in SCALARS else ["tree"]


def _plottable_column(table: Table) -> Column | None:
    """Return the only column of a table, if it has numbers in numpy's memory."""
    if table.columns != 1 or "numpy" not in sys.modules:
        return None
    try:
        column = table.column(0)
    except InspectionError:
        return None
    if type(column) is not Column and column.is_right_aligned:
        return column
    return None
