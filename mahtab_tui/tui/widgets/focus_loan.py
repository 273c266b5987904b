"""The focus, lent to a row that asks something, and given back."""

from __future__ import annotations

from textual.widget import Widget
from textual.widgets import TextArea


class FocusLoan:
    """Remembers who had the focus before a row."""

    def __init__(self, row: Widget) -> None:
        self._row = row
        self._lender: Widget | None = None

    @property
    def free(self) -> bool:
        """Whether nobody types: the focus is in an empty text, or nowhere, and no dialog stands over the row."""
        screen = self._row.screen
        focused = screen.focused
        return screen.is_active and (focused is None or (isinstance(focused, TextArea) and not focused.text))

    @property
    def taken(self) -> bool:
        """Whether the row has the focus, or something in it."""
        return self._holds(self._row.screen.focused)

    @property
    def lender(self) -> Widget | None:
        """Who had the focus. While the terminal's window had none, nobody had; then it goes to the text on the screen."""
        if self._lender is not None:
            return self._lender
        return next((each for each in self._row.screen.focus_chain if isinstance(each, TextArea) and not self._holds(each)), None)

    def take(self, target: Widget) -> None:
        """Give the focus to something in the row."""
        if not self.taken:
            self._lender = self._row.screen.focused
        self._row.screen.set_focus(target)

    def give_back(self) -> None:
        """Give the focus to who had it, if the row still has it."""
        if self.taken:
            self._row.screen.set_focus(self.lender)

    def _holds(self, widget: Widget | None) -> bool:
        return widget is not None and self._row in widget.ancestors_with_self
