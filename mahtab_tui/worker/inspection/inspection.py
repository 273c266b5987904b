"""Answers the screens' questions about objects, a page at a time.

An entry point's name is a class (``shapes.polygon.Polygon``). Its value is a function that takes an
object of this class or a subclass, and returns a mapping of titles to ordinary objects, each of
which is shown in the view of its own kind."""

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
    limited_repr,
    loaded,
    module_of,
    mro_of,
    run_with_timeout,
)
from ..stdlib import late_import
from ..variables import kind_of, summary, type_name
from . import content
from .arrow_tables import ArrowColumn, PolarsColumn
from .children import (
    Child,
    ComputedValue,
    ResolvedPath,
    all_attributes,
    children_of,
    count_of,
    described,
    follow,
)
from .columns import AbandonedError, LookError, Pace, Table
from .pandas_tables import NumberColumn
from .tables import Arrangement, RecordTable, headings, page, table_of

GROUP = "mahtab_tui.inspectors"
FRESH = 10.0
"""Seconds before the installed entry points are read again."""
MOST_VIEWS = 7
"""Views of one object at most."""


class InspectorRegistry:
    """The inspectors in this environment."""

    def __init__(self) -> None:
        self._points: dict[str, Any] = {}
        self._looked = -FRESH
        self._path: tuple[str, ...] = ()

    def inspector_of(self, value: Any) -> Callable[[Any], Mapping[str, Any]] | None:
        """Return the inspector for an object, or None. Loading it imports its package."""
        names = [name for cls in mro_of(type(value)) if (name := _name(cls))]
        if not names:
            return None
        self._look()
        point = next((self._points[name] for name in names if name in self._points), None)
        return None if point is None else point.load()

    def _look(self) -> None:
        path = tuple(entry for entry in sys.path if type(entry) is str)
        if time.monotonic() - self._looked < FRESH and path == self._path:
            return
        found = late_import("importlib.metadata").entry_points()
        points = (
            found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ())
        )  # a dict, before Python 3.10
        self._points = {point.name: point for point in points}
        self._looked, self._path = time.monotonic(), path


def views(shown: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Check what an inspector has returned."""
    if not isinstance(shown, Mapping):
        raise TypeError(
            f"an inspector returns a mapping of titles to objects, not {type(shown).__name__}"
        )
    return [(str(title), value) for title, value in list(shown.items())[:MOST_VIEWS]]


def _name(cls: type) -> str:
    """Return a class's full name if its module really has it; empty for built-in classes."""
    module, name = class_dict(cls).get("__module__"), type.__dict__["__qualname__"].__get__(cls)
    if (
        type(module) is not str
        or module in ("builtins", "__main__")
        or loaded(module, name) is not cls
    ):
        return ""
    return f"{module}.{name}"


_PLAIN = Classes(int, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented))


def views_of(value: Any, table: Table | None) -> list[str]:
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
        return [*views, "plot"] if _numbers(table) is not None else views
    if content.base_of(value) is not None:
        return ["text"] if content.base_of(value) is str else ["repr"]
    kind = kind_of(value)
    if kind in ("function", "class"):
        return ["source"] if kind == "function" else ["source", "tree"]
    if kind == "module":
        return ["tree", "source"]
    return ["repr"] if type(value) in _PLAIN else ["tree"]


def numbers_of(table: Table) -> Any:
    """Return the numbers of a one-column table as a numpy array; None if it has none or numpy is
    not loaded."""
    column = _numbers(table)
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


def _numbers(table: Table) -> NumberColumn | ArrowColumn | PolarsColumn | None:
    """Return the only column of a table, if its numbers can be plotted."""
    if table.columns != 1 or "numpy" not in sys.modules or isinstance(table, RecordTable):
        return None
    try:
        column = table.column(0)
    except LookError:
        return None
    if not column.right or column.type.startswith("complex"):
        return None
    return column if isinstance(column, (NumberColumn, ArrowColumn, PolarsColumn)) else None


SECONDS = 2.0
"""Time limit for an object's code that runs on the user's request."""
PICTURE = 10.0
WORK = 10.0
"""Time limit for sorting, filtering and statistics, in seconds."""
CHARACTERS, BYTES = 200_000, 50_000
"""Characters of a repr, and bytes whose repr is shown."""
MOST_ITEMS = 500
"""Rows of one page."""


