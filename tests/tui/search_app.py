"""The search pane over records, with a fixed clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import style_sheets
from mahtab_tui.tui.messages import OpenSearchNode
from mahtab_tui.tui.search.call_screen import NodeScreen
from mahtab_tui.tui.search.pane import CallSelection, SearchTreePane
from mahtab_tui.tui.widgets.bars import KeyLine
from tests.tui.editor_app import ThemedApp
from tests.tui.search_records import START

LINE = 64
"""Characters of a line of the text, with its end."""


class RecordingControl:
    """Records its calls; its text has numbered lines."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def stop(self, tree: str, node: str) -> None:
        self.calls.append(("stop", tree, node))

    def make_variable(self, answer: str) -> None:
        self.calls.append(("make_variable", answer))

    def text(self, tree: str, start: int, end: int) -> str | None:
        return text_of(start, end)

    def answer(self, request: str, run: bool) -> None:
        self.calls.append(("answer", request, run))


def text_of(start: int, end: int) -> str:
    first_line = start // LINE
    lines = [line_of(number) for number in range(first_line, -(-end // LINE))]
    return "".join(lines)[start - first_line * LINE : end - first_line * LINE]


def line_of(number: int) -> str:
    kind = "INFO  web.api  200 route=/orders"
    if number % 37 == 0:
        kind = "ERROR db.pool  checkout timed out"
    time = f"2026-03-29T{number // 36000 % 24:02}:{number // 600 % 60:02}:{number // 10 % 60:02}Z"
    return f"{time} {kind}{number:>{LINE - 2 - len(time) - len(kind)}}\n"


class SearchApp(ThemedApp):
    CSS: ClassVar[str] = "SearchTreePane { height: 1fr; }"

    def __init__(
        self, records: Sequence[Record] = (), now: float | None = None, theme: str = "mahtab"
    ) -> None:
        super().__init__(theme, style_sheets())
        self.records = records
        self.now = now if now is not None else records[-1].time if records else START
        self.control = RecordingControl()
        self.animation_level = "none"

    def compose(self) -> ComposeResult:
        yield SearchTreePane(self.control, lambda: self.now, id="recursion")
        yield KeyLine()

    def on_mount(self) -> None:
        self.pane.focus()
        self.pane.fold(self.records)

    @on(OpenSearchNode)
    def _open_node(self, message: OpenSearchNode) -> None:
        chosen = CallSelection(message.tree, message.node)
        self.push_screen(NodeScreen(chosen, self.control, lambda: self.now))

    @property
    def pane(self) -> SearchTreePane:
        return self.query_one(SearchTreePane)
