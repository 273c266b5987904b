"""Another machine, as a place where the processes of a kernel run."""

from __future__ import annotations

import hmac
from pathlib import PurePath
from typing import Any

from mahtab_tui.kernel.elsewhere.address import Address
from mahtab_tui.kernel.elsewhere.wire import FarProcess
from mahtab_tui.kernel.launch import Wire, screen_variables
from mahtab_tui.kernel.restoration import KeepPlace
from mahtab_tui.kernel.worker.far.cleaning import KEPT


class Elsewhere:
    """A `launch.Place` behind an address."""

    def __init__(self, address: Address, keep_hours: float) -> None:
        """keep_hours: how long an idle kernel is kept there without a wire."""
        self._address = address
        self._keep = keep_hours * 3600

    problem = ""
    waits = False

    @property
    def label(self) -> str:
        return self._address.label

    def find(self, python: str | None) -> str:
        """The interpreter is looked up there."""
        return python or self._address.python

    def start(self, executable: str, cwd: str, color: bool, size: tuple[int, int], wire: Wire) -> FarProcess:
        return FarProcess(self._address, executable, cwd, screen_variables(color, *size), self._keep, wire)

    def existing_folder(self, path: str) -> str:
        """The station there looks whether it exists."""
        return path

    def keep_settings(self, place: KeepPlace) -> dict[str, Any]:
        """In the home folder there, with a key of its own: the user's key stays here."""
        key = hmac.new(bytes.fromhex(place.key), self._address.text.encode(errors="surrogateescape"), "sha256")
        folder = f"{KEPT}/{PurePath(place.folder).name}"
        return {"folder": folder, "key": key.hexdigest(), "megabytes": place.megabytes, "cloudpickle": ""}

    def may_be_kept(self, place: KeepPlace) -> bool:
        return True
