"""Another machine, as a place where the processes of a kernel run."""

from __future__ import annotations

import hmac
from pathlib import PurePath
from typing import Any

from mahtab_tui.kernel.launch import Wire, screen_variables
from mahtab_tui.kernel.remote.address import Address
from mahtab_tui.kernel.remote.stations import Connected, start
from mahtab_tui.kernel.remote.wire import RemoteProcess
from mahtab_tui.kernel.restoration import KeepPlace
from mahtab_tui.kernel.worker.station.cleaning import KEPT


class Elsewhere:
    """A `launch.Place` behind an address."""

    problem = ""

    def __init__(
        self,
        address: Address,
        keep_hours: float,
        session: str = "",
        waiting: Connected | None = None,
    ) -> None:
        """keep_hours: how long an idle kernel is kept there without a wire, or without a screen.

        session: the id of the one that shall find it again; empty for none. waiting: the session's
        kernel, if it has one; the first `start` returns it.
        """
        self._address = address
        self._keep = keep_hours * 3600
        self._session = session
        self._waiting = waiting

    @property
    def waits(self) -> bool:
        return self._waiting is not None

    @property
    def label(self) -> str:
        return self._address.label

    @property
    def address(self) -> str:
        return self._address.text

    def find(self, python: str | None) -> str:
        """The interpreter is looked up there."""
        return python or ""

    def start(
        self, executable: str, cwd: str, color: bool, size: tuple[int, int], wire: Wire
    ) -> RemoteProcess:
        waiting, self._waiting = self._waiting, None
        asked = {
            "python": executable,
            "cwd": cwd,
            "env": screen_variables(color, *size),
            "keep": self._keep,
        }
        connected = waiting or start(self._address, asked, self._session, wire.ask, wire.given_up)
        if self._session and connected.noted is None:
            self.problem = "This kernel ends with its screen, because mahtab-tui's folder `run` cannot be used there."
        return RemoteProcess(connected, wire)

    def keep_settings(self, place: KeepPlace) -> dict[str, Any]:
        """In the home folder there, with a key of its own: the user's key stays here."""
        key = hmac.new(
            bytes.fromhex(place.key), self._address.text.encode(errors="surrogateescape"), "sha256"
        )
        folder = f"{KEPT}/{PurePath(place.folder).name}"
        return {
            "folder": folder,
            "key": key.hexdigest(),
            "megabytes": place.megabytes,
            "cloudpickle": "",
        }
