"""How a row that asks the user something takes the focus, and gives it back."""

from __future__ import annotations

from textual.widget import Widget
from textual.widgets import TextArea


class FocusLoan:
    """Lends the focus to a row, and knows which widget had it before."""

    def __init__(self, row: Widget) -> None:
        self._row = row
        self._saved_focus: Widget | None = None
        """The widget that had the focus; None if none had, or the row has not borrowed it."""

    @property
    def is_available(self) -> bool:
        """Whether the user is not typing, and no dialog covers the row."""
        screen = self._row.screen
        if not screen.is_active:
            return False
        focused = screen.focused
        return focused is None or (isinstance(focused, TextArea) and not focused.text)

    @property
    def has_focus(self) -> bool:
        """Whether a widget of the row has the focus."""
        return self._contains(self._row.screen.focused)

    @property
    def previous_focus(self) -> Widget | None:
        """The widget that had the focus; if none had, the first text field outside the row."""
        if self._saved_focus is not None:
            return self._saved_focus
        for widget in self._row.screen.focus_chain:
            if isinstance(widget, TextArea) and not self._contains(widget):
                return widget
        return None

    def borrow(self, target: Widget) -> None:
        """Focus a widget of the row, and note which one had the focus."""
        if not self.has_focus:
            self._saved_focus = self._row.screen.focused
        self._row.screen.set_focus(target)

    def give_back(self) -> None:
        """Focus the widget that had the focus, unless the user has moved on."""
        if self.has_focus:
            self._row.screen.set_focus(self.previous_focus)

    def _contains(self, widget: Widget | None) -> bool:
        return widget is not None and self._row in widget.ancestors_with_self
