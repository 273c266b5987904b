"""Runs the cells of the session again, and lists what is still the same."""

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
END_TIMEOUT_S = 10.0
"""How long the program's end waits until the kernel and the copy are gone."""
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
        self._report: CheckReport | None = None
        self._progress = "preparing"
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
        visible_rows = self.find_rows(self.typed)
        broken_indexes = (index for index, row in enumerate(visible_rows) if row.breaks)
        self.fill(next(broken_indexes, 0))

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
        mark = _MARKS[row.verdict]
        reason = row.reason
        if not reason and row.before and row.now and "\n" not in row.before + row.now:
            reason = f"{row.before} → {row.now}"
        content = Content.assemble(
            mark,
            f"{one_line(row.name):<{NAME_WIDTH}}",
            (f"{row.verdict:<{VERDICT_WIDTH}}", mark[1]),
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
        lines = [Content.styled(plain(row.reason), "$muted")] if row.reason else []
        for mark, text, style in (("- ", row.before, "$bad"), ("+ ", row.now, "$good")):
            text_lines = text.split("\n") if text else []
            lines += [
                Content.assemble((mark, style), plain(line)) for line in text_lines[:MAX_SIDE_LINES]
            ]
            if len(text_lines) > MAX_SIDE_LINES:
                lines.append(Content.styled("  …", "$muted"))
        return Content("\n").join(lines)

    def choose(self, row: Comparison) -> None:
        """Do nothing: everything about a row stands below the list."""
