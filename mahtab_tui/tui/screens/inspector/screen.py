"""A look inside an object, and from there inside what it holds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import InspectedObject, Look
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.commands.inspector import INSPECTOR_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.export_choice import ExportChoice
from mahtab_tui.tui.screens.inspector.exporting import ENDINGS, export_code, suggested
from mahtab_tui.tui.screens.inspector.heading import crumbs, facts, tabs
from mahtab_tui.tui.screens.inspector.level import Level
from mahtab_tui.tui.screens.inspector.view import Asked, CellWanted, Seen, View, Walked
from mahtab_tui.tui.screens.inspector.viewing_screen import ViewingScreen


class InspectorScreen(ViewingScreen):
    """The objects on the way, of which the last one is seen."""

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
        self._levels = [Level((["name", name],), name)]

    def compose(self) -> ComposeResult:
        with Horizontal(id="inspector-top"):
            yield Static(id="inspector-crumbs", markup=False)
            yield Static(id="inspector-facts", markup=False)
        yield Static(id="inspector-tabs", markup=False)
        yield Vertical(id="inspector-body")
        yield from self.below()

    def on_mount(self) -> None:
        self._draw_heading()
        self._open()

    def on_unmount(self) -> None:
        # On a thread: the kernel may be long in answering.
        threading.Thread(target=self._let_go, name="inspector", daemon=True).start()

    def _let_go(self) -> None:
        with contextlib.suppress(KernelError):  # a kernel that is gone keeps nothing
            self._look.close()

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
        return self._level.view

    # Opening

    def _open(self, *, again: bool = False) -> None:
        level = self._level
        self._fetcher.ask("open", lambda: self._look.open(level.path, again=again), lambda opened: self._opened(level, opened), self.fail)

    def _opened(self, level: Level, opened: InspectedObject) -> None:
        if level.show(self._look, opened):
            for view in level.views.values():
                view.look_again()
            self._draw_heading()
        else:
            level.leave()
            self._show(0)
        if opened.problem:
            self.app.notify(plain(opened.problem), markup=False, severity="warning")

    def _show(self, number: int) -> None:
        """Show a view of the object."""
        level = self._level
        if number >= len(level.tabs):
            return
        if self.view is not None:
            self.view.display = False
        level.current = number
        self.say(Content(""))
        self._draw_heading()
        self.call_later(self._bring, level.view_at(number))

    async def _bring(self, view: View) -> None:
        """Let a view be seen; once it stands, keys come to it."""
        if view is self.view and not view.is_attached:
            await self.query_one("#inspector-body").mount(view)
        view.display = view is self.view
        if view.display and view.is_attached and not view.leaves:
            view.take_focus()

    def _draw_heading(self) -> None:
        level, opened, width = self._level, self._level.opened, self.app.size.width - 2
        right = facts(opened, width // 2) if opened is not None else Content("…")
        self.query_one("#inspector-facts", Static).update(right)
        self.query_one("#inspector-crumbs", Static).update(crumbs(self.way, width - right.cell_length - 2))
        self.query_one("#inspector-tabs", Static).update(tabs([tab.title for tab in level.tabs], level.current))

    @on(Walked)
    def _walked(self, message: Walked) -> None:
        if not self.shows(message.view):  # a second key of the same bunch
            return
        if self.view is not None:
            self.view.display = False
        self._levels.append(Level(message.path, message.label))
        self._draw_heading()
        self._open()

    # What the person does

    def go_back(self) -> None:
        """Back to where the object stands; in the end, leave."""
        if len(self._levels) == 1:
            self.dismiss(None)
            return
        self._levels.pop().leave()
        self._fetcher.forget("open")
        if self._level.opened is None:
            self._open()
        else:
            self._show(self._level.current)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_look_again(self) -> None:
        self._open(again=True)

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
        self._fetcher.ask("copy", lambda: self._look.representation(path), lambda found: copy(self.app, plain(found[0])), self.fail)

    def action_export(self) -> None:
        """Write what is seen to a file, or all of the object, where that is more."""
        opened, view = self._level.opened, self.view
        if opened is None:
            return
        seen = view.seen if view is not None and view.is_attached and view.seen.opened.expression else Seen(opened)
        if not seen.what:
            self._ask_for_file(Seen(opened))
            return

        def chosen(all_of_it: bool | None) -> None:
            if all_of_it is not None:
                self._ask_for_file(Seen(opened) if all_of_it else seen)

        self.app.push_screen(ExportChoice(seen.what, f"{opened.type} {opened.summary}"), chosen)

    def _ask_for_file(self, seen: Seen) -> None:
        assert self._level.opened is not None
        name = suggested(replace(seen.opened, expression=self._level.opened.expression))
        self.ask_for_line(f"file, by its ending: {', '.join(ENDINGS)}", name, lambda file: self._export(seen, file.strip()))

    def _export(self, seen: Seen, file: str) -> None:
        if not file:
            return
        try:
            code = export_code(seen.opened, file)
        except ValueError as error:
            self.fail(str(error))
        else:
            self._run_cell(CellWanted(code, f"A cell writes {file}{f': {seen.what}' if seen.what else ''}."))

    @on(CellWanted)
    def _run_cell(self, message: CellWanted) -> None:
        self._run(message.code)
        self.app.notify(plain(message.told), markup=False, timeout=3)

    @on(Asked)
    def _asked(self, message: Asked) -> None:
        """A search over the text begins as a cell of the person's: what it does is seen where all else is."""
        opened = self._level.opened
        if opened is None or not opened.expression:
            self.fail("It has no name in code: give it one in a cell, and ask about that.")
            return
        self._run(f"rlm({message.question!r}, {opened.expression})")
        self.dismiss(None)
