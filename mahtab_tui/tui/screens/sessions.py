"""The screen of saved sessions."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.export.entries import NothingToExport
from mahtab_tui.session.kernel_control import stop_detached_kernel, summarize_detached_kernels
from mahtab_tui.session.notebooks import export_session
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.sources import project_folder
from mahtab_tui.store.database import Holder, locked_sessions
from mahtab_tui.store.resume import SessionNotFound, database, fork, remove_session
from mahtab_tui.store.session_index import (
    LONGEST_TITLE,
    catch_up,
    cost,
    day,
    preview,
    rename_session,
    size,
)
from mahtab_tui.store.session_search import Found, Hit, find_sessions, wanted_words, words_pattern
from mahtab_tui.store.sqlite import count_sessions, list_sessions
from mahtab_tui.tui.find import PatternTimeout
from mahtab_tui.tui.screens.dialog import Prompt, ask, confirm
from mahtab_tui.tui.screens.help import HelpScreen, help_rows
from mahtab_tui.tui.screens.listing import CURRENT, OTHER, ListScreen
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.transcript.view import TranscriptView
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session

_RETRY_S = 0.05


class PreviewTranscript(TranscriptView):
    """A session's transcript, in which the arrow keys mark an entry."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", "Up", show=False),
        Binding("down", "walk(1)", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "scroll_home", "First", show=False),
        Binding("end", "scroll_end", "Last", show=False),
    ]


class Preview(Container):
    def __init__(self) -> None:
        super().__init__(id="session-preview")
        self.transcript: PreviewTranscript | None = None

    def show(self, records: Sequence[Record], wanted: Sequence[str] = ()) -> None:
        """Show these records, scrolled to the newest match of the words."""
        focused = self.transcript is not None and self.transcript.has_focus
        self.remove_children()
        self.transcript = transcript = PreviewTranscript()
        self.mount(transcript)
        if focused:
            transcript.focus()
        transcript.fold(records)
        if wanted:
            self.call_after_refresh(self._mark, transcript, words_pattern(wanted))

    def _mark(self, transcript: PreviewTranscript, pattern: str) -> None:
        if transcript is not self.transcript:
            return
        if transcript.viewport.window is None:  # it has no size yet
            self.set_timer(_RETRY_S, lambda: self._mark(transcript, pattern))
            return
        transcript.search.begin()
        with suppress(PatternTimeout):
            transcript.find(pattern, 1, regex=True)


MAX_SESSIONS = 100
_WIDE_COLUMNS = 70
_SIZE = len("999 KB")
_TYPING_PAUSE_S = 0.05
_CATCH_UP_S = 0.2
"""Maximum seconds that each search spends on indexing sessions."""


class ListQuery(NamedTuple):
    typed: str
    project: str | None


class ListResult(NamedTuple):
    query: ListQuery
    found: Found = Found([], False)
    total: int = 0
    open_now: Mapping[str, Holder] = {}
    waiting: Mapping[str, str] = {}
    """Descriptions of the kernels without a screen, by session."""
    problem: str = ""


def sessions_screen(session: Session) -> SessionsScreen:
    try:
        project = str(project_folder())
    except SettingsError:
        project = ""
    saved = session.saved_id
    why = "" if saved else "This session is not saved, so leave it first:"
    mask = session.secrets.redact_for_model
    return SessionsScreen(database(), saved, project, switch_problem=why, mask=mask)


