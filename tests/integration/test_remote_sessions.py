"""Sessions whose kernel is on another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.process import RemoteLauncher
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend, SessionBackend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import Lazy
from tests.integration.remote import Road
from tests.integration.sessions import Opened, Watched
from tests.waiting import wait_for


@pytest.fixture
def far(project: Path, tmp_path: Path) -> Iterator[Opened]:
    store = Watched()
    kernel = ProcessKernel(launcher=RemoteLauncher(Road(tmp_path / "road").address, 0.01))
    backend = SessionBackend(kernel, store, make_kernel=lambda address: ProcessKernel())
    settings = load_settings(model="demo", approval="auto")
    session = Session(settings, Lazy.of(backend), HeadlessFrontend(), name="test")
    session.start()
    yield Opened(session, store)
    session.close()


def test_text_on_another_machine_can_be_searched(far: Opened) -> None:
    code = "text = 'nothing here. ' * 500_000 + 'request 8 timed out'\nprint(rlm('Which requests timed out?', text))"
    assert "request 8 timed out" in far.run(code).text


def test_remote_kernel_reaches_nothing_of_this_machine(far: Opened, project: Path) -> None:
    mine, made = project / "mine.txt", project / "made"
    mine.write_text("a secret of this machine")
    texts = {"tree": "00000000", "query": "x", "file": str(mine), "kind": "text", "about": ""}
    rest = "'options': {}, 'parts': [], 'contexts': [], 'tools': [], 'yes': True"
    program = {"argv": ["touch", str(made)], "cwd": "/"}
    codes = {
        f"Host.call('rlm', {{**{texts}, {rest}}})": "The text of this search is unknown",
        "rlm('?', 'x' * 30_000, model='openai:m', base_url='http://127.0.0.1:1')": (
            "another machine may not give base_url"
        ),
        f"Host.call('terminal', {program})": "A program that needs the terminal cannot run on",
    }
    far.run("from mahtab_worker.control import Host")
    for code, sentence in codes.items():
        assert sentence in far.run(code).text
    assert mine.exists()
    assert not made.exists()


def test_paths_in_questions_are_local_and_labelled_so(far: Opened, project: Path) -> None:
    (project / "here.txt").write_text("of this machine")
    (chip,) = far.session.attachments.chips("what is in @here.txt")
    assert chip.size == "15 B on this machine"
    (chip,) = far.session.attachments.chips("what is in @there.csv")
    assert chip.size == "no such file on this machine"
    note = "search_code, read_file and files that the person attaches are of the person's machine"
    assert note in far.session.agent.surroundings()


def test_moving_the_kernel_updates_the_header(far: Opened) -> None:
    far.run("x = 1")
    host = far.session.kernel.info().host
    far.session.kernel_control.move("")
    wait_for(
        lambda: far.session.kernel.info().host == "" and far.session.kernel.info().state == "idle"
    )
    assert "NameError" in far.run("x").text
    reported = [record for record in far.store.records if isinstance(record, records.Kernel)]
    assert {record.host for record in reported} == {host, None}
    assert any("Switched to this machine." in record.text for record in reported)
