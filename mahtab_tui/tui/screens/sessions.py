"""The screen of saved sessions: search in them, look at one, and resume, copy, rename or delete it.

All that reads the database runs on threads, so that keys act at once however many sessions there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.session.background_kernels import stop_detached_kernel, summarize_detached_kernels
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.store.forks import fork
from mahtab_tui.store.resume import SessionNotFound, database
from mahtab_tui.store.session_index import (
    SessionHit,
    SessionHits,
    find_sessions,
    wanted_words,
)
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import LockHolder, locked_sessions
from mahtab_tui.store.session_preview import preview_records
from mahtab_tui.store.session_removal import remove_session
from mahtab_tui.store.session_titles import MAX_TITLE_CHARS, rename_session
from mahtab_tui.store.session_words import catch_up
from mahtab_tui.tui.screens.dialog import Prompt, ask, confirm
from mahtab_tui.tui.screens.listing import CURRENT_MARK, NO_MARK, SEARCH_DELAY_S, SearchScreen
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.transcript.view import TranscriptView

if TYPE_CHECKING:
    from mahtab_tui.session import Session


MAX_SESSIONS = 100
"""The list has at most this many sessions."""
INDEXING_TIMEOUT_S = 0.2
"""How long a search may index new records, so that results come while much is still to read."""


class PreviewTranscript(TranscriptView):
    """A transcript in which the arrow keys move the mark, as there is no editor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "walk(-1)"),
        ("down", "walk(1)"),
        ("pageup", "page_up"),
        ("pagedown", "page_down"),
        ("home", "scroll_home"),
        ("end", "scroll_end"),
    ]


class Preview(Container):
    """Shows the end of a session, or its part around a hit."""

    def __init__(self) -> None:
        super().__init__(id="session-preview")
        self.transcript: PreviewTranscript | None = None

    def show(self, records: Sequence[Record]) -> None:
        had_focus = self.transcript is not None and self.transcript.has_focus
        self.remove_children()
        self.transcript = transcript = PreviewTranscript()
        self.mount(transcript)
        if had_focus:
            transcript.focus()
        transcript.fold(records)


class ListResult(NamedTuple):
    """Sessions, and where they are open."""

    listing: SessionHits
    holders: Mapping[str, LockHolder]
    """The processes that have a session open, by its id."""
    detached: Mapping[str, str]
    """What the kernels that wait in the background do, by the id of their session."""


def sessions_screen(session: Session) -> SessionsScreen:
    """Return the screen for a running session.

    It does not switch to another session if this one is not saved, because its variables and its
    conversation would be lost.
    """
    try:
        project = str(project_folder())
    except SettingsError:
        project = ""
    saved = session.saved_id
    problem = "" if saved else "This session is not saved, so leave it first:"
    return SessionsScreen(database(), saved, project, switch_problem=problem)


