"""The components of a session."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from mahtab_tui.bus.display_handler import DisplayHandler
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import (
    AssistantReplIn,
    AssistantReplOut,
    Namespace,
    Notice,
    Record,
    ReplOut,
    Undo,
    UserReplIn,
    UserReplOut,
)
from mahtab_tui.bus.values import Change, ChangeKind
from mahtab_tui.kernel.detached import save_last_output
from mahtab_tui.kernel.holder_connection import sockets_folder
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.session.cell_records import last_changes
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.open_session import index_sessions
from mahtab_tui.session.recovered_cells import add_recovered_output
from mahtab_tui.session.running_sessions import remove_leftovers, share_folder
from mahtab_tui.session.session import Session
from mahtab_tui.session.variable_history import VariableHistory
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.resume import database, find_session, new_store, resumed_store
from mahtab_tui.store.session_lock import lock_session
from mahtab_tui.store.session_removal import remove_session
from tests.unit.sqlite_sessions import HOLD

# Leftovers of programs that were killed are removed; files in use are not.


class WatchedChanges(tuple[Change, ...]):
    """Changes that note when somebody goes through them."""

    __slots__ = ()
    readers: ClassVar[list[str]] = []

    def __iter__(self) -> Iterator[Change]:
        self.readers.append(threading.current_thread().name)
        return super().__iter__()


def test_building_a_resumed_session_goes_through_no_changes() -> None:
    changes = WatchedChanges([Change("x", "added", None, None)])
    past = [UserReplIn("x = 1", cell=1), Namespace(changes=changes, cell=1)]
    session = Session(
        load_settings(model="demo"), InProcessKernel({}), HeadlessFrontend(), name="x", past=past
    )
    WatchedChanges.readers.clear()
    session.build()
    assert WatchedChanges.readers == []
    session.agent.stale_outputs.catch_up()
    assert WatchedChanges.readers
    session.close()


def test_locks_and_sockets_are_removed_with_their_program(home: Path) -> None:
    mine = lock_session("mine")
    assert mine is not None
    with (
        subprocess.Popen(
            [sys.executable, "-c", HOLD, "other"], stdout=subprocess.PIPE
        ) as other_program,
        socket.socket(socket.AF_UNIX) as abandoned_socket,
    ):
        assert other_program.stdout is not None
        assert other_program.stdout.readline() == b"locked\n"
        abandoned_socket.bind(str(share_folder() / "1.sock"))
        locks = home / ".mahtab" / "open"
        remove_leftovers()
        names = sorted(path.name for path in locks.iterdir())
        assert names == ["session-mine.lock", "session-other.lock"]
        assert list(share_folder().iterdir()) == []
        other_program.kill()
    remove_leftovers()
    assert [path.name for path in locks.iterdir()] == ["session-mine.lock"]
    mine.release()


def test_damaged_store_is_reported_to_screen_and_watchers_whoever_finds_it(
    home: Path, project: Path
) -> None:
    path = home / ".mahtab" / "sessions.db"
    path.parent.mkdir()
    path.write_bytes(b"this is no database, it only says so" * 1000)
    session = Session(load_settings(model="demo"), InProcessKernel({}), HeadlessFrontend())
    screen = DisplayHandler()
    session.listen(lambda log: log.addHandler(screen))
    session.build()
    index_sessions(session)
    (notice,) = screen.pop_records()
    assert "was damaged" in notice.text
    assert not path.exists()
    assert session.broadcast.watch().get_nowait() == notice
    session.close()


# Variables of a reattached kernel, from the records of its session.


def record(
    cell: int, party: str, *changes: tuple[str, ChangeKind], fresh: bool = False
) -> Namespace:
    change_records = tuple(Change(name, change, None) for name, change in changes)
    return Namespace(cell=cell, party=party, changes=change_records, fresh=fresh)


def test_last_cell_that_bound_a_name_is_its_author() -> None:
    first_record = record(1, "you", ("a", "added"), ("b", "added"), ("c", "added"))
    second_record = record(2, "claude", ("a", "rebound"), ("b", "perhaps"), ("c", "deleted"))
    assert last_changes([first_record, second_record]) == {"a": second_record, "b": first_record}


def test_names_of_an_earlier_kernel_have_no_author_unless_it_was_only_detached() -> None:
    old = record(1, "you", ("a", "added"))
    start = record(0, "you", ("b", "added"), fresh=True)
    assert last_changes([old, start]) == {}
    assert last_changes([start, record(2, "you", ("b", "changed"))]).keys() == {"b"}
    detached = record(1, "you", fresh=True)
    assert last_changes([old, detached]) == {"a": old}
    assert last_changes([old, detached, record(2, "you", ("b", "added"))]).keys() == {"b"}


# Output of a cell whose kernel ended without a screen, as a record of its session.


def resumed(project: Path, started: Record, printed: str) -> tuple[str, list[Record], list[Record]]:
    """Resume twice a session whose screen was killed in a cell and whose kernel then ended."""
    store, _, _ = new_store(project)
    store.append(started)
    store.partial("cell", UserReplOut("beg", cell=3, cut=True, time=time.time()))
    store.close()
    assert store.claim is not None
    store.claim.release()
    save_last_output(store.session, "abc", 3, [b"begun \x1b[31mred\x1b[0m\n", printed.encode()])
    recovered = []
    for _ in range(2):
        again, _, past = resumed_store(find_session(store.session, None))
        recovered.append(add_recovered_output(again, past, Secrets(lambda: ["hunter22"])))
        again.close()
        assert again.claim is not None
        again.claim.release()
    return store.session, recovered[0], recovered[1]


def outputs(records: list[Record]) -> list[ReplOut]:
    return [record for record in records if isinstance(record, ReplOut)]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("by_user", [True, False])
def test_full_output_replaces_the_stored_part(project: Path, by_user: bool) -> None:
    begin = UserReplIn if by_user else AssistantReplIn
    started = begin("work()", cell=3, party="you", time=time.time())
    for records in resumed(project, started, "my key is hunter22\nend")[1:]:
        (output,) = outputs(records)
        assert isinstance(output, UserReplOut if by_user else AssistantReplOut)
        assert "hunter22" not in output.text
        assert output.text.startswith("begun")
        assert output.text.endswith("\nend")
        assert (output.cell, output.status, output.cut) == (3, "died", False)
        notice = next(record.text for record in records if isinstance(record, Notice))
        assert notice == "The kernel ended in cell 3 while no screen was open."
    assert list(sockets_folder().iterdir()) == []


@pytest.mark.usefixtures("home")
def test_output_of_an_unknown_cell_is_dropped(project: Path) -> None:
    _, first, _ = resumed(project, UserReplIn("work()", cell=4, party="you", time=time.time()), "")
    assert [output.text for output in outputs(first)] == ["beg"]
    assert list(sockets_folder().iterdir()) == []


@pytest.mark.usefixtures("home")
def test_recovered_output_is_deleted_with_its_session(project: Path) -> None:
    started = UserReplIn("work()", cell=3, party="you", time=time.time())
    session, _, _ = resumed(project, started, "")
    save_last_output(session, "def", 9, [b"more"])
    remove_session(find_session(session, None))
    assert list(sockets_folder().iterdir()) == []
    assert database().exists()


def test_cells_that_gave_a_variable_its_value_come_in_order() -> None:
    def cell(number: int, code: str, change: ChangeKind) -> list[Record]:
        return [UserReplIn(code, cell=number), record(number, "you", ("v", change))]

    past_records = [
        *cell(1, "v = 0", "added"),
        *cell(2, "v = []", "rebound"),
        *cell(3, "f(v)", "perhaps"),
    ]
    past_records += [UserReplIn("print(v)", cell=4), *cell(5, "v = 1", "rebound")]
    undone = Undo("", cells=(5,), undone=True)
    assert (
        VariableHistory([*past_records, undone]).code_for("v")
        == "# cell 2\nv = []\n\n# cell 3\nf(v)"
    )
    assert VariableHistory(past_records).code_for("v") == "# cell 5\nv = 1"
    assert VariableHistory(past_records).code_for("w") == ""


def test_first_change_of_a_name_of_the_callers_program_says_what_it_was(
    home: Path, project: Path
) -> None:
    kernel = InProcessKernel({"numbers": [1, 2]})
    session = Session(load_settings(model="demo"), kernel, HeadlessFrontend())
    screen = DisplayHandler()
    session.listen(lambda log: log.addHandler(screen))
    session.cell_thread.start()
    session.ready.result()
    session.cells.run("numbers.append(3)")
    session.close()
    namespaces = [record for record in screen.pop_records() if isinstance(record, Namespace)]
    (change,) = next(record.changes for record in namespaces if record.cell == 1)
    assert change.before is not None
    assert change.variable is not None
    assert (change.before.summary, change.variable.summary) == ("2 items", "3 items")
