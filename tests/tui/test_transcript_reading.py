"""Texts that are read from their beginning, such as help: the transcript shows that, not their
end."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.records import Record
from tests import tags
from tests.tui.transcript_app import SIZE, PaneApp, cells, record, shown

LINES = 100


def reading(number: int, code: str, mime: str, *, after: str = "") -> list[Record]:
    """A cell that shows a long text, and prints something after it."""
    text = "".join(f"line {line}\n\n" for line in range(LINES))
    whole, kinds = text + after, [["display", len(text)], ["stdout", len(after)]]
    return [
        record(tags.USER_REPL_IN, code, cell=number, party="you"),
        record(
            tags.DISPLAY, text, cell=number, mime=mime, data="" if mime == "text/plain" else text
        ),
        record(
            tags.USER_REPL_OUT,
            whole,
            cell=number,
            status="ok",
            duration=0.1,
            kinds=kinds if after else kinds[:1],
        ),
    ]


@pytest.mark.parametrize("mime", ["text/plain", "text/markdown"])
@pytest.mark.parametrize("after", ["", "\n"])
async def test_long_text_is_shown_from_its_start_with_the_code_above(mime: str, after: str) -> None:
    app = PaneApp(cells(10))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.fold(reading(11, "df?", mime, after=after))
        await pilot.pause()
        rows = shown(app.pane)
        assert rows[3].endswith("df?")
        assert rows[5] == " ▌ line 0"
        assert rows[-1].endswith("↓ more")


async def test_text_below_long_code_is_shown_at_the_top() -> None:
    app = PaneApp()
    async with app.run_test(size=SIZE) as pilot:
        app.pane.fold(reading(1, "\n".join(["x = 1"] * 30), "text/plain"))
        await pilot.pause()
        assert shown(app.pane)[1] == " ▌ line 0"


async def test_keys_reach_the_end_of_the_text_and_the_next_cell_replaces_it() -> None:
    app = PaneApp(reading(1, "df?", "text/plain"))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.focus()
        await pilot.press("end")
        await pilot.pause()
        assert shown(app.pane)[-1].endswith(f"▌ line {LINES - 1}")
        app.pane.fold(reading(2, "other?", "text/plain"))
        await pilot.pause()
        assert "other?" in shown(app.pane)[3]
        await pilot.press("pagedown")
        await pilot.pause()
        assert shown(app.pane)[2].endswith("▌ line 6")
        app.pane.action_scroll_end()
        app.pane.fold(cells(1, first=3))
        await pilot.pause()
        assert shown(app.pane)[-1].endswith("▌ output 3")


async def test_output_after_the_text_is_followed() -> None:
    app = PaneApp()
    async with app.run_test(size=SIZE) as pilot:
        app.pane.fold(reading(1, "df?; print('done')", "text/plain", after="done\n"))
        await pilot.pause()
        assert shown(app.pane)[-1] == " ▌ done"
