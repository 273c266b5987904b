"""The screen that runs the cells of the session again, and lists what is still the same.

The check runs on a thread, with kernels and a copy of the project of its own. They must be gone when the
program ends, so closing the screen stops the check and waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.screens.listing import ListScreen, matches_words
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.session.checking.check import Check, CheckReport
    from mahtab_tui.session.checking.comparison import Comparison

PROGRESS_INTERVAL_S = 0.2
"""Seconds between two looks at how far the check is."""
END_TIMEOUT_S = 10.0
"""How long the program's end waits until the kernel and the copy are gone."""
# Widths of the columns, in terminal cells.
NAME_WIDTH = 14
VERDICT_WIDTH = 16
MAX_SIDE_LINES = 4
"""Lines of each side of a difference."""

_MARKS = {
    "same": ("✓ ", "$good"),
    "different": ("≠ ", "$bad"),
    "failed": ("✗ ", "$bad"),
    "not comparable": ("– ", "$muted"),
}
"""What stands before a row, and its style, by its verdict."""
_RUNNING = "The cells run again in a copy of this folder."
_SAFE = "Your files stay as they are."


class CheckScreen(ListScreen[None, "Comparison"]):
    """Progress while the cells run, then a row for each cell and variable."""

    heading_text = "Check"
    box_classes = "large listing fitted"
    hint = "type to filter, such as different · Esc stops the check, or closes"

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._fetcher = Fetcher(self)
        self._check: Check | None = None
        """None until its thread has made it."""
        self._report: CheckReport | None = None
        """None until the check has ended."""
        self._progress = "preparing"
        """What the check is doing. Its thread sets it, and the screen looks at it."""
        self._is_stopping = False
        self._ended = threading.Event()
        """Set when nothing of the check is left."""

    def on_mount(self) -> None:
        self.set_interval(PROGRESS_INTERVAL_S, self._show_progress)
        self._fetcher.run("check", self._work, self._show_report, self._fail)

    def on_unmount(self) -> None:
        """Wait for the check's end, so that the program leaves nothing behind."""
        self._stop()
        self._ended.wait(END_TIMEOUT_S)

    def _work(self) -> CheckReport:
        """Run the check. Called on a thread. Raises `KernelError`."""
        try:
            self._check = self._session.new_check()
            # The user was faster.
            if self._is_stopping:
                self._check.stop()
            return self._check.run(self._note_progress)
        finally:
            self._ended.set()

    def _note_progress(self, text: str) -> None:
        self._progress = text

    def _show_progress(self) -> None:
        if not self._ended.is_set():
            self.show_count(f"{self._progress} …")

    def _show_report(self, report: CheckReport) -> None:
        self._report = report
        self.show_count(report.summary())
        self.show_status("\n".join(report.remarks), "$muted")
        self.fill(self._first_broken_row())

    def _first_broken_row(self) -> int:
        """Return the index of the first row that does not hold any more; 0 if all hold."""
        for index, row in enumerate(self.find_rows(self.typed)):
            if row.breaks:
                return index
        return 0

    def _fail(self, sentence: str) -> None:
        if self._is_stopping:
            self.dismiss(None)
            return
        self.show_count("")
        self.show_status(sentence)
        self._describe()

    def _stop(self) -> None:
        self._is_stopping = True
        if self._check is not None:
            self._check.stop()

    def action_leave(self) -> None:
        if self._ended.is_set():
            self.dismiss(None)
        elif not self._is_stopping:
            self._stop()
            self._note_progress("stopping")

    def find_rows(self, typed: str) -> Sequence[Comparison]:
        if self._report is None:
            return ()
        return [
            row
            for row in self._report.comparisons
            if matches_words(typed, f"{row.name} {row.verdict} {row.reason}")
        ]

    def line(self, row: Comparison, width: int) -> Content:
        mark, style = _MARKS[row.verdict]
        reason = row.reason
        # A short difference needs no other reason.
        is_one_line = "\n" not in row.before + row.now
        if not reason and row.before and row.now and is_one_line:
            reason = f"{row.before} → {row.now}"
        content = Content.assemble(
            (mark, style),
            f"{one_line(row.name):<{NAME_WIDTH}}",
            (f"{row.verdict:<{VERDICT_WIDTH}}", style),
            (one_line(reason), "$muted"),
        )
        return content.truncate(width, ellipsis=True)

    def describe(self, row: Comparison | None) -> Content:
        if self._report is None:
            if self._ended.is_set():
                return Content("")
            return Content(_RUNNING if self._session.check_risk else f"{_RUNNING} {_SAFE}")
        if row is None:
            return super().describe(row)
        lines: list[Content] = []
        if row.reason:
            lines.append(Content.styled(plain(row.reason), "$muted"))
        lines += _side_lines("- ", row.before, "$bad")
        lines += _side_lines("+ ", row.now, "$good")
        return Content("\n").join(lines)

    def choose(self, row: Comparison) -> None:
        """Do nothing: everything about a row stands below the list."""


def _side_lines(mark: str, text: str, style: str) -> list[Content]:
    """Draw one side of a difference: what was recorded, or what the cell shows now."""
    if not text:
        return []
    text_lines = text.split("\n")
    lines = [Content.assemble((mark, style), plain(line)) for line in text_lines[:MAX_SIDE_LINES]]
    if len(text_lines) > MAX_SIDE_LINES:
        lines.append(Content.styled("  …", "$muted"))
    return lines
