"""A saved session that comes up again as it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.records import AssistantChat, AssistantChatStream, Record
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.search_tree import SearchTreePane
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.fold import Transcript
from mahtab_tui.tui.panes.transcript.texts import output_of, text_of
from mahtab_tui.tui.panes.transcript.view import TranscriptView
from mahtab_tui.tui.screens.confirm import Confirm
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.session_replay import LONGEST_WAIT, SessionReplayApp, events
from mahtab_tui.tui.widgets.key_line import KeyLine
from tests.hostile import HOSTILE
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.search_story import done
from tests.tui.story import WAITING, story


def stored(*said: Record) -> list[Record]:
    """What a session keeps of records, a second apart."""
    kept = [record for record in said if record.in_store]
    return [record.changed(time=1000.0 + number) for number, record in enumerate(kept)]


def session() -> list[Record]:
    decided = WAITING.changed(state="run")
    ran = [
        made(tags.ASSISTANT_REPL_IN, "print(1)", {"cell": 5, "turn": 1, "step": 1, "block": 0, "party": "claude"}, 1.0),
        made(tags.ASSISTANT_REPL_OUT, "1\n", {"cell": 5, "turn": 1, "step": 1, "block": 0, "party": "claude", "status": "ok", "duration": 0.1}, 1.0),
        made(tags.UNDO, "Cell 5 was undone.", {"cells": [5], "undone": True}, 1.0),
    ]
    return stored(*story(), WAITING, decided, *ran)


def head(app: SessionReplayApp) -> str:
    return str(app.query_one("#replay-head", Static).content)


def entries(app: SessionReplayApp) -> list[Entry]:
    return app.query_one(TranscriptView).viewport.transcript.entries


def looks(shown: Sequence[Entry]) -> list[tuple[str, str, str, str]]:
    return [
        (type(each).__name__, text_of(each), output_of(each), f"{each.status} {each.approval} {each.undone}") if isinstance(each, Cell)
        else (type(each).__name__, text_of(each), "", "")
        for each in shown
    ]  # fmt: skip


def test_long_waits_are_shortened_and_an_answer_comes_in_pieces() -> None:
    said: list[Record] = [
        records.UserChat("Well?", turn=1, time=1000.0),
        records.AssistantChat("Some words.\n\n```python\nprint(1)\n```\nMore.", turn=1, step=0, party="m", time=5000.0),
        records.Notice("late", time=5000.5),
        records.Notice("the clock was set back", time=10.0),
    ]
    played = list(events(said))
    assert sum(wait for wait, _ in played) == pytest.approx(LONGEST_WAIT + 0.5)
    assert [record for _, record in played if not isinstance(record, AssistantChatStream)] == said
    pieces = [record for _, record in played if isinstance(record, AssistantChatStream)]
    assert len(pieces) > 10
    assert "".join(piece.text for piece in pieces if piece.kind == "code") == "print(1)\n"
    assert isinstance(played[len(pieces) + 1][1], AssistantChat)
    assert list(events([])) == []


async def test_at_its_end_it_looks_as_the_session_does_and_at_any_moment_it_stands() -> None:
    said = session()
    whole = Transcript(since=0.0)
    whole.fold(said)
    app = SessionReplayApp("A title", said)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space")
        await until(pilot, lambda: "paused" in head(app))
        seen = app.shown
        while app.shown < len(said):
            await pilot.press("right")
            assert app.shown == seen + 1
            seen = app.shown
            before = Transcript(since=0.0)
            before.fold(said[:seen])
            assert looks(entries(app)) == looks(before.entries)
        await until(pilot, lambda: "ended" in head(app))
        assert looks(entries(app)) == looks(whole.entries)


async def test_it_pauses_changes_its_pace_and_goes_to_the_end() -> None:
    said = session()
    app = SessionReplayApp("A [b]title[/b] \x1b]0;x\x07", said, speed=3.9)
    async with app.run_test(size=(120, 40)) as pilot:
        assert app.player.pace == 4
        await until(pilot, lambda: "4 x" in head(app))
        assert "A [b]title[/b]" in head(app)
        assert "\x1b" not in head(app)
        await pilot.press("+", "-", "-", "-", "-", "-", "-", "-")
        await until(pilot, lambda: "0.25 x" in head(app))
        await pilot.press("space")
        await until(pilot, lambda: "paused" in head(app))
        await pilot.press(">")
        await until(pilot, lambda: f"ended · {len(said)} of {len(said)}" in head(app))


async def test_the_user_goes_on_from_what_is_shown_after_a_question() -> None:
    app = SessionReplayApp("A title", session())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space", "right", "right", "t")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        shown = app.shown
        await pilot.press(">", "t", "n")  # only the dialog's own keys count
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert (app.shown, app.takes_over) == (shown, False)
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
    assert (app.takes_over, app.shown) == (True, shown)


async def test_a_search_is_shown_as_its_tree() -> None:
    app = SessionReplayApp("A title", stored(*story(), *done()))
    async with app.run_test(size=(120, 40)) as pilot:
        tree = app.query_one(SearchTreePane)
        assert not tree.display
        await pilot.press(">")
        await until(pilot, lambda: "ended" in head(app))
        assert tree.display
        assert tree.trees["t1"].finished


async def test_the_variables_stay_when_the_program_ends() -> None:
    made_one = records.Namespace(cell=1, changes=(records.Change("harvest", "added", "int", "1"),), time=1.0)
    left = [records.Kernel(state="dead", time=2.0), records.Namespace(fresh=True, cell=1, time=2.0)]
    app = SessionReplayApp("A title", [made_one, *left], speed=64)
    async with app.run_test(size=(120, 35)) as pilot:
        await until(pilot, lambda: "ended · 3 of 3" in head(app))
        assert app.query_one(NamespacePane).has("harvest")
    app = SessionReplayApp("A title", [made_one, *left, records.Notice("A new kernel.", time=3.0)], speed=64)
    async with app.run_test(size=(120, 35)) as pilot:
        await until(pilot, lambda: "ended · 4 of 4" in head(app))
        assert not app.query_one(NamespacePane).has("harvest")


async def test_keys_that_need_a_kernel_are_not_offered() -> None:
    app = SessionReplayApp("A title", session())
    async with app.run_test(size=(120, 35)) as pilot:
        app.query_one(NamespacePane).focus()
        await pilot.pause()
        offered = {active.binding.description for active in app.screen.active_bindings.values()}
        assert {"Filter", "Pause", "Step", "Take over"} <= offered
        assert not offered & {"Look inside", "Rename", "Private", "Delete", "Copy name"}


async def test_the_keys_at_the_bottom_have_room_and_stand_in_one_order() -> None:
    app = SessionReplayApp("A title", stored(*story(), *done()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(">")
        await until(pilot, lambda: "ended" in head(app))
        line = app.query_one(KeyLine)
        for pane, own in ((TranscriptView, []), (NamespacePane, ["^f"]), (SearchTreePane, ["⏎"])):
            app.query_one(pane).focus()
            step = [] if pane is SearchTreePane else ["→"]
            wanted = [*own, "space", *step, "-", "+", ">", "t", "^q"]
            await until(pilot, lambda wanted=wanted: [key.shown for key in line.keys] == wanted)  # type: ignore[misc]
            assert "^q Leave" in line.render_line(0).text


async def test_f1_shows_its_keys_first_with_those_of_the_user() -> None:
    app = SessionReplayApp("A title", session(), keymap={"replay-pause": "p"})
    async with app.run_test(size=(120, 35)) as pilot:
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and bool(app.screen.query("#help-rows")))
        rows = app.screen.query_one("#help-rows", Static)
        await until(pilot, lambda: str(rows.content).startswith("Replay\n  p                  Pause: "))
        assert "Take over" in str(rows.content)
        assert "Namespace\n" in str(rows.content)
        assert "Editor" not in str(rows.content)
        paused = app.player.paused
        await pilot.press("p", "t", "space")
        assert app.screen.query_one(Input).value == "pt "
        await pilot.press("f1")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert app.player.paused == paused


async def test_keys_of_a_pane_that_has_no_room_do_nothing() -> None:
    app = SessionReplayApp("A title", stored(*story(), *done()))
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.press(">")
        await until(pilot, lambda: "ended" in head(app))
        app.query_one(SearchTreePane).focus()
        await pilot.press("end", "home", "pagedown", "up")


async def test_a_cell_that_never_ended_is_cut_off_at_the_end() -> None:
    app = SessionReplayApp("A title", [records.UserReplIn("sleep()", cell=1, party="you", time=1.0)])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ended" in head(app))
        [cell] = entries(app)
        assert isinstance(cell, Cell)
        assert (cell.status, cell.started) == ("cut off", None)


async def test_hostile_records_are_shown() -> None:
    said: list[Record] = []
    for number, text in enumerate(HOSTILE, 1):
        said += [
            records.UserReplIn(text, cell=number, party=text, time=1.0),
            records.UserReplOut(text, cell=number, status=text, kinds=((text, 10**9), ("value", -5)), duration=-1.0, time=2.0),
            records.AssistantChat(text, turn=number, step=0, party=text, time=3.0),
            records.Namespace(cell=number, changes=(records.Change(text, text, text, text, text),), time=4.0),
        ]
    app = SessionReplayApp(HOSTILE[0], said)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(">")
        await until(pilot, lambda: "ended" in head(app))
        for _ in range(20):
            await pilot.press("pageup")
        await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
def test_it_stands_side_by_side_where_there_is_room(size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    app = SessionReplayApp("Which days are outliers?", session())
    app.player.paused = True

    async def run(pilot: Pilot[int]) -> None:
        while app.shown < 10:  # nothing runs then, and shows the time
            await pilot.press("right")
        namespace = app.query_one(NamespacePane)
        await until(pilot, lambda: namespace._fading is None)  # rows that have changed fade with time
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=run)
