"""What stands above an object: the way to it, what it is, and the views that it has."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.looking import Opened, ViewKind

NAMES: dict[ViewKind, str] = {
    "table": "Table",
    "array": "Array",
    "tree": "Inside",
    "text": "Text",
    "bytes": "Bytes",
    "source": "Source",
    "plot": "Plot",
    "picture": "Picture",
    "attributes": "Attributes",
    "repr": "Repr",
}


def crumbs(labels: Sequence[str], room: int) -> Content:
    """The way to an object; where it is too long, its beginning and its end."""
    shown = [plain(label).replace("\n", " ") for label in labels]
    while len(" › ".join(shown)) > room and len(shown) > 2:
        del shown[1 if shown[1] != "…" else 2]
        if shown[1] != "…":
            shown.insert(1, "…")
    *way, last = shown
    return Content.assemble(("◐ ", "$moon"), *((f"{label} › ", "$muted") for label in way), (last, "bold"))


def facts(opened: Opened) -> str:
    """Type and size."""
    return f"{plain(opened.type)}  {plain(opened.summary)}".rstrip()


def tabs(titles: Sequence[str], current: int) -> Content:
    """The views, each with its key."""
    parts: list[tuple[str, str]] = []
    for number, title in enumerate(titles):
        here = number == current
        parts += [(f"{number + 1} ", "$moon" if here else "$hairline"), (title, "bold $person" if here else "$muted"), ("   ", "")]
    return Content.assemble(*parts)
