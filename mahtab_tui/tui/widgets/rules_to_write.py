"""The rules that would let code like the waiting one run without asking; Enter writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static


class RulesToWrite(Static, can_focus=True):
    """Shows rules, one a line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "write", show=False)]

    class Confirmed(Message):
        """The user wants the rules to be written."""

        def __init__(self, rules: tuple[str, ...]) -> None:
            super().__init__()
            self.rules = rules

    def __init__(self, id: str) -> None:
        super().__init__(id=id, markup=False)
        self.rules: tuple[str, ...] = ()

    def show(self, rules: Sequence[str]) -> None:
        self.rules = tuple(rules)
        self.update("\n".join(f"  {rule}" for rule in rules))

    def action_write(self) -> None:
        if self.rules:
            self.post_message(self.Confirmed(self.rules))
