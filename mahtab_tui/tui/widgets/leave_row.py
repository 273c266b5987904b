"""The row that says what quitting would lose."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static


class LeaveRow(Static):
    """Shows what quitting would lose; never focused, so that keys go where they went before."""

    def __init__(self, lost: Sequence[str], can_continue: bool, key: str) -> None:
        """
        Args:
            can_continue: A running cell can go on.
            key: The key that quits.
        """
        loss = f"You would lose {', '.join(lost)}"
        keys = f" · {key} again leaves · Esc stays"
        if can_continue:
            keys = f" · {key} again leaves it running · ^s stops it and leaves · Esc stays"
            sentences = ["A cell is running."]
            if lost:
                sentences.append(f"{loss}.")
            loss = " ".join(sentences)
        super().__init__(Content.assemble(("Leave? ", "bold $highlight"), loss, (keys, "$muted")))
