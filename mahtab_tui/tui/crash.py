"""Reports an error of the application itself: saves its traceback, and tells the user where it is
and how to go on."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mahtab_tui import __version__
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.settings.model import home_folder

_LONGEST = 500
"""Characters of an error's message that are shown."""


class Crash(NamedTuple):
    """An error that has ended the application."""

    error: str
    """The error's type and message, in one line."""
    traceback: str
    file: Path | None
    """The file with the traceback; None if it could not be written."""
    by_system: bool = False
    """Whether the system has refused something, such as another file, which the message says."""

    def report(self, advice: str = "") -> str:
        """Write the message for the user. advice: a sentence that says how to go on."""
        if self.file or self.by_system:
            where = f"The traceback is in {self.file}." if self.file else ""
        else:
            where = f"Its traceback, which is not saved:\n{self.traceback}"
        return "\n".join(
            filter(None, [f"mahtab-tui: The screen crashed: {self.error}", where, advice])
        )


def kept(error: BaseException, mask: Callable[[str], str] = str, *, saves: bool = True) -> Crash:
    """Write an error's traceback, without the values of variables, to a file in the home folder.
    saves: False keeps it in memory only."""
    told = plain(mask("".join(traceback.format_exception(error))))
    words = one_line(mask(f"{type(error).__name__}: {error}"))[:_LONGEST]
    if not saves:
        return Crash(words, told, None)
    path = home_folder() / "logs" / time.strftime(f"crash-%Y%m%d-%H%M%S-{os.getpid()}.txt")
    about = f"mahtab-tui {__version__}, Python {sys.version}, {sys.platform}\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(about + told)
    except OSError:
        return Crash(words, told, None, by_system=isinstance(error, OSError))
    return Crash(words, told, path)
