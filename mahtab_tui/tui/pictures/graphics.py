"""Encodes pictures for terminals that draw pixels: Kitty's protocol, and Sixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import Size

from mahtab_tui.pictures.encoding import encode_kitty, encode_sixel
from mahtab_tui.tui.pictures.picture import PicturePart

if TYPE_CHECKING:
    from mahtab_tui.pictures.terminal_answers import GraphicsProtocol


class GraphicsState(NamedTuple):
    """What drawings depend on; if it changes, they are gone or wrong."""

    protocol: GraphicsProtocol
    cell: tuple[int, int]
    """Width and height of a cell in pixels."""
    colours: int
    """How many a picture may have in Sixel."""
    size: Size
    """The size of the screen, in cells."""
    stops: int
    """How often the program was stopped."""


class EncodedGraphics(NamedTuple):
    """A picture in the terminal's memory, or a part as Sixel; neither if encoding failed."""

    number: int = 0
    """The picture's number in Kitty's protocol; 0 if it is not in the terminal's memory."""
    sixel: str = ""
    """The sequence that draws the part."""


FAILED = EncodedGraphics()


class EncodedPart(NamedTuple):
    """A part of a picture, once it is encoded."""

    graphics: EncodedGraphics
    data: str
    """What the terminal must get before the part can be drawn."""


def encode_part(part: PicturePart, graphics: GraphicsState, number: int) -> EncodedPart:
    """Encode a part of a picture; with Kitty's protocol the whole picture. Call on a thread.

    Args:
        part: What is drawn.
        graphics: What the terminal can draw.
        number: Identifies the picture in Kitty's protocol.

    Raises:
        Exception: Pillow's errors, `OSError` and `subprocess.SubprocessError`.
    """
    from PIL.Image import Resampling

    picture = part.picture
    cell_width, cell_height = graphics.cell
    width = picture.columns * cell_width
    height = picture.rows * cell_height
    image = picture.fitted(width, height, Resampling.LANCZOS)
    if graphics.protocol == "kitty":
        return EncodedPart(EncodedGraphics(number=number), encode_kitty(image, number))

    top = part.top * cell_height
    bottom = (part.top + part.rows) * cell_height
    rows = image.crop((0, top, image.width, bottom))
    return EncodedPart(EncodedGraphics(sixel=encode_sixel(rows, graphics.colours)), "")


def kitty_draw(number: int, placement: int, part: PicturePart, cell: tuple[int, int]) -> str:
    """Return the sequence that draws a part of an encoded picture.

    Args:
        number: Identifies the picture.
        placement: Identifies this drawing of it.
        part: The rows to draw.
        cell: Width and height of a cell in pixels.
    """
    picture = part.picture
    cell_width, cell_height = cell
    top = part.top * cell_height
    width = picture.columns * cell_width
    height = part.rows * cell_height
    pixels = f"x=0,y={top},w={width},h={height}"
    cells = f"c={picture.columns},r={part.rows}"
    return f"\x1b_Ga=p,i={number},p={placement},{pixels},{cells},C=1,q=2\x1b\\"
