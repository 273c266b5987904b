"""Makes the kernel that the settings of a session name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.connection_state import ConnectionState
from mahtab_tui.kernel.detached import start_detachable
from mahtab_tui.kernel.launch import Launcher, LocalLauncher
from mahtab_tui.kernel.local_process import LocalProcess, environment
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.process_parts import Process
from mahtab_tui.kernel.values import FileWatching, SaveTarget
from mahtab_tui.settings.model import Settings, file_copies_folder, home_folder

if TYPE_CHECKING:
    from mahtab_tui.kernel.remote.attaching import ConnectedKernel


JUPYTER_PREFIXES = ("jupyter", "existing:")
"""Beginnings of Jupyter kernels' addresses."""
RECONNECT_HOURS = 0.25
"""Hours that a remote kernel waits even if kernels must not outlive their screen, because it cannot
tell whether only the connection is gone."""


class ReattachedKernel(NamedTuple):
    """A detached kernel to which a resumed session has connected; both None if there is none."""

    local: LocalProcess | None = None
    remote: ConnectedKernel | None = None


def process_kernel(
    settings: Settings,
    save_target: SaveTarget | None = None,
    *,
    session: str = "",
    reattached: ReattachedKernel | None = None,
) -> Kernel:
    """Create a kernel according to the settings, without starting it.

    Args:
        settings: The settings.
        save_target: Where its namespace is saved; None if it is not.
        session: The id of a session whose kernel may outlive the screen; empty if it must not.
        reattached: A kernel to continue with.

    Raises:
        KernelError: The settings name a kernel that cannot be used.
    """
    reattached = reattached or ReattachedKernel()
    if reattached.remote is not None:
        settings = settings.model_copy(update={"kernel": reattached.remote.station.address})
    if settings.kernel is not None and settings.kernel.startswith(JUPYTER_PREFIXES):
        from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel

        return jupyter_kernel(settings.kernel, os.getcwd(), startup_code(remote=True))
    return ProcessKernel(
        # The setting names an interpreter on this machine.
        settings.python if settings.kernel is None else None,
        startup=startup_code(remote=settings.kernel is not None),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
        keep=save_target,
        launcher=_make_launcher(settings, session, reattached),
        watching=_file_watching(settings, save_target, session),
    )


def _file_watching(
    settings: Settings, save_target: SaveTarget | None, session: str
) -> FileWatching | None:
    """Return how to watch the files of a kernel on this machine; None if they are not watched."""
    if not settings.file_undo or settings.kernel is not None:
        return None
    copies = file_copies_folder(session)
    if not session and save_target is not None:
        copies = copies.with_name(os.path.basename(save_target.folder))
    return FileWatching(
        folders=(os.getcwd(), *map(str, settings.witnessed_folders)),
        ignored=(str(home_folder()),),
        copies=str(copies),
        cell_megabytes=settings.file_undo_mb,
    )


def check_address(address: str) -> None:
    """Check the address of a kernel on another machine or of a Jupyter kernel.

    Raises `KernelError`.
    """
    if address.startswith(JUPYTER_PREFIXES):
        from mahtab_tui.kernel.jupyter.kernel import parse_address as parse_jupyter_address

        parse_jupyter_address(address)
    else:
        from mahtab_tui.kernel.remote.address import parse_address

        parse_address(address)


class LocalDetachable(LocalLauncher):
    """Launches kernels on this machine that can outlive their screen."""

    def __init__(self, session: str, hours: float, reattached: LocalProcess | None) -> None:
        """Create a launcher.

        Args:
            session: The id of the session.
            hours: How long an idle kernel waits for a screen.
            reattached: The process that the first `start` returns instead of a new one.
        """
        self._session = session
        self._hours = hours
        self._reattached = reattached
        self.will_reattach = reattached is not None

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], state: ConnectionState
    ) -> Process:
        if self._reattached is not None:
            process = self._reattached
            self._reattached = None
            return process
        started_kernel = start_detachable(
            executable,
            cwd,
            environment(*size),
            self._session,
            self._hours,
            witness=self.watches_files,
        )
        self.problem = started_kernel.problem
        return started_kernel.process


def _make_launcher(
    settings: Settings, session: str, reattached: ReattachedKernel
) -> Launcher | None:
    """Return what starts the session's kernel.

    None for one on this machine that ends with its screen.
    """
    if settings.kernel is None:
        if session and settings.keep_kernel and sys.platform == "linux":
            return LocalDetachable(session, settings.keep_kernel, reattached.local)
        return None
    from mahtab_tui.kernel.remote.address import parse_address
    from mahtab_tui.kernel.remote.launcher import RemoteLauncher

    kept_session = session if settings.keep_kernel else ""
    hours = settings.keep_kernel or RECONNECT_HOURS
    return RemoteLauncher(parse_address(settings.kernel), hours, kept_session, reattached.remote)


def startup_code(*, remote: bool = False) -> str:
    """Return code that runs the user's ``startup.py``; empty if there is no such file.

    Args:
        remote: Whether the kernel cannot read the file itself.
    """
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    name = str(path)
    source = f"__import__('pathlib').Path({name!r}).read_bytes()"
    if remote:
        source = repr(path.read_bytes())
    # This binds no names, which would remain if the file fails.
    return f"exec(compile({source}, {name!r}, 'exec'))"
