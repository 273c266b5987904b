"""Each widget draws text from outside as plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.screen import Screen

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.values import Change, NotRestored, Variable
from mahtab_tui.kernel.values import Completion
from mahtab_tui.tui.editor.completion_list import CompletionList
from mahtab_tui.tui.editor.prompt_area import PromptArea
from mahtab_tui.tui.screens.choice import ChooseOne
from mahtab_tui.tui.screens.dialog import Confirm, Prompt
from mahtab_tui.tui.search.call_screen import NodeScreen
from mahtab_tui.tui.search.pane import CallSelection, SearchTreePane
from mahtab_tui.tui.terminal_driver import TextOnly
from tests import tags
from tests.hostile import HOSTILE
from tests.records import made
from tests.tui.screens_app import ScreensApp
from tests.tui.scripted_session import IDLE, MakeApp, drawn, log, showing
from tests.tui.search_records import START, Scribe


@pytest.fixture(autouse=True)
def removed_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    changed: list[str] = []
    removal_seen = False
    clean = TextOnly.apply

    def apply(gate: TextOnly, segments: list[Segment], background: Color) -> list[Segment]:
        nonlocal removal_seen
        removal_seen = True
        cleaned = clean(gate, segments, background)
        texts = [segment.text for segment in segments]
        if [segment.text for segment in cleaned] != texts:
            changed.append("".join(texts).strip())
        return cleaned

    monkeypatch.setattr(TextOnly, "apply", apply)
    yield changed
    assert changed == []
    assert removal_seen


def one_of_each(text: str, number: int) -> Iterator[Record]:
    turn: dict[str, Any] = {"turn": number, "party": "claude", "step": 0}
    cell: dict[str, Any] = {"cell": number, "party": "you"}
    where = f"/home/{text}/.venv{text}/bin/python"
    yield records.SessionRecord(name=text, model=text, approval="ask")
    yield kernel_at(where).changed(python=f"3.{text}", cwd=f"/{text}")
    name = f"v{number}{text}"
    added = Change(name, "added", Variable(name, text, text, "data"))
    yield records.Namespace(**cell, changes=(added,))
    yield records.UserReplIn(text, **cell)
    end_fields: dict[str, Any] = {"duration": 0.1, "kinds": (("stdout", len(text)),)}
    yield records.UserReplOut(text, **cell, status="error", **end_fields)
    yield records.UserChat(text, turn=number)
    words = f"# {text}\n\n`{text}` [{text}](http://{text})\n\n| {text} |\n|---|\n| {text} |\n"
    yield records.AssistantChat(words, **turn)
    yield records.AssistantReplIn(text, **turn, cell=number + 500, block=0)
    yield records.Usage(model=text, cost=0.1, source="agent")
    yield records.SkillRecord(name=text, loaded=True, chars=10, budget=100)
    yield records.Notice(text, level="warning")
    cell = {"cell": number + 900, "party": text, "guest": number, "call": f"c{number}"}
    yield records.AssistantReplIn(text, **cell)
    end_fields["kinds"] = (("value", len(text)),)
    yield records.AssistantReplOut(text, **cell, status="ok", **end_fields)
    yield records.Queue(items=(records.QueueItem(number, text, "python", text),))
    call = {**turn, "call": f"{number}.0.1", "name": text, "arguments": json.dumps({text: text})}
    yield made(tags.ASSISTANT_TOOL, "", {**call, "state": "running"})
    yield made(tags.ASSISTANT_TOOL, text, {**call, "state": "error", "duration": 0.1})


def kernel_at(python: str) -> Record:
    return made(tags.KERNEL, "", {**IDLE, "executable": python})


def search(text: str, number: int) -> Iterator[Record]:
    scribe = Scribe(f"t{number}")
    yield scribe.begin("1", text, chars=9, spans=[[0, 9]], cell=number, source=text, model=text)
    yield from scribe.turn("1", 1, text, text, text, status="error")
    yield scribe.begin("1.1", text, batch="b1", index=0, of=1, spans=[[0, 9]], model=text)
    yield scribe.final("1.1", text, "error", duration=1.0)
    yield scribe.final("1", text, duration=1.0, spans=[[0, 9]])


# Every run draws a tenth of the texts, with some of each kind.
tenths = [
    pytest.param(HOSTILE[0::10], id="0"),
    pytest.param(HOSTILE[1::10], id="1", marks=pytest.mark.slow),
    *(pytest.param(HOSTILE[n::10], id=str(n), marks=pytest.mark.thorough) for n in range(2, 10)),
]
every_text = pytest.mark.parametrize("texts", tenths)


@pytest.mark.sample(1)
@every_text
async def test_the_transcript_and_the_namespace(make_app: MakeApp, texts: list[str]) -> None:
    sales_records = [
        record for number, text in enumerate(texts, 1) for record in one_of_each(text, number)
    ]
    changes = tuple(
        Change(
            text,
            "changed",
            Variable(text, text, text, "data"),
            Variable(text, text, f"{text} before", "data"),
        )
        for text in texts
    )
    not_restored = tuple(NotRestored(text, text) for text in texts)
    review = records.Review(request="1", cells=(1,), party=texts[0], state="waiting")
    sales_records.append(review.changed(changes=changes, not_restored=not_restored))
    async with showing(make_app(*sales_records), (120, 60 + 20 * len(texts))):
        """The fixture checks what is drawn."""


@pytest.mark.sample(1)
@every_text
async def test_a_search_and_the_screen_of_a_call(make_app: MakeApp, texts: list[str]) -> None:
    app = make_app()
    async with showing(app, (160, 50)) as pilot:
        for number, text in enumerate(texts, 1):
            await log(pilot, *search(text, number), when=START)
            pane = app.query_one(SearchTreePane)
            tree = pane.trees[f"t{number}"]
            # Of the other searches only the root: an inner call has the same screen.
            for node in tree.nodes.values() if number == 1 else tree.roots:
                await app.push_screen(
                    NodeScreen(CallSelection(tree, node), pane.control, lambda: 0.0)
                )
                await drawn(pilot)
                app.pop_screen()


@every_text
async def test_completions(make_app: MakeApp, texts: list[str]) -> None:
    app = make_app()
    async with showing(app, (160, 60)) as pilot:
        completions = app.query_one(CompletionList)
        for text in texts:
            at = app.query_one(PromptArea).cursor_screen_offset
            completions.open((Completion(text, text, "data", text),), 0, at, is_requested=True)
            await drawn(pilot)


@pytest.mark.sample(1)
@every_text
async def test_the_header_and_notices(make_app: MakeApp, texts: list[str]) -> None:
    async with make_app().run_test(size=(160, 24), notifications=True) as pilot:
        await drawn(pilot)
        for text in texts:
            session = records.SessionRecord(name=text, model=text, approval="ask")
            await log(pilot, session, kernel_at(f"/{text}/.venv{text}/bin/python"), when=1.0)
            pilot.app.notify(text, title=text)
            await drawn(pilot)
            pilot.app.clear_notifications()


@pytest.mark.sample(1)
@every_text
async def test_questions_and_choices(texts: list[str]) -> None:
    async with ScreensApp().run_test(size=(120, 40)) as pilot:
        screens: list[Screen[Any]] = [ChooseOne(text, texts, text) for text in texts[:2]]
        for text in texts:
            screens += Prompt(text, f"/{text}"), Confirm(text, yes="Yes", no="No")
        for screen in screens:
            await pilot.app.push_screen(screen)
            await pilot.pause()
            pilot.app.pop_screen()
