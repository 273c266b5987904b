"""Asks a terminal what it can draw."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import termios
import time
from typing import Literal

GraphicsProtocol = Literal["kitty", "sixel"]
GRAPHICS_QUERIES = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[c"
"""Kitty graphics, the size of a cell, the number of Sixel's colours, and device attributes, which
every terminal answers."""
ANSWER_TIMEOUT_S = 2.0
"""How long answers are waited for before a cell runs, or the terminal is given back; a link may be
slow."""
_GRAPHICS_REPLY = re.compile(
    r"\x1b_G(?P<kitty>[^\x1b]{0,256})\x1b\\"
    r"|\x1b\[\?(?P<attributes>[\d;]{0,64})c"
    r"|\x1b\[6;(?P<height>\d{1,4});(?P<width>\d{1,4})t"
    r"|\x1b\[\?1;0;(?P<colours>\d{1,9})S"
    # The terminal cannot say how many colours it has.
    r"|\x1b\[\?1;[1-3][\d;]{0,24}S"
)


def is_mute() -> bool:
    """Return whether this terminal types unknown queries, or lets no graphics through."""
    term = os.environ.get("TERM", "")
    is_apple = os.environ.get("TERM_PROGRAM") == "Apple_Terminal"
    return is_apple or term.startswith(("tmux", "screen", "linux", "dumb"))


def read_cell_size(descriptor: int) -> tuple[int, int] | None:
    """Return width and height of a cell in pixels; None if the terminal's driver does not know
    them."""
    with contextlib.suppress(OSError):
        sizes = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8))
        rows, columns, width, height = struct.unpack("4H", sizes)
        if rows and columns and width >= columns and height >= rows:
            return width // columns, height // rows
    return None


class TerminalAnswers:
    """What the terminal has answered to questions about graphics."""

    def __init__(self) -> None:
        self.protocol: GraphicsProtocol | None = None
        self.cell: tuple[int, int] | None = None
        """Width and height of a cell in pixels."""
        self.colours = 16
        """How many colours a Sixel picture may have; the first such terminals had 16."""
        self.awaited = False
        self._deadline_s = 0.0
        """Until when answers are waited for, by the monotonic clock."""

    @property
    def wait_s(self) -> float:
        """For how many seconds answers are waited for; 0 if all have come."""
        return max(0.0, self._deadline_s - time.monotonic()) if self.awaited else 0.0

    def ask(self) -> str:
        self.awaited = True
        self._deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        return GRAPHICS_QUERIES

    def read(self, sequence: str) -> bool:
        """Return whether a sequence is a reply."""
        reply = _GRAPHICS_REPLY.fullmatch(sequence) if self.awaited else None
        if reply is None:
            return False
        kitty = reply["kitty"]
        attributes = reply["attributes"]
        if kitty is not None and kitty.endswith(";OK"):
            self.protocol = "kitty"
        elif reply["height"] and int(reply["height"]) and int(reply["width"]):
            self.cell = int(reply["width"]), int(reply["height"])
        elif reply["colours"]:
            self.colours = max(2, min(256, int(reply["colours"])))
        elif attributes is not None:
            # Every terminal answers this one, and it is the last. 4 stands for Sixel.
            if "4" in attributes.split(";")[1:]:
                self.protocol = self.protocol or "sixel"
            self.awaited = False
        return True
