"""The exception that ended a screen, and the file with its traceback."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.settings.model import SettingsError, home_folder
from mahtab_tui.settings.values import write_text
from mahtab_tui.version import __version__

MAX_ERROR_CHARS = 500


class Crash(NamedTuple):
    """An exception that ended the screen."""

    error: str
    traceback: str
    file: Path | None

    def report(self, advice: str = "") -> str:
        """Return what is printed after the screen has gone.

        Args:
            advice: What the user can do now.
        """
        lines = [f"mahtab-tui: The screen crashed: {self.error}"]
        if self.file:
            lines.append(f"The traceback is in {self.file}.")
        else:
            lines.append(f"Its traceback, which is not saved:\n{self.traceback}")
        if advice:
            lines.append(advice)
        return "\n".join(lines)


def save_crash(
    error: BaseException, mask: Callable[[str], str] = str, *, saves: bool = True
) -> Crash:
    """Write a traceback, without values of variables, to a file in the home folder."""
    text = plain(mask("".join(traceback.format_exception(error))))
    message = one_line(mask(f"{type(error).__name__}: {error}"))[:MAX_ERROR_CHARS]
    if not saves:
        return Crash(message, text, None)
    path = home_folder() / "logs" / time.strftime(f"crash-%Y%m%d-%H%M%S-{os.getpid()}.txt")
    header = f"mahtab-tui {__version__}, Python {sys.version}, {sys.platform}\n"
    try:
        write_text(path, (header + text).encode("utf-8", "replace").decode())
    except SettingsError:
        return Crash(message, text, None)
    return Crash(message, text, path)
