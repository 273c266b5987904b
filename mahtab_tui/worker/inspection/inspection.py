"""Answers the requests of inspectors about objects, a page at a time.

A request names an object by its path (`object_paths`), and what to do with it: `Inspection` has a method
for each.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..completion.explanations import explain_with_source
from ..values.objects import limited_repr
from . import arrays, pictures, plots, texts
from .children import Child, count_children, describe_child, list_children
from .limits import AbandonedError, Deadline, InspectionError, error_text, run_limited
from .object_paths import ComputedValue, ResolvedObject, resolve_path
from .package_inspectors import find_inspector
from .table_pages import arrange, headings, page
from .tables import Table, as_table
from .views import describe_object, plottable_column

MAX_VIEWS = 7
"""Views of a package's own inspector."""
PICTURE_TIMEOUT_S = 10.0
"""Seconds for drawing a picture."""
WORK_TIMEOUT_S = 10.0
"""Seconds for sorting, filtering and statistics."""
MAX_REPR_CHARS = 200_000
"""Characters of a repr that are sent."""
MAX_REPR_BYTES = 50_000
"""Bytes of a bytes object that are written."""
MAX_PAGE_ROWS = 500
"""A request gets at most this many rows."""

Fields = dict[str, Any]
"""The fields of a request or of its answer, by name."""


class _Arrangement(NamedTuple):
    """The rows of a table, sorted and filtered."""

    table: object
    order: tuple[object, ...]
    """The size of the table, and how it is sorted and filtered."""
    rows: Sequence[int]


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
            column = plottable_column(_table_at(at))
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
