"""Draws pictures, if the terminal has a protocol for them."""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress

from mahtab_tui.bus.output_lines import DisplayLine
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

DEFAULT_CELL_PIXELS = (8, 16)
"""Width and height of a cell, if the terminal does not say."""
DEFAULT_TERMINAL_CELLS = (80, 24)
"""Columns and lines of the terminal, if it does not say."""


class PictureDrawer:
    """Draws the pictures of outputs below what is there."""

    def __init__(self, writer: LineWriter, mode: PictureMode) -> None:
        """
        Args:
            writer: Writes to the terminal.
            mode: The user's setting.
        """
        self._writer = writer
        self._numbers = itertools.count(1)
        """Identify pictures in Kitty's protocol."""
        self._mode: PictureMode = mode
        if writer.is_plain or not (sys.stdin.isatty() and writer.stream.isatty()):
            self._mode = "blocks"
        self.answers = TerminalAnswers()
        """The first prompt asks the terminal, and reads its answers."""

    @property
    def should_ask(self) -> bool:
        """Whether the terminal must be asked what it can draw, before pictures can be drawn."""
        return self._mode == "auto" and not is_mute()

    def draw(self, display: DisplayLine) -> bool:
        """Draw a picture, and return whether this was possible."""
        protocol = self.answers.protocol if self._mode == "auto" else self._mode
        if protocol is None or protocol == "blocks":
            return False
        try:
            sequence = self._encode(display, protocol)
        except Exception:
            # Pillow may raise anything for broken files.
            return False
        self._writer.end_line()
        self._writer.send(f"{sequence}\r\n")
        return True

    def _encode(self, display: DisplayLine, protocol: GraphicsProtocol) -> str:
        """Return the sequences that draw a picture, and leave the cursor in its last line.

        Raises:
            Exception: Pillow cannot read or scale the picture, and may raise anything then.
        """
        from PIL.Image import Resampling

        image = open_picture(display.data, MAX_PICTURE_PIXELS)
        size = terminal_size() or DEFAULT_TERMINAL_CELLS
        cells = size_in_cells(*image.size, *size)
        cell_width, cell_height = self._cell_size()
        pixel_width = cells.columns * cell_width
        pixel_height = cells.rows * cell_height
        scaled = scale_picture(image, pixel_width, pixel_height, Resampling.LANCZOS)
        if protocol == "sixel":
            return encode_sixel(scaled, self.answers.colours)
        number = next(self._numbers)
        data = encode_kitty(scaled, number)
        return f"{data}\x1b_Ga=p,i={number},c={cells.columns},r={cells.rows},q=2\x1b\\"

    def _cell_size(self) -> tuple[int, int]:
        """Return the width and height of a cell in pixels."""
        with suppress(OSError):
            size = read_cell_size(self._writer.stream.fileno())
            if size is not None:
                return size
        return self.answers.cell or DEFAULT_CELL_PIXELS
