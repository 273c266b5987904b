"""A picture in the program that the system shows pictures with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping

from mahtab_tui.kernel.base import KernelError


def open_picture(content: bytes, suffix: str) -> str:
    """Write a picture to a temporary file and open that; returns its path. Raises `KernelError` with a sentence where there is no way to."""
    command = viewer(os.environ)
    if command is None:
        raise KernelError("No program was found that opens pictures here. Ctrl+S saves it.")
    try:
        with tempfile.NamedTemporaryFile(prefix="mahtab-picture-", suffix=suffix, delete=False) as file:  # it is read after this has ended
            file.write(content)
        nothing = subprocess.DEVNULL
        process = subprocess.Popen([command, file.name], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except OSError as error:
        raise KernelError(f"The picture cannot be opened: {error.strerror}. Ctrl+S saves it.") from None
    threading.Thread(target=process.wait, name="viewer", daemon=True).start()
    return file.name


def viewer(environment: Mapping[str, str]) -> str | None:
    """What opens files; None without a desktop: it would be a program for the terminal, which is ours."""
    if sys.platform == "darwin":
        return shutil.which("open")
    if "WSL_DISTRO_NAME" in environment:
        return shutil.which("wslview")
    has_desktop = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return shutil.which("xdg-open") if has_desktop else None
