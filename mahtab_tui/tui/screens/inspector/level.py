"""One of the objects that the user has opened one inside the other, with its views."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.inspector_client import (
    InspectedObject,
    InspectorClient,
    ObjectPath,
    ViewKind,
)
from mahtab_tui.tui.screens.inspector.array_view import ArrayView, plot_view
from mahtab_tui.tui.screens.inspector.heading import NAMES
from mahtab_tui.tui.screens.inspector.picture_view import PictureView
from mahtab_tui.tui.screens.inspector.source_view import SourceView
from mahtab_tui.tui.screens.inspector.table_view import TableView
from mahtab_tui.tui.screens.inspector.text_view import TextView, repr_view
from mahtab_tui.tui.screens.inspector.tree_view import TreeView
from mahtab_tui.tui.screens.inspector.view import Subject, View

VIEWS: dict[ViewKind, Callable[[Subject], View]] = {
    "table": TableView,
    "array": lambda subject: ArrayView(subject, TableView(subject)),
    "plot": plot_view,
    "picture": PictureView,
    "tree": TreeView,
    "attributes": lambda subject: TreeView(subject, "attributes"),
    "text": TextView,
    "source": SourceView,
    "repr": repr_view,
}


class Tab(NamedTuple):
    """A way to view an object."""

    title: str
    kind: ViewKind
    subject: Subject


class Level:
    """An object, and those of its views that were opened."""

    def __init__(self, path: ObjectPath, label: str) -> None:
        self.path = path
        self.label = label
        self.opened: InspectedObject | None = None
        self.tabs: list[Tab] = []
        self.views: dict[int, View] = {}
        self.current = 0

    def view_at(self, number: int) -> View:
        """A view by its number; it is made when it is first asked for."""
        if number not in self.views:
            tab = self.tabs[number]
            self.views[number] = VIEWS[tab.kind](tab.subject)
        return self.views[number]

    def update(self, look: InspectorClient, opened: InspectedObject) -> bool:
        """Take in what the kernel says about the object. Returns whether its views are the same as
        before."""
        subject = Subject(look, opened.path, opened)
        tabs = [
            Tab(
                one_line(shown.title),
                shown.opened.views[0],
                Subject(look, shown.opened.path, shown.opened),
            )
            for shown in opened.shown
        ]
        tabs += [Tab(NAMES[kind], kind, subject) for kind in opened.views]
        same = [tab[:2] for tab in tabs] == [tab[:2] for tab in self.tabs]
        self.opened = opened
        if not same:
            self.tabs, self.current = tabs, 0
            return False
        for old, new in zip(self.tabs, tabs, strict=True):
            old.subject.opened, old.subject.path = new.subject.opened, new.subject.path
        return True

    def remove_views(self) -> None:
        for view in self.views.values():
            if view.is_attached:
                view.remove()
        self.views.clear()
