"""Answers what a screen asks about an object: what it is, and a page of it at a time."""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable
from typing import Any

from ..limited_repr import limited_repr
from ..limits import TooSlow, within
from ..own import as_own
from ..summary import kind_of, summary, type_name
from . import arrays, pictures, plots, texts
from .children import Child, all_attributes, children_of, count_of, described
from .code import source
from .pace import AbandonedError, LookError, Pace
from .paths import ComputedValue, Way, follow
from .registered import InspectorRegistry, views
from .tables.column import Table
from .tables.known import table_of
from .tables.pages import Arrangement, headings, page
from .views import numbers_of, views_of

SECONDS = 2.0
"""How long code of an object's own may take that a person asked for."""
PICTURE = 10.0
WORK = 10.0
"""Seconds that sorting, filtering and figures may take."""
CHARACTERS = 200_000
MOST = 500
"""Rows of one page."""
_MODULE_OF: Callable[[type], Any] = type.__dict__["__module__"].__get__
"""A class' module, also where it is one of C's, whatever its metaclass says."""


class Inspection:
    """The screens that look into one namespace. Each has a name of its own; what it asks anew in a slot makes the older question void."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._newest: dict[tuple[str, str], int] = {}
        self._held: dict[str, dict[int, ComputedValue]] = {}
        self._registered = InspectorRegistry()
        self._arrangements: dict[str, Arrangement] = {}
        self._line_counts: dict[str, texts.LineCounts] = {}
        self._answers: dict[str, Callable[[Way, dict[str, Any], Pace], dict[str, Any]]] = {
            "open": self._open,
            "children": self._children,
            "table": self._table,
            "columns": self._columns,
            "figures": self._figures,
            "array": self._array,
            "plot": self._plot,
            "text": self._text,
            "bytes": self._bytes,
            "find": self._find,
            "source": self._source,
            "picture": self._picture,
            "measure": self._measure,
            "evaluate": self._evaluate,
            "repr": self._repr,
        }

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer one question: who asks (`client`, `slot`), what is to be done (`do`), where (`path`), and what belongs to it.

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
        path = [["name", asked["path"][0][1]], *asked["path"][1:]] if asked.get("again") and asked["path"][0][0] == "name" else asked["path"]
        try:
            way = follow(path, self._namespace, self._held.get(client, {}), table_of)
            return self._answers[asked["do"]](way, asked, pace)
        except (LookError, AbandonedError):
            raise
        except Exception as error:  # a library's object in a state that it does not expect itself
            raise LookError(f"It cannot be shown: {type_name(error)}{_message(error)}") from None

    def _close(self, client: str) -> None:
        with self._lock:
            self._held.pop(client, None)
            self._arrangements.pop(client, None)
            self._line_counts.pop(client, None)
            for slot in [slot for slot in self._newest if slot[0] == client]:
                del self._newest[slot]

    def _open(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        with self._lock:
            self._arrangements.pop(asked["client"], None)
        shown, problem = self._shown(way, asked["client"])
        return {**opened(way.goal, way.expression), "path": way.path, "shown": shown, "problem": problem}

    def _shown(self, way: Way, client: str) -> tuple[list[dict[str, Any]], str]:
        """What the environment's own inspectors show of an object, and what went wrong with them."""
        try:
            inspector = _own(lambda: self._registered.inspector_of(way.goal), "Loading its inspector")
            if inspector is None:
                return [], ""
            found = _own(lambda: views(inspector(way.goal)), "Its inspector")
        except LookError as error:
            return [], str(error)
        return [{"title": title, "path": [["held", self._hold(client, value, "")]], **opened(value, "")} for title, value in found], ""

    def _children(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        start, stop = _page(asked)
        if asked["of"] == "attributes":
            all_of_them = all_attributes(way.goal)
            found, count = all_of_them[start:stop], len(all_of_them)
        else:
            found, count = children_of(way.goal, start, stop), count_of(way.goal)
        return {"count": count, "rows": [described(child, way.objects) for child in found]}

    # Tables

    def _table(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        table = _table_at(way)
        with self._lock:
            arrangement = self._arrangements.setdefault(asked["client"], Arrangement())
        rows = arrangement.rows(way.goal, table, asked["sort"], asked["filters"], pace)
        return page(table, rows, *_page(asked), asked["columns"], pace)

    def _columns(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        return {"columns": headings(_table_at(way), asked["columns"])}

    def _figures(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        return dict(_table_at(way).column(asked["column"]).statistics(pace)._asdict())

    # Arrays and plots

    def _array(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if not arrays.is_array(way.seen):
            raise LookError("It is not an array any more; r looks again.")
        return arrays.statistics(way.seen, pace) if asked["figures"] else arrays.facts(way.seen)

    def _plot(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        values = arrays.as_numpy(way.seen) if arrays.is_array(way.seen) else numbers_of(_table_at(way))
        if values is None or values.dtype.kind not in "biuf":
            raise LookError("It has no numbers that could be drawn.")
        if asked["kind"] == "histogram":
            return plots.histogram(values, pace)
        # A very small screen may have no room for it.
        width, height = max(1, asked["width"]), max(1, asked["height"])
        return plots.heat(values, width, height, pace) if values.ndim == 2 else plots.line(values, width, pace)

    # Texts

    def _text(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if texts.base_of(way.goal) is not str:
            raise LookError("It is not a text any more; r looks again.")
        found, size = texts.part(way.goal, asked["start"], asked["end"]), texts.length(way.goal)
        with self._lock:
            counts = self._line_counts.setdefault(asked["client"], texts.LineCounts())
        return {"text": found, "line": counts.before(way.goal, asked["start"], pace), "size": size}

    def _bytes(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if texts.base_of(way.goal) in (None, str):
            raise LookError("It is not bytes any more; r looks again.")
        return {"hex": texts.part(way.goal, asked["start"], asked["end"]).hex()}

    def _find(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        if texts.base_of(way.goal) is None:
            raise LookError("It is not a text any more; r looks again.")
        return {"found": texts.find(way.goal, asked["words"], asked["start"], asked["backwards"], pace)}

    def _source(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        return source(way.goal, way.expression)

    def _measure(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        return {"size": pictures.measure(way.seen)}

    # What runs code of the object's, because the person asked for it

    def _evaluate(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        name = asked["name"]
        value = _own(lambda: getattr(way.goal, name), f"The property {name}")
        pace.check()  # for a screen that was closed meanwhile, nothing is kept
        number = self._hold(asked["client"], value, f"{way.expression}.{name}" if way.expression else "")
        return described(Child(["held", number], name, value), way.objects)

    def _repr(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        text, cut = _own(lambda: limited_repr(way.goal, CHARACTERS), "Its __repr__")
        return {"text": text, "cut": cut}

    def _picture(self, way: Way, asked: dict[str, Any], pace: Pace) -> dict[str, Any]:
        found = _own(lambda: pictures.picture(way.seen), "Drawing it", seconds=PICTURE)
        return {"picture": base64.b64encode(found).decode()}

    def _hold(self, client: str, value: Any, expression: str) -> int:
        with self._lock:
            number = next(self._numbers)
            self._held.setdefault(client, {})[number] = ComputedValue(value, expression)
        return number


def opened(value: Any, expression: str) -> dict[str, Any]:
    """What an object is, and how it can be seen."""
    own = as_own(value)
    table = table_of(own)
    return {
        "type": type_name(value),
        "known": f"{_library(own)}.{type_name(own)}",
        "summary": summary(own),
        "kind": kind_of(value),
        "views": views_of(own, table),
        "expression": expression,
        "rows": table.rows if table is not None else 0,
        "columns": table.columns if table is not None else 0,
        "size": 0 if texts.base_of(value) is None else texts.length(value),
    }


def _library(value: Any) -> str:
    """The package that an object's class is of."""
    module = _MODULE_OF(type(value))
    return module.partition(".")[0] if type(module) is str else ""


def _table_at(way: Way) -> Table:
    table = table_of(way.seen)
    if table is None:
        raise LookError("It is not a table any more; r looks again.")
    return table


def _page(asked: dict[str, Any]) -> tuple[int, int]:
    start = max(0, asked["start"])
    return start, min(asked["stop"], start + MOST)


def _own(work: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Run code of an object's own within a time limit. Raises `LookError`."""
    try:
        return within(seconds, work)
    except TooSlow:
        raise LookError(f"{what} did not end within {seconds:g} s.") from None
    except LookError:
        raise
    except BaseException as error:  # the object's own code, SystemExit included
        raise LookError(f"{what} raised {type_name(error)}{_message(error)}") from None


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # the message is the user's object, too
        return "."
    return f": {' '.join(text.split())[:500]}" if text else "."
