"""Lists of a few values; the user chooses one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.screens.listing import CURRENT_MARK, NO_MARK, ListScreen


class ChooseOne(ListScreen[str | None, str]):
    """Lets the user choose one of several values."""

    hint = "Enter chooses · ↑ ↓ move · Esc cancels"

    def __init__(self, title: str, values: Sequence[str], current: str) -> None:
        super().__init__()
        self.heading_text = title
        self._values = values
        self._current = current

    def on_mount(self) -> None:
        cursor = 0
        if self._current in self._values:
            cursor = self._values.index(self._current)
        self.call_after_refresh(self.fill, cursor)

    def find_rows(self, typed: str) -> Sequence[str]:
        return [value for value in self._values if typed.lower() in value.lower()]

    def line(self, row: str, width: int) -> Content:
        return Content.assemble(CURRENT_MARK if row == self._current else NO_MARK, one_line(row))


class ChooseTheme(ChooseOne):
    """Lets the user choose a theme; the whole screen previews it."""

    def __init__(self, themes: Sequence[str], current: str) -> None:
        super().__init__("Theme", themes, current)

    def describe(self, row: str | None) -> Content:
        if row is None:
            return super().describe(row)
        # The whole application is the preview.
        if row != self.app.theme:
            self.app.theme = row
        return Content("A preview of the theme.")

    def action_leave(self) -> None:
        self.app.theme = self._current
        super().action_leave()
