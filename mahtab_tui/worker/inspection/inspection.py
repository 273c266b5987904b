"""Answers the screens' requests about objects, a page at a time.

An entry point's name is a class (``shapes.polygon.Polygon``). Its value is a function that takes an
object of this class or a subclass, and returns a mapping of titles to ordinary objects, each of
which is shown in the view for its type.
"""

from __future__ import annotations

import base64
import itertools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..completion.cursor import source
from ..objects import (
    Classes,
    TimeLimitError,
    as_library_type,
    class_dict,
    class_module,
    get_if_loaded,
    limited_repr,
    mro_of,
    run_with_timeout,
)
from ..stdlib import late_import
from ..variables import summary, type_name, variable_kind
from . import content
from .arrow_tables import ArrowColumn, PolarsColumn
from .children import (
    Child,
    ComputedValue,
    ResolvedPath,
    all_attributes,
    count_children,
    describe_child,
    list_children,
    resolve_path,
)
from .columns import AbandonedError, Deadline, InspectionError, Table
from .pandas_tables import NumberColumn
from .tables import Arrangement, RecordTable, as_table, headings, page

GROUP = "mahtab_tui.inspectors"
REFRESH_SECONDS = 10.0
"""Seconds before the installed entry points are read again."""
MOST_VIEWS = 7
"""Maximum number of views of an object."""


class InspectorRegistry:
    """The registered inspectors of this environment."""

    def __init__(self) -> None:
        self._points: dict[str, Any] = {}
        self._refreshed_at = -REFRESH_SECONDS
        self._path: tuple[str, ...] = ()

    def find(self, value: Any) -> Callable[[Any], Mapping[str, Any]] | None:
        """Return the inspector for an object; None if there is none. Loading it imports its
        package."""
        names = [name for cls in mro_of(type(value)) if (name := _name(cls))]
        if not names:
            return None
        self._refresh()
        point = next((self._points[name] for name in names if name in self._points), None)
        return None if point is None else point.load()

    def _refresh(self) -> None:
        path = tuple(entry for entry in sys.path if type(entry) is str)
        if time.monotonic() - self._refreshed_at < REFRESH_SECONDS and path == self._path:
            return
        found = late_import("importlib.metadata").entry_points()
        # A dict before Python 3.10.
        points = found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ())
        self._points = {point.name: point for point in points}
        self._refreshed_at, self._path = time.monotonic(), path


def check_views(shown: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Validate the result of an inspector."""
    if not isinstance(shown, Mapping):
        raise TypeError(
            f"an inspector returns a mapping of titles to objects, not {type(shown).__name__}"
        )
    return [(str(title), value) for title, value in list(shown.items())[:MOST_VIEWS]]


def _name(cls: type) -> str:
    """Return a class's full name if its module really contains it; empty for built-in classes."""
    module, name = class_dict(cls).get("__module__"), type.__dict__["__qualname__"].__get__(cls)
    if (
        type(module) is not str
        or module in ("builtins", "__main__")
        or get_if_loaded(module, name) is not cls
    ):
        return ""
    return f"{module}.{name}"


_PLAIN = Classes(int, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented))


def list_views(value: Any, table: Table | None) -> list[str]:
    """Return the views of an object. table: the object as a table, if it is one."""
    views = _own_views(value, table)
    if content.is_picture(value):
        views.insert(0, "picture")
    elif content.draws_itself(value):
        views.append("picture")
    return list(dict.fromkeys([*views, "attributes", "repr"]))


def _own_views(value: Any, table: Table | None) -> list[str]:
    if content.is_array(value):
        return (
            ["array", "plot"]
            if value.shape and content.can_be_drawn(value)
            else ["array"]
            if value.shape
            else ["repr"]
        )
    if table is not None:
        views = ["table", "tree"] if isinstance(table, RecordTable) else ["table"]
        return [*views, "plot"] if _plottable_column(table) is not None else views
    if content.text_class(value) is not None:
        return ["text"] if content.text_class(value) is str else ["repr"]
    kind = variable_kind(value)
    if kind in ("function", "class"):
        return ["source"] if kind == "function" else ["source", "tree"]
    if kind == "module":
        return ["tree", "source"]
    return ["repr"] if type(value) in _PLAIN else ["tree"]


def plottable_numbers(table: Table) -> Any:
    """Return the numbers of a one-column table as a numpy array; None if there are none or numpy is
    not loaded."""
    column = _plottable_column(table)
    if column is None:
        return None
    if isinstance(column, NumberColumn):
        return column.numbers
    series = table.series(0)
    found = (
        series.array.to_numpy(dtype="f8", na_value=float("nan"))
        if hasattr(series, "array")
        else series.to_numpy()
    )
    return found.astype("f8") if found.dtype.kind == "O" else found  # of Decimal


