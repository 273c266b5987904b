"""Links names of files to the files, for terminals that open links (OSC 8)."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from rich.style import Style
from rich.text import Text

from mahtab_tui.linear.line_writer import LINK_KEY

_TRACEBACK_FILE = re.compile(r'^\s*File (?:"(?P<quoted>.+?)"|(?P<bare>/\S+?)(?=:\d+|, line))')
"""A place in a file, as Python and IPython name it."""


def link_files(text: Text, paths: Iterable[str], folder: str) -> None:
    """Link paths, which stand in backticks in a text.

    Args:
        text: Gets the links.
        paths: The paths. Links lead only to files that exist.
        folder: The folder that contains relative paths.
    """
    for path in paths:
        _link(text, f"`{path}`", os.path.join(folder, path))


def link_traceback_file(text: Text) -> None:
    """Link the file that a line of a traceback names."""
    match = _TRACEBACK_FILE.match(text.plain)
    if match is not None:
        path = match["quoted"] or match["bare"]
        _link(text, path, path)


def _link(text: Text, name: str, path: str) -> None:
    """Link the first place of a name to a file, if the path is absolute and the file exists."""
    if not (os.path.isabs(path) and os.path.exists(path)):
        return
    # With the machine's name, a terminal on another machine opens no other file of this name.
    address = Path(path).as_uri().replace("file://", f"file://{socket.gethostname()}", 1)
    start = text.plain.find(name)
    if start >= 0:
        text.stylize(Style(meta={LINK_KEY: address}), start, start + len(name))
