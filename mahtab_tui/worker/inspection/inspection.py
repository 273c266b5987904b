"""Answers the screens' requests about objects, a page at a time."""

from __future__ import annotations

import base64
import itertools
import sys
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ..completion.signatures import source
from ..objects import (
    SCALARS,
    as_library_type,
    class_dict,
    class_module,
    get_if_loaded,
    limited_repr,
    mro_of,
)
from ..stdlib import late_import
from ..variables import summary, type_name, variable_kind
from . import content
from .children import (
    Child,
    ComputedValue,
    ResolvedPath,
    count_children,
    describe_child,
    list_children,
    resolve_path,
)
from .columns import AbandonedError, Column, Deadline, InspectionError, error_text, run_limited
from .tables import RecordTable, Table, arrange, as_table, headings, page

GROUP = "mahtab_tui.inspectors"
MOST_VIEWS = 7
PICTURE = 10.0
WORK = 10.0
"""Seconds for sorting, filtering and statistics."""
CHARACTERS, BYTES = 200_000, 50_000
MOST_ROWS = 500

Fields = dict[str, Any]


def find_inspector(value: Any) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return the inspector that a package registers for a class (``shapes.Polygon``) as an entry
    point: a function that returns a mapping of titles to objects."""
    names = [name for cls in mro_of(type(value)) if (name := _full_name(cls))]
    if not names:
        return None
    points = _entry_points(tuple(entry for entry in sys.path if type(entry) is str))
    return next((points[name].load() for name in names if name in points), None)


@lru_cache(1)
def _entry_points(path: tuple[str, ...]) -> dict[str, Any]:
    found = late_import("importlib.metadata").entry_points()
    # A dict before Python 3.10.
    points = found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ())
    return {point.name: point for point in points}


def _full_name(cls: type) -> str:
    module, name = class_dict(cls).get("__module__"), type.__dict__["__qualname__"].__get__(cls)
    if type(module) is not str or module in ("builtins", "__main__"):
        return ""
    return f"{module}.{name}" if get_if_loaded(module, name) is cls else ""


class Inspection:
    """A new request in a slot cancels the older one."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._newest: dict[tuple[str, str], int] = {}
        self._computed: dict[str, dict[int, ComputedValue]] = {}
        self._arranged: dict[str, tuple[Any, Any, Any]] = {}
        """By client, the table that it last sorted or filtered, how, and the rows."""
        self._answers: dict[str, Callable[[ResolvedPath, Fields, Deadline], Fields]] = {
            "open": self._open,
            "children": self._children,
            "table": self._table,
            "columns": lambda at, asked, deadline: {
                "columns": headings(_table_at(at), asked["columns"])
            },
            "figures": lambda at, asked, deadline: (
                _table_at(at).column(asked["column"]).statistics(deadline)._asdict()
            ),
            "array": self._array,
            "plot": self._plot,
            "text": self._text,
            "find": self._find,
            "source": lambda at, asked, deadline: source(at.target, at.expression),
            "measure": self._measure,
            "evaluate": self._evaluate,
            "picture": self._picture,
            "repr": self._repr,
        }

    def answer(self, request: Fields) -> Fields:
        """Answer a request of a screen (`client`, `slot`): an action (`do`) on an object (`path`).
        Raises `InspectionError` or `AbandonedError`."""
        client = request["client"]
        if request["do"] == "close":
            self._close(client)
            return {}
        slot = client, request["slot"]
        with self._lock:
            number = self._newest[slot] = next(self._numbers)
        deadline = Deadline(WORK, lambda: self._newest.get(slot) != number)
        first, *others = request["path"]
        if request.get("again") and first[0] == "name":
            first = first[:2]
        try:
            at = resolve_path([first, *others], self._namespace, self._computed.get(client, {}))
            return self._answers[request["do"]](at, request, deadline)
        except (InspectionError, AbandonedError):
            raise
        except Exception as error:  # a library's object in an inconsistent state
            raise InspectionError(f"The object cannot be shown: {error_text(error)}") from None

    def _close(self, client: str) -> None:
        with self._lock:
            self._computed.pop(client, None)
            self._arranged.pop(client, None)
            for slot in [slot for slot in self._newest if slot[0] == client]:
                del self._newest[slot]

    def _open(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        self._arranged.pop(asked["client"], None)
        shown, problem = [], ""
        try:
            shown = self._inspector_views(at.target, asked["client"])
        except InspectionError as error:
            problem = str(error)
        about = describe_object(at.target, at.expression)
        return {**about, "path": at.path, "shown": shown, "problem": problem}

    def _inspector_views(self, value: Any, client: str) -> list[Fields]:
        inspector = run_limited(lambda: find_inspector(value), "Loading its inspector")
        if inspector is None:
            return []

        def run_inspector() -> list[tuple[str, Any]]:
            shown = inspector(value)
            if not isinstance(shown, Mapping):
                kind = type(shown).__name__
                raise TypeError(f"an inspector returns a mapping of titles to objects, not {kind}")
            return [(str(title), view) for title, view in list(shown.items())[:MOST_VIEWS]]

        found = []
        for title, view in run_limited(run_inspector, "Its inspector"):
            path = [["computed", self._store_computed(client, view, "")]]
            found.append({"title": title, "path": path, **describe_object(view, "")})
        return found

    def _children(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        start, stop = _page_bounds(asked)
        found, count = list_children(at.target, start, stop), count_children(at.target)
        return {"count": count, "rows": [describe_child(child, at.objects) for child in found]}

    def _table(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        table, sort, filters = _table_at(at), asked["sort"], asked["filters"]
        rows = None
        if sort or filters:
            wanted = table.rows, table.columns, sort, filters
            last, known, rows = self._arranged.get(asked["client"], (None, None, None))
            if last is not at.target or known != wanted:
                rows = arrange(table, sort, filters, deadline)
                self._arranged[asked["client"]] = at.target, wanted, rows
        return page(table, rows, *_page_bounds(asked), asked["columns"], deadline)

    def _array(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        value = at.library_value
        if not content.is_array(value):
            raise InspectionError("This is no longer an array; press r to reload.")
        return content.statistics(value, deadline) if asked["figures"] else content.facts(value)

    def _plot(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        if content.is_array(at.library_value):
            values = content.as_numpy(at.library_value)
        else:
            column = _plottable_column(_table_at(at))
            values = None if column is None else column.numbers()
        if values is None or values.dtype.kind not in "biuf":
            raise InspectionError("There are no numbers to plot.")
        if asked["kind"] == "histogram":
            return content.histogram(values, deadline)
        width, height = max(1, asked["width"]), max(1, asked["height"])
        if values.ndim == 2:
            return content.heat(values, width, height)
        return content.line(values, width, deadline)

    def _text(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        text, start = _text_at(at), asked["start"]
        found, line = content.part(text, start, asked["end"]), str.count(text, "\n", 0, start)
        return {"text": found, "line": line, "size": content.length(text)}

    def _find(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        text, words = _text_at(at), asked["words"]
        return {"found": content.find(text, words, asked["start"], asked["backwards"], deadline)}

    def _evaluate(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        name = asked["name"]
        value = run_limited(lambda: getattr(at.target, name), f"The property {name}")
        deadline.check()  # do not store anything for a closed screen
        expression = f"{at.expression}.{name}" if at.expression else ""
        number = self._store_computed(asked["client"], value, expression)
        return describe_child(Child(["computed", number], name, value), at.objects)

    def _repr(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        value = at.target
        # The repr of long bytes would take four times their memory.
        if content.text_class(value) not in (None, str):
            text, cut = repr(content.part(value, 0, BYTES)), content.length(value) > BYTES
        else:
            text, cut = run_limited(lambda: limited_repr(value, CHARACTERS), "Its __repr__")
        return {"text": text, "cut": cut}

    def _picture(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        value = at.library_value
        found = run_limited(lambda: content.draw(value), "Drawing it", PICTURE)
        return {"picture": base64.b64encode(found).decode()}

    def _measure(self, at: ResolvedPath, asked: Fields, deadline: Deadline) -> Fields:
        picture = content.picture_of(at.library_value)
        return {"size": None if picture is None else picture.size}

    def _store_computed(self, client: str, value: Any, expression: str) -> int:
        with self._lock:
            number = next(self._numbers)
            self._computed.setdefault(client, {})[number] = ComputedValue(value, expression)
        return number


def _table_at(at: ResolvedPath) -> Table:
    table = as_table(at.library_value)
    if table is None:
        raise InspectionError("This is no longer a table; press r to reload.")
    return table


def _text_at(at: ResolvedPath) -> str:
    if content.text_class(at.target) is not str:
        raise InspectionError("This is no longer a text; press r to reload.")
    return at.target  # type: ignore[no-any-return]


def _page_bounds(asked: Fields) -> tuple[int, int]:
    start = max(0, asked["start"])
    return start, min(asked["stop"], start + MOST_ROWS)


def describe_object(value: Any, expression: str) -> Fields:
    own = as_library_type(value)
    table = as_table(own)
    return {
        "type": type_name(value),
        "known": f"{class_module(type(own)).partition('.')[0]}.{type_name(own)}",
        "summary": summary(own),
        "kind": variable_kind(value),
        "views": _list_views(own, table),
        "expression": expression,
        "rows": table.rows if table else 0,
        "columns": table.columns if table else 0,
        "size": 0 if content.text_class(value) is None else content.length(value),
    }


def _list_views(value: Any, table: Table | None) -> list[str]:
    views = _own_views(value, table)
    if picture := content.picture_of(value):
        views.insert(len(views) if picture.on_request else 0, "picture")
    return list(dict.fromkeys([*views, "repr"]))


def _own_views(value: Any, table: Table | None) -> list[str]:
    if content.is_array(value):
        if not value.shape:
            return ["repr"]
        return ["array", "plot"] if content.can_be_drawn(value) else ["array"]
    if isinstance(table, RecordTable):
        return ["table", "tree"]
    if table is not None:
        return ["table"] if _plottable_column(table) is None else ["table", "plot"]
    if content.text_class(value) is not None:
        return ["text"] if content.text_class(value) is str else ["repr"]
    by_kind = {"function": ["source"], "class": ["source", "tree"], "module": ["tree", "source"]}
    return by_kind.get(variable_kind(value)) or (["repr"] if type(value) in SCALARS else ["tree"])


def _plottable_column(table: Table) -> Column | None:
    if table.columns != 1 or "numpy" not in sys.modules:
        return None
    try:
        column = table.column(0)
    except InspectionError:
        return None
    return column if type(column) is not Column and column.right else None
