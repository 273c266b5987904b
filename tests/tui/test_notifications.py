"""What tells the user, who looks elsewhere, and what tells which pane has the focus."""

from __future__ import annotations

import time

import pytest
from textual.events import AppBlur

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.terminal_driver import filter_output
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.scripted_session import WAITING, MakeApp, log, sales_records, scripted, showing

ENDED = made(tags.USER_REPL_OUT, "", {"cell": 9, "status": "ok", "duration": 11.0})
INPUT_FIELDS = {"request": "1", "cell": 9}
INPUT = made(tags.INPUT, "name? ", {**INPUT_FIELDS, "state": "waiting"})
PASSWORD = made(tags.INPUT, "Password: ", {**INPUT_FIELDS, "password": True, "state": "waiting"})
ANSWERED_INPUT = made(tags.INPUT, "name? ", {**INPUT_FIELDS, "state": "answered"})
SHORT = made(tags.USER_REPL_OUT, "", {"cell": 9, "status": "ok", "duration": 1.0})


@pytest.mark.parametrize(
    ("mode", "record", "written"),
    [
        ("bell", WAITING, "\x07"),
        ("osc9", WAITING, "\x1b]9;mahtab waits for you\x07"),
        ("bell", INPUT, "\x07"),
        ("osc9", PASSWORD, "\x1b]9;mahtab waits for you\x07"),
        ("bell", ANSWERED_INPUT, ""),
        ("osc777", ENDED, "\x1b]777;notify;mahtab;A cell in mahtab has ended\x07"),
        ("osc9", SHORT, ""),
        ("off", WAITING, ""),
    ],
)
async def test_what_waits_is_told_as_the_setting_says_while_another_window_has_the_focus(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, mode: str, record: Record, written: str
) -> None:
    monkeypatch.setenv("MAHTAB_NOTIFICATIONS", mode)
    app = make_app()
    async with showing(app) as pilot:
        assert app._driver is not None
        pieces: list[str] = []
        monkeypatch.setattr(app._driver, "write", pieces.append)
        await log(pilot, record)
        app.post_message(AppBlur())
        await until(pilot, lambda: not app._window_focused)
        assert pieces == []
        # No widget has the focus then, for which `log` would wait.
        scripted(pilot)[1].log_record(record, time.time())
        app.record_pump.flush()
        await pilot.pause()
        assert pieces == ([written] if written else [])
        assert [filter_output(piece) for piece in pieces] == pieces


@pytest.mark.parametrize("text", ["sent by a cell", "mahtab waits for you\x07\x1b]52;c;eA==\x07"])
def test_no_other_text_becomes_a_notification(text: str) -> None:
    assert "\x1b" not in filter_output(f"\x1b]9;{text}\x07")
    assert "\x1b" not in filter_output(f"\x1b]777;notify;mahtab;{text}\x07")


async def test_the_title_of_the_focused_pane_says_so_in_words(make_app: MakeApp) -> None:
    async with showing(make_app(*sales_records()), size=(120, 40)) as pilot:
        focused_titles = []
        for keys in ((), ("ctrl+o", "t"), ("ctrl+o", "n"), ("ctrl+o", "e")):
            await pilot.press(*keys)
            await pilot.pause()
            lines = [strip.text for strip in pilot.app.screen._compositor.render_strips()]
            focused_titles.append(
                [line.split("(focus)")[0].split()[-2:] for line in lines if "(focus)" in line]
            )
        assert [len(words) for words in focused_titles] == [0, 1, 1, 0]
        assert "TRANSCRIPT" in focused_titles[1][0]
        assert "NAMESPACE" in focused_titles[2][0]
