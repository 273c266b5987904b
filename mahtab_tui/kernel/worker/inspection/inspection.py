"""Answers the screens' questions about objects: what they are, and a page of them at a time."""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable
from typing import Any

from ..completion.explaining import source
from ..library_types import as_library_type
from ..limits import TimeLimitError, limited_repr, run_with_timeout
from ..statics import module_of
from ..summary import kind_of, summary, type_name
from . import arrays, pictures, plots, texts
from .children import Child, all_attributes, children_of, count_of, described
from .pace import AbandonedError, LookError, Pace
from .paths import ComputedValue, ResolvedPath, follow
from .registered import InspectorRegistry, views
from .tables import table_of
from .tables.column import Table
from .tables.pages import Arrangement, headings, page
from .views import numbers_of, views_of

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
        self._held: dict[str, dict[int, ComputedValue]] = {}
        self._registered = InspectorRegistry()
        self._arrangements: dict[str, Arrangement] = {}
        self._line_counts: dict[str, texts.LineCounts] = {}
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
            "measure": lambda way, asked, pace: {"size": pictures.measure(way.seen)},
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
            way = follow(path, self._namespace, self._held.get(client, {}))
            return self._answers[asked["do"]](way, asked, pace)
        except (LookError, AbandonedError):
            raise
        except Exception as error:  # a library's object in an inconsistent state
            raise LookError(
                f"The object cannot be shown: {type_name(error)}{_message(error)}"
            ) from None

    def _close(self, client: str) -> None:
        with self._lock:
            self._held.pop(client, None)
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
        if not arrays.is_array(way.seen):
            raise LookError("This is no longer an array; press r to reload.")
        return arrays.statistics(way.seen, pace) if asked["figures"] else arrays.facts(way.seen)

    def _plot(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        values = (
            arrays.as_numpy(way.seen) if arrays.is_array(way.seen) else numbers_of(_table_at(way))
        )
        if values is None or values.dtype.kind not in "biuf":
            raise LookError("There are no numbers to plot.")
        if asked["kind"] == "histogram":
            return plots.histogram(values, pace)
        # A very small screen may have no room.
        width, height = max(1, asked["width"]), max(1, asked["height"])
        return (
            plots.heat(values, width, height, pace)
            if values.ndim == 2
            else plots.line(values, width, pace)
        )

    # Texts

    def _text(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if texts.base_of(way.goal) is not str:
            raise LookError("This is no longer a text; press r to reload.")
        found, size = texts.part(way.goal, asked["start"], asked["end"]), texts.length(way.goal)
        with self._lock:
            counts = self._line_counts.setdefault(asked["client"], texts.LineCounts())
        return {"text": found, "line": counts.before(way.goal, asked["start"], pace), "size": size}

    def _find(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if texts.base_of(way.goal) is not str:
            raise LookError("This is no longer a text; press r to reload.")
        return {
            "found": texts.find(way.goal, asked["words"], asked["start"], asked["backwards"], pace)
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
        if texts.base_of(way.goal) not in (
            None,
            str,
        ):  # the repr of long bytes would take four times their memory
            return {
                "text": repr(texts.part(way.goal, 0, BYTES)),
                "cut": texts.length(way.goal) > BYTES,
            }
        text, cut = _own(lambda: limited_repr(way.goal, CHARACTERS), "Its __repr__")
        return {"text": text, "cut": cut}

    def _picture(self, way: ResolvedPath, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        found = _own(lambda: pictures.picture(way.seen), "Drawing it", seconds=PICTURE)
        return {"picture": base64.b64encode(found).decode()}

    def _hold(self, client: str, value: Any, expression: str) -> int:
        with self._lock:
            number = next(self._numbers)
            self._held.setdefault(client, {})[number] = ComputedValue(value, expression)
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
        "size": 0 if texts.base_of(value) is None else texts.length(value),
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