def _plottable_column(table: Table) -> NumberColumn | ArrowColumn | PolarsColumn | None:
    """Return the only column of a table, if its numbers can be plotted."""
    if table.columns != 1 or "numpy" not in sys.modules or isinstance(table, RecordTable):
        return None
    try:
        column = table.column(0)
    except InspectionError:
        return None
    if not column.right or column.type.startswith("complex"):
        return None
    return column if isinstance(column, (NumberColumn, ArrowColumn, PolarsColumn)) else None


SECONDS = 2.0
"""Time limit for an object's own code, run at the user's request."""
PICTURE = 10.0
WORK = 10.0
"""Time limit for sorting, filtering and statistics, in seconds."""
CHARACTERS, BYTES = 200_000, 50_000
"""Maximum characters of a repr, and bytes whose repr is shown."""
MOST_ITEMS = 500
"""Maximum number of rows per page."""


class Inspection:
    """Answers screens that inspect one namespace. Each screen has a name; a new request in a slot
    cancels the older one."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._newest: dict[tuple[str, str], int] = {}
        self._computed: dict[str, dict[int, ComputedValue]] = {}
        self._registered = InspectorRegistry()
        self._arrangements: dict[str, Arrangement] = {}
        self._line_counts: dict[str, content.LineCounts] = {}
        self._answers: dict[
            str, Callable[[ResolvedPath, dict[str, Any], Deadline], dict[str, Any]]
        ] = {
            "open": self._open,
            "children": self._children,
            "table": self._table,
            "columns": lambda way, asked, pace: {
                "columns": headings(_table_at(way), asked["columns"])
            },
            "figures": lambda way, asked, pace: (
                _table_at(way).column(asked["column"]).statistics(pace)._asdict()
            ),
            "array": self._array,
            "plot": self._plot,
            "text": self._text,
            "find": self._find,
            "source": lambda way, asked, pace: source(way.target, way.expression),
            "measure": lambda way, asked, pace: {"size": content.measure(way.library_value)},
            "evaluate": self._evaluate,
            "picture": self._picture,
            "repr": self._repr,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request: a dict with the requesting screen (`client`, `slot`), the action
        (`do`), the object (`path`), and arguments.

        Raises `InspectionError` or `AbandonedError`.
        """
        client = request["client"]
        if request["do"] == "close":
            self._close(client)
            return {}
        slot = client, request["slot"]
        with self._lock:
            number = self._newest[slot] = next(self._numbers)
        deadline = Deadline(WORK, lambda: self._newest.get(slot) != number)
        path = (
            [["name", request["path"][0][1]], *request["path"][1:]]
            if request.get("again") and request["path"][0][0] == "name"
            else request["path"]
        )
        try:
            resolved = resolve_path(path, self._namespace, self._computed.get(client, {}))
            return self._answers[request["do"]](resolved, request, deadline)
        except (InspectionError, AbandonedError):
            raise
        except Exception as error:  # a library's object in an inconsistent state
            raise InspectionError(
                f"The object cannot be shown: {type_name(error)}{_message(error)}"
            ) from None

    def _close(self, client: str) -> None:
        with self._lock:
            self._computed.pop(client, None)
            self._arrangements.pop(client, None)
            self._line_counts.pop(client, None)
            for slot in [slot for slot in self._newest if slot[0] == client]:
                del self._newest[slot]

    def _open(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        with self._lock:
            self._arrangements.pop(request["client"], None)
        shown, problem = self._inspector_views(resolved, request["client"])
        return {
            **describe_object(resolved.target, resolved.expression),
            "path": resolved.path,
            "shown": shown,
            "problem": problem,
        }

    def _inspector_views(
        self, resolved: ResolvedPath, client: str
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the views of registered inspectors, and a problem with them."""
        try:
            inspector = _run_limited(
                lambda: self._registered.find(resolved.target), "Loading its inspector"
            )
            if inspector is None:
                return [], ""
            found = _run_limited(lambda: check_views(inspector(resolved.target)), "Its inspector")
        except InspectionError as error:
            return [], str(error)
        return [
            {
                "title": title,
                "path": [["held", self._store_computed(client, value, "")]],
                **describe_object(value, ""),
            }
            for title, value in found
        ], ""

    def _children(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        start, stop = _page(request)
        if request["of"] == "attributes":
            all_of_them = all_attributes(resolved.target)
            found, count = all_of_them[start:stop], len(all_of_them)
        else:
            found, count = (
                list_children(resolved.target, start, stop),
                count_children(resolved.target),
            )
        return {
            "count": count,
            "rows": [describe_child(child, resolved.objects) for child in found],
        }

    # Tables

    def _table(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        table = _table_at(resolved)
        with self._lock:
            arrangement = self._arrangements.setdefault(request["client"], Arrangement())
        rows = arrangement.rows(
            resolved.target, table, request["sort"], request["filters"], deadline
        )
        return page(table, rows, *_page(request), request["columns"], deadline)

    # Arrays and plots

    def _array(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        if not content.is_array(resolved.library_value):
            raise InspectionError("This is no longer an array; press r to reload.")
        return (
            content.statistics(resolved.library_value, deadline)
            if request["figures"]
            else content.facts(resolved.library_value)
        )

    def _plot(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        values = (
            content.as_numpy(resolved.library_value)
            if content.is_array(resolved.library_value)
            else plottable_numbers(_table_at(resolved))
        )
        if values is None or values.dtype.kind not in "biuf":
            raise InspectionError("There are no numbers to plot.")
        if request["kind"] == "histogram":
            return content.histogram(values, deadline)
        # A very small screen may have no room.
        width, height = max(1, request["width"]), max(1, request["height"])
        return (
            content.heat(values, width, height, deadline)
            if values.ndim == 2
            else content.line(values, width, deadline)
        )

    # Texts

    def _text(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        if content.text_class(resolved.target) is not str:
            raise InspectionError("This is no longer a text; press r to reload.")
        found, size = (
            content.part(resolved.target, request["start"], request["end"]),
            content.length(resolved.target),
        )
        with self._lock:
            counts = self._line_counts.setdefault(request["client"], content.LineCounts())
        return {
            "text": found,
            "line": counts.before(resolved.target, request["start"], deadline),
            "size": size,
        }

    def _find(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        if content.text_class(resolved.target) is not str:
            raise InspectionError("This is no longer a text; press r to reload.")
        return {
            "found": content.find(
                resolved.target, request["words"], request["start"], request["backwards"], deadline
            )
        }

    # Requests of the user that run the object's code

    def _evaluate(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        name = request["name"]
        value = _run_limited(lambda: getattr(resolved.target, name), f"The property {name}")
        deadline.check()  # do not store anything for a closed screen
        number = self._store_computed(
            request["client"], value, f"{resolved.expression}.{name}" if resolved.expression else ""
        )
        return describe_child(Child(["held", number], name, value), resolved.objects)

    def _repr(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        # The repr of long bytes would take four times their memory.
        if content.text_class(resolved.target) not in (
            None,
            str,
        ):
            return {
                "text": repr(content.part(resolved.target, 0, BYTES)),
                "cut": content.length(resolved.target) > BYTES,
            }
        text, cut = _run_limited(lambda: limited_repr(resolved.target, CHARACTERS), "Its __repr__")
        return {"text": text, "cut": cut}

    def _picture(
        self, resolved: ResolvedPath, request: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        found = _run_limited(
            lambda: content.picture(resolved.library_value), "Drawing it", seconds=PICTURE
        )
        return {"picture": base64.b64encode(found).decode()}

    def _store_computed(self, client: str, value: Any, expression: str) -> int:
        with self._lock:
            number = next(self._numbers)
            self._computed.setdefault(client, {})[number] = ComputedValue(value, expression)
        return number


def describe_object(value: Any, expression: str) -> dict[str, Any]:
    """Describe an object and its views."""
    own = as_library_type(value)
    table = as_table(own)
    return {
        "type": type_name(value),
        "known": f"{class_module(type(own)).partition('.')[0]}.{type_name(own)}",
        "summary": summary(own),
        "kind": variable_kind(value),
        "views": list_views(own, table),
        "expression": expression,
        "rows": table.rows if table is not None else 0,
        "columns": table.columns if table is not None else 0,
        "size": 0 if content.text_class(value) is None else content.length(value),
    }


def _table_at(resolved: ResolvedPath) -> Table:
    table = as_table(resolved.library_value)
    if table is None:
        raise InspectionError("This is no longer a table; press r to reload.")
    return table


def _page(request: dict[str, Any]) -> tuple[int, int]:
    start = max(0, request["start"])
    return start, min(request["stop"], start + MOST_ITEMS)


def _run_limited(work: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Run an object's code within a time limit. Raises `InspectionError`."""
    try:
        return run_with_timeout(seconds, work)
    except TimeLimitError:
        raise InspectionError(f"{what} did not end within {seconds:g} s.") from None
    except InspectionError:
        raise
    except BaseException as error:  # raised by the object's code, including SystemExit
        raise InspectionError(f"{what} raised {type_name(error)}{_message(error)}") from None


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # the message's code may fail too
        return "."
    return f": {' '.join(text.split())[:500]}" if text else "."
