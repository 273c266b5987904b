"""One object on the way that a person walks, and the views in which it can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.looking import InspectedObject, Look, Path, ViewKind
from mahtab_tui.tui.screens.inspector.array_view import ArrayView
from mahtab_tui.tui.screens.inspector.heading import NAMES
from mahtab_tui.tui.screens.inspector.hex_view import HexView
from mahtab_tui.tui.screens.inspector.picture_view import PictureView
from mahtab_tui.tui.screens.inspector.plot_view import PlotView
from mahtab_tui.tui.screens.inspector.repr_view import ReprView
from mahtab_tui.tui.screens.inspector.source_view import SourceView
from mahtab_tui.tui.screens.inspector.table_view import TableView
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.inspector.tree_view import TreeView
from mahtab_tui.tui.screens.inspector.view import Place, View

VIEWS: dict[ViewKind, Callable[[Place], View]] = {
    "table": TableView,
    "array": ArrayView,
    "plot": PlotView,
    "picture": PictureView,
    "tree": TreeView,
    "attributes": lambda place: TreeView(place, attributes=True),
    "text": TextView,
    "bytes": HexView,
    "source": SourceView,
    "repr": ReprView,
}


class Tab(NamedTuple):
    """One of the views in which an object can be seen."""

    title: str
    kind: ViewKind
    place: Place


class Level:
    """One object on the way, with the views of it that were opened."""

    def __init__(self, path: Path, label: str) -> None:
        self.path = path
        self.label = label
        self.opened: InspectedObject | None = None
        self.tabs: list[Tab] = []
        self.views: dict[int, View] = {}
        self.current = 0

    @property
    def view(self) -> View | None:
        """The view that is seen."""
        return self.views.get(self.current)

    def view_at(self, number: int) -> View:
        """A view; it is made when it is first seen."""
        if number not in self.views:
            tab = self.tabs[number]
            self.views[number] = VIEWS[tab.kind](tab.place)
        return self.views[number]

    def show(self, look: Look, opened: InspectedObject) -> bool:
        """It is opened, or opened again; says whether its views are the same as before."""
        place = Place(look, opened.path, opened)
        tabs = [Tab(one_line(shown.title), shown.opened.views[0], Place(look, shown.opened.path, shown.opened)) for shown in opened.shown]
        tabs += [Tab(NAMES[kind], kind, place) for kind in opened.views]
        same = [tab[:2] for tab in tabs] == [tab[:2] for tab in self.tabs]
        self.opened = opened
        if not same:
            self.tabs, self.current = tabs, 0
            return False
        for old, new in zip(self.tabs, tabs, strict=True):
            old.place.opened, old.place.path = new.place.opened, new.place.path
        return True

    def leave(self) -> None:
        """Take the views away."""
        for view in self.views.values():
            if view.is_attached:
                view.remove()
        self.views.clear()
