"""Another program's session on the screen."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.session.running_sessions import RunningSession
from mahtab_tui.tui.namespace.pane import NamespacePane
from mahtab_tui.tui.transcript.view import TranscriptView
from mahtab_tui.tui.watch_app import WatchApp


async def test_letter_typed_into_a_filter_does_not_quit(tmp_path: Path) -> None:
    app = WatchApp(RunningSession("moon", str(tmp_path), 1, [], tmp_path / "nothing.sock"))
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(NamespacePane).focus()
        await pilot.press("ctrl+f", "q")
        assert not app._exit
        app.query_one(TranscriptView).focus()
        await pilot.press("q")
        assert app._exit
