"""A look inside an object, and from there inside what it holds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Footer, Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import Look, Opened, Path, ViewKind
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.commands import INSPECTOR_COMMANDS, bindings
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.inspector.array_view import ArrayView
from mahtab_tui.tui.screens.inspector.exporting import ENDINGS, export_code, suggested
from mahtab_tui.tui.screens.inspector.fetcher import Answered, Fetcher
from mahtab_tui.tui.screens.inspector.heading import NAMES, crumbs, facts, tabs
from mahtab_tui.tui.screens.inspector.hex_view import HexView
from mahtab_tui.tui.screens.inspector.picture_view import PictureView
from mahtab_tui.tui.screens.inspector.plot_view import PlotView
from mahtab_tui.tui.screens.inspector.source_view import SourceView
from mahtab_tui.tui.screens.inspector.table_view import TableView
from mahtab_tui.tui.screens.inspector.text_view import ReprView, TextView
from mahtab_tui.tui.screens.inspector.tree_view import TreeView
from mahtab_tui.tui.screens.inspector.view import Asked, LineWanted, Place, Said, View, Walked
from mahtab_tui.tui.widgets.line import Line

VIEWS: dict[ViewKind, Callable[[Place], View]] = {
    "table": TableView,
    "array": ArrayView,
    "plot": PlotView,
    "picture": PictureView,
    "text": TextView,
    "bytes": HexView,
    "source": SourceView,
    "repr": ReprView,
}


def view_of(kind: ViewKind, place: Place) -> View:
    """The widget of a view."""
    if kind == "tree":
        return TreeView(place)
    if kind == "attributes":
        return TreeView(place, attributes=True)
    return VIEWS[kind](place)


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
        self.opened: Opened | None = None
        self.tabs: list[Tab] = []
        self.views: dict[int, View] = {}
        self.current = 0

    def show(self, look: Look, opened: Opened) -> bool:
        """It is opened, or opened again; says whether its views are the same as before."""
        place = Place(look, self.path, opened)
        tabs = [Tab(plain(shown.title), shown.opened.views[0], Place(look, shown.path, shown.opened)) for shown in opened.shown]
        tabs += [Tab(NAMES[kind], kind, place) for kind in opened.views]
        same = [tab[:2] for tab in tabs] == [tab[:2] for tab in self.tabs]
        self.opened = opened
        if not same:
            self.tabs, self.current = tabs, 0
            return False
        for old, new in zip(self.tabs, tabs, strict=True):
            old.place.opened, old.place.path = new.place.opened, new.place.path
        return True


class InspectorScreen(Dialog[None]):
    """Opens at once; whatever it shows is fetched on threads, when it is seen."""

    AUTO_FOCUS = ""  # else the hidden line would get it, and the first keys
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(INSPECTOR_COMMANDS),
        Binding("shift+tab", "step_view(-1)", "View before", show=False),
        *(Binding(str(number), f"view({number})", "View", show=False) for number in range(1, 10)),
    ]

    def __init__(self, name: str, look: Look, run: Callable[[str], object]) -> None:
        """`run` runs a cell of the person's."""
        super().__init__()
        self._run = run
        self._look = look
        self._fetcher = Fetcher(self)
        self._levels = [Level((["name", name],), name)]
        self._line_then: Callable[[str], None] = lambda text: None

    def compose(self) -> ComposeResult:
        with Horizontal(id="inspector-top"):
            yield Static(id="inspector-crumbs", markup=False)
            yield Static(id="inspector-facts", markup=False)
        yield Static(id="inspector-tabs", markup=False)
        yield Vertical(id="inspector-body")
        yield Static(id="inspector-status", markup=False)
        yield Line(id="inspector-line", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(Line).display = False
        self._draw_heading()
        self._open()

    def on_unmount(self) -> None:
        # On a thread: the kernel may be long in answering.
        threading.Thread(target=self._let_go, name="inspector", daemon=True).start()

    def _let_go(self) -> None:
        with contextlib.suppress(KernelError):  # a kernel that is gone keeps nothing
            self._look.close()

    def on_answered(self, message: Answered) -> None:
        if not self.leaves:
            message.deliver()

    def on_resize(self, event: Resize) -> None:
        self._draw_heading()

    @property
    def _level(self) -> Level:
        return self._levels[-1]

    @property
    def way(self) -> list[str]:
        """The names of the objects from the variable to what is seen."""
        return [level.label for level in self._levels]

    @property
    def view(self) -> View | None:
        """The view that is seen."""
        return self._level.views.get(self._level.current)

    # Opening

    def _open(self) -> None:
        level = self._level
        self._fetcher.ask("open", lambda: self._look.open(level.path), lambda opened: self._opened(level, opened), self._failed)

    def _opened(self, level: Level, opened: Opened) -> None:
        if level.show(self._look, opened):
            for view in level.views.values():
                view.look_again()
            self._draw_heading()
        else:
            for view in level.views.values():
                view.remove()
            level.views.clear()
            self._show(0)
        if opened.problem:
            self.app.notify(plain(opened.problem), markup=False, severity="warning")

    def _failed(self, sentence: str) -> None:
        self.query_one("#inspector-status", Static).update(Content.styled(plain(sentence), "$bad"))

    def _show(self, number: int) -> None:
        """Show a view of the object; it is made when it is first seen."""
        level = self._level
        if number >= len(level.tabs):
            return
        if self.view is not None:
            self.view.display = False
        level.current = number
        self.query_one("#inspector-status", Static).update("")
        if number not in level.views:
            tab = level.tabs[number]
            level.views[number] = view_of(tab.kind, tab.place)
        self._draw_heading()
        self.call_later(self._bring, level.views[number])

    async def _bring(self, view: View) -> None:
        """Let a view be seen; once it stands, keys come to it."""
        if not view.is_attached:
            await self.query_one("#inspector-body").mount(view)
        view.display = view is self.view
        if view.display and view.is_attached and not view.leaves:
            view.take_focus()

    def _draw_heading(self) -> None:
        level, opened, width = self._level, self._level.opened, self.app.size.width
        right = facts(opened) if opened is not None else "…"
        self.query_one("#inspector-crumbs", Static).update(crumbs(self.way, max(20, width - len(right) - 8)))
        self.query_one("#inspector-facts", Static).update(Content.styled(right, "$muted"))
        self.query_one("#inspector-tabs", Static).update(tabs([tab.title for tab in level.tabs], level.current))

    @on(Said)
    def _said(self, message: Said) -> None:
        if self.view is not None and self.view in message.view.ancestors_with_self:
            self.query_one("#inspector-status", Static).update(message.content)

    @on(Walked)
    def _walked(self, message: Walked) -> None:
        if self.view is not None:
            self.view.display = False
        self._levels.append(Level(message.path, message.label))
        self._draw_heading()
        self._open()

    # What the person does

    def action_back(self) -> None:
        """Close the line; else go back to where the object stands; else leave."""
        line = self.query_one(Line)
        if line.display:
            self._close_line()
        elif len(self._levels) > 1:
            for view in self._levels.pop().views.values():
                view.remove()
            self._fetcher.forget("open")
            if self._level.opened is None:
                self._open()
            else:
                self._show(self._level.current)
        else:
            self.dismiss(None)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_look_again(self) -> None:
        self._open()

    def action_next_view(self) -> None:
        self.action_step_view(1)

    def action_step_view(self, step: int) -> None:
        if self._level.tabs:
            self._show((self._level.current + step) % len(self._level.tabs))

    def action_view(self, number: int) -> None:
        self._show(number - 1)

    def action_copy_expression(self) -> None:
        opened = self._level.opened
        if opened is None or not opened.expression:
            self.app.notify("There is no short way to write it in code.", markup=False, timeout=3)
            return
        copy(self.app, opened.expression)

    def action_copy_text(self) -> None:
        """Its repr, by its own code: the person asks for it."""
        path = self._level.path
        self._fetcher.ask("copy", lambda: self._look.representation(path), lambda found: copy(self.app, plain(found[0])), self._failed)

    def action_export(self) -> None:
        opened = self._level.opened
        if opened is not None:
            self._line_wanted(LineWanted(f"file, by its ending: {', '.join(ENDINGS)}", suggested(opened), self._export))

    def _export(self, file: str) -> None:
        opened = self._level.opened
        if opened is None or not file.strip():
            return
        try:
            self._run(export_code(opened, file.strip()))
        except ValueError as error:
            self._failed(str(error))
        else:
            self.app.notify(f"A cell writes {file.strip()}.", markup=False, timeout=3)

    @on(Asked)
    def _asked(self, message: Asked) -> None:
        """A search over the text begins as a cell of the person's: what it does is seen where all else is."""
        opened = self._level.opened
        if opened is None or not opened.expression:
            self._failed("It has no name in code: give it one in a cell, and ask about that.")
            return
        self._run(f"rlm({message.question!r}, {opened.expression})")
        self.dismiss(None)

    # The line that a view asks for

    @on(LineWanted)
    def _line_wanted(self, message: LineWanted) -> None:
        line = self.query_one(Line)
        self._line_then = message.then
        line.placeholder = message.placeholder
        line.value = message.value
        self._show_line(True)
        line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_line()
        self._line_then(event.value)

    def _show_line(self, shown: bool) -> None:
        """In the place of the status: what stands above keeps its size."""
        self.query_one(Line).display = shown
        self.query_one("#inspector-status").display = not shown

    def _close_line(self) -> None:
        self._show_line(False)
        if self.view is not None:
            self.view.take_focus()
