"""A real sshd on loopback with its own keys, and a client that knows only this server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.kernels import executable
from tests.ports import free_port
from tests.waiting import wait_for

_SERVER = shutil.which("sshd") or (path if os.path.exists(path := "/usr/sbin/sshd") else None)
needs_sshd = pytest.mark.skipif(
    _SERVER is None or shutil.which("ssh") is None,
    reason="needs sshd and ssh (Debian: openssh-server)",
)


class SshServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.new_host_key()
        self.new_user_key("key", "")
        (folder / "config").write_text(
            f"Host *\nIdentityFile {folder}/key\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\nGlobalKnownHostsFile none\n"
        )
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/authorized\n"
            f"StrictModes no\nPidFile {folder}/pid\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start or restart it with its current files."""
        self.close()
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        assert _SERVER is not None
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [_SERVER, "-D", "-f", self.folder / "sshd_config", "-E", log]
        )
        # Do not connect: the child process would hold the port, and a restart would fail.
        wait_for(lambda: log.exists() and "Server listening on" in log.read_text())

    def new_host_key(self) -> None:
        _key(self.folder / "hostkey", "")

    def new_user_key(self, name: str, passphrase: str) -> None:
        _key(self.folder / name, passphrase)
        with (self.folder / "authorized").open("a") as authorized:
            authorized.write((self.folder / f"{name}.pub").read_text())

    def client(self) -> Path:
        """Return a folder for the PATH, with an ssh that uses our configuration."""
        directory = self.folder / "bin"
        directory.mkdir(exist_ok=True)
        executable(
            directory / "ssh",
            f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/config "$@"\n',
        )
        return directory

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


def _key(path: Path, passphrase: str) -> None:
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True)
