"""The transcript's pane alone, for tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from mahtab_tui.bus.conversation import Cell
from mahtab_tui.bus.records import Record
from mahtab_tui.session.inbox import Mode
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.session_port import SessionPort
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import ThemedApp

SIZE = (60, 20)
GREETING = (
    ("◐", "One Python namespace, shared."),
    ("`", "turns from Python to asking."),
    ("F1", "shows all keys."),
)


class NotedPort(SessionPort):
    """Records the calls of the pane and their arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def enter(self, mode: Mode, text: str) -> None:
        self.calls.append(("run", mode, text))

    def edit(self, mode: Mode, text: str) -> None:
        self.calls.append(("edit", mode, text))

    def replace(self, mode: Mode, text: str, entry: str) -> None:
        self.calls.append(("replace", mode, text, entry))

    def run_notebook_cell(self, number: int, code: str) -> None:
        self.calls.append(("place", number, code))

    def mention(self, what: str) -> None:
        self.calls.append(("mention", what))

    def hide(self, entry: str, hidden: bool) -> None:
        self.calls.append(("hide", entry, hidden))

    def undo(self, cell: int) -> None:
        self.calls.append(("undo", cell))

    def open_output(self, cell: int) -> None:
        self.calls.append(("output", cell))

    def open_stored_output(self, number: int) -> None:
        self.calls.append(("stored output", number))

    def open_pager(self, title: str, file: str, fetch: Callable[[], str | None]) -> None:
        self.calls.append(("pager", title, fetch()))

    def open_pictures(self, cell: int, pictures: Sequence[tuple[str, str]]) -> None:
        self.calls.append(("pictures", cell))

    def open_value(self, key: str) -> None:
        self.calls.append(("value", key))

    def open_frames(self, cell: Cell, at: int) -> None:
        self.calls.append(("frames", cell.number, at))

    def find(self) -> None:
        self.calls.append(("find",))


class PaneApp(ThemedApp):
    CSS = "TranscriptPane { height: 1fr; }"

    def __init__(self, records: Sequence[Record] = ()) -> None:
        super().__init__(css_path=[resource_folder("styles") / "transcript.tcss"])
        self.records = records
        self.port = NotedPort()

    def compose(self) -> ComposeResult:
        yield TranscriptPane(self.port, id="transcript")
        yield Input()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.pane.greeting = GREETING
        self.pane.fold(self.records)

    @property
    def pane(self) -> TranscriptPane:
        return self.query_one(TranscriptPane)


def record(tag: str, text: str = "", /, **attrs: Any) -> Record:
    return made(tag, text, attrs, time.time())


def cell(number: int, code: str = "", output: str | None = None, **more: Any) -> list[Record]:
    """A cell that has ended. more: fields of its last record."""
    ended = {"status": "ok", "duration": 0.1} | more
    return [
        record(tags.USER_REPL_IN, code or f"cell_{number}", cell=number, party="you"),
        record(
            tags.USER_REPL_OUT,
            f"output {number}\n" if output is None else output,
            cell=number,
            **ended,
        ),
    ]


def display_cell(
    number: int, code: str, *displays: dict[str, str], text: str = "text\n", **more: Any
) -> list[Record]:
    """A cell that displays something. displays: fields of their records."""
    kinds = [["display", len(text)]] * len(displays)
    started, ended = cell(number, code, text * len(displays), kinds=kinds, **more)
    return [started, *(record(tags.DISPLAY, text, cell=number, **each) for each in displays), ended]


def answer_stream(text: str, **more: Any) -> Record:
    return record(tags.ASSISTANT_CHAT_STREAM, text, turn=1, step=0, party="claude", **more)


def output_stream(text: str, number: int, **more: Any) -> Record:
    return record(tags.USER_REPL_OUT_STREAM, text, cell=number, kind="stdout", **more)


def cells(count: int, first: int = 1) -> list[Record]:
    return [each for number in range(first, first + count) for each in cell(number)]


def shown(pane: TranscriptPane) -> list[str]:
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def top_text(pane: TranscriptPane) -> str:
    return shown(pane)[1].strip(" ▌")


@asynccontextmanager
async def shown_app(
    app: PaneApp, size: tuple[int, int] = SIZE, *, focus: bool = False
) -> AsyncIterator[Pilot[None]]:
    async with app.run_test(size=size) as pilot:
        if focus:
            app.pane.focus()
        await pilot.pause()
        yield pilot


focused = partial(shown_app, focus=True)
