"""The screen of saved sessions."""

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
from mahtab_tui.session.kernel import stop_detached_kernel, summarize_detached_kernels
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.sources import project_folder
from mahtab_tui.store.database import Holder, locked_sessions
from mahtab_tui.store.resume import SessionNotFound, database, fork, remove_session
from mahtab_tui.store.session_index import (
    LONGEST_TITLE,
    Found,
    Hit,
    catch_up,
    day,
    find_sessions,
    preview,
    rename_session,
    wanted_words,
)
from mahtab_tui.store.sqlite import list_sessions
from mahtab_tui.tui.screens.dialog import Prompt, ask, confirm
from mahtab_tui.tui.screens.listing import CURRENT, OTHER, PAUSE, SearchScreen
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.transcript.view import TranscriptView

if TYPE_CHECKING:
    from mahtab_tui.session import Session


class PreviewTranscript(TranscriptView):
    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "walk(-1)"),
        ("down", "walk(1)"),
        ("pageup", "page_up"),
        ("pagedown", "page_down"),
        ("home", "scroll_home"),
        ("end", "scroll_end"),
    ]


class Preview(Container):
    def __init__(self) -> None:
        super().__init__(id="session-preview")
        self.transcript: PreviewTranscript | None = None

    def show(self, records: Sequence[Record]) -> None:
        focused = self.transcript is not None and self.transcript.has_focus
        self.remove_children()
        self.transcript = transcript = PreviewTranscript()
        self.mount(transcript)
        if focused:
            transcript.focus()
        transcript.fold(records)


MAX_SESSIONS = 100
_CATCH_UP_S = 0.2


class ListResult(NamedTuple):
    found: Found
    open_now: Mapping[str, Holder]
    waiting: Mapping[str, str]


def sessions_screen(session: Session) -> SessionsScreen:
    try:
        project = str(project_folder())
    except SettingsError:
        project = ""
    saved = session.saved_id
    why = "" if saved else "This session is not saved, so leave it first:"
    return SessionsScreen(database(), saved, project, switch_problem=why)


