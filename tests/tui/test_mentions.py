"""A question that points at something: completion, and what would go with it."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Completion, Completions
from mahtab_tui.session import attached as mentions_module
from mahtab_tui.session.attached import MentionChip, find_mentions
from mahtab_tui.tui.commands.registry import COMMANDS, SlashCompletions
from mahtab_tui.tui.editor.completion import Completer, CompletionList, CompletionRequest
from mahtab_tui.tui.editor.pane import Hint
from tests.tui.editor_app import SIZE, EditorApp, app_of, until, write


class Found:
    """Mentions on offer: two files in a folder, and a variable."""

    def __init__(self) -> None:
        self.busy = False
        self.begun = threading.Event()
        """It is looked up what a question points at."""
        self.free = threading.Event()
        self.free.set()

    def complete(self, question: str, cursor: int) -> Completions:
        if self.busy:
            raise KernelError("The kernel does not answer.")
        stem = question[:cursor].rpartition("@")[2].rpartition("/")[2]
        there = (
            Completion("notes.txt", "notes.txt", "file", ""),
            Completion("src/", "src/", "folder", ""),
        )
        return Completions(
            cursor - len(stem), tuple(item for item in there if item.text.startswith(stem)), 0
        )

    def chips(self, question: str) -> Sequence[MentionChip]:
        self.begun.set()
        assert self.free.wait(30)
        return [
            MentionChip(mention.label, "[b]3 B[/b]\x1b[2J", missing=mention.name == "gone.txt")
            for mention in find_mentions(question)
        ]


@pytest.fixture
def found() -> Found:
    return Found()


@pytest.fixture
async def pilot(home: Path, found: Found) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home, complete_question=found.complete, chips=found.chips)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot
        found.free.set()


def shown(pilot: Pilot[None]) -> CompletionList:
    return pilot.app.query_one(CompletionList)


def hint(pilot: Pilot[None]) -> str:
    return str(pilot.app.query_one("#hint", Static).render())


async def test_files_are_offered_while_typing_and_folders_continue(pilot: Pilot[None]) -> None:
    await write(pilot, "`see @")
    await until(pilot, lambda: shown(pilot).is_open)
    await pilot.press("s")
    await until(pilot, lambda: shown(pilot).is_open and shown(pilot).items[0].label == "src/")
    await pilot.press("tab")
    assert app_of(pilot).editor.text == "see @src/"
    await until(pilot, lambda: shown(pilot).is_open and len(shown(pilot).items) == 2)
    await pilot.press("down", "tab")
    await pilot.press("escape")
    assert app_of(pilot).editor.text == "see @src/src/"


async def test_ordinary_words_are_left_alone(pilot: Pilot[None]) -> None:
    await write(pilot, "`mail a@b or")
    await pilot.pause()
    assert not shown(pilot).is_open
    await pilot.press("tab")
    assert not shown(pilot).is_open
    await write(pilot, " @")
    await until(pilot, lambda: shown(pilot).is_open)
    await pilot.press("space")
    assert not shown(pilot).is_open
    await pilot.press("enter")
    assert app_of(pilot).actions[-1][0] == "submitted"


async def test_unresponsive_kernel_offers_nothing(
    pilot: Pilot[None], found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Completions | None] = []
    answered = Completer.handle_response

    def noted(
        completing: Completer, request: CompletionRequest, answer: Completions | None
    ) -> None:
        answered(completing, request, answer)
        received.append(answer)

    monkeypatch.setattr(Completer, "handle_response", noted)
    await write(pilot, "`see @n")
    await until(pilot, lambda: shown(pilot).is_open)
    found.busy = True
    await pilot.press("o")
    await until(pilot, lambda: received[-1] is None)
    assert not shown(pilot).is_open
    assert app_of(pilot).editor.text == "see @no"


async def test_attachments_are_shown_with_their_size(pilot: Pilot[None]) -> None:
    before = hint(pilot)
    await write(pilot, "`see @notes.txt ")
    await until(pilot, lambda: "@notes.txt" in hint(pilot))
    assert hint(pilot) == " @notes.txt [b]3 B[/b] "
    await write(pilot, "and $df !")
    await until(pilot, lambda: "$df" in hint(pilot))
    for _ in range(len(app_of(pilot).editor.text)):
        await pilot.press("backspace")
    assert "Ask" in hint(pilot)
    await pilot.press("backspace")
    assert hint(pilot) == before


async def test_python_mode_looks_up_no_mentions(pilot: Pilot[None]) -> None:
    await write(pilot, "`@notes.txt")
    await until(pilot, lambda: "@notes.txt" in hint(pilot))
    app_of(pilot).editor.mode = "python"
    await pilot.pause()
    assert "Python" in hint(pilot)
    app_of(pilot).editor.mode = "ask"
    await until(pilot, lambda: "@notes.txt" in hint(pilot))


async def test_python_text_is_scanned_for_mentions_in_ask_mode(pilot: Pilot[None]) -> None:
    await write(pilot, "x @notes.txt")
    app_of(pilot).editor.mode = "ask"
    await until(pilot, lambda: "@notes.txt" in hint(pilot))


async def test_reply_for_an_older_text_is_dropped(
    pilot: Pilot[None], found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints: list[str] = []
    update = Hint.update

    def updated(hint: Hint, content: Content) -> None:
        hints.append(content.plain)
        update(hint, content)

    monkeypatch.setattr(Hint, "update", updated)
    found.free.clear()
    await write(pilot, "`@notes.txt")
    await until(pilot, found.begun.is_set)
    await pilot.press("escape", "enter")
    found.free.set()
    await write(pilot, "$df ")
    await until(pilot, lambda: "$df" in hint(pilot))
    assert app_of(pilot).actions[-1] == ("submitted", "ask", "@notes.txt")
    assert not any("@notes.txt" in each for each in hints)


async def test_long_question_is_scanned_off_the_main_thread(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    class Pattern:
        def finditer(self, text: str) -> Iterator[re.Match[str]]:
            threads.append(threading.current_thread())
            return iter(())

    monkeypatch.setattr(mentions_module, "_MENTION", Pattern())
    await write(pilot, "`see @notes.txt")
    await until(pilot, lambda: bool(threads))
    assert threading.main_thread() not in threads


async def test_mention_joins_the_question_being_written(pilot: Pilot[None]) -> None:
    editor = app_of(pilot).editor
    await write(pilot, "x = 1")
    editor.mention("@cell:3")
    assert (editor.mode, editor.text) == ("ask", "@cell:3 ")
    await pilot.press("ctrl+z")
    assert editor.text == "x = 1", "what stood there can be had back"
    editor.text = "what is "
    editor.mention("@cell:4")
    assert editor.text == "what is @cell:4 "
    await until(pilot, lambda: "@cell:4" in hint(pilot))


@pytest.mark.parametrize("size", [(80, 24), (40, 16)], ids=["wide", "narrow"])
def test_many_mentions_are_inserted_together(
    snap_compare: Callable[..., bool], home: Path, size: tuple[int, int]
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await write(pilot, "`compare @notes.txt:2-30 with @gone.txt, @src/ and $df after !")
        app_of(pilot).area.insert("`git diff --stat`")
        await until(pilot, lambda: "git" in hint(pilot))
        await pilot.pause()

    class Sizes(Found):
        def chips(self, question: str) -> Sequence[MentionChip]:
            return [
                MentionChip(mention.label, "12.4 kB", missing=mention.name == "gone.txt")
                for mention in find_mentions(question)
            ]

    sizes = Sizes()
    assert snap_compare(
        EditorApp(home, complete_question=sizes.complete, chips=sizes.chips),
        terminal_size=size,
        run_before=run,
    )


async def test_slash_at_the_start_of_a_question_completes_commands(
    pilot: Pilot[None],
) -> None:
    app = app_of(pilot)
    app.editor.toggle_mode()
    await write(pilot, "/")
    shown = app.query_one(CompletionList)
    await until(pilot, lambda: shown.is_open)
    assert [item.label for item in shown.items] == sorted(
        f"/{each.slash} {each.argument}".rstrip() for each in COMMANDS if each.slash
    )
    await write(pilot, "mo")
    await until(pilot, lambda: [item.label for item in shown.items] == ["/model NAME"])
    assert shown.items[0].doc
    await pilot.press("tab")
    assert app.area.text == "/model "
    assert not shown.is_open
    await write(pilot, "demo")
    await pilot.press("enter")
    assert app.actions[-1] == ("submitted", "ask", "/model demo")


@pytest.mark.parametrize("text", ["what is a/", "why?\n/", "/model x", "/Model", "1/"])
def test_slash_elsewhere_starts_no_command(text: str) -> None:
    assert SlashCompletions(COMMANDS).complete(text, len(text)) is None
