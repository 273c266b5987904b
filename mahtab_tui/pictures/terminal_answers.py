"""Asks a terminal what it can draw, and reads its answers.

They come among the keys that the user presses: both interfaces hand over each sequence that they read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import termios
import time
from typing import Literal, NamedTuple

GraphicsProtocol = Literal["kitty", "sixel"]
GRAPHICS_QUERIES = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[c"
"""Kitty graphics, the size of a cell, the number of Sixel's colours, and device attributes, which
every terminal answers."""
ANSWER_TIMEOUT_S = 2.0
"""Seconds that answers are waited for before a cell runs, or the terminal is given back; a link may be
slow."""
DEFAULT_SIXEL_COLOURS = 16
"""The first terminals that drew Sixel pictures had this many colours."""
_MIN_SIXEL_COLOURS = 2
_MAX_SIXEL_COLOURS = 256
_SIXEL_ATTRIBUTE = "4"
"""Stands for Sixel among the device attributes of a terminal."""
_GRAPHICS_REPLY = re.compile(
    r"\x1b_G(?P<kitty>[^\x1b]{0,256})\x1b\\"
    r"|\x1b\[\?(?P<attributes>[\d;]{0,64})c"
    r"|\x1b\[6;(?P<height>\d{1,4});(?P<width>\d{1,4})t"
    r"|\x1b\[\?1;0;(?P<colours>\d{1,9})S"
    # The terminal cannot say how many colours it has.
    r"|\x1b\[\?1;[1-3][\d;]{0,24}S"
)


class CellPixels(NamedTuple):
    """The size of a cell of the terminal, in pixels."""

    width: int
    height: int


def is_mute() -> bool:
    """Return whether this terminal types unknown queries, or lets no graphics through."""
    term = os.environ.get("TERM", "")
    is_apple = os.environ.get("TERM_PROGRAM") == "Apple_Terminal"
    return is_apple or term.startswith(("tmux", "screen", "linux", "dumb"))


def read_cell_size(descriptor: int) -> CellPixels | None:
    """Return the size of a cell; None if the terminal's driver does not know it.

    Args:
        descriptor: That of the terminal.
    """
    with contextlib.suppress(OSError):
        sizes = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8))
        rows, columns, width, height = struct.unpack("4H", sizes)
        if rows and columns and width >= columns and height >= rows:
            return CellPixels(width // columns, height // rows)
    return None


class TerminalAnswers:
    """What the terminal has answered to questions about graphics."""

    def __init__(self) -> None:
        """Ask nothing yet."""
        self.protocol: GraphicsProtocol | None = None
        """How pictures are drawn; None if the terminal has not said that it can draw any."""
        self.cell: CellPixels | None = None
        """None if the terminal has not said it."""
        self.colours = DEFAULT_SIXEL_COLOURS
        """How many colours a Sixel picture may have."""
        self.awaited = False
        """Whether answers are still to come."""
        self._deadline_s = 0.0
        """Until when answers are waited for, by the monotonic clock."""

    @property
    def wait_s(self) -> float:
        """For how many seconds answers are waited for; 0 if all have come."""
        return max(0.0, self._deadline_s - time.monotonic()) if self.awaited else 0.0

    def ask(self) -> str:
        """Return the questions to write to the terminal. From now on, answers are awaited."""
        self.awaited = True
        self._deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        return GRAPHICS_QUERIES

    def read(self, sequence: str) -> bool:
        """Read an answer. Return whether the sequence is one, and so not a key of the user."""
        reply = _GRAPHICS_REPLY.fullmatch(sequence) if self.awaited else None
        if reply is None:
            return False
        if reply["attributes"] is not None:
            self._take_attributes(reply["attributes"])
        elif reply["kitty"] is not None:
            if reply["kitty"].endswith(";OK"):
                self.protocol = "kitty"
        elif reply["height"]:
            size = CellPixels(int(reply["width"]), int(reply["height"]))
            if all(size):
                self.cell = size
        elif reply["colours"]:
            colours = int(reply["colours"])
            self.colours = max(_MIN_SIXEL_COLOURS, min(_MAX_SIXEL_COLOURS, colours))
        return True

    def _take_attributes(self, attributes: str) -> None:
        """Read the device attributes, which every terminal gives as its last answer."""
        if _SIXEL_ATTRIBUTE in attributes.split(";")[1:] and self.protocol is None:
            self.protocol = "sixel"
        self.awaited = False
