"""Kernels over a real ssh, with the system's client and a server on loopback."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.process import RemoteLauncher, attach_remote, noted_kernels
from mahtab_tui.kernel.remote.transport import parse
from tests.integration.kernels import Cells, RecordingHost
from tests.ssh_server import SshServer, needs_sshd

pytestmark = needs_sshd


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    server = SshServer(tmp_path)
    monkeypatch.setenv("PATH", f"{server.client()}{os.pathsep}{os.environ['PATH']}")
    # Files that are sent go to the folder of the test, not to the user's.
    (tmp_path / "sshd_config").write_text(
        (tmp_path / "sshd_config").read_text() + f"SetEnv XDG_CACHE_HOME={tmp_path / 'cache'}\n"
    )
    server.start()
    yield server
    server.close()


def started(server: SshServer, *, session: str = "", **answers: str) -> Cells:
    host = RecordingHost()

    def answer(name: str, args: Mapping[str, Any]) -> str | None:
        return next((text for word, text in answers.items() if word in args["prompt"]), None)

    host.answer = answer
    kernel = ProcessKernel(
        launcher=RemoteLauncher(
            parse(f"ssh://{getpass.getuser()}@127.0.0.1:{server.port}{sys.executable}"),
            0.01,
            session,
        )
    )
    kernel.start(host)
    return Cells(kernel, host)


def test_ssh_kernel_runs_cells_after_the_host_key_is_accepted(
    server: SshServer,
) -> None:
    cells = started(server, authenticity="yes")
    name, args = cells.host.calls.get_nowait()
    assert (name, args["password"]) == ("input", False)
    assert "fingerprint" in args["prompt"]
    assert cells.text("import os; 'SSH_CONNECTION' in os.environ") == "True\n"
    assert cells.interrupt_after("go", "print('go')\nwhile True: pass").status == "interrupted"
    cells.kernel.close()
    again = started(server)
    assert again.host.calls.empty()
    again.kernel.close()


def test_refused_host_key_gives_one_sentence(server: SshServer) -> None:
    with pytest.raises(KernelError, match="Host key verification failed"):
        started(server, authenticity="no")


def test_changed_host_key_is_refused(server: SshServer) -> None:
    started(server, authenticity="yes").kernel.close()
    server.new_host_key()
    server.start()
    with pytest.raises(KernelError, match="Host key verification failed"):
        started(server, authenticity="yes")


def test_passphrase_is_requested_hidden(server: SshServer) -> None:
    server.new_user_key("locked", "open sesame")
    config = server.folder / "config"
    config.write_text(
        config.read_text().replace(f"{server.folder}/key", f"{server.folder}/locked")
        + "StrictHostKeyChecking no\n"
    )
    cells = started(server, passphrase="open sesame")
    _, args = cells.host.calls.get_nowait()
    assert args["password"]
    cells.kernel.close()
    with pytest.raises(KernelError, match="Permission denied"):
        started(server, passphrase="wrong")
    with pytest.raises(KernelError, match="Permission denied"):
        started(server)


@pytest.mark.parametrize(
    ("host", "more"),
    [
        pytest.param("far", "Host far\nProxyJump near\n", id="jump host"),
        pytest.param(
            "far",
            "Host far\nControlMaster auto\nControlPath {folder}/c\nControlPersist 2\n",
            id="shared connection",
        ),
    ],
)
def test_users_ssh_configuration_applies(server: SshServer, host: str, more: str) -> None:
    config = server.folder / "config"
    names = f"Host near far\nHostName 127.0.0.1\nPort {server.port}\nStrictHostKeyChecking no\n"
    config.write_text(config.read_text() + names + more.format(folder=server.folder))
    for _ in range(2):
        kernel = ProcessKernel(
            launcher=RemoteLauncher(parse(f"ssh://{host}{sys.executable}"), 0.01)
        )
        kernel.start(host_of_kernel := RecordingHost())
        assert Cells(kernel, host_of_kernel).text("6 * 7") == "42\n"
        kernel.close()


def test_unreachable_host_gives_one_sentence(server: SshServer) -> None:
    server.close()
    with pytest.raises(KernelError, match="Connection refused"):
        started(server)


def test_ssh_kernel_is_reattached_by_another_host(server: SshServer, project: Path) -> None:
    first = started(server, session="far", authenticity="yes")
    assert first.text("import os; kept = os.getpid(); kept > 0") == "True\n"
    first.kernel.close(leave=True)
    asked: list[str] = []

    def ask(prompt: str, hidden: bool) -> None:
        asked.append(prompt)

    (noted,) = noted_kernels("far")
    assert noted.station.label == f"{getpass.getuser()}@127.0.0.1"
    second = ProcessKernel(
        launcher=RemoteLauncher(
            parse(noted.station.address), 0.01, "far", attach_remote(noted, ask)
        )
    )
    second.start(RecordingHost())
    assert asked == []
    assert second.was_reattached
    assert Cells(second, RecordingHost()).text("os.getpid() == kept") == "True\n"
    second.close()
    assert noted_kernels("far") == []
