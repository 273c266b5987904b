"""Which session is resumed: by the beginning of its ID, or the last one of a folder or of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.store.resume import NoSession, database, find_session, resumed_store
from mahtab_tui.store.sqlite import SqliteStore
from tests.records import made


def said(session: str, folder: Path, at: float) -> None:
    """A session in which one thing was said."""
    store = SqliteStore(database(), session, name="s", project=str(folder))
    store.append(made(tags.USER_CHAT, f"in {session}", {"turn": 1}, at))
    store.close()


def resumed(session: str | None, folder: Path | None = None) -> str:
    """What was said first in the session that is resumed."""
    store, _, past = resumed_store(find_session(session, folder))
    store.close()
    assert store.claim is not None
    store.claim.release()
    assert past[-1].text.startswith("The conversation is back, the namespace is not")
    return past[0].text


def test_it_is_found_by_the_beginning_of_its_id_or_as_the_last_one(home: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for session, folder, at in (("abc1", here, 1.0), ("abd2", here, 2.0), ("e3", there, 3.0)):
        said(session, folder, at)
    assert resumed("abd") == "in abd2"
    assert resumed(None) == "in e3"
    assert resumed(None, here) == "in abd2"


@pytest.mark.parametrize(("session", "count"), [("zzz", "no session"), ("ab", "2 sessions")])
def test_one_that_is_not_told_apart_is_a_sentence(home: Path, tmp_path: Path, session: str, count: str) -> None:
    for each in ("abc1", "abd2"):
        said(each, tmp_path, 1.0)
    with pytest.raises(NoSession, match=f"There is {count} whose ID begins with '{session}'"):
        resumed(session)


def test_before_there_is_any_that_is_said(home: Path) -> None:
    with pytest.raises(NoSession, match="There is no session to resume"):
        resumed("abc")
