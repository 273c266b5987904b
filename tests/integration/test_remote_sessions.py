"""Sessions whose kernel is on another machine: what belongs to which machine."""

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
    (tmp_path / "road").mkdir()
    road = Road(tmp_path / "road")
    store = Watched()
    session = Session(
        load_settings(model="demo", approval="auto"),
        Lazy.of(
            SessionBackend(
                ProcessKernel(launcher=RemoteLauncher(road.address, 0.01)),
                store,
                make_kernel=lambda address: ProcessKernel(),
            )
        ),
        HeadlessFrontend(),
        name="test",
    )
    session.start()
    yield Opened(session, store)
    session.close()


def test_text_on_another_machine_can_be_searched(far: Opened) -> None:
    output = far.run(
        "text = 'nothing here. ' * 500_000 + 'request 8 timed out'\nprint(rlm('Which requests timed out?', text))"
    )
    assert "request 8 timed out" in output.text


def test_remote_kernel_cannot_name_local_files(far: Opened, project: Path) -> None:
    (project / "mine.txt").write_text("a secret of this machine")
    code = (
        "from mahtab_worker.control import Host\n"
        f"Host.call('rlm', {{'tree': '00000000', 'options': {{}}, 'query': 'x', 'file': {str(project / 'mine.txt')!r}, 'kind': 'text', "
        "'parts': [], 'about': '', 'contexts': [], 'tools': [], 'yes': True})"
    )
    assert "The text of this search is unknown" in far.run(code).text
    assert (project / "mine.txt").exists()


def test_remote_kernel_cannot_name_services_of_this_machine(far: Opened) -> None:
    code = "rlm('?', 'x' * 30_000, model='openai:m', base_url='http://127.0.0.1:1')"
    assert "another machine may not give base_url" in far.run(code).text


def test_remote_kernel_cannot_start_local_programs(far: Opened, project: Path) -> None:
    code = f"from mahtab_worker.control import Host\nHost.call('terminal', {{'argv': ['touch', {str(project / 'made')!r}], 'cwd': '/'}})"
    assert "A program that needs the terminal cannot run on" in far.run(code).text
    assert not (project / "made").exists()


def test_paths_in_questions_are_local_and_labelled_so(far: Opened, project: Path) -> None:
    (project / "here.txt").write_text("of this machine")
    (chip,) = far.session.attachments.chips("what is in @here.txt")
    assert chip.size == "15 B on this machine"
    (chip,) = far.session.attachments.chips("what is in @there.csv")
    assert chip.size == "no such file on this machine"
    assert (
        "search_code, read_file and files that the person attaches are of the person's machine"
        in far.session.agent.surroundings()
    )


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
