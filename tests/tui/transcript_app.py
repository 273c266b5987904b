"""The transcript's pane alone, for tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Input

from mahtab_tui.bus.records import Record
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui import messages
from mahtab_tui.tui.greeting import GreetingLine
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import ThemedApp

SIZE = (60, 20)
GREETING = (
    GreetingLine("◐", "One Python namespace, shared."),
    GreetingLine("`", "turns from Python to asking."),
    GreetingLine("F1", "shows all keys."),
)


def asked(message: Message) -> tuple[object, ...]:
    """What a message of the pane asks for, and of what."""
    match message:
        case messages.RunInput(mode, text):
            return ("run", mode, text)
        case messages.EditInput(mode, text):
            return ("edit", mode, text)
        case messages.ReplaceInput(mode, text, entry):
            return ("replace", mode, text, entry)
        case messages.RunNotebookCell(number, code):
            return ("place", number, code)
        case messages.MentionInQuestion(target):
            return ("mention", target)
        case messages.HideEntry(entry, hidden):
            return ("hide", entry, hidden)
        case messages.AskToUndo(cell):
            return ("undo", cell)
        case messages.OpenOutput(cell):
            return ("output", cell)
        case messages.OpenStoredOutput(number):
            return ("stored output", number)
        case messages.OpenText(title, text):
            return ("pager", title, text)
        case messages.OpenPictures(cell):
            return ("pictures", cell)
        case messages.OpenDisplayedValue(key):
            return ("value", key)
        case messages.OpenFrames(cell, index):
            return ("frames", cell.number, index)
        case messages.FindInTranscript():
            return ("find",)
    raise AssertionError(f"an unknown message: {message}")


class PaneApp(ThemedApp):
    CSS = "TranscriptPane { height: 1fr; }"

    def __init__(self, records: Sequence[Record] = ()) -> None:
        super().__init__(css_path=[resource_folder("styles") / "transcript.tcss"])
        self.records = records
        self.calls: list[tuple[object, ...]] = []
        """What the pane asked for."""

    def compose(self) -> ComposeResult:
        yield TranscriptPane(id="transcript")
        yield Input()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.pane.greeting = GREETING
        self.pane.fold(self.records)

    @on(messages.OpenScreen)
    @on(messages.RunInput)
    @on(messages.EditInput)
    @on(messages.ReplaceInput)
    @on(messages.RunNotebookCell)
    @on(messages.MentionInQuestion)
    @on(messages.HideEntry)
    @on(messages.FindInTranscript)
    def _note(self, message: Message) -> None:
        if not isinstance(message, messages.OpenMenu):
            self.calls.append(asked(message))

    @property
    def pane(self) -> TranscriptPane:
        return self.query_one(TranscriptPane)


def record(tag: str, text: str = "", /, **attrs: Any) -> Record:
    return made(tag, text, attrs, time.time())


def cell(number: int, code: str = "", output: str | None = None, **fields: Any) -> list[Record]:
    """A cell that has ended. more: fields of its last record."""
    end = {"status": "ok", "duration": 0.1} | fields
    return [
        record(tags.USER_REPL_IN, code or f"cell_{number}", cell=number, party="you"),
        record(
            tags.USER_REPL_OUT,
            f"output {number}\n" if output is None else output,
            cell=number,
            **end,
        ),
    ]


def display_cell(
    number: int, code: str, *displays: dict[str, str], text: str = "text\n", **fields: Any
) -> list[Record]:
    """A cell that displays something. displays: fields of their records."""
    kinds = [["display", len(text)]] * len(displays)
    started, output_record = cell(number, code, text * len(displays), kinds=kinds, **fields)
    return [
        started,
        *(record(tags.DISPLAY, text, cell=number, **display) for display in displays),
        output_record,
    ]


def answer_stream(text: str, **fields: Any) -> Record:
    return record(tags.ASSISTANT_CHAT_STREAM, text, turn=1, step=0, party="claude", **fields)


def output_stream(text: str, number: int, **fields: Any) -> Record:
    return record(tags.USER_REPL_OUT_STREAM, text, cell=number, kind="stdout", **fields)


def cells(count: int, first_number: int = 1) -> list[Record]:
    return [
        cell_record
        for number in range(first_number, first_number + count)
        for cell_record in cell(number)
    ]


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
