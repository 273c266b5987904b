"""Where Tab and Shift+Tab move the focus: on the panes, and in what covers them."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.tui.editor_app import screen_text
from tests.tui.scripted_session import WAITING, MakeApp, sales_records, showing

SIZES = [(80, 24), (200, 50)]
DIALOGS = {
    "f1": ["Input"],
    "f12": ["LineInput"],
    "ctrl+p": ["LineInput"],
    "ctrl+r": ["LineInput"],
    "f9": ["no", "yes"],
    "/theme": ["LineInput"],
    "/sessions": ["LineInput", "PreviewTranscript"],
    "/model": ["LineInput"],
    "/rewind": ["LineInput"],
    "/skills": ["LineInput", "skill-preview"],
    "/usage": ["VerticalScroll"],
    "/context": ["VerticalScroll"],
    "/mcp": ["LineInput"],
    "/kernel": ["LineInput"],
}
"""What gets the focus in each dialog, in order: the first one has it when the dialog opens."""


def names(pilot: Pilot[int]) -> list[str]:
    return [widget.id or type(widget).__name__ for widget in pilot.app.screen.focus_chain]


def focused(pilot: Pilot[int]) -> str:
    widget = pilot.app.focused
    return "" if widget is None else widget.id or type(widget).__name__


@pytest.mark.parametrize("size", SIZES)
async def test_focus_goes_from_the_transcript_through_what_waits_to_the_editor(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    async with showing(make_app(*sales_records(), WAITING), size=size) as pilot:
        # A tree of searches that is empty gets no focus.
        side_panes = ["namespace"] if size[0] > 110 else []
        assert names(pilot) == ["transcript", "Chips", "code", *side_panes]
        await pilot.press("ctrl+o", "t", "tab")
        assert focused(pilot) == "Chips"
        # From a row that asks something, all but its answers goes to the editor.
        await pilot.press("shift+tab")
        assert focused(pilot) == "code"


@pytest.mark.parametrize("size", SIZES)
async def test_pane_with_the_focus_says_so_in_its_title(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    async with showing(make_app(*sales_records()), size=size) as pilot:
        for letter, title in {"t": "TRANSCRIPT", "n": "NAMESPACE"}.items():
            await pilot.press("ctrl+o", letter)
            await pilot.pause()
            titles = [line for line in screen_text(pilot).splitlines() if title in line]
            assert any("focus" in line or "◂" in line for line in titles), titles


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("command", DIALOGS)
async def test_dialog_keeps_the_focus_among_its_own_parts(
    make_app: MakeApp, command: str, size: tuple[int, int]
) -> None:
    async with showing(make_app(*sales_records()), size=size) as pilot:
        keys = ["f2", *command, "enter"] if command.startswith("/") else [command]
        await pilot.press(*keys)
        await pilot.pause()
        parts = DIALOGS[command]
        assert names(pilot) == parts
        for part in [*parts, parts[0]]:
            assert focused(pilot) == part
            await pilot.press("tab")
