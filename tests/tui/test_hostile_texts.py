"""Each widget draws what others wrote as text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.values import Completion
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.editor.completion import CompletionList
from mahtab_tui.tui.editor.prompt_area import PromptArea
from mahtab_tui.tui.search.call_screen import NodeScreen
from mahtab_tui.tui.search.pane import CallSelection, SearchTreePane
from mahtab_tui.tui.terminal_driver import TextOnly
from tests import tags
from tests.hostile import HOSTILE
from tests.records import made
from tests.tui.screens_app import ScreensApp
from tests.tui.search_story import Scribe
from tests.tui.story import IDLE, MakeApp, ScriptedSession, change, drawn, showing


@pytest.fixture(autouse=True)
def removed_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    changed: list[str] = []
    seen = False
    clean = TextOnly.apply

    def apply(gate: TextOnly, segments: list[Segment], background: Color) -> list[Segment]:
        nonlocal seen
        seen = True
        let_out = clean(gate, segments, background)
        if [segment.text for segment in let_out] != [segment.text for segment in segments]:
            changed.append("".join(segment.text for segment in segments).strip())
        return let_out

    monkeypatch.setattr(TextOnly, "apply", apply)
    yield changed
    assert changed == []
    assert seen


def records(text: str, number: int) -> Iterator[Record]:
    turn = {"turn": number, "party": "claude", "step": 0}
    where = f"/home/{text}/.venv{text}/bin/python"
    yield made(tags.SESSION, "", {"name": text, "model": text, "approval": "ask"})
    yield made(
        tags.KERNEL, "", {**IDLE, "python": f"3.{text}", "executable": where, "cwd": f"/{text}"}
    )
    yield made(
        tags.NAMESPACE,
        "",
        {
            "cell": number,
            "party": "you",
            "fresh": False,
            "changes": [change(f"v{number}{text}", text, text)],
        },
    )
    yield made(tags.USER_REPL_IN, text, {"cell": number, "party": "you"})
    yield made(
        tags.USER_REPL_OUT,
        text,
        {
            "cell": number,
            "party": "you",
            "status": "error",
            "duration": 0.1,
            "kinds": [["stdout", len(text)]],
        },
    )
    yield made(tags.USER_CHAT, text, {"turn": number})
    yield made(
        tags.ASSISTANT_CHAT,
        f"# {text}\n\n`{text}` [{text}](http://{text})\n\n| {text} |\n|---|\n| {text} |\n",
        {**turn, "stopped": False},
    )
    yield made(tags.ASSISTANT_REPL_IN, text, {**turn, "cell": number + 500, "block": 0})
    yield made(
        tags.USAGE,
        "",
        {"model": text, "input_tokens": 1, "output_tokens": 1, "cost": 0.1, "source": "agent"},
    )
    yield made(tags.SKILL, "", {"name": text, "loaded": True, "chars": 10, "budget": 100})
    yield made(tags.NOTICE, text, {"level": "warning"})
    guest = {"cell": number + 900, "party": text, "guest": number, "call": f"c{number}"}
    yield made(tags.ASSISTANT_REPL_IN, text, guest)
    yield made(
        tags.ASSISTANT_REPL_OUT,
        text,
        {**guest, "status": "ok", "duration": 0.1, "kinds": [["value", len(text)]]},
    )
    yield made(
        tags.QUEUE, "", {"items": [{"id": number, "code": text, "mode": "python", "party": text}]}
    )
    call = {**turn, "call": f"{number}.0.1", "name": text, "arguments": json.dumps({text: text})}
    yield made(tags.ASSISTANT_TOOL, "", {**call, "state": "running"})
    yield made(tags.ASSISTANT_TOOL, text, {**call, "state": "error", "duration": 0.1})


def search(text: str, number: int) -> Iterator[Record]:
    scribe = Scribe(f"t{number}")
    yield scribe.begin("1", text, chars=9, spans=[[0, 9]], cell=number, source=text, model=text)
    yield from scribe.turn("1", 1, text, text, text, status="error")
    yield scribe.begin("1.1", text, batch="b1", index=0, of=1, spans=[[0, 9]], model=text)
    yield scribe.final("1.1", text, "error", duration=1.0)
    yield scribe.final("1", text, duration=1.0, spans=[[0, 9]])


# A tenth of the texts, of each kind some, is for every run.
every_text = pytest.mark.parametrize(
    "texts",
    [
        pytest.param(HOSTILE[n::10], id=str(n), marks=[pytest.mark.slow] if n else [])
        for n in range(10)
    ],
)


@every_text
async def test_the_transcript_and_the_namespace(make_app: MakeApp, texts: list[str]) -> None:
    story = [record for number, text in enumerate(texts, 1) for record in records(text, number)]
    changes = [
        change(text, text, text, "changed") | {"was": text, "was_type": text} for text in texts
    ]
    left = [{"name": text, "reason": text} for text in texts]
    about = {
        "request": "1",
        "cells": [1],
        "party": texts[0],
        "state": "waiting",
        "changes": changes,
        "not_restored": left,
    }
    story.append(made(tags.REVIEW, "", about))
    async with make_app(*story).run_test(size=(120, 60 + 20 * len(texts))) as pilot:
        await drawn(pilot)


@every_text
async def test_a_search_and_the_screen_of_a_call(make_app: MakeApp, texts: list[str]) -> None:
    app = make_app()
    async with showing(app, (160, 50)) as pilot:
        session = session_of(pilot)
        for number, text in enumerate(texts, 1):
            for record in search(text, number):
                session.log_record(record, record.time)
            await drawn(pilot)
            pane = app.query_one(SearchTreePane)
            tree = pane.trees[f"t{number}"]
            # The screens of an inner call are like that of the root, and cost as much.
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
        shown = app.query_one(CompletionList)
        for text in texts:
            at = app.query_one(PromptArea).cursor_screen_offset
            shown.open((Completion(text, text, "data", text),), 0, at, requested=True)
            await drawn(pilot)


@every_text
async def test_the_header_and_notices(make_app: MakeApp, texts: list[str]) -> None:
    async with make_app().run_test(size=(160, 24), notifications=True) as pilot:
        await drawn(pilot)
        session = session_of(pilot)
        for text in texts:
            session.log_record(
                made(tags.SESSION, "", {"name": text, "model": text, "approval": "ask"}), 1.0
            )
            session.log_record(
                made(tags.KERNEL, "", {**IDLE, "executable": f"/{text}/.venv{text}/bin/python"}),
                1.0,
            )
            pilot.app.notify(text, title=text)
            await drawn(pilot)
            pilot.app.clear_notifications()


def session_of(pilot: Pilot[int]) -> ScriptedSession:
    app = pilot.app
    assert isinstance(app, MahtabApp)
    assert isinstance(app.session, ScriptedSession)
    return app.session


@every_text
async def test_questions_and_choices(texts: list[str]) -> None:
    from mahtab_tui.tui.screens.dialog import Confirm, Prompt
    from mahtab_tui.tui.screens.listing import ChooseOne

    async with ScreensApp().run_test(size=(120, 40)) as pilot:
        screens = [
            screen
            for text in texts
            for screen in (Prompt(text, f"/{text}"), Confirm(text, yes="Yes", no="No"))
        ]
        for screen in (*screens, *(ChooseOne(text, texts, text) for text in texts[:2])):
            await pilot.app.push_screen(screen)
            await pilot.pause()
            pilot.app.pop_screen()
