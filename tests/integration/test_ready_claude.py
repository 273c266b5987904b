"""A session has its model ready before the question."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui import create_repl_agent
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.agents import Desk
from tests.fake_claude import FakeClaude, install_fake_claude
from tests.integration.sessions import Opened, Watched
from tests.waiting import wait_for


@pytest.fixture
def fake(project: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClaude:
    fake = install_fake_claude(project / "bin", "answers", answers=["One.", "Two."])
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    return fake


def test_process_starts_while_a_question_is_typed_and_answers_it(fake: FakeClaude) -> None:
    store = Watched()
    it = Opened(
        Session(
            load_settings(model="claude", reflection="never"),
            ProcessKernel(),
            HeadlessFrontend(),
            store=store,
        ),
        store,
    )
    it.session.start()
    try:
        it.session.agent.warm_up()
        wait_for(lambda: fake.starts)
        assert fake.prompts == []
        it.session.agent.warm_up()
        for turn, question in enumerate(("first?", "second?"), 1):
            it.session.submit("ask", question)
            it.store.wait(tags.ASSISTANT_CHAT, turn=turn)
        assert len(fake.starts) == 1
        os.kill(fake.starts[0]["pid"], 9)
        wait_for(lambda: not _runs(fake.starts[0]["pid"]))
        it.session.agent.warm_up()
        wait_for(lambda: len(fake.starts) == 2)
    finally:
        it.session.close()


def test_process_for_the_check_is_prestarted_if_checks_are_on(fake: FakeClaude) -> None:
    store = Watched()
    session = Session(
        load_settings(model="claude", reflection="always"),
        ProcessKernel(),
        HeadlessFrontend(),
        store=store,
    )
    session.start()
    try:
        session.agent.warm_up()
        wait_for(lambda: len(fake.starts) == 2)
        assert ["--effort" in start["argv"] for start in fake.starts].count(True) == 1
    finally:
        session.close()
    assert not any(_runs(start["pid"]) for start in fake.starts)


def test_no_check_process_is_prestarted_without_checks(fake: FakeClaude, project: Path) -> None:
    desk = Desk(project)
    agent = create_repl_agent(desk.session, "claude", reflection="always")
    try:
        agent.prepare()
        wait_for(lambda: len(fake.starts) == 2)
        agent.configure(5, "never", None, 10)
        (check,) = (start["pid"] for start in fake.starts if "--effort" in start["argv"])
        wait_for(lambda: not _runs(check))
    finally:
        agent.close()
        desk.session.close()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
