"""The screen of one call of a search: what it did (`CallPane`), next to its text (`TextPane`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.search.tree_nodes import SearchNode
from mahtab_tui.search.trees import SearchControl
from mahtab_tui.tui.dialog import Dialog
from mahtab_tui.tui.rows.row import FRAME_RATE
from mahtab_tui.tui.rows.text_source import PagedText
from mahtab_tui.tui.search.call_pane import CallPane
from mahtab_tui.tui.search.call_words import (
    format_count,
    node_mark,
    one_line,
    short_cost,
    short_time,
)
from mahtab_tui.tui.search.pane import NODE_MENU, CallSelection, NodeActions
from mahtab_tui.tui.search.text_pane import TextPane
from mahtab_tui.tui.widgets.bars import KeyLine, short_number

SIDE_BY_SIDE_MIN_WIDTH = 130
"""On a screen of at least this width, the text is shown next to the call."""


def heading(node: SearchNode, now: float) -> Content:
    """Return the call's number and state.

    Args:
        node: The call.
        now: The time in seconds since the epoch, for the animation.
    """
    mark = node_mark(node, now)
    state: str = "failed" if node.state == "error" else node.state
    if node.is_cut_off:
        state += ", cut off"
    call = "call " + node.id.replace(".", " › ")
    return Content.assemble(
        ("◐ ", "$highlight"), (call, "$muted"), "   ", (f"{mark.sign} {state}", f"${mark.role}")
    )


def usage_text(node: SearchNode, now: float, max_width: int) -> str:
    """Say what a call and its descendants have used.

    Args:
        node: The call.
        now: The time in seconds since the epoch.
        max_width: In cells. If not all facts fit, the first ones are left out.
    """
    usage = node.usage
    turn = ""
    if node.turns and node.kind != "llm":
        turn = node.turn_label(node.turns[-1].number, "turn {} of {}")
    calls = format_count(usage.calls, "call")
    tokens = f"{short_number(usage.tokens)} tok"
    facts = [one_line(node.model), turn, calls, tokens, short_cost(usage)]
    facts = [fact for fact in facts if fact]
    facts.append(short_time(node.elapsed_s(now)))
    while len(facts) > 1 and len(" · ".join(facts)) > max_width:
        del facts[0]
    return " · ".join(facts)


class _DrawnVersions(NamedTuple):
    """What was drawn last, to see whether it has changed."""

    node: int
    """The version of the call."""
    structure: int
    """The version of the tree's structure."""


class NodeScreen(Dialog[None], NodeActions):
    """The screen of one call, which follows it while it runs."""

    asks: ClassVar[bool] = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "text", "Text"),
        Binding("escape", "leave", "Back"),
    ]

    def __init__(
        self, chosen: CallSelection, control: SearchControl, clock: Callable[[], float] = time.time
    ) -> None:
        """
        Args:
            chosen: The call.
            control: Has the texts of the searches, and stops calls.
            clock: Returns the time in seconds since the epoch.
        """
        super().__init__()
        self.control = control
        self._tree = chosen.tree
        self._node = chosen.node
        self._call_pane = CallPane(self._node)
        self._text = TextPane(self._searched_text(), self._node.spans)
        self._clock = clock
        self._drawn: _DrawnVersions | None = None
        """None if all must be drawn again."""

    def _searched_text(self) -> PagedText | None:
        """Return the text that the whole search reads; None if it is no longer in memory."""
        root = self._tree.root
        tree_id = self._tree.id
        if root is None or self.control.text(tree_id, 0, 1) is None:
            return None

        def read(start: int, end: int) -> str:
            return self.control.text(tree_id, start, end) or ""

        return PagedText(read, root.text_chars)

    @property
    def chosen(self) -> CallSelection:
        return CallSelection(self._tree, self._node)

    def compose(self) -> ComposeResult:
        with Horizontal(id="node-top"):
            yield Static(id="node-crumbs", markup=False)
            yield Static(id="node-figures", markup=False)
        with VerticalScroll(id="node-query", can_focus=False):
            yield Static(Content(plain(self._node.query).strip()), markup=False)
        with Horizontal(id="node-body"):
            yield self._call_pane
            yield self._text
        yield KeyLine()

    def on_mount(self) -> None:
        self._arrange(self.app.size.width)
        self._call_pane.focus()
        self._refresh_changed()
        self.set_interval(1 / FRAME_RATE, self._refresh_changed)

    def on_resize(self, event: Resize) -> None:
        self._arrange(event.size.width)
        self._drawn = None
        self._refresh_changed()

    def _arrange(self, width: int) -> None:
        """Show the call and its text side by side, or on a narrow screen one of them."""
        side_by_side = width >= SIDE_BY_SIDE_MIN_WIDTH
        self.set_class(side_by_side, "-beside")
        self._call_pane.display = self._call_pane.display or side_by_side
        self._text.display = side_by_side or not self._call_pane.display

    def _refresh_changed(self) -> None:
        """Draw what has changed since the last drawing; times go on."""
        node = self._node
        now = self._clock()
        versions = _DrawnVersions(node.version, self._tree.structure_version)
        has_changed = versions != self._drawn
        # Times go on while the call or one of its sub-calls runs.
        if has_changed or not node.finished or node.running_descendants:
            title = heading(node, now)
            self.query_one("#node-crumbs", Static).update(title)
            available_width = self.app.size.width - title.cell_length - 5
            usage = Content.styled(usage_text(node, now, available_width), "$muted")
            self.query_one("#node-figures", Static).update(usage)
        if has_changed:
            self._drawn = versions
            self._call_pane.refresh_view()
            self._text.rows.show_evidence(node.evidence)

    def action_leave(self) -> None:
        """Close the search line of the text, or else the screen."""
        if not self._text.leave_search():
            self.dismiss(None)

    def action_text(self) -> None:
        """Go from the call to its text, or back."""
        to_text = not self._text.has_focus_within
        if not self.has_class("-beside"):
            self._text.display = to_text
            self._call_pane.display = not to_text
        if to_text and self._text.has_text:
            self._text.rows.focus()
        else:
            self._call_pane.focus()

    def action_menu(self) -> None:
        """Open what the chosen row leads to, or else the actions on the call."""
        if not self._call_pane.open_link():
            self.open_menu([command for command in NODE_MENU if command.id != "node-open"])

    @on(CallPane.CallOpened)
    def _call_opened(self, message: CallPane.CallOpened) -> None:
        chosen = CallSelection(self._tree, message.node)
        self.app.switch_screen(NodeScreen(chosen, self.control, self._clock))

    @on(CallPane.SpanOpened)
    def _span_opened(self, message: CallPane.SpanOpened) -> None:
        if self._text.has_text:
            if not self._text.has_focus_within:
                self.action_text()
            self.call_after_refresh(self._text.show_span, message.span)