class SessionsScreen(ListScreen[str | None, Hit]):
    """Returns the id of the session to open, or None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("f1", "help", "Keys"),
        ("f2", "rename", "Rename"),
        ("f5", "fork", "Copy"),
        ("f6", "export", "Export"),
        ("f7", "stop_kernel", "Stop its kernel"),
        ("f8", "delete", "Delete"),
        ("ctrl+t", "scope", "This folder or all"),
    ]

    heading_text = "Sessions"
    hint = "Enter resume · F2 title · F5 copy · F6 export · F8 delete · ^T all"
    placeholder = "type to search · Tab reads · Esc leaves"

    def __init__(
        self,
        database: Path,
        current: str,
        project: str,
        *,
        switch_problem: str = "",
        mask: Callable[[str], str] = str,
    ) -> None:
        """current: the open session; empty if it is not saved. switch_problem: why no other session
        can be opened; empty if it can. mask: masks secrets in exports."""
        super().__init__()
        self.companion = self._preview = Preview()
        self._database = database
        self._current = current
        self._project = project
        self._switch_problem = switch_problem
        self._mask = mask
        self._all = False
        self._result = ListResult(ListQuery("", "/"), problem="Nothing was read yet.")
        self._detached: Mapping[str, str] = {}
        self._unindexed = 1
        """The number of sessions not yet indexed, as far as known. Changed only by the search
        thread."""
        self._pending_action: Callable[[], None] | None = None
        """The action of a key that waits until the list matches the typed text."""
        self._fetcher = Fetcher(self, at_once=1)
        self._shown: tuple[str, str] = "", ""

    def on_mount(self) -> None:
        self.show_count("looking…")
        self._search()

    @property
    def _query(self) -> ListQuery:
        return ListQuery(self.typed, None if self._all else self._project)

    def find(self) -> None:
        self._pending_action = None
        self._search(_TYPING_PAUSE_S)

    def _search(self, pause: float = 0.0) -> None:
        self._fetcher.ask("sessions", partial(self._find, self._query), self._show, pause=pause)

    def _find(self, query: ListQuery) -> ListResult:
        path, (typed, project) = self._database, query
        try:
            if self._unindexed:
                self._unindexed = catch_up(path, _CATCH_UP_S)
                self._detached = summarize_detached_kernels()
            if wanted_words(typed):
                found = find_sessions(path, typed, project, limit=MAX_SESSIONS)
            else:
                rows = list_sessions(path, project, limit=MAX_SESSIONS)
                found = Found([Hit(row, "") for row in rows], False)
            count, open_now = count_sessions(path, project), locked_sessions()
        except StoreError as error:
            return ListResult(query, problem=str(error))
        return ListResult(query, found, count, open_now, self._detached)

    def _show(self, answer: ListResult) -> None:
        if answer.query != self._query:
            return
        same = self._result.query == answer.query
        chosen = self.chosen.session.id if same and self.chosen is not None else self._current
        self._result = answer
        row = next(
            (row for row, hit in enumerate(answer.found.hits) if hit.session.id == chosen),
            None if same else 0,
        )
        self.fill(row)
        self.show_count(self._count(answer))
        if answer.problem:
            self.show_status(answer.problem)
        act, self._pending_action = self._pending_action, None
        if act is not None:
            act()
        elif self._unindexed and not answer.problem:
            self._search(_TYPING_PAUSE_S)

    def _count(self, answer: ListResult) -> str:
        shown, scope = len(answer.found.hits), "in all folders" if self._all else "in this folder"
        if answer.problem:
            return ""
        if self._unindexed:
            sessions = "session is" if self._unindexed == 1 else "sessions are"
            return f"{shown:,} found · {self._unindexed:,} {sessions} still being read"
        if wanted_words(answer.query.typed):
            return f"{'the newest ' if answer.found.more else ''}{shown:,} found {scope}"
        if answer.total > shown:
            return f"the newest {shown:,} of {answer.total:,} {scope}"
        return f"{shown:,} {scope}"

    def find_rows(self, typed: str) -> Sequence[Hit]:
        return self._result.found.hits

    def line(self, row: Hit, width: int) -> Content:
        session, wide = row.session, width >= _WIDE_COLUMNS
        if session.id == self._current:
            mark = CURRENT
        elif session.id in self._result.open_now:
            mark = ("◌ ", "$warning")
        else:
            mark = ("○ ", "$good") if session.id in self._result.waiting else OTHER
        title = plain(one_line(session.heading)) or "(nothing was entered)"
        when = day(session)
        if not wide:  # if it is another year, show that instead of the time
            when = when[5:] if when[:4] == time.strftime("%Y") else f"{when[:10]} "
        titled = session.title and session.first != session.title
        first = plain(one_line(session.first)) if titled else ""
        facts = [size(session).rjust(_SIZE)]
        if wide and self._all:
            facts = [Path(session.project).name, session.model, cost(session), *facts]
        end = "  ".join(facts)
        room = max(1, width - cell_len(f"{mark[0]}{when}  {end}  ") - 1)
        text = Content.assemble(title, (f"  {first}", "$muted"))
        text = text.truncate(room, ellipsis=True, pad=True)
        return Content.assemble(mark, (f"{when}  ", "$muted"), text, (f"  {end}", "$muted"))

    def describe(self, row: Hit | None) -> Content:
        if row is None:
            self._shown = "", ""
            self._fetcher.forget("preview")
            self._preview.show([])
            return Content("" if self._result.problem else self._empty_text())
        session, typed = row.session, self.typed
        if self._shown != (session.id, typed):
            self._shown = session.id, typed
            self._fetcher.ask(
                "preview",
                partial(preview, self._database, session.id, row.record),
                lambda records: self._preview.show(records, wanted_words(typed)),
                self.show_status,
                pause=_TYPING_PAUSE_S,
            )
        here = "this session" if session.id == self._current else ""
        if not here and (holder := self._holder(row)) is not None:
            here = f"open: {holder.sentence_part()}"
        facts = self._result.waiting.get(session.id, "")
        parts = (
            here,
            f"its kernel: {facts} (F7 stops it)" if facts else "",
            session.id,
            session.project,
            session.model,
            cost(session),
            f"{session.records:,} records",
            size(session),
        )
        about = " · ".join(plain(one_line(part)) for part in parts if part not in ("", "–"))
        return Content.assemble((about, "$muted"), f"\n{plain(row.excerpt)}" if row.excerpt else "")

    def _empty_text(self) -> str:
        if self._all:
            return "Nothing was found." if self.typed else "There are no saved sessions."
        if self.typed:
            return (
                "Nothing was found in this folder's sessions. Ctrl+T searches those of all folders."
            )
        return "There are no saved sessions of this folder. Ctrl+T shows those of all folders."

    # Actions

    def action_scope(self) -> None:
        self._all, self._pending_action = not self._all, None
        self.show_count("looking…")
        self._search()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(help_rows(self.app._keymap, first="Sessions")))

    def take(self) -> None:
        if (hit := self._chosen(self.take)) is None:
            return
        holder = self._holder(hit)
        if hit.session.id == self._current:
            self.show_status("You are in this session.")
        elif holder is not None and not self._switch_problem:
            self.show_status(
                f"It is open: {holder.sentence_part()}. Close it there first, or copy it with F5."
            )
        else:
            self._go_to(hit.session.id)

    def action_rename(self) -> None:
        if (hit := self._chosen(self.action_rename)) is None:
            return

        def named(title: str) -> None:
            masked = self.app.mask(title) if isinstance(self.app, TerminalApp) else title
            self._do(partial(rename_session, self._database, hit.session.id, masked), "")

        ask(self.app, Prompt("Title of the session", hit.session.heading), named)

    def action_delete(self) -> None:
        if (hit := self._chosen(self.action_delete)) is None:
            return
        if hit.session.id == self._current:
            self.show_status("You are in this session: leave it before you delete it.")
            return

        question = f'Delete the session "{one_line(hit.session.heading)[:LONGEST_TITLE]}" and its variables for good?'
        confirm(
            self.app,
            question,
            lambda: self._do(partial(remove_session, hit.session), "Deleted."),
            yes="Delete",
            no="Keep",
        )

    def action_stop_kernel(self) -> None:
        if (hit := self._chosen(self.action_stop_kernel)) is None:
            return
        if hit.session.id not in self._result.waiting:
            self.show_status("This session has no kernel in the background.")
            return
        work = partial(stop_detached_kernel, hit.session.id)
        confirm(
            self.app,
            "Stop the kernel of this session, with the cell that it runs?",
            lambda: self._do(work, ""),
            yes="Stop",
            no="Keep",
        )

    def action_fork(self) -> None:
        """Copy the session; while the preview has the focus, only the part before the marked
        entry."""
        if (hit := self._chosen(self.action_fork)) is None:
            return
        transcript, entry = self._preview.transcript, ""
        if transcript is not None and transcript.has_focus:
            marked = transcript.marker.marked
            if marked is None:
                self.show_status(
                    "Mark a cell, a question or an answer: the copy contains everything before it."
                )
                return
            entry = marked.key

        def copied() -> Callable[[], None]:
            copy = fork(hit.session.id, entry)
            return lambda: self._go_to(copy)

        self._do(copied, "")

    def action_export(self) -> None:
        if (hit := self._chosen(self.action_export)) is None:
            return

        def named(file: str) -> None:
            path = Path(self._project, os.path.expanduser(file))
            self._do(partial(export_session, hit.session, path, self._mask), "")

        ask(
            self.app,
            Prompt("File to write: .ipynb, .py, .md or .html", f"{hit.session.id}.ipynb"),
            named,
        )

    def _chosen(self, act: Callable[[], None]) -> Hit | None:
        """Return the session at the cursor; None if there is none, or if the list does not match
        the typed text yet, in which case `act` is called later."""
        if self._result.query != self._query:
            self._pending_action = self._pending_action or act
            return None
        return self.chosen

    def _holder(self, hit: Hit) -> Holder | None:
        return self._result.open_now.get(hit.session.id)

    def _go_to(self, session: str) -> None:
        if self._switch_problem:
            self.show_status(f"{self._switch_problem} mahtab-tui --resume {session} opens it.")
        else:
            self.dismiss(session)

    def _do(self, work: Callable[[], Callable[[], None] | str | None], outcome: str) -> None:
        """Do something on a thread, and report the outcome. work: may return a function to call on
        the main thread afterwards, or the text to report."""

        def act() -> None:
            then, sentence, style = None, outcome, "$good"
            try:
                returned = work()
                if isinstance(returned, str):
                    sentence = returned
                else:
                    then = returned
            except FileExistsError as error:
                sentence, style = f"{error} Give another name.", "$bad"
            except (StoreError, SessionNotFound, NothingToExport) as error:
                sentence, style = str(error), "$bad"
            except OSError as error:
                file = error.filename or "The file"
                sentence, style = f"{file} cannot be written: {error.strerror}.", "$bad"
            self.call_later(self._done, then, sentence, style)

        threading.Thread(target=act, name="session-action", daemon=True).start()

    def _done(self, then: Callable[[], None] | None, outcome: str, style: str) -> None:
        if is_being_removed(self):
            return
        self._shown, self._unindexed = ("", ""), 1
        self.show_status(outcome, style)
        if then is not None:
            then()
        self._search()
