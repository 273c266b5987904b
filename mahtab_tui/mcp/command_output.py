"""What commands print, for the agent that waits for their end."""

from __future__ import annotations

import time

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.mcp.tools import Report

MAX_PROGRESS_CHARS = 2_000
"""Characters of a command's output that are reported while it runs."""


class CommandOutput:
    """What commands print, whose whole lines are reported as they come."""

    def __init__(self, report: Report, secrets: Secrets) -> None:
        """
        Args:
            report: Gets the seconds since the start, and the newest lines.
            secrets: What the agent must not get.
        """
        self._report = report
        self._secrets = secrets
        self._start_time = time.monotonic()
        self._pieces: list[str] = []
        self._line_pieces: list[str] = []
        """The pieces of the line that has no end yet."""

    def masked_text(self) -> str:
        """Return all that was printed so far, without secrets."""
        return self._secrets.mask("".join(self._pieces))

    async def add(self, text: str) -> None:
        """Add a piece of output."""
        self._pieces.append(text)
        lines, line_end, line_start = text.rpartition("\n")
        if not line_end:
            self._line_pieces.append(text)
            return

        new_lines = "".join([*self._line_pieces, lines])
        self._line_pieces = [line_start]
        # Masked before it is cut: the rest of a secret is not recognised.
        visible_lines = self._secrets.mask(new_lines).strip()
        if visible_lines:
            seconds = time.monotonic() - self._start_time
            await self._report(seconds, visible_lines[-MAX_PROGRESS_CHARS:])
