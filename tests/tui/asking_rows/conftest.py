"""The rows that ask the user something, in an application of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.tui.widgets import prompt_row
from tests.tui.editor_app import SIZE, EditorApp


@pytest.fixture
async def pilot(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pilot[None]]:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 0.001)
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        yield pilot
