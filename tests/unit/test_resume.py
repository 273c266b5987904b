"""Resumed sessions: found by the start of their ID, or the last one of a folder or of all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.records import KernelRecord, Record
from mahtab_tui.cli.session_setup import _choose_last_kernel
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.forks import forked_store
from mahtab_tui.store.resume import SessionNotFound, database, find_session, reattach, resumed_store
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import lock_session
from mahtab_tui.store.session_removal import remove_session
from mahtab_tui.store.session_titles import rename_session
from mahtab_tui.store.sqlite import SqliteStore
from tests import tags
from tests.records import made


def save_session(session: str, folder: Path, at: float) -> None:
    store = SqliteStore(database(), session, name="s", project=str(folder))
    store.append(made(tags.USER_CHAT, f"in {session}", {"turn": 1}, at))
    store.close()


def resumed(session: str | None, folder: Path | None = None) -> str:
    store, _, past = resumed_store(find_session(session, folder))
    store.close()
    assert store.claim is not None
    store.claim.release()
    assert past[-1].text.startswith("Conversation restored; variables were not")
    return past[0].text


def test_session_is_found_by_id_prefix_or_as_the_latest(home: Path, tmp_path: Path) -> None:
    own_folder = tmp_path / "here"
    other_folder = tmp_path / "there"
    for session, folder, at in (
        ("abc1", own_folder, 1.0),
        ("abd2", own_folder, 2.0),
        ("e3", other_folder, 3.0),
    ):
        save_session(session, folder, at)
    assert resumed("abd") == "in abd2"
    assert resumed(None) == "in e3"
    assert resumed(None, own_folder) == "in abd2"


def test_session_is_found_by_its_whole_title_unless_an_id_begins_so(
    home: Path, tmp_path: Path
) -> None:
    for session in ("abc1", "abd2", "e3"):
        save_session(session, tmp_path, 1.0)
    rename_session(database(), "abc1", "the prices")
    rename_session(database(), "abd2", "e3")
    assert resumed("the prices") == "in abc1"
    assert resumed("e3") == "in e3"
    with pytest.raises(SessionNotFound, match="There is no session"):
        resumed("the price")
    rename_session(database(), "e3", "the prices")
    with pytest.raises(SessionNotFound, match="There are 2 sessions"):
        resumed("the prices")


@pytest.mark.parametrize(("session", "count"), [("zzz", "is no session"), ("ab", "are 2 sessions")])
def test_ambiguous_or_unknown_session_id_gives_one_sentence(
    home: Path, tmp_path: Path, session: str, count: str
) -> None:
    for session_id in ("abc1", "abd2"):
        save_session(session_id, tmp_path, 1.0)
    with pytest.raises(SessionNotFound, match=f"There {count} whose ID begins with '{session}'"):
        resumed(session)


def save_variables(session: str) -> Path:
    location = save_target(session, 10)
    assert location is not None
    folder = Path(location.folder)
    folder.mkdir(mode=0o700)
    for name in ("index.json", "a.variables"):
        (folder / name).write_bytes(bytes(100))
    return folder


def test_a_session_is_deleted_with_its_variables_but_not_while_it_is_open(
    home: Path, tmp_path: Path
) -> None:
    for session in ("abc1", "xyz2"):
        save_session(session, tmp_path, 1.0)
    folder = save_variables("abc1")
    other_folder = save_variables("xyz2")
    row = find_session("abc1", None)
    lock = lock_session("abc1")
    assert lock is not None
    with pytest.raises(SessionNotFound, match="The session abc1 is open"):
        remove_session(row)
    assert folder.exists()
    lock.release()
    remove_session(row)
    assert [listed.id for listed in list_sessions(database())] == ["xyz2"]
    assert (folder.exists(), other_folder.exists()) == (False, True)


def test_forked_session_keeps_its_variables_when_the_original_is_deleted(
    home: Path, tmp_path: Path
) -> None:
    save_session("abc1", tmp_path, 1.0)
    save_variables("abc1")
    store, _, past = forked_store(find_session("abc1", None), variables=True)
    assert "Conversation restored; variables follow." in [record.text for record in past]
    remove_session(find_session("abc1", None))
    location = save_target(store.session, 10)
    assert location is not None
    names = sorted(path.name for path in Path(location.folder).iterdir())
    assert names == ["a.variables", "index.json"]
    assert Path(location.folder).stat().st_mode & 0o777 == 0o700


def test_one_key_serves_all_sessions_and_only_the_user_can_read_it(home: Path) -> None:
    first_target = save_target("a", 1)
    second_target = save_target("../b", 2)
    assert first_target is not None
    assert second_target is not None
    assert first_target.key == second_target.key
    assert len(bytes.fromhex(first_target.key)) == 32
    above = home / ".mahtab" / "namespaces"
    assert (above.stat().st_mode & 0o777, (above / "key").stat().st_mode & 0o777) == (0o700, 0o600)
    assert Path(second_target.folder).parent == above


@pytest.mark.parametrize(
    ("later", "is_cut"),
    [
        ([], True),
        ([made(tags.ASSISTANT_REPL_IN, "n = 1", {"cell": 1})], True),
        ([made(tags.AGENT, "", {"state": "done", "turn": 1})], False),
        ([made(tags.USER_REPL_IN, "n = 2", {"cell": 1})], False),
    ],
    ids=["thinking", "its cell running", "ended", "another input since"],
)
def test_interrupted_answer_is_reported_as_cut_off(
    home: Path, later: list[Record], is_cut: bool
) -> None:
    store = SqliteStore(database(), "aa", name="a", project="p")
    for record in [
        made(tags.USER_CHAT, "why?", {"turn": 1}),
        made(tags.AGENT, "", {"state": "thinking", "turn": 1}),
        *later,
    ]:
        store.append(record)
    store.close()
    again, _, past = resumed_store(find_session("aa", None))
    for last_record in (past[-1], list(reattach(again, past, 0))[-1]):
        assert last_record.text.endswith("cut off: ask again if you need the rest.") == is_cut
    assert again.claim is not None
    again.claim.release()


@pytest.mark.parametrize(
    ("last_kernel", "kernel", "python", "problem"),
    [
        ({"executable": sys.executable}, None, sys.executable, ""),
        ({"executable": "/gone/python"}, None, None, "interpreter, /gone/python, is gone"),
        (
            {"executable": "/there/python", "host": "there", "address": "ssh://host"},
            "ssh://host",
            None,
            "",
        ),
        ({"executable": "/there/python", "host": "there"}, None, None, ""),
        (
            {"executable": "/there/python", "host": "there", "address": "no address"},
            None,
            None,
            "kernel, no address, is gone",
        ),
    ],
    ids=["interpreter", "gone", "address", "unknown address", "bad address"],
)
def test_session_continues_with_its_kernel(
    last_kernel: dict[str, Any], kernel: str | None, python: str | None, problem: str
) -> None:
    settings, notices = _choose_last_kernel(
        load_settings(),
        [
            KernelRecord("", state="idle", pid=5, **last_kernel),
            KernelRecord("", state="dead", pid=0),
        ],
    )
    assert (settings.kernel, settings.python) == (kernel, python)
    assert problem in notices
    assert bool(problem) == bool(notices)
