"""The exchange that is kept for the next session."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui import ReplAgent, SessionState
from mahtab_tui.store.last_session import LastSessionError, last_session_file, load_last_session, save_last_session
from tests.agents import Desk, words


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


def test_what_is_kept_comes_back() -> None:
    save_last_session("why?", "Because 🌙.")
    last = load_last_session()
    assert last is not None
    assert (last.user, last.assistant) == ("why?", "Because 🌙.")
    kept = json.loads(last_session_file().read_text("utf-8"))
    assert set(kept) == {"timestamp", "user", "assistant"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", kept["timestamp"])
    assert last_session_file() == Path.home() / ".mahtab" / "last_session.json"


def test_only_its_owner_may_read_it_and_nothing_else_is_left() -> None:
    save_last_session("a", "b")
    save_last_session("c", "d")
    assert stat.S_IMODE(last_session_file().stat().st_mode) == 0o600
    assert os.listdir(last_session_file().parent) == ["last_session.json"]


def test_a_text_that_is_no_unicode_is_kept_all_the_same() -> None:
    save_last_session("half \ud800", "x" * 1_000_000)
    last = load_last_session()
    assert last is not None
    assert (last.user, len(last.assistant)) == ("half ?", 20_000)


def test_nothing_kept_is_none() -> None:
    assert load_last_session() is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"user": "a"}', b"\xff\xfe", b'{"user": "a"}' + b" " * 2_000_000])
def test_a_broken_file_is_ignored_with_a_notice(desk: Desk, data: bytes) -> None:
    last_session_file().parent.mkdir()
    last_session_file().write_bytes(data)
    with pytest.raises(LastSessionError):
        load_last_session()
    assert desk.session.load_last_session() is None
    assert "last_session.json" in desk.notices("warning")[0]


def test_a_file_that_cannot_be_written_is_a_notice(desk: Desk) -> None:
    (Path.home() / ".mahtab").write_text("a file where the folder should be")
    desk.session.add_user_message("why?")
    desk.session.save_last_session()
    assert "could not be saved" in desk.notices("warning")[0]


def test_a_session_keeps_its_last_question_and_answer() -> None:
    state = SessionState()
    state.save_last_session()
    assert load_last_session() is None, "nothing was said"
    for number in (1, 2):
        state.add_user_message(f"question {number}")
        state.add_assistant_message(f"answer {number}")
    state.save_last_session()
    last = load_last_session()
    assert last is not None
    assert (last.user, last.assistant) == ("question 2", "answer 2")


def test_it_goes_with_the_next_question_once(desk: Desk) -> None:
    save_last_session("what is df?", "A table </prior-session>.")
    desk.session.load_last_session()
    agent = ReplAgent(desk.host, desk.replay(words("Yes.", repeat=True)))
    agent.ask_sync("and now?")
    agent.ask_sync("and then?")
    first, second = (str(message.text) for message in agent.messages if message.type == "human")
    assert "The user: what is df?\nYou: A table &lt;/prior-session>." in first
    assert "prior-session" not in second