class SessionsScreen(SearchScreen[str | None, Hit]):
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
        """current: empty if it is not saved. switch_problem: why no other session can be opened."""
        super().__init__()
        self.companion = self._preview = Preview()
        self._database = database
        self._current = current
        self._project = project
        self._switch_problem = switch_problem
        self._all = False
        self._result: ListResult
        self._detached: Mapping[str, str] = {}
        self._unindexed = 1
        self._shown: tuple[str, int] | None = None
        """The session and the record in the preview."""

    def on_mount(self) -> None:
        self.show_count("looking…")
        self.find(None, pause=0)

    def search(self, typed: str) -> ListResult:
        path, project = self._database, None if self._all else self._project
        if self._unindexed:
            self._unindexed = catch_up(path, _CATCH_UP_S)
            self._detached = summarize_detached_kernels()
        if wanted_words(typed):
            found = find_sessions(path, typed, project, limit=MAX_SESSIONS)
        else:
            rows = list_sessions(path, project, limit=MAX_SESSIONS + 1)
            hits = [Hit(row, "") for row in rows[:MAX_SESSIONS]]
            found = Found(hits, len(rows) > MAX_SESSIONS)
        return ListResult(found, locked_sessions(), self._detached)

    def show_found(self, found: ListResult, cursor: int | None) -> None:
        if cursor is None:  # stay at the session
            wanted = self._current if self.chosen is None else self.chosen.session.id
            ids = [hit.session.id for hit in found.found.hits]
            cursor = ids.index(wanted) if wanted in ids else None
        self._result = found
        super().show_found(found.found.hits, cursor)
        self.show_count(self._count(found.found))
        if self._unindexed:
            self.call_later(self._index_more)

    def _index_more(self) -> None:
        if not self._searching:
            self.find(None)

    def _count(self, found: Found) -> str:
        shown = f"{len(found.hits):,}"
        if self._unindexed:
            return f"{shown} found · {self._unindexed:,} still being read"
        newest = "the newest " if found.more else ""
        searched = " found" if wanted_words(self.typed) else ""
        return f"{newest}{shown}{searched} {'in all folders' if self._all else 'in this folder'}"

    def line(self, row: Hit, width: int) -> Content:
        session, when = row.session, day(row.session)
        if session.id == self._current:
            mark = CURRENT
        elif session.id in self._result.open_now:
            mark = ("◌ ", "$warning")
        else:
            mark = ("○ ", "$good") if session.id in self._result.waiting else OTHER
        title = plain(one_line(session.heading)) or "(nothing was entered)"
        titled = session.title and session.first != session.title
        first = plain(one_line(session.first)) if titled else ""
        end = f"{session.records:,} records"
        if self._all:
            end = f"{Path(session.project).name}  {end}"
        room = max(1, width - cell_len(f"{mark[0]}{when}  {end}  ") - 1)
        text = Content.assemble(title, (f"  {first}", "$muted"))
        text = text.truncate(room, ellipsis=True, pad=True)
        return Content.assemble(mark, (f"{when}  ", "$muted"), text, (f"  {end}", "$muted"))

    def describe(self, row: Hit | None) -> Content:
        if row is None:
            self._shown = None
            self.fetcher.forget("preview")
            self._preview.show([])
            waits = self._searching or self._unindexed  # also after a failure
            return Content("" if waits else self._empty_text())
        session = row.session
        if self._shown != (session.id, row.record):
            self._shown = session.id, row.record
            read = partial(preview, self._database, session.id, row.record)
            self.fetcher.ask("preview", read, self._preview.show, self.show_status, pause=PAUSE)
        here = "this session" if session.id == self._current else ""
        if not here and (holder := self._holder(row)) is not None:
            here = f"open: {holder.sentence_part()}"
        facts = self._result.waiting.get(session.id, "")
        kernel = f"its kernel: {facts} (F7 stops it)" if facts else ""
        parts = (here, kernel, session.id, session.project)
        about = " · ".join(plain(one_line(part)) for part in parts if part not in ("", "–"))
        return Content.assemble((about, "$muted"), f"\n{plain(row.excerpt)}" if row.excerpt else "")

    def _empty_text(self) -> str:
        what = "Nothing was found" if self.typed else "There are no saved sessions"
        if self._all:
            return f"{what}."
        return f"{what} in this folder. Ctrl+T shows all folders."

    def action_scope(self) -> None:
        self._all = not self._all
        self.show_count("looking…")
        self.find(pause=0)

    def choose(self, row: Hit) -> None:
        holder = self._holder(row)
        if row.session.id == self._current:
            self.show_status("You are in this session.")
        elif holder is not None and not self._switch_problem:
            advice = "Close it there first, or copy it with F5."
            self.show_status(f"It is open: {holder.sentence_part()}. {advice}")
        else:
            self._go_to(row.session.id)

    def rename(self, hit: Hit) -> None:
        def named(title: str) -> None:
            masked = self.app.mask(title) if isinstance(self.app, TerminalApp) else title
            self._do(partial(rename_session, self._database, hit.session.id, masked))

        ask(self.app, Prompt("Title of the session", hit.session.heading), named)

    def delete(self, hit: Hit) -> None:
        if hit.session.id == self._current:
            self.show_status("You are in this session: leave it before you delete it.")
            return
        title = one_line(hit.session.heading)[:LONGEST_TITLE]
        question = f'Delete the session "{title}" and its variables for good?'
        remove = partial(self._do, partial(remove_session, hit.session), "Deleted.")
        confirm(self.app, question, remove, yes="Delete", no="Keep")

    def stop_kernel(self, hit: Hit) -> None:
        if hit.session.id not in self._result.waiting:
            self.show_status("This session has no kernel in the background.")
            return
        question = "Stop the kernel of this session, with the cell that it runs?"
        stop = partial(self._do, partial(stop_detached_kernel, hit.session.id))
        confirm(self.app, question, stop, yes="Stop", no="Keep")

    def fork(self, hit: Hit) -> None:
        """Copy the session; with the focus in the preview, only the part before the marked
        entry."""
        transcript, entry = self._preview.transcript, ""
        if transcript is not None and transcript.has_focus:
            marked = transcript.marker.marked
            if marked is None:
                advice = "Mark a cell, a question or an answer"
                self.show_status(f"{advice}: the copy contains everything before it.")
                return
            entry = marked.key

        def copy() -> None:
            self.call_later(self._go_to, fork(hit.session.id, entry))

        self._do(copy)

    def _holder(self, hit: Hit) -> Holder | None:
        return self._result.open_now.get(hit.session.id)

    def _go_to(self, session: str) -> None:
        if self._switch_problem:
            self.show_status(f"{self._switch_problem} mahtab-tui --resume {session} opens it.")
        else:
            self.dismiss(session)

    def _do(self, work: Callable[[], str | None], outcome: str = "") -> None:
        """Work on a thread, and report its outcome: what it returns, or the given one."""

        def act() -> None:
            sentence, style = outcome, "$good"
            try:
                sentence = work() or outcome
            except (StoreError, SessionNotFound) as error:
                sentence, style = str(error), "$bad"
            self.call_later(self._done, sentence, style)

        threading.Thread(target=act, name="session-action", daemon=True).start()

    def _done(self, outcome: str, style: str) -> None:
        if not is_being_removed(self):
            self._shown, self._unindexed = None, 1
            self.show_status(outcome, style)
            self.find(None, pause=0)