class SessionsScreen(SearchScreen[str | None, SessionHit, ListResult]):
    """Lists saved sessions, searches in them, and acts on the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("f2", "act('rename')", "Rename"),
        ("f5", "act('fork')", "Copy"),
        ("f7", "act('stop_kernel')", "Stop its kernel"),
        ("f8", "act('delete')", "Delete"),
        ("ctrl+t", "scope", "This folder or all"),
    ]

    heading_text = "Sessions"
    hint = "Enter resume · F2 title · F5 copy · F8 delete · ^T all"
    placeholder = "type to search · Tab reads · Esc leaves"

    def __init__(
        self, database: Path, current: str, project: str, *, switch_problem: str = ""
    ) -> None:
        """
        Args:
            database: The database of all sessions.
            current: The id of the running session; empty if it is not saved.
            project: The folder of the project; empty if it was deleted.
            switch_problem: Why no other session can be opened; empty if it can.
        """
        super().__init__()
        self.companion = self._preview = Preview()
        self._database = database
        self._current = current
        self._project = project
        self._switch_problem = switch_problem
        self._all_projects = False
        """Whether sessions of other folders are listed."""
        self._result: ListResult
        """What is in the list; set before anything is drawn of it."""
        self._detached: Mapping[str, str] = {}
        """What detached kernels do; see `ListResult`."""
        self._unindexed = 1
        """Records that the search does not cover yet; at first unknown, but not 0."""
        self._previewed: tuple[str, int] | None = None
        """The session and the record in the preview."""

    def on_mount(self) -> None:
        self.show_count("looking…")
        self.find(None, pause=0)

    # Searching

    def search(self, query: str) -> ListResult:
        path = self._database
        project = None if self._all_projects else self._project
        if self._unindexed:
            self._unindexed = catch_up(path, INDEXING_TIMEOUT_S)
            self._detached = summarize_detached_kernels()
        if wanted_words(query):
            listing = find_sessions(path, query, project, limit=MAX_SESSIONS)
        else:
            # One more than are listed, to know whether there are more.
            rows = list_sessions(path, project, limit=MAX_SESSIONS + 1)
            hits = [SessionHit(row, "") for row in rows[:MAX_SESSIONS]]
            listing = SessionHits(hits, len(rows) > MAX_SESSIONS)
        return ListResult(listing, locked_sessions(), self._detached)

    def show_results(self, results: ListResult, cursor: int | None) -> None:
        hits = results.listing.hits
        if cursor is None:
            # Keep the cursor at the same session, wherever it is now.
            session_id = self._current if self.chosen is None else self.chosen.session.id
            ids = [hit.session.id for hit in hits]
            if session_id in ids:
                cursor = ids.index(session_id)
        self._result = results
        self.hits = hits
        self.fill(cursor)
        self.show_count(self._count(results.listing))
        if self._unindexed:
            self.call_later(self._index_more)

    def _index_more(self) -> None:
        """Search again, which covers more records, unless the user searches for something else."""
        if not self.is_searching:
            self.find(None)

    def _count(self, listing: SessionHits) -> str:
        """Return what stands above the list, such as ``the newest 100 in this folder``."""
        count = f"{len(listing.hits):,}"
        if self._unindexed:
            return f"{count} found · {self._unindexed:,} still being read"
        if wanted_words(self.typed):
            count += " found"
        if listing.more:
            count = f"the newest {count}"
        scope = "in all folders" if self._all_projects else "in this folder"
        return f"{count} {scope}"

    # Drawing

    def line(self, row: SessionHit, width: int) -> Content:
        session = row.session
        mark = self._mark(session.id)
        date = session.last_use_date
        # A session with a title of its own shows its first input, too.
        title = plain(one_line(session.heading)) or "(nothing was entered)"
        first_input = ""
        if session.title and session.first != session.title:
            first_input = plain(one_line(session.first))
        size = f"{session.records:,} records"
        if self._all_projects:
            size = f"{Path(session.project).name}  {size}"

        fixed_width = cell_len(f"{mark[0]}{date}  {size}  ") + 1
        text = Content.assemble(title, (f"  {first_input}", "$muted"))
        text = text.truncate(max(1, width - fixed_width), ellipsis=True, pad=True)
        return Content.assemble(mark, (f"{date}  ", "$muted"), text, (f"  {size}", "$muted"))

    def _mark(self, session_id: str) -> tuple[str, str]:
        """Return what stands before a session, and its style: whether it is open, or has a kernel."""
        if session_id == self._current:
            return CURRENT_MARK
        if session_id in self._result.holders:
            return "◌ ", "$warning"
        if session_id in self._result.detached:
            return "○ ", "$good"
        return NO_MARK

    def describe(self, row: SessionHit | None) -> Content:
        if row is None:
            self._previewed = None
            self.fetcher.forget("preview")
            self._preview.show([])
            # Also after a failure, whose sentence stands below.
            is_pending = self.is_searching or self._unindexed
            return Content("" if is_pending else self._empty_text())
        self._show_preview(row)
        excerpt = f"\n{plain(row.excerpt)}" if row.excerpt else ""
        return Content.assemble((self._facts(row), "$muted"), excerpt)

    def _show_preview(self, row: SessionHit) -> None:
        """Show the session beside the list, once the cursor stays on it for a moment."""
        session = row.session
        if self._previewed == (session.id, row.record):
            return
        self._previewed = (session.id, row.record)
        read = partial(preview_records, self._database, session.id, row.record)
        self.fetcher.run(
            "preview", read, self._preview.show, self.show_status, delay_s=SEARCH_DELAY_S
        )

    def _facts(self, row: SessionHit) -> str:
        """Return where a session is open, what its kernel does, its id and its folder."""
        session = row.session
        facts = []
        holder = self._holder(row)
        if session.id == self._current:
            facts.append("this session")
        elif holder is not None:
            facts.append(f"open: {holder.sentence_part()}")
        kernel_activity = self._result.detached.get(session.id, "")
        if kernel_activity:
            facts.append(f"its kernel: {kernel_activity} (F7 stops it)")
        facts += [session.id, session.project]
        return " · ".join(plain(one_line(fact)) for fact in facts if fact not in ("", "–"))

    def _empty_text(self) -> str:
        sentence = "Nothing was found" if self.typed else "There are no saved sessions"
        if self._all_projects:
            return f"{sentence}."
        return f"{sentence} in this folder. Ctrl+T shows all folders."

    # Actions

    def action_scope(self) -> None:
        """Change between the sessions of this folder and those of all."""
        self._all_projects = not self._all_projects
        self.show_count("looking…")
        self.find(pause=0)

    def choose(self, row: SessionHit) -> None:
        holder = self._holder(row)
        if row.session.id == self._current:
            self.show_status("You are in this session.")
        elif holder is not None and not self._switch_problem:
            advice = "Close it there first, or copy it with F5."
            self.show_status(f"It is open: {holder.sentence_part()}. {advice}")
        else:
            self._go_to(row.session.id)

    def rename(self, hit: SessionHit) -> None:
        """Let the user give the session a title."""

        def set_title(title: str) -> None:
            if isinstance(self.app, TerminalApp):
                title = self.app.mask(title)
            self._start(partial(rename_session, self._database, hit.session.id, title))

        ask(self.app, Prompt("Title of the session", hit.session.heading), set_title)

    def delete(self, hit: SessionHit) -> None:
        """Delete the session, after a question."""
        if hit.session.id == self._current:
            self.show_status("You are in this session: leave it before you delete it.")
            return
        title = one_line(hit.session.heading)[:MAX_TITLE_CHARS]
        question = f'Delete the session "{title}" and its variables for good?'
        remove = partial(self._start, partial(remove_session, hit.session), "Deleted.")
        confirm(self.app, question, remove, yes="Delete", no="Keep")

    def stop_kernel(self, hit: SessionHit) -> None:
        """End the kernel that the session has left in the background, after a question."""
        if hit.session.id not in self._result.detached:
            self.show_status("This session has no kernel in the background.")
            return
        question = "Stop the kernel of this session, with the cell that it runs?"
        stop = partial(self._start, partial(stop_detached_kernel, hit.session.id))
        confirm(self.app, question, stop, yes="Stop", no="Keep")

    def fork(self, hit: SessionHit) -> None:
        """Copy the session, and switch to the copy.

        With the focus in the preview, only the part before the marked entry is copied.
        """
        transcript = self._preview.transcript
        entry = ""
        if transcript is not None and transcript.has_focus:
            marked = transcript.marker.marked
            if marked is None:
                advice = "Mark a cell, a question or an answer"
                self.show_status(f"{advice}: the copy contains everything before it.")
                return
            entry = marked.key

        def copy() -> None:
            self.call_later(self._go_to, fork(hit.session.id, entry))

        self._start(copy)

    def _holder(self, hit: SessionHit) -> LockHolder | None:
        return self._result.holders.get(hit.session.id)

    def _go_to(self, session: str) -> None:
        if self._switch_problem:
            self.show_status(f"{self._switch_problem} mahtab-tui --resume {session} opens it.")
        else:
            self.dismiss(session)

    def _start(self, work: Callable[[], str | None], outcome: str = "") -> None:
        """Work on a thread, and tell the user what came of it.

        Args:
            work: Returns a sentence for the user, or nothing. May raise `StoreError` and
                `SessionNotFound`.
            outcome: The sentence if it returns nothing.
        """

        def act() -> None:
            style = "$good"
            try:
                sentence = work() or outcome
            except (StoreError, SessionNotFound) as error:
                sentence = str(error)
                style = "$bad"
            self.call_later(self._show_outcome, sentence, style)

        threading.Thread(target=act, name="session-action", daemon=True).start()

    def _show_outcome(self, outcome: str, style: str) -> None:
        if is_being_removed(self):
            return
        # The session may have changed, and so may what the search covers.
        self._previewed = None
        self._unindexed = 1
        self.show_status(outcome, style)
        self.find(None, pause=0)
