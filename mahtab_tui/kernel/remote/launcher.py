"""Starts kernels on other machines."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import PurePath
from typing import Any

from mahtab_tui.kernel.connection_state import ConnectionState
from mahtab_tui.kernel.local_process import BOOTSTRAP, screen_variables
from mahtab_tui.kernel.remote.address import Address
from mahtab_tui.kernel.remote.attaching import HOST_ID_BYTES, ConnectedKernel
from mahtab_tui.kernel.remote.notes import Station, save_note
from mahtab_tui.kernel.remote.process import RemoteProcess
from mahtab_tui.kernel.remote.transport import open_transport
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.worker.link.frames import TOKEN_BYTES

STATION_NAME_BYTES = 8
"""Random bytes of a station's name."""
STATION_TOKEN_BYTES = 16
"""Random bytes of the secret that a station requires."""
SECONDS_PER_HOUR = 3_600
_SAVE_FOLDER = "~/.mahtab/elsewhere"
"""Where the variables of kernels are saved on the other machine."""


class RemoteLauncher:
    """Launches kernels on another machine."""

    problem = ""
    """Why the kernel ends with its screen, as a sentence; empty if it does not."""

    def __init__(
        self,
        address: Address,
        keep_hours: float,
        session: str = "",
        reattached: ConnectedKernel | None = None,
    ) -> None:
        """Create a launcher.

        Args:
            address: Where the kernels run.
            keep_hours: How long a kernel waits without a connection.
            session: The id of the session that can find it again; empty for none.
            reattached: The session's waiting kernel, which the first `start` returns.
        """
        self._address = address
        self.label = address.label
        self.address = address.text
        self._keep_seconds = keep_hours * SECONDS_PER_HOUR
        self._session = session
        self._reattached = reattached
        self.will_reattach = reattached is not None

    def find(self, python: str | None) -> str:
        """Return the interpreter; empty for the one that the other machine chooses."""
        return python or ""

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], state: ConnectionState
    ) -> RemoteProcess:
        """Start a kernel, or return the waiting one. Raises `KernelError`.

        Args:
            executable: The interpreter; empty for any.
            cwd: The working directory.
            size: Columns and lines of the screen.
            state: Is told of the state of the connection.
        """
        reattached = self._reattached
        self._reattached = None
        if reattached is not None:
            return RemoteProcess(reattached, state)

        address = self._address
        host_id = secrets.token_hex(HOST_ID_BYTES)
        station = Station(
            address.text,
            address.label,
            secrets.token_hex(STATION_NAME_BYTES),
            secrets.token_hex(STATION_TOKEN_BYTES),
        )
        token = os.urandom(TOKEN_BYTES)
        start_settings = {
            "python": executable,
            "cwd": cwd,
            "env": screen_variables(*size),
            "keep": self._keep_seconds,
            "bootstrap": BOOTSTRAP,
            "kernel_token": token.hex(),
        }
        request = {**station.request(host_id), "received": 0, "start": start_settings}
        transport = open_transport(address, request, state.ask, state.given_up)

        note = save_note(self._session, station) if self._session else None
        if self._session and note is None:
            self.problem = "This kernel ends with its screen, because mahtab-tui's folder `run` cannot be used."
        return RemoteProcess(ConnectedKernel(station, host_id, transport, token, note=note), state)

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """Save in the home folder there, with a separate key, so that the user's key stays here."""
        address = self._address.text.encode(errors="surrogateescape")
        key = hmac.new(bytes.fromhex(target.key), address, "sha256").hexdigest()
        folder = f"{_SAVE_FOLDER}/{PurePath(target.folder).name}"
        return {**target._replace(folder=folder, key=key)._asdict(), "cloudpickle": ""}
