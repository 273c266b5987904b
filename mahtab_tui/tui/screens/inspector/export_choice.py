"""The choice between exporting what is shown and exporting all."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.textual_fixes.options import Options


class ExportChoice(Dialog[bool | None]):
    """Returns True for all of the object, False for the part that is shown, None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, seen: str, everything: str) -> None:
        super().__init__()
        self._seen, self._everything = one_line(seen), one_line(everything)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog menu"):
            yield Static("Export", classes="quiet", markup=False)
            yield Options(
                Option(f"What is shown: {self._seen}", id="seen"), Option(f"All of it: {self._everything}", id="all"), compact=True, markup=False
            )
            yield Static("Enter exports what is chosen · Esc cancels", classes="quiet", markup=False)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id == "all")
