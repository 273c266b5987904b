"""The branches of a session: a list to switch by."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.store.branches import BranchRow
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.listing import Listing, ListScreen


class BranchesScreen(ListScreen[str | None, BranchRow]):
    """Returns the id of a session, or None after Escape."""

    def __init__(self, present: str, family: Callable[[], Sequence[BranchRow]]) -> None:
        """present: the session that is open. family: returns all sessions; waits, and may raise `KernelError`."""
        super().__init__()
        self.listing = Listing(self, "Branches", "Enter switches · /branch makes one · Esc closes")
        self._present = present
        self._family = family
        self._fetcher = Fetcher(self)
        self._rows: Sequence[BranchRow] = ()

    def on_mount(self) -> None:
        self.listing.count("looking…")
        self._fetcher.ask("branches", self._family, self._show, lambda problem: self._show((), problem))

    def _show(self, found: Sequence[BranchRow], problem: str = "") -> None:
        self._rows = found
        self.listing.count("")
        self.listing.fill(max((place for place, row in enumerate(found) if row.session.id == self._present), default=0))
        self.listing.say(problem or ("" if len(found) > 1 else "There is no branch yet. /branch 3 makes one that begins before cell 3."))

    def rows(self, typed: str) -> Sequence[BranchRow]:
        words = typed.lower().split()
        return [row for row in self._rows if all(word in f"{row.session.id} {row.session.first}".lower() for word in words)]

    def line(self, row: BranchRow, width: int) -> Content:
        mark = ("● ", "$moon") if row.session.id == self._present else "  "
        tree = f"{'  ' * (row.depth - 1)}└ " if row.depth else ""
        start = f"before cell {row.cell}" if row.cell else "a copy" if row.depth else "from the beginning"
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.session.last))
        return Content.assemble(
            mark, f"{tree}{plain(one_line(row.session.id))}  ", (f"{start:<18}  {day}  {plain(one_line(row.session.first))}", "$muted")
        )

    def describe(self, row: BranchRow | None) -> Content:
        if row is None:
            return Content("")
        return Content(f"{row.session.records:,} records, begins with: {plain(one_line(row.session.first))}")

    def take(self) -> None:
        row = self.listing.chosen
        if row is None:
            return
        if row.session.id == self._present:
            self.listing.say("You are in this session.")
        else:
            self.dismiss(row.session.id)
