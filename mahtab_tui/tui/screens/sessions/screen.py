"""The screen of all saved sessions: searching what was said and run in them, reading, resuming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.sources import project_folder
from mahtab_tui.store.claim import Holder, held
from mahtab_tui.store.describing import cost, day, size
from mahtab_tui.store.digest import catch_up
from mahtab_tui.store.finding import Found, Hit, find_sessions, wanted_words
from mahtab_tui.store.preview import preview
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import count_sessions, list_sessions
from mahtab_tui.tui.rows.newest import NewestOnly
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.listing import Listing, ListingSource
from mahtab_tui.tui.screens.sessions.preview import Preview
from mahtab_tui.tui.textual_fixes.removable import is_leaving

if TYPE_CHECKING:
    from mahtab_tui.session import Session

SHOWN = 200
"""Sessions that are shown at most."""
_WIDE = 70
"""Columns from which on a line says more than the day and the title."""
_PAUSE = 0.05
"""Seconds without a key after which a search begins."""
_CATCH_UP = 0.2
"""Seconds for which each search reads sessions into the index at most."""


@dataclass(frozen=True)
class Question:
    """What to list."""

    typed: str
    project: str | None
    """None for all folders."""


@dataclass(frozen=True)
class Answer:
    """What is listed."""

    question: Question
    found: Found
    count: int
    """How many sessions there are to list."""
    open_now: dict[str, Holder] = field(default_factory=dict)
    problem: str = ""


def sessions_screen(session: Session) -> SessionsScreen:
    """Return the screen over a session."""
    try:
        project = str(project_folder())
    except SettingsError:
        project = ""
    try:
        return SessionsScreen(database(), session.branches.session, project)
    except KernelError:
        return SessionsScreen(database(), "", project, may_leave="This session is not saved, so leave it first:")


class SessionsScreen(Dialog[str | None], ListingSource[Hit]):
    """Returns the id of the session to go to, or None after Escape."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("ctrl+t", "scope", "This folder or all"),
        ("enter", "take", "Resume"),  # while the preview has the focus
    ]

    def __init__(self, database: Path, present: str, project: str, *, may_leave: str = "") -> None:
        """present: the session that is open; empty if it is not saved. may_leave: why no other session can be opened; empty if it can."""
        super().__init__()
        self._preview = Preview()
        self.listing = Listing(self, "Sessions", "Enter resumes · Ctrl+T folder/all · Tab reads · Esc leaves", "type to search", beside=self._preview)
        self._database = database
        self._present = present
        self._project = project
        self._may_leave = may_leave
        self._all = False
        self._answer: Answer | None = None
        self._finder = NewestOnly(self._find, "sessions", _PAUSE)
        self._reader = NewestOnly(self._read, "session-preview", _PAUSE)
        self._shown: tuple[str, str] = "", ""
        """The session in the preview, and the words that are marked in it."""

    def compose(self) -> ComposeResult:
        yield self.listing

    def on_mount(self) -> None:
        self.listing.count("looking…")
        self._finder.ask(self._question, at_once=True)

    def on_unmount(self) -> None:
        self._finder.close()
        self._reader.close()

    @property
    def _question(self) -> Question:
        return Question(self.listing.typed.strip(), None if self._all else self._project)

    def find(self) -> None:
        self._finder.ask(self._question)

    # On threads

    def _find(self, question: Question) -> None:
        problem, found, count, open_now = "", Found([], False, 0), 0, dict[str, Holder]()
        try:
            catch_up(self._database, _CATCH_UP)
            if wanted_words(question.typed):
                found = find_sessions(self._database, question.typed, question.project, limit=SHOWN)
            else:
                found = Found([Hit(row, "") for row in list_sessions(self._database, question.project, limit=SHOWN)], False, 0)
            count = count_sessions(self._database, question.project)
            open_now = held()
        except StoreError as error:
            problem = str(error)
        self.call_later(self._show, Answer(question, found, count, open_now, problem))

    def _read(self, wanted: tuple[Hit, str]) -> None:
        hit, typed = wanted
        try:
            records = preview(self._database, hit.session.id, hit.place)
        except StoreError as error:
            self.call_later(self.listing.say, str(error))
        else:
            self.call_later(self._show_records, hit.session.id, typed, records)

    # The list

    def _show(self, answer: Answer) -> None:
        if is_leaving(self) or answer.question != self._question:
            return
        first = self._answer is None
        self._answer = answer
        present = next((place for place, hit in enumerate(answer.found.hits) if hit.session.id == self._present), 0)
        self.listing.fill(present if first else 0)
        self.listing.count(self._count(answer))
        self.listing.say(answer.problem or answer.found.note)
        if answer.found.behind:
            self._finder.ask(answer.question)

    def _count(self, answer: Answer) -> str:
        shown, scope = len(answer.found.hits), "in all folders" if self._all else "in this folder"
        if answer.found.behind:
            return f"{shown:,} found · {answer.found.behind:,} sessions are still being read"
        if wanted_words(answer.question.typed):
            return f"{'the newest ' if answer.found.more else ''}{shown:,} found {scope}"
        return f"the newest {shown:,} of {answer.count:,} {scope}" if answer.count > shown else f"{shown:,} {scope}"

    def rows(self, typed: str) -> Sequence[Hit]:
        return () if self._answer is None else self._answer.found.hits

    def line(self, row: Hit, width: int) -> Content:
        session = row.session
        elsewhere = self._answer is not None and session.id in self._answer.open_now
        mark = ("● ", "$moon") if session.id == self._present else ("◌ ", "$warning") if elsewhere else "  "
        title = plain(one_line(session.heading)) or "(nothing was entered)"
        when = day(session) if width >= _WIDE else day(session)[:10]
        more = (f"  {Path(session.project).name}  {session.model}  {cost(session)}", "$muted") if width >= _WIDE else ""
        return Content.assemble(mark, (f"{when}  ", "$muted"), title, more)

    def describe(self, row: Hit | None) -> Content:
        if row is None:
            self._shown = "", ""
            self._preview.show([])
            return Content("" if self._answer is None else self._nothing())
        session = row.session
        wanted = row, self.listing.typed
        if self._shown != (session.id, self.listing.typed):
            self._shown = session.id, self.listing.typed
            self._reader.ask(wanted)
        holder = self._answer.open_now.get(session.id) if self._answer is not None else None
        here = "this session" if session.id == self._present else "" if holder is None else f"open: {holder.sentence_part()}"
        parts = (here, session.id, session.project, session.model, cost(session), f"{session.records:,} records", size(session))
        about = " · ".join(plain(one_line(part)) for part in parts if part not in ("", "–"))
        return Content.assemble((about, "$muted"), f"\n{plain(row.excerpt)}" if row.excerpt else "")

    def _nothing(self) -> str:
        if self.listing.typed.strip():
            return "Nothing was found." if self._all else "Nothing was found in this folder's sessions. Ctrl+T searches those of all folders."
        return "There are no saved sessions." if self._all else "There are no saved sessions of this folder. Ctrl+T shows those of all folders."

    def _show_records(self, session: str, typed: str, records: Sequence[Record]) -> None:
        if not is_leaving(self) and self._shown == (session, typed):
            self._preview.show(records, wanted_words(typed))

    # Actions

    def action_scope(self) -> None:
        self._all = not self._all
        self.listing.count("looking…")
        self._finder.ask(self._question, at_once=True)

    def action_take(self) -> None:
        self.take()

    def take(self) -> None:
        hit = self.listing.chosen
        if hit is None or self._answer is None or self._answer.question != self._question:
            return
        holder = self._answer.open_now.get(hit.session.id)
        if hit.session.id == self._present:
            self.listing.say("You are in this session.")
        elif self._may_leave:
            self.listing.say(f"{self._may_leave} mahtab-tui --resume {hit.session.id} opens it.")
        elif holder is not None:
            self.listing.say(f"It is open in {holder.sentence_part()}. Leave it there first, or fork it.")
        else:
            self.dismiss(hit.session.id)
