"""Saved sessions on the command line: listed, searched and renamed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from mahtab_tui.cli.printing import fail, say

if TYPE_CHECKING:
    from mahtab_tui.store.sqlite import SessionRow

_CATCH_UP = 0.3
"""Seconds for which a command reads sessions into the index at most, before it answers."""


def saved_sessions(project: Path | None, limit: int) -> Iterator[str]:
    """Return a line for each saved session, the newest first, and one about those beyond the limit."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.store.claim import held
    from mahtab_tui.store.digest import catch_up
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.sqlite import count_sessions, list_sessions

    folder = None if project is None else str(project)
    try:
        catch_up(database(), _CATCH_UP)
        rows = list_sessions(database(), folder, limit=limit)
        count = count_sessions(database(), folder)
    except StoreError as error:
        yield str(error)
        return
    if not rows:
        yield "No sessions yet." if project is None else "No sessions in this folder yet. --all lists those of every folder."
    open_now = held()
    for row in rows:
        holder = open_now.get(row.id)
        yield _line(row) + ("" if holder is None else f"  (open: {holder.sentence_part()})")
    if count > len(rows):
        yield f"{count - len(rows):,} older ones are not listed: --limit {count} lists all."


def _line(row: SessionRow) -> str:
    from mahtab_tui.bus.sanitize import one_line
    from mahtab_tui.store.describing import cost, day, size

    about = f"{row.records:>6} records  {size(row):>6}  {row.model or '–':<8}  {cost(row):>6}"
    return one_line(f"{row.id}  {day(row)}  {about}  {row.name}  {row.heading}")


def print_hits(typed: str, project: Path | None, limit: int) -> None:
    """Print the sessions that were found; ends the command with exit code 1 if there are none."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.bus.sanitize import one_line
    from mahtab_tui.store.digest import catch_up
    from mahtab_tui.store.finding import find_sessions, wanted_words
    from mahtab_tui.store.resume import database

    if not wanted_words(typed):
        fail("A search needs a word: letters or digits.")
    try:
        behind = catch_up(database(), _CATCH_UP)
        found = find_sessions(database(), typed, None if project is None else str(project), limit=limit)
    except StoreError as error:
        fail(str(error), 1)
    for hit in found.hits:
        say(_line(hit.session))
        if hit.excerpt:
            say(f"          {one_line(hit.excerpt)}")
    if found.more:
        say("There are more: add words, or give a larger --limit.")
    if behind:
        what = "1 session is" if behind == 1 else f"{behind:,} sessions are"
        say(f"{what} not in the index yet, so not all of what was said was searched. Search again later.")
    if found.note:
        say(found.note)
    if not found.hits:
        fail("Nothing was found." if project is None else "Nothing was found in this folder's sessions. --all searches those of every folder.", 1)


def give_title(session: str, title: str) -> None:
    """Give a session another title; ends the command with exit code 1 if that fails."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.store.digest import rename_session, title_of
    from mahtab_tui.store.resume import NoSession, database, find_session

    if not title_of(title):
        fail("A title needs at least one letter.")
    try:
        row = find_session(session, None)
        rename_session(database(), row.id, title)
    except (NoSession, StoreError) as error:
        fail(str(error), 1)
    say(f"The session {row.id} is now called: {title_of(title)}")


def write_file(session: str, file: Path, *, over: bool) -> None:
    """Write a session into a file; ends the command with exit code 1 if that fails."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.store.resume import NoSession, database, find_session
    from mahtab_tui.store.session_file import write_session

    try:
        say(write_session(database(), find_session(session, None), file, over=over))
    except (NoSession, StoreError) as error:
        fail(str(error), 1)
    except FileExistsError:
        fail(f"{file} is there already. --force replaces it.", 1)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}.", 1)


def read_file(file: Path) -> None:
    """Make a session of a file; ends the command with exit code 1 if that fails."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.store.importing import import_session
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_file import BadSessionFile

    try:
        made = import_session(database(), file, str(Path.cwd()))
    except (BadSessionFile, StoreError) as error:
        fail(str(error), 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.", 1)
    unknown = f" Left out: {made.unknown:,} that only a newer version of mahtab-tui knows." if made.unknown else ""
    say(
        f"Imported {made.records:,} record{'s' * (made.records != 1)} as the session {made.session}{f': {made.title}' if made.title else ''}.{unknown}"
    )
    say(f"mahtab-tui --resume {made.session} opens it; none of its variables came with it.")


def play(what: str, speed: float) -> NoReturn:
    """Show a session again, and open the new one if the user goes on from there."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.store.replaying import replayed
    from mahtab_tui.store.resume import NoSession
    from mahtab_tui.store.session_file import BadSessionFile
    from mahtab_tui.tui.open import NoTerminal, replay_session

    try:
        code, session = replay_session(replayed(what, Path.cwd()), speed)
    except (NoSession, NoTerminal, StoreError, BadSessionFile) as error:
        fail(str(error), 1)
    except OSError as error:
        fail(f"{what} cannot be read: {error.strerror}.", 1)
    if session:
        # Another process, as nothing of the replay is of use to it. -P: a file of the folder cannot take the program's place.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "mahtab_tui", "--resume", session])
    raise typer.Exit(code)