class Inspection:
    """Answers screens that look into one namespace. A screen has a name; a new question in a slot
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
        self._answers: dict[str, Callable[[ResolvedPath, dict[str, Any], Pace], dict[str, Any]]] = {
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
            "source": lambda way, asked, pace: source(way.goal, way.expression),
            "measure": lambda way, asked, pace: {"size": content.measure(way.seen)},
            "evaluate": self._evaluate,
            "picture": self._picture,
            "repr": self._repr,
        }

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a question, a dict with the asking screen (`client`, `slot`), the action (`do`),
        the object (`path`), and arguments.

        Raises `LookError` or `AbandonedError`.
        """
        client = asked["client"]
        if asked["do"] == "close":
            self._close(client)
            return {}
        slot = client, asked["slot"]
        with self._lock:
            number = self._newest[slot] = next(self._numbers)
        pace = Pace(WORK, lambda: self._newest.get(slot) != number)
        path = (
            [["name", asked["path"][0][1]], *asked["path"][1:]]
            if asked.get("again") and asked["path"][0][0] == "name"
            else asked["path"]
        )
        try:
            way = follow(path, self._namespace, self._computed.get(client, {}))
            return self._answers[asked["do"]](way, asked, pace)
        except (LookError, AbandonedError):
            raise
        except Exception as error:  # a library's object in an inconsistent state
            raise LookError(
                f"The object cannot be shown: {type_name(error)}{_message(error)}"
            ) from None

    def _close(self, client: str) -> None:
        with self._lock:
            self._computed.pop(client, None)
            self._arrangements.pop(client, None)
            self._line_counts.pop(client, None)
            for slot in [slot for slot in self._newest if slot[0] == client]:
                del self._newest[slot]

    def _open(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        with self._lock:
            self._arrangements.pop(asked["client"], None)
        shown, problem = self._shown(way, asked["client"])
        return {
            **opened(way.goal, way.expression),
            "path": way.path,
            "shown": shown,
            "problem": problem,
        }

    def _shown(self, way: ResolvedPath, client: str) -> tuple[list[dict[str, Any]], str]:
        """Return the views of registered inspectors, and their problem."""
        try:
            inspector = _own(
                lambda: self._registered.inspector_of(way.goal), "Loading its inspector"
            )
            if inspector is None:
                return [], ""
            found = _own(lambda: views(inspector(way.goal)), "Its inspector")
        except LookError as error:
            return [], str(error)
        return [
            {"title": title, "path": [["held", self._hold(client, value, "")]], **opened(value, "")}
            for title, value in found
        ], ""

    def _children(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        start, stop = _page(asked)
        if asked["of"] == "attributes":
            all_of_them = all_attributes(way.goal)
            found, count = all_of_them[start:stop], len(all_of_them)
        else:
            found, count = children_of(way.goal, start, stop), count_of(way.goal)
        return {"count": count, "rows": [described(child, way.objects) for child in found]}

    # Tables

    def _table(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        table = _table_at(way)
        with self._lock:
            arrangement = self._arrangements.setdefault(asked["client"], Arrangement())
        rows = arrangement.rows(way.goal, table, asked["sort"], asked["filters"], pace)
        return page(table, rows, *_page(asked), asked["columns"], pace)

    # Arrays and plots

    def _array(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if not content.is_array(way.seen):
            raise LookError("This is no longer an array; press r to reload.")
        return content.statistics(way.seen, pace) if asked["figures"] else content.facts(way.seen)

    def _plot(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        values = (
            content.as_numpy(way.seen) if content.is_array(way.seen) else numbers_of(_table_at(way))
        )
        if values is None or values.dtype.kind not in "biuf":
            raise LookError("There are no numbers to plot.")
        if asked["kind"] == "histogram":
            return content.histogram(values, pace)
        # A very small screen may have no room.
        width, height = max(1, asked["width"]), max(1, asked["height"])
        return (
            content.heat(values, width, height, pace)
            if values.ndim == 2
            else content.line(values, width, pace)
        )

    # Texts

    def _text(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if content.base_of(way.goal) is not str:
            raise LookError("This is no longer a text; press r to reload.")
        found, size = content.part(way.goal, asked["start"], asked["end"]), content.length(way.goal)
        with self._lock:
            counts = self._line_counts.setdefault(asked["client"], content.LineCounts())
        return {"text": found, "line": counts.before(way.goal, asked["start"], pace), "size": size}

    def _find(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if content.base_of(way.goal) is not str:
            raise LookError("This is no longer a text; press r to reload.")
        return {
            "found": content.find(
                way.goal, asked["words"], asked["start"], asked["backwards"], pace
            )
        }

    # Requests of the user that run the object's code

    def _evaluate(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        name = asked["name"]
        value = _own(lambda: getattr(way.goal, name), f"The property {name}")
        pace.check()  # hold nothing for a screen that has been closed
        number = self._hold(
            asked["client"], value, f"{way.expression}.{name}" if way.expression else ""
        )
        return described(Child(["held", number], name, value), way.objects)

    def _repr(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if content.base_of(way.goal) not in (
            None,
            str,
        ):  # the repr of long bytes would take four times their memory
            return {
                "text": repr(content.part(way.goal, 0, BYTES)),
                "cut": content.length(way.goal) > BYTES,
            }
        text, cut = _own(lambda: limited_repr(way.goal, CHARACTERS), "Its __repr__")
        return {"text": text, "cut": cut}

    def _picture(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        found = _own(lambda: content.picture(way.seen), "Drawing it", seconds=PICTURE)
        return {"picture": base64.b64encode(found).decode()}

    def _hold(self, client: str, value: Any, expression: str) -> int:
        with self._lock:
            number = next(self._numbers)
            self._computed.setdefault(client, {})[number] = ComputedValue(value, expression)
        return number


def opened(value: Any, expression: str) -> dict[str, Any]:
    """Describe an object and its views."""
    own = as_library_type(value)
    table = table_of(own)
    return {
        "type": type_name(value),
        "known": f"{module_of(type(own)).partition('.')[0]}.{type_name(own)}",
        "summary": summary(own),
        "kind": kind_of(value),
        "views": views_of(own, table),
        "expression": expression,
        "rows": table.rows if table is not None else 0,
        "columns": table.columns if table is not None else 0,
        "size": 0 if content.base_of(value) is None else content.length(value),
    }


def _table_at(way: ResolvedPath) -> Table:
    table = table_of(way.seen)
    if table is None:
        raise LookError("This is no longer a table; press r to reload.")
    return table


def _page(asked: dict[str, Any]) -> tuple[int, int]:
    start = max(0, asked["start"])
    return start, min(asked["stop"], start + MOST_ITEMS)


def _own(work: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Run an object's code within a time limit. Raises `LookError`."""
    try:
        return run_with_timeout(seconds, work)
    except TimeLimitError:
        raise LookError(f"{what} did not end within {seconds:g} s.") from None
    except LookError:
        raise
    except BaseException as error:  # raised by the object's code, SystemExit included
        raise LookError(f"{what} raised {type_name(error)}{_message(error)}") from None


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # the message's code may fail too
        return "."
    return f": {' '.join(text.split())[:500]}" if text else "."
