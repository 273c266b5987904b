"""Kernels behind a proxy that delays, cuts and freezes connections."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.address import Address, parse_address
from mahtab_tui.kernel.remote.launcher import RemoteLauncher
from mahtab_tui.kernel.values import SaveTarget
from tests.integration.kernels import Cells, RecordingHost
from tests.waiting import wait_for

_PROXY = Path(__file__).parents[1] / "wire_proxy.py"


class RemoteMachine:
    def __init__(
        self, folder: Path, python: str = sys.executable, *, behind: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self._behind = behind
        self.home = folder / "home-there"
        self.temporary = folder / "tmp-there"
        self.home.mkdir(parents=True)
        self.temporary.mkdir()
        self.python = python
        self._open: list[ProcessKernel] = []

    @property
    def address(self) -> Address:
        return parse_address(self.typed)

    @property
    def typed(self) -> str:
        remote_command = [
            *self._behind,
            "env",
            f"HOME={self.home}",
            f"XDG_CACHE_HOME={self.home / '.cache'}",
            f"TMPDIR={self.temporary}",
            self.python,
        ]
        return f"command: {shlex.join([sys.executable, str(_PROXY), str(self.folder), *remote_command])}"

    def delay(self, milliseconds: float) -> None:
        (self.folder / "delay").write_text(str(milliseconds))

    def kernel(self, *, keep: SaveTarget | None = None, keep_hours: float = 0.01) -> Cells:
        kernel = ProcessKernel(launcher=RemoteLauncher(self.address, keep_hours), keep=keep)
        host = RecordingHost()
        self._open.append(kernel)
        kernel.start(host)
        return Cells(kernel, host)

    def refuse(self) -> None:
        (self.folder / "refuse").touch()

    def accept(self) -> None:
        (self.folder / "refuse").unlink()

    def disconnect(self) -> None:
        """End the newest wire, and refuse others."""
        self.refuse()
        self.break_wire()

    def break_wire(self, how: str = "cut") -> None:
        """End the newest wire ("cut"), freeze it, or end it in the middle of the next piece
        ("half")."""
        (self.folder / f"{how}-{self.wires()[-1]}").touch()

    def wires(self) -> list[int]:
        files = sorted(self.folder.glob("pid-*"), key=lambda file: file.stat().st_mtime_ns)
        return [int(file.name.removeprefix("pid-")) for file in files]

    def wait_for_wire(self, count: int) -> None:
        wait_for(lambda: len(self.wires()) >= count)

    def sockets(self) -> list[str]:
        cache = self.home / ".cache" / "mahtab-tui"
        return [path.name for path in cache.glob("*.sock")]

    def close(self) -> None:
        for kernel in self._open:
            kernel.close()
