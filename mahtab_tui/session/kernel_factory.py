"""Creates the kernel of a session, with the user's startup code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.launch import Launcher, LocalLauncher, Process, Wire, environment
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.restoration import KeepPlace
from mahtab_tui.settings.model import Settings, home_folder

if TYPE_CHECKING:
    from mahtab_tui.kernel.detached.waiting import Connections
    from mahtab_tui.kernel.remote.stations import Connected


JUPYTER = ("jupyter:", "jupyter+", "existing:")
"""How addresses of Jupyter kernels begin."""
SHORT = 0.25
"""Hours that a kernel elsewhere waits for its wire, where none shall outlive its screen: it cannot
tell which of them is gone."""


class Waiting(NamedTuple):
    """The kernel of a session that has outlived its screen, if there is one."""

    here: Connections | None = None
    elsewhere: Connected | None = None


def process_kernel(
    settings: Settings,
    keep: KeepPlace | None = None,
    *,
    session: str = "",
    waiting: Waiting | None = None,
) -> Kernel:
    """Create a kernel in a process of its own, as the settings say. keep: where its namespace is
    kept; None for nowhere.

    session: the id of the session for which it may outlive its screen; empty for none. waiting: a
    kernel that has done so, wherever the settings say that a new one runs. Raises `KernelError`.
    """
    waiting = waiting or Waiting()
    if waiting.elsewhere is not None:
        settings = settings.model_copy(update={"kernel": waiting.elsewhere.station.address})
    if settings.kernel is not None and settings.kernel.startswith(JUPYTER):
        from mahtab_tui.kernel.jupyter.opening import jupyter_kernel

        token = "" if settings.jupyter_token is None else settings.jupyter_token.get_secret_value()
        return jupyter_kernel(settings.kernel, token, os.getcwd(), startup_code(there=True))
    return ProcessKernel(
        settings.python
        if settings.kernel is None
        else None,  # the setting names an interpreter of this machine
        startup=startup_code(there=settings.kernel is not None),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
        keep=keep,
        place=_place(settings, session, waiting),
    )


def kernel_at(settings: Settings, keep: KeepPlace | None, session: str, address: str) -> Kernel:
    """Create a kernel of a session at another place. address: as for ``--kernel``; empty for this
    machine. Raises `KernelError`."""
    return process_kernel(
        settings.model_copy(update={"kernel": address or None}), keep, session=session
    )


def check_address(address: str) -> None:
    """Raise `KernelError` if this is no address of a kernel."""
    if address.startswith(JUPYTER):
        from mahtab_tui.kernel.jupyter.address import parse as parse_jupyter
        from mahtab_tui.kernel.jupyter.address import token_in

        if token_in(address):
            raise KernelError(
                "A token in /kernel would stay in the history: set jupyter_token instead, and leave it out of the address."
            )
        parse_jupyter(address)
        return
    from mahtab_tui.kernel.remote.address import parse

    parse(address)


class LocalDetachable(LocalLauncher):
    """This machine, where kernels outlive their screen."""

    def __init__(self, session: str, hours: float, waiting: Connections | None) -> None:
        """hours: how long an idle kernel waits. waiting: the session's kernel, if it has one; the
        first `start` returns it."""
        self._session = session
        self._hours = hours
        self._waiting = waiting

    @property
    def waits(self) -> bool:  # type: ignore[override]
        return self._waiting is not None

    def start(
        self, executable: str, cwd: str, color: bool, size: tuple[int, int], wire: Wire
    ) -> Process:
        from mahtab_tui.kernel.detached.processes import AttachedProcess, start_held

        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            return AttachedProcess(waiting)
        process, self.problem = start_held(
            executable, cwd, environment(color, *size), self._session, self._hours
        )
        return process


def _place(settings: Settings, session: str, waiting: Waiting) -> Launcher | None:
    """Return where the kernel runs; None for here, with its screen only. Raises `KernelError`."""
    if settings.kernel is None:
        held = session and settings.keep_kernel and sys.platform == "linux"
        return LocalDetachable(session, settings.keep_kernel, waiting.here) if held else None
    from mahtab_tui.kernel.remote.address import parse
    from mahtab_tui.kernel.remote.place import Elsewhere

    keeping = session if settings.keep_kernel else ""
    return Elsewhere(
        parse(settings.kernel), settings.keep_kernel or SHORT, keeping, waiting.elsewhere
    )


def startup_code(*, there: bool = False) -> str:
    """Return code that runs the user's ``startup.py`` in the kernel's namespace; empty if there is
    none. there: the kernel cannot read it."""
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    if there:
        return f"exec(compile({path.read_bytes()!r}, {str(path)!r}, 'exec'))"
    # It binds no names, which would stay behind if the file fails.
    return f"exec(compile(__import__('pathlib').Path({str(path)!r}).read_bytes(), {str(path)!r}, 'exec'))"
