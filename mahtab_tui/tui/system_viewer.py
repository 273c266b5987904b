"""Opens pictures in the system's viewer."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.system.programs import find_program


def open_picture(content: bytes, suffix: str) -> str:
    """Write a picture to a temporary file and open it; returns the path. Raises `KernelError` with
    a sentence if that fails."""
    command = viewer(os.environ)
    if command is None:
        raise KernelError("No program that opens pictures was found here. Ctrl+S saves it.")
    try:
        with tempfile.NamedTemporaryFile(
            prefix="mahtab-picture-", suffix=suffix, delete=False
        ) as file:  # the viewer reads it later
            file.write(content)
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            [command, file.name],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
    except OSError as error:
        raise KernelError(
            f"The picture cannot be opened: {error.strerror}. Ctrl+S saves it."
        ) from None
    threading.Thread(target=process.wait, name="viewer", daemon=True).start()
    return file.name


def viewer(environment: Mapping[str, str]) -> str | None:
    """Find the program that opens files; None without a desktop, where it would take over our
    terminal."""
    if sys.platform == "darwin":
        return find_program("open")
    if "WSL_DISTRO_NAME" in environment:
        return find_program("wslview")
    has_desktop = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return find_program("xdg-open") if has_desktop else None
