"""The focus that a row borrows while it asks something."""

from __future__ import annotations

from textual.widget import Widget
from textual.widgets import TextArea


class FocusLoan:
    """Remembers which widget had the focus before a row took it."""

    def __init__(self, row: Widget) -> None:
        self._row = row
        self._lender: Widget | None = None

    @property
    def free(self) -> bool:
        """Whether the user does not type: the focus is nowhere or in an empty text, and no dialog
        covers the row."""
        screen = self._row.screen
        focused = screen.focused
        return screen.is_active and (
            focused is None or (isinstance(focused, TextArea) and not focused.text)
        )

    @property
    def taken(self) -> bool:
        """Whether the row, or a widget in it, has the focus."""
        return self._holds(self._row.screen.focused)

    @property
    def lender(self) -> Widget | None:
        """The widget that had the focus; if none had, because the terminal's window was in the
        background, the text on the screen."""
        if self._lender is not None:
            return self._lender
        return next(
            (
                each
                for each in self._row.screen.focus_chain
                if isinstance(each, TextArea) and not self._holds(each)
            ),
            None,
        )

    def take(self, target: Widget) -> None:
        """Focus a widget in the row."""
        if not self.taken:
            self._lender = self._row.screen.focused
        self._row.screen.set_focus(target)

    def give_back(self) -> None:
        """Give the focus back, if the row still has it."""
        if self.taken:
            self._row.screen.set_focus(self.lender)

    def _holds(self, widget: Widget | None) -> bool:
        return widget is not None and self._row in widget.ancestors_with_self
