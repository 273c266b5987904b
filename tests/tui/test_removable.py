"""A widget that is removed before it is mounted, or while events for it are under way, raises
nothing."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.tui.option_list import ignores_removed


@ignores_removed
class Composed(Widget):
    """Needs its child at every event."""

    def compose(self) -> ComposeResult:
        yield Static("as it was", id="part")

    def on_mount(self) -> None:
        self.look()

    def on_resize(self) -> None:
        self.look()

    def look(self) -> None:
        self.query_one("#part", Static).update("as it is")


class Host(App[None]):
    pass


@pytest.mark.parametrize("stands", [False, True], ids=["before it was put together", "later"])
async def test_removed_widget_ignores_late_callbacks(stands: bool) -> None:
    app = Host()
    async with app.run_test() as pilot:
        widget = Composed()
        mounted = app.screen.mount(widget)
        if stands:
            await mounted
        for _ in range(3):
            widget.call_after_refresh(widget.look)
        removed = widget.remove()
        widget.post_message(Resize(Size(3, 3), Size(3, 3)))
        widget.call_after_refresh(widget.look)
        await removed
        await pilot.pause()
        assert not widget.is_attached  # what fails is raised at the end of the block
