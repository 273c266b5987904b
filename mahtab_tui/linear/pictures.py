"""Draws pictures, if the terminal has a protocol for them."""

from __future__ import annotations

import itertools
import os
import re
import select
import sys
import termios
import threading
import time
import tty
from contextlib import suppress

from mahtab_tui.bus.output import DisplayLine
from mahtab_tui.linear.line_writer import LineWriter, terminal_size
from mahtab_tui.pictures.encoding import encode_kitty, encode_sixel
from mahtab_tui.pictures.picture_data import (
    MAX_PICTURE_PIXELS,
    open_picture,
    scale_picture,
    size_in_cells,
)
from mahtab_tui.pictures.terminal_answers import (
    GraphicsProtocol,
    TerminalAnswers,
    is_mute,
    read_cell_size,
)
from mahtab_tui.settings.model import PictureMode

ANSWER_TIMEOUT_S = 2.0
"""Every terminal answers the last question; a link may be slow."""
DEFAULT_CELL = (8, 16)
"""Width and height of a cell in pixels, if the terminal does not say."""
_SEQUENCE = re.compile(r"\x1b_[^\x1b]*\x1b\\|\x1b\[[?\d;]*[a-zA-Z]")
_UNFINISHED_SEQUENCE = re.compile(r"\x1b[^\x1b]*")
_ANSWER_START = re.compile(r"\x1b(?:_[^\x1b]{0,256}\x1b?|\[[?\d;]{0,64})\Z")
"""The beginning of an answer whose end has not come yet."""


class PictureDrawer:
    """Draws the pictures of outputs below what is there."""

    def __init__(self, writer: LineWriter, mode: PictureMode) -> None:
        """mode: the user's setting."""
        self._writer = writer
        self._numbers = itertools.count(1)
        self._answers = TerminalAnswers()
        self._typed = ""
        """What the user has typed while the terminal was asked."""
        self._protocol: GraphicsProtocol | None = None
        self._answer_start = ""
        """The beginning of a late answer, which is neither read nor typed yet."""
        self._may_ask = False
        if writer.is_plain or not (sys.stdin.isatty() and writer.stream.isatty()):
            return
        if mode in ("kitty", "sixel"):
            self._protocol = mode
        else:
            self._may_ask = mode == "auto" and not is_mute()

    def take_typed(self) -> str:
        """Return what the user has typed while the terminal was asked what it can draw."""
        typed = self._typed
        self._typed = ""
        return typed

    def _ask(self) -> None:
        """Ask the terminal what it can draw, and wait for the answers."""
        self._may_ask = False
        terminal = sys.stdin.fileno()
        attributes = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal)
            self._writer.send(self._answers.ask())
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            received = ""
            while self._answers.awaited and (rest_s := deadline - time.monotonic()) > 0:
                if select.select([terminal], [], [], rest_s)[0]:
                    received += os.read(terminal, 4096).decode("utf-8", "replace")
                    received = _SEQUENCE.sub(self._take_answer, received)
            # A key such as an arrow would be typed as letters.
            self._typed += _UNFINISHED_SEQUENCE.sub("", received)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, attributes)

    def _take_answer(self, sequence: re.Match[str]) -> str:
        """Read a sequence that came while the terminal was asked. None is what the user types."""
        self._answers.read(sequence[0])
        return ""

    def remove_late_answers(self, typed: str) -> str:
        """Return what the terminal has sent to the prompt, without answers that came too late for
        the picture that they were asked for; the next one is drawn as they say."""
        if not self._answers.awaited:
            return typed
        received = _SEQUENCE.sub(self._take_late_answer, self._answer_start + typed)
        self._answer_start = ""
        self._protocol = self._answers.protocol
        start = _ANSWER_START.search(received)
        if start is not None and self._answers.awaited:
            self._answer_start = start[0]
            received = received[: start.start()]
        return received

    def _take_late_answer(self, sequence: re.Match[str]) -> str:
        """Return what is left of a sequence that came while the user types."""
        return "" if self._answers.read(sequence[0]) else sequence[0]

    def draw(self, display: DisplayLine) -> bool:
        """Draw a picture. Return whether this was possible. While the user types, on another thread, the
        terminal is not asked."""
        if self._may_ask and threading.current_thread() is threading.main_thread():
            self._ask()
            self._protocol = self._answers.protocol
        if self._protocol is None:
            return False
        try:
            sequence = self._encode(display, self._protocol)
        except Exception:
            # Pillow may raise anything for broken files.
            return False
        self._writer.end_line()
        self._writer.send(f"{sequence}\r\n")
        return True

    def _encode(self, display: DisplayLine, protocol: GraphicsProtocol) -> str:
        """Return the sequences that draw a picture, and leave the cursor in its last line. Raises
        anything."""
        from PIL.Image import Resampling

        image = open_picture(display.data, MAX_PICTURE_PIXELS)
        size = terminal_size() or (80, 24)
        cells = size_in_cells(*image.size, *size)
        cell_width, cell_height = self._cell_size()
        pixel_width = cells.columns * cell_width
        pixel_height = cells.rows * cell_height
        scaled = scale_picture(image, pixel_width, pixel_height, Resampling.LANCZOS)
        if protocol == "sixel":
            return encode_sixel(scaled, self._answers.colours)
        number = next(self._numbers)
        data = encode_kitty(scaled, number)
        return f"{data}\x1b_Ga=p,i={number},c={cells.columns},r={cells.rows},q=2\x1b\\"

    def _cell_size(self) -> tuple[int, int]:
        with suppress(OSError):
            size = read_cell_size(self._writer.stream.fileno())
            if size is not None:
                return size
        return self._answers.cell or DEFAULT_CELL
