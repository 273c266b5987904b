"""The heading of the inspector: the path to an object, its type and size, and its views."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.inspector_client import InspectedObject, ViewKind

_MARK = "◐ "
_BETWEEN = " › "

NAMES: dict[ViewKind, str] = {
    "table": "Table",
    "array": "Array",
    "tree": "Inside",
    "text": "Text",
    "source": "Source",
    "plot": "Plot",
    "picture": "Picture",
    "attributes": "Attributes",
    "repr": "Repr",
}


def crumbs(labels: Sequence[str], room: int) -> Content:
    """Show the path to an object; if it is too long, its beginning and its end."""
    first, *others = shown = [one_line(label) for label in labels]
    while len(others) > 1 and cell_len(_BETWEEN.join(shown)) + len(_MARK) > room:
        del others[0]
        shown = [first, "…", *others]
    *way, last = shown
    parts = [(_MARK, "$moon"), *((label + _BETWEEN, "$muted") for label in way), (last, "bold")]
    return Content.assemble(*parts).truncate(max(len(_MARK) + 1, room), ellipsis=True)


def facts(opened: InspectedObject, room: int, *, private: bool = False) -> Content:
    """Show type and size, cut to so many cells. private: say that the variable is private."""
    told = f"{'private  ' * private}{one_line(opened.type)}  {one_line(opened.summary)}".rstrip()
    return Content.styled(told, "$muted").truncate(max(1, room), ellipsis=True)


def tabs(titles: Sequence[str], current: int) -> Content:
    """Show the views, each with its key."""
    parts: list[tuple[str, str]] = []
    for number, title in enumerate(titles):
        here = number == current
        parts += [
            (f"{number + 1} ", "$moon" if here else "$hairline"),
            (title, "bold $person" if here else "$muted"),
            ("   ", ""),
        ]
    return Content.assemble(*parts)
