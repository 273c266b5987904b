"""Kernels over a real ssh, with the system's client and a server on loopback."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.address import parse_address
from mahtab_tui.kernel.remote.attaching import attach_remote
from mahtab_tui.kernel.remote.launcher import RemoteLauncher
from mahtab_tui.kernel.remote.notes import noted_kernels
from tests.integration.kernels import Cells, RecordingHost
from tests.ssh_server import SshServer, needs_sshd

pytestmark = needs_sshd


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    server = SshServer(tmp_path)
    monkeypatch.setenv("PATH", f"{server.client()}{os.pathsep}{os.environ['PATH']}")
    # Files that are sent must not go to the user's folder.
    with (tmp_path / "sshd_config").open("a") as config:
        config.write(f"SetEnv XDG_CACHE_HOME={tmp_path / 'cache'}\n")
    server.start()
    yield server
    server.close()


def cells_of(launcher: RemoteLauncher, **replies: str) -> Cells:
    """Start a kernel. replies: by a word of the prompt."""
    host = RecordingHost()
    host.answer = lambda name, args: next(
        (text for word, text in replies.items() if word in args["prompt"]), None
    )
    kernel = ProcessKernel(launcher=launcher)
    kernel.start(host)
    return Cells(kernel, host)


def started(server: SshServer, *, session: str = "", **replies: str) -> Cells:
    address = f"ssh://{getpass.getuser()}@127.0.0.1:{server.port}{sys.executable}"
    return cells_of(RemoteLauncher(parse_address(address), 0.01, session), **replies)


def test_ssh_kernel_runs_cells(server: SshServer) -> None:
    cells = started(server, authenticity="yes")
    name, args = cells.host.calls.get_nowait()
    assert (name, args["password"]) == ("input", False)
    assert "fingerprint" in args["prompt"]
    cells.expect("import os; 'SSH_CONNECTION' in os.environ", "True\n")
    assert cells.interrupt_after("go", "print('go')\nwhile True: pass").status == "interrupted"
    cells.kernel.close()
    again = started(server)
    assert again.host.calls.empty()
    again.kernel.close()


def test_refused_host_key_gives_one_sentence(server: SshServer) -> None:
    with pytest.raises(KernelError, match="Host key verification failed"):
        started(server, authenticity="no")
    started(server, authenticity="yes").kernel.close()
    server.new_host_key()
    server.start()
    with pytest.raises(KernelError, match="Host key verification failed"):
        started(server, authenticity="yes")


@pytest.mark.thorough
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
    for replies in ({"passphrase": "wrong"}, {}):
        with pytest.raises(KernelError, match="Permission denied"):
            started(server, **replies)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "host_options",
    ["ProxyJump near\n", "ControlMaster auto\nControlPath {folder}/c\nControlPersist 2\n"],
    ids=["jump host", "shared connection"],
)
def test_users_ssh_configuration_applies(server: SshServer, host_options: str) -> None:
    config = server.folder / "config"
    names = f"Host near far\nHostName 127.0.0.1\nPort {server.port}\nStrictHostKeyChecking no\n"
    config.write_text(
        config.read_text() + names + "Host far\n" + host_options.format(folder=server.folder)
    )
    for _ in range(2):
        cells = cells_of(RemoteLauncher(parse_address(f"ssh://far{sys.executable}"), 0.01))
        cells.expect("6 * 7", "42\n")
        cells.kernel.close()


def test_unreachable_host_gives_one_sentence(server: SshServer) -> None:
    server.close()
    with pytest.raises(KernelError, match="Connection refused"):
        started(server)


def test_ssh_kernel_is_reattached_by_another_host(server: SshServer, project: Path) -> None:
    first_cells = started(server, session="far", authenticity="yes")
    first_cells.expect("import os; kept = os.getpid(); kept > 0", "True\n")
    first_cells.kernel.close(leave=True)
    prompts: list[str] = []

    def ask(prompt: str, hidden: bool) -> None:
        prompts.append(prompt)

    (noted,) = noted_kernels("far")
    assert noted.station.label == f"{getpass.getuser()}@127.0.0.1"
    attached = attach_remote(noted, ask)
    second = cells_of(RemoteLauncher(parse_address(noted.station.address), 0.01, "far", attached))
    assert prompts == []
    assert second.kernel.was_reattached
    second.expect("os.getpid() == kept", "True\n")
    second.kernel.close()
    assert noted_kernels("far") == []
