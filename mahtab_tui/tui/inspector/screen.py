"""The inspector: shows an object in several ways, and the objects inside it.

Objects that the user opens one inside the other form a stack of `Level`s. Each level has a tab for
each way to look at its object, and makes the view of a tab when it is first looked at.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import (
    InspectedObject,
    InspectorClient,
    ObjectPath,
    ViewKind,
)
from mahtab_tui.tui.commands.declarations import INSPECTOR_COMMANDS, bindings
from mahtab_tui.tui.dialog import Dialog
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.inspector import Excerpt, Subject, View, Viewer
from mahtab_tui.tui.inspector.array import ArrayView, make_plot_view
from mahtab_tui.tui.inspector.export import EXPORT_SUFFIXES, export_code, suggest_file_name
from mahtab_tui.tui.inspector.picture import PictureView
from mahtab_tui.tui.inspector.source import SourceView
from mahtab_tui.tui.inspector.table_view import TableView
from mahtab_tui.tui.inspector.text import TextView, make_repr_view
from mahtab_tui.tui.inspector.tree import TreeView
from mahtab_tui.tui.messages import RunCode
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.widgets.bars import KeyLine
from mahtab_tui.tui.workers import Fetcher

_MARK = "◐ "
"""What stands before the path to the object."""
_SEPARATOR = " › "


class ViewType(NamedTuple):
    """A way to look at objects."""

    title: str
    """The title of its tab."""
    make_view: Callable[[Subject], View]


VIEWS: dict[ViewKind, ViewType] = {
    "table": ViewType("Table", TableView),
    "array": ViewType("Array", lambda subject: ArrayView(subject, TableView(subject))),
    "tree": ViewType("Inside", TreeView),
    "text": ViewType("Text", TextView),
    "source": ViewType("Source", SourceView),
    "plot": ViewType("Plot", make_plot_view),
    "picture": ViewType("Picture", PictureView),
    "repr": ViewType("Repr", make_repr_view),
}


def breadcrumbs(labels: Sequence[str], width: int) -> Content:
    """Show the path to an object, or only its start and end."""
    *containers, last = [one_line(label) for label in labels]
    full_path = _SEPARATOR.join([*containers, last])
    if cell_len(full_path) + len(_MARK) > width and len(containers) > 2:
        containers = [containers[0], "…", containers[-1]]
    parts = [(_MARK, "$highlight")]
    for label in containers:
        parts.append((label + _SEPARATOR, "$muted"))
    parts.append((last, "bold"))
    return Content.assemble(*parts).truncate(max(len(_MARK) + 1, width), ellipsis=True)


class Tab(NamedTuple):
    """One way to look at an object or at a part of it."""

    title: str
    kind: ViewKind
    subject: Subject


class Level:
    """One object of the stack, with its views."""

    def __init__(self, path: ObjectPath, label: str) -> None:
        self.path = path
        self.label = label
        self.opened: InspectedObject | None = None
        """What the kernel said of the object; None until it has answered."""
        self.tabs: list[Tab] = []
        self.views: dict[int, View] = {}
        """The views that were opened, by the index of their tab."""
        self.current = 0
        """The index of the visible tab."""

    def update(self, client: InspectorClient, opened: InspectedObject) -> bool:
        """Take over what the kernel said of the object.

        Returns:
            Whether the tabs are those of before, whose views have only to be reloaded.
        """
        tabs = []
        # Parts of the object that it wants to be shown have tabs of their own.
        for part in opened.shown:
            subject = Subject(client, part.opened.path, part.opened)
            tabs.append(Tab(one_line(part.title), part.opened.views[0], subject))
        subject = Subject(client, opened.path, opened)
        for kind in opened.views:
            tabs.append(Tab(VIEWS[kind].title, kind, subject))

        self.opened = opened
        old_titles = [(tab.title, tab.kind) for tab in self.tabs]
        new_titles = [(tab.title, tab.kind) for tab in tabs]
        if new_titles != old_titles:
            self.tabs = tabs
            self.current = 0
            return False
        # The open views have the old subjects, which get the new object.
        for old_tab, new_tab in zip(self.tabs, tabs, strict=True):
            old_tab.subject.opened = new_tab.subject.opened
            old_tab.subject.path = new_tab.subject.path
        return True

    def remove_views(self) -> None:
        for view in self.views.values():
            if view.is_attached:
                view.remove()
        self.views.clear()


class InspectorScreen(Dialog[None]):
    """Shows an object; objects opened inside it form a stack."""

    # Otherwise the hidden input line would get the focus and the first keys.
    AUTO_FOCUS = ""
    BINDINGS = bindings(
        INSPECTOR_COMMANDS,
        ("shift+tab", "step_view(-1)"),
        *((str(number), f"view({number})") for number in range(1, 10)),
    )

    def __init__(
        self,
        name: str,
        client: InspectorClient,
        *,
        private: bool = False,
        path: ObjectPath | None = None,
    ) -> None:
        """
        Args:
            name: The variable's name, or what to call a value that is not a variable.
            client: An inspector of the kernel, which this screen closes.
            private: Whether the variable is hidden from models.
            path: The path to a value that is not a variable.
        """
        super().__init__()
        self._private = private
        self._fetcher = Fetcher(self)
        self._client = client
        self.viewer = Viewer(id="inspector-body")
        self._levels = [Level(path or (["name", name],), name)]

    def compose(self) -> ComposeResult:
        with Horizontal(id="inspector-top"):
            yield Static(id="inspector-crumbs", markup=False)
            yield Static(id="inspector-facts", markup=False)
        yield Static(id="inspector-tabs", markup=False)
        yield self.viewer
        yield KeyLine()

    def on_mount(self) -> None:
        self._draw_heading()
        self._open()

    def on_unmount(self) -> None:
        # On a thread, because the kernel may be slow to answer.
        def close() -> None:
            with contextlib.suppress(KernelError):  # a dead kernel has nothing to release
                self._client.close()

        threading.Thread(target=close, name="inspector", daemon=True).start()

    def on_resize(self, event: Resize) -> None:
        self._draw_heading()

    @property
    def _level(self) -> Level:
        return self._levels[-1]

    @property
    def view(self) -> View | None:
        return self.viewer.view

    @property
    def labels(self) -> list[str]:
        """The names of the objects of the stack, the outermost first."""
        return [level.label for level in self._levels]

    def _open(self, *, again: bool = False) -> None:
        """Ask the kernel for the object on top of the stack.

        Args:
            again: Whether it was open before, and may have changed.
        """
        level = self._level
        fetch = partial(self._client.open, level.path, again=again)
        self._fetcher.run("open", fetch, partial(self._show_opened, level), self.viewer.fail)

    def _show_opened(self, level: Level, opened: InspectedObject) -> None:
        if level.update(self._client, opened):
            for view in level.views.values():
                view.reload()
            self._draw_heading()
        else:
            level.remove_views()
            self.viewer.view = None
            self._show(0)
        if opened.problem:
            self.app.notify(opened.problem, severity="warning")

    def _show(self, index: int) -> None:
        """Show a tab of the present object, whose view is made when it is first needed."""
        level = self._level
        if index >= len(level.tabs):
            return
        if self.view is not None:
            self.view.display = False
        level.current = index
        if index not in level.views:
            tab = level.tabs[index]
            level.views[index] = VIEWS[tab.kind].make_view(tab.subject)
        view = level.views[index]
        self.viewer.view = view
        self.viewer.show_status(Content(""))
        self._draw_heading()
        self.call_later(self._mount, view)

    async def _mount(self, view: View) -> None:
        if view is self.view and not view.is_attached:
            await self.viewer.body.mount(view)
        view.display = view is self.view
        if view.display and view.is_attached and not is_being_removed(view):
            view.take_focus()

    def _draw_heading(self) -> None:
        """Draw the path to the object, what it is, and its tabs."""
        level = self._level
        opened = level.opened
        width = self.app.size.width - 2
        facts = Content("…")
        if opened is not None:
            private = "private  " if self._private else ""
            text = f"{private}{one_line(opened.type)}  {one_line(opened.summary)}".rstrip()
            facts = Content.styled(text, "$muted").truncate(max(1, width // 2), ellipsis=True)
        path = breadcrumbs(self.labels, width - facts.cell_length - 2)
        tabs: list[tuple[str, str]] = []
        for index, tab in enumerate(level.tabs):
            digit_style = "$muted"
            title_style = "$muted"
            if index == level.current:
                digit_style = "$highlight"
                title_style = "bold $person"
            tabs += (f"{index + 1} ", digit_style), (tab.title, title_style), ("   ", "")
        self.query_one("#inspector-facts", Static).update(facts)
        self.query_one("#inspector-crumbs", Static).update(path)
        self.query_one("#inspector-tabs", Static).update(Content.assemble(*tabs))

    @on(View.ObjectOpened)
    def _object_opened(self, message: View.ObjectOpened) -> None:
        # Of two fast keys, the second one comes from a view that is no longer shown.
        if not self.viewer.shows(message.view):
            return
        if self.view is not None:
            self.view.display = False
        self._levels.append(Level(message.path, message.label))
        self.viewer.view = None
        self._draw_heading()
        self._open()

    def action_back(self) -> None:
        """Close the input line, go back to the containing object, or close the inspector."""
        if self.viewer.close_line():
            return
        if len(self._levels) == 1:
            self.dismiss(None)
            return
        self._levels.pop().remove_views()
        self._fetcher.forget("open")
        if self._level.opened is None:
            self.viewer.view = None
            self._open()
        else:
            self._show(self._level.current)

    def action_look_again(self) -> None:
        """Show the object as it is now."""
        self._open(again=True)

    def action_step_view(self, step: int) -> None:
        """Go to the next (1) or previous (-1) tab."""
        if self._level.tabs:
            self._show((self._level.current + step) % len(self._level.tabs))

    def action_view(self, number: int) -> None:
        """Go to a tab by its number, from 1."""
        self._show(number - 1)

    def action_copy_expression(self) -> None:
        opened = self._level.opened
        if opened is None or not opened.expression:
            self.app.notify("No expression refers to this object.")
            return
        copy(self.app, opened.expression)

    def action_copy_text(self) -> None:
        """Copy the object's repr, which its own code makes."""

        def show(representation: tuple[str, bool]) -> None:
            text, _ = representation
            copy(self.app, plain(text))

        read = partial(self._client.representation, self._level.path)
        self._fetcher.run("copy", read, show, self.viewer.fail)

    def action_export(self) -> None:
        """Ask for a file, and export what the view shows."""
        opened = self._level.opened
        view = self.view
        if opened is None:
            return
        # A view may show only a part, such as the rows that pass a filter.
        excerpt = Excerpt(opened)
        if view is not None and view.is_attached and view.excerpt.opened.expression:
            excerpt = view.excerpt
        prompt = f"export {excerpt.description}:" if excerpt.description else "export to:"
        self.viewer.open_line(
            f"file; its extension sets the format: {', '.join(EXPORT_SUFFIXES)}",
            suggest_file_name(replace(excerpt.opened, expression=opened.expression)),
            lambda file: self._export(excerpt, file.strip()),
            prompt,
        )

    def _export(self, excerpt: Excerpt, file: str) -> None:
        if not file:
            return
        try:
            code = export_code(excerpt.opened, file)
        except ValueError as error:
            self.viewer.fail(str(error))
            return
        part = f": {excerpt.description}" if excerpt.description else ""
        self._run_cell(View.CellRequested(code, f"A cell writes {file}{part}."))

    @on(View.CellRequested)
    def _run_cell(self, message: View.CellRequested) -> None:
        self.app.post_message(RunCode(message.code))
        self.app.notify(message.description)

    @on(View.QuestionAsked)
    def _question_asked(self, message: View.QuestionAsked) -> None:
        """Ask in a cell of the user's, so that the search appears in the transcript."""
        opened = self._level.opened
        if opened is None or not opened.expression:
            advice = "assign it to a variable in a cell, and ask about that."
            self.viewer.fail(f"No expression refers to this text: {advice}")
            return
        self.app.post_message(RunCode(f"rlm({message.question!r}, {opened.expression})"))
        self.dismiss(None)
