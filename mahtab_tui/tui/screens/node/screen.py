"""The screen of one call: its query, turns and answer, beside its text."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.search.control import SearchControl
from mahtab_tui.search.node import SearchNode
from mahtab_tui.tui.node_actions import NODE_MENU, CallSelection, NodeActions
from mahtab_tui.tui.rows.spinner import FRAME_RATE
from mahtab_tui.tui.rows.text_window import TextWindow
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.node.heading import PlaceBar, crumbs, figures
from mahtab_tui.tui.screens.node.story_pane import StoryPane
from mahtab_tui.tui.screens.node.text_pane import TextPane
from mahtab_tui.tui.widgets.key_line import KeyLine

BESIDE = 130
"""Columns from which the text stands beside the story; on narrower screens only one of them is
visible."""


class NodeScreen(Dialog[None], NodeActions):
    """Shows a call, and follows it while it runs."""

    asks: ClassVar[bool] = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "text", "Text"),
        Binding("escape", "leave", "Back"),
    ]

    def __init__(
        self,
        chosen: CallSelection,
        control: SearchControl,
        clock: Callable[[], float] = time.time,
        *,
        at: int | None = None,
    ) -> None:
        """at: a place of the root's text to show first."""
        super().__init__()
        self.control = control
        self._tree, self._node = tree, node = chosen
        window = TextWindow(
            lambda start, end: control.text(tree.id, start, end), tree.coverage.chars
        )
        self._story = StoryPane(tree, node, clock, id="node-story")
        self._text = TextPane(window, node.spans, tree.coverage, id="node-text")
        self._bar = PlaceBar(tree, node)
        self._clock = clock
        self._at = at
        self._seen = (-1, -1)
        """The versions of the call and of the tree that are shown."""

    @property
    def chosen(self) -> CallSelection:
        return CallSelection(self._tree, self._node)

    def compose(self) -> ComposeResult:
        with Horizontal(id="node-top"):
            yield Static(id="node-crumbs", markup=False)
            yield Static(id="node-figures", markup=False)
        with VerticalScroll(id="node-query", can_focus=False):
            yield Static(Content(plain(self._node.query).strip()), markup=False)
        yield self._bar
        with Horizontal(id="node-body"):
            yield self._story
            with Vertical(id="node-side"):
                yield self._text
        yield KeyLine()

    def on_mount(self) -> None:
        self._arrange(self.app.size.width)
        self._story.focus()
        self._look()
        self.set_interval(1 / FRAME_RATE, self._look)
        if self._at is not None:
            at = self._at
            self.call_after_refresh(lambda: self._show_text((at, at)))

    def on_resize(self, event: Resize) -> None:
        self._arrange(event.size.width)
        self._seen = (-1, -1)
        self._look()

    def _arrange(self, width: int) -> None:
        beside = width >= BESIDE
        self.set_class(beside, "-beside")
        if beside:
            self._story.display = self.query_one("#node-side").display = True
        elif self._story.display:
            self.query_one("#node-side").display = False

    def _look(self) -> None:
        """Draw what is new, and what changes with time."""
        node, now = self._node, self._clock()
        seen = (node.version, self._tree.structure)
        if seen != self._seen or not node.finished or node.alive:
            where = crumbs(node, now)
            self.query_one("#node-crumbs", Static).update(where)
            room = self.app.size.width - where.cell_length - 5
            self.query_one("#node-figures", Static).update(
                Content.styled(figures(node, now, room), "$muted")
            )
            self._bar.refresh()
        if seen != self._seen:
            self._seen = seen
            self._story.look()
            self._text.rows.mark(node.rests_on)
        elif node.alive:
            self._story.refresh()

    # Actions

    def action_leave(self) -> None:
        if not self._text.leave_search():
            self.dismiss(None)

    def action_text(self) -> None:
        side = self.query_one("#node-side")
        to_text = not side.has_focus_within
        if not self.has_class("-beside"):
            side.display, self._story.display = to_text, not to_text
        if to_text and self._text.shown:
            self._text.rows.focus()
        else:
            self._story.focus()

    def action_menu(self) -> None:
        """Open the chosen row; if none is chosen, show the actions on the call."""
        if not self._story.open_link():
            self.open_menu([command for command in NODE_MENU if command.id != "node-open"])

    def action_follow(self) -> None:
        self._story.following = not self._story.following
        self._story.look()

    def choose(self, node: SearchNode) -> None:
        self.app.switch_screen(
            NodeScreen(CallSelection(self._tree, node), self.control, self._clock)
        )

    @on(StoryPane.CallOpened)
    def _call_opened(self, message: StoryPane.CallOpened) -> None:
        self.choose(message.node)

    @on(StoryPane.PlaceOpened)
    def _place_opened(self, message: StoryPane.PlaceOpened) -> None:
        self._show_text(message.span)

    @on(PlaceBar.Clicked)
    def _bar_clicked(self, message: PlaceBar.Clicked) -> None:
        self._show_text((message.at, message.at))

    def _show_text(self, span: tuple[int, int]) -> None:
        if not self._text.shown:
            return
        if not self.query_one("#node-side").has_focus_within:
            self.action_text()
        self.call_after_refresh(self._text.show, span)
