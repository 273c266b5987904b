"""The answers to code that waits."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.tui.widgets.chips import Chip, Chips

_CHIPS = (
    Chip("run", "y", " y run ", " y run ", "bold $background on $good"),
    Chip("edit", "e", " e edit ", " e edit ", "$background on $person"),
    Chip("skip", "n", " n skip, say why ", " n skip ", "$background on $moon"),
    Chip("all", "a", " a run all from now on ", " a all ", "$foreground on $panel"),
    Chip("stop", "escape", " esc stop ", " esc stop ", "$foreground on $panel"),
)


_OF_CODE = ("edit", "all")
"""Answers that make sense for code only."""


class ApprovalChips(Chips):
    """Run, edit, skip, run all, stop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(_CHIPS, clock)

    def ask_about(self, *, is_code: bool) -> None:
        """Offer what can be answered to code, or to what else is to be done."""
        self._chips = [chip for chip in _CHIPS if is_code or chip.answer not in _OF_CODE]
        self.refresh()
