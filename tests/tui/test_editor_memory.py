"""Text that was in the editor does not stay in memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from textual.widgets import TextArea

from tests.tui.editor_app import SIZE, EditorApp, write


async def test_replaced_text_is_freed(project: Path) -> None:
    app = EditorApp(project)
    async with app.run_test(size=SIZE) as pilot:
        area = app.query_one("#code", TextArea)
        seen = []
        for number in range(5):
            await write(pilot, f"x = {number}")
            seen.append(weakref.ref(area.document))
            area.text = f"y = {number}"
        await pilot.pause()
        gc.collect()
        assert [document() for document in seen] == [None] * 5
        assert area.text == "y = 4"
