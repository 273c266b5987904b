"""Sessions whose kernel is on another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.launcher import RemoteLauncher
from mahtab_tui.session import Session, received_texts
from mahtab_tui.session.backend import SessionBackend
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import Lazy
from tests.integration.remote import RemoteMachine
from tests.integration.sessions import Opened, Watched
from tests.waiting import wait_for


@pytest.fixture
def remote_session(project: Path, tmp_path: Path) -> Iterator[Opened]:
    store = Watched()
    kernel = ProcessKernel(launcher=RemoteLauncher(RemoteMachine(tmp_path / "road").address, 0.01))
    backend = SessionBackend(kernel, store, make_kernel=lambda address: ProcessKernel())
    settings = load_settings(model="demo", approval="auto")
    session = Session(settings, Lazy.of(backend), HeadlessFrontend(), name="test")
    session.start()
    yield Opened(session, store)
    session.close()


@pytest.mark.thorough
def test_text_on_another_machine_can_be_searched(remote_session: Opened) -> None:
    code = "text = 'nothing here. ' * 500_000 + 'request 8 timed out'\nprint(rlm('Which requests timed out?', text))"
    assert "request 8 timed out" in remote_session.run(code).text


def test_texts_from_another_machine_are_bounded_together(
    remote_session: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received_texts, "MAX_RECEIVED_CHARS", 100)
    remote_session.run(
        "from mahtab_worker.link.host import Host\n"
        "def send(tree, start, count):\n"
        "    Host.call('rlm_text', {'tree': tree, 'text': 'x' * count, 'start': start})"
    )
    assert remote_session.run("send('aaaaaaaa', 0, 60); send('bbbbbbbb', 0, 40)").text == ""
    # The newest text stays whole, and the oldest is dropped whole.
    assert remote_session.run("send('bbbbbbbb', 40, 30)").text == ""
    assert "was dropped" in remote_session.run("send('aaaaaaaa', 60, 1)").text
    assert remote_session.run("send('bbbbbbbb', 70, 30)").text == ""
    assert "was dropped" in remote_session.run("send('bbbbbbbb', 100, 1)").text


def test_remote_kernel_reaches_nothing_of_this_machine(
    remote_session: Opened, project: Path
) -> None:
    own_file = project / "mine.txt"
    created_file = project / "made"
    own_file.write_text("a secret of this machine")
    texts = {"tree": "00000000", "query": "x", "file": str(own_file), "kind": "text", "about": ""}
    other_arguments = "'options': {}, 'parts': [], 'contexts': [], 'tools': [], 'yes': True"
    program = {"argv": ["touch", str(created_file)], "cwd": "/"}
    codes = {
        f"Host.call('rlm', {{**{texts}, {other_arguments}}})": "The text of this search is unknown",
        "rlm('?', 'x' * 30_000, model='openai:m', base_url='http://127.0.0.1:1')": (
            "another machine may not give base_url"
        ),
        f"Host.call('terminal', {program})": "A program that needs the terminal cannot run on",
    }
    remote_session.run("from mahtab_worker.link.host import Host")
    for code, sentence in codes.items():
        assert sentence in remote_session.run(code).text
    assert own_file.exists()
    assert not created_file.exists()


def test_paths_in_questions_are_local_and_labelled_so(
    remote_session: Opened, project: Path
) -> None:
    (project / "here.txt").write_text("of this machine")
    (chip,) = remote_session.session.attachments.chips("what is in @here.txt")
    assert chip.size == "15 B on this machine"
    (chip,) = remote_session.session.attachments.chips("what is in @there.csv")
    assert chip.size == "no such file on this machine"
    note = "search_code, read_file and attached files are on the user's machine"
    assert note in remote_session.session.agent.surroundings()


def test_moving_the_kernel_updates_the_header(remote_session: Opened) -> None:
    remote_session.run("x = 1")
    host = remote_session.session.kernel.info().host
    remote_session.session.kernel_control.move("")
    wait_for(
        lambda: (
            remote_session.session.kernel.info().host == ""
            and remote_session.session.kernel.info().state == "idle"
        )
    )
    assert "NameError" in remote_session.run("x").text
    reported = [
        record
        for record in remote_session.store.records
        if isinstance(record, records.KernelRecord)
    ]
    assert {record.host for record in reported} == {host, None}
    assert any("Switched to this machine." in record.text for record in reported)
