"""A log on the screen: it may go away, and grow faster than it is drawn."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import RichLog

from mahtab_tui.session.sharing import RunningSession
from mahtab_tui.tui.namespace import NamespacePane
from mahtab_tui.tui.transcript.view import TranscriptView
from mahtab_tui.tui.watch_app import TAIL, FileApp, SessionApp
from tests.tui.editor_app import until


def seen(pilot: Pilot[int]) -> str:
    assert isinstance(pilot.app, FileApp)
    head = str(pilot.app._head.content)
    return "\n".join([head, *(line.text for line in pilot.app.query_one(RichLog).lines)])


async def test_log_that_vanished_and_returned_is_watched_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("the first line [/x]\n")
    app = FileApp(path)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "the first line [/x]" in seen(pilot))
        path.unlink()
        await until(pilot, lambda: "the file is gone" in seen(pilot))
        path.write_text("begun anew\n")
        await until(pilot, lambda: "begun anew" in seen(pilot) and "watches" in seen(pilot))


async def test_fast_growing_log_is_drawn_in_pieces_and_a_long_line_is_cut(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" * (TAIL // 2) + "\n")
    app = FileApp(path)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "490,000 characters more" in seen(pilot))
        log = app.query_one(RichLog)
        with path.open("a") as file:
            file.write("passed over\n" * 100_000 + f"{'y' * 999}\n" * 1_000 + "the end\n")
        before = len(log.lines)
        app.refresh_view()
        assert len(log.lines) - before <= 2_000
        await until(pilot, lambda: "the end" in seen(pilot))
        assert "bytes skipped" in seen(pilot)


async def test_event_during_closing_does_not_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("first\n")
    app = FileApp(path)
    async with app.run_test(size=(80, 24)):
        pass
    path.unlink()
    app.refresh_view()
    assert "the file is gone" in str(app._head.content)


async def test_letter_typed_into_a_filter_does_not_quit(tmp_path: Path) -> None:
    app = SessionApp(RunningSession("moon", str(tmp_path), 1, [], tmp_path / "nothing.sock"))
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(NamespacePane).focus()
        await pilot.press("ctrl+f", "q")
        assert not app._exit
        app.query_one(TranscriptView).focus()
        await pilot.press("q")
        assert app._exit
