"""Copying: to the terminal by its sequence, and to the system's own clipboard."""

from __future__ import annotations

import base64

import pyperclip
import pytest
from textual.app import App
from textual.pilot import Pilot

from mahtab_tui.tui import external
from tests.tui.editor_app import until


class Written:
    """Texts for the terminal, and texts for the system's clipboard."""

    def __init__(self) -> None:
        self.terminal: list[str] = []
        self.system: list[str] = []

    @property
    def copied(self) -> list[str]:
        """The texts of the OSC 52 sequences."""
        return [
            base64.b64decode(piece[7:-1]).decode()
            for piece in self.terminal
            if piece.startswith("\x1b]52;c;") and piece[-1] == "\x07"
        ]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    found = Written()
    monkeypatch.setattr(pyperclip, "copy", found.system.append)
    return found


def listen(pilot: Pilot[None], written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = pilot.app._driver
    assert driver is not None
    monkeypatch.setattr(driver, "write", written.terminal.append)


def notifications(pilot: Pilot[None]) -> str:
    return " ".join(each.message for each in pilot.app._notifications)


async def test_text_is_copied_to_terminal_and_system_with_a_notice(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App[None]().run_test() as pilot:
        listen(pilot, written, monkeypatch)
        external.copy(pilot.app, "straw \ud800 [bold]")
        await until(
            pilot,
            lambda: (
                "14 characters to the terminal (OSC 52) and to the system's clipboard"
                in notifications(pilot)
            ),
        )
        assert written.copied == written.system == ["straw ? [bold]"]


async def test_missing_system_clipboard_names_only_the_terminal(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(text: str) -> None:
        raise pyperclip.PyperclipException

    monkeypatch.setattr(pyperclip, "copy", none)
    async with App[None]().run_test() as pilot:
        listen(pilot, written, monkeypatch)
        external.copy(pilot.app, "x")
        await until(
            pilot,
            lambda: (
                "one character to the terminal (OSC 52); no other clipboard was found"
                in notifications(pilot)
            ),
        )
        assert written.copied == ["x"]


async def test_text_too_long_for_a_terminal_is_not_copied_and_reported(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App[None]().run_test() as pilot:
        listen(pilot, written, monkeypatch)
        external.copy(pilot.app, "x" * (external.MAX_COPIED + 1))
        await until(
            pilot,
            lambda: "1,000,001 characters are too many for the clipboard" in notifications(pilot),
        )
        assert written.copied == written.system == []
