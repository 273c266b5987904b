"""Removes what sessions have left on this machine, where they were elsewhere: our files, and the
variables that were kept."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from typing import Any

KEPT = "~/.mahtab/elsewhere"
"""Folder of variables of sessions on other machines."""


def clean(above: str) -> dict[str, Any]:
    """Remove our folders, unless a kernel is there. above: the folder of our files. Returns how
    many kernels there are, and the folders removed."""
    other = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"mahtab-tui-{os.getuid()}")
    folders = [
        folder
        for folder in dict.fromkeys((above, other, os.path.expanduser(KEPT)))
        if _is_our_folder(folder)
    ]
    kernels = sum(
        _is_alive(folder, name)
        for folder in folders
        for name in os.listdir(folder)
        if name.endswith(".sock")
    )
    if kernels:
        return {"kernels": kernels, "removed": []}
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # there is more in it, which is not of sessions elsewhere
        os.rmdir(os.path.dirname(os.path.expanduser(KEPT)))
    return {"kernels": 0, "removed": [folder for folder in folders if not os.path.exists(folder)]}


def _is_our_folder(folder: str) -> bool:
    return (
        os.path.isdir(folder)
        and not os.path.islink(folder)
        and os.stat(folder).st_uid == os.getuid()
    )


def _is_alive(folder: str, name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        os.chdir(folder)  # because a socket's path may only be short
        try:
            asking.connect(name)
        except OSError:
            return False
    return True
