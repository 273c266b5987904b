"""A log that is followed on the screen: it may go away and come back."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import RichLog, Static

from mahtab_tui.tui.watch_app import WatchFile
from tests.tui.editor_app import until


def seen(pilot: Pilot[int]) -> str:
    head = str(pilot.app.query_one("#replay-head", Static).content)
    return "\n".join([head, *(line.text for line in pilot.app.query_one(RichLog).lines)])


async def test_a_log_that_went_away_and_came_back_is_watched_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("the first line [/x]\n")
    app = WatchFile(path)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "the first line [/x]" in seen(pilot))
        path.unlink()
        await until(pilot, lambda: "the file is gone" in seen(pilot))
        path.write_text("begun anew\n")
        await until(pilot, lambda: "begun anew" in seen(pilot) and "watches" in seen(pilot))
