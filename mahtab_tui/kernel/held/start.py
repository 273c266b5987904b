"""Starts kernels beside which there is a holder, or attaches to one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from mahtab_tui.kernel.held.held import Held
from mahtab_tui.kernel.held.process import AttachedProcess, HeldProcess
from mahtab_tui.kernel.held.waiting import Connections, listen, remove
from mahtab_tui.kernel.launch import Process, spawn
from mahtab_tui.kernel.worker.holding.beside import HolderSettings
from mahtab_tui.kernel.worker.holding.spool import Spool


def attached(waiting: Connections) -> Process:
    """Return a kernel that has waited."""
    return AttachedProcess(waiting)


def start_held(executable: str, cwd: str, env: Mapping[str, str], session: str, hours: float) -> tuple[Process, str]:
    """Start a session's kernel; returns it, and a sentence if it has no holder. hours: how long it waits for a host when idle. Raises `OSError`."""
    try:
        listener, path = listen(session)
    except OSError as error:
        why = f"{error.filename or 'the folder run'} cannot be used ({error.strerror})"
        return spawn(executable, cwd, env), f"This kernel ends with its screen: {why}."
    spool = os.memfd_create("mahtab-output")
    lifeline, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    settings = HolderSettings(listener.fileno(), read_end, spool, theirs.fileno(), str(path), hours)
    try:
        process = spawn(executable, cwd, env, pipe=(read_end, write_end), holder=settings)
    except BaseException:
        lifeline.close()
        os.close(spool)
        remove(path)
        raise
    finally:
        listener.close()
        theirs.close()
    kept = Spool(read_end, spool)
    return HeldProcess(process, kept, Held(kept, lifeline, path)), ""
