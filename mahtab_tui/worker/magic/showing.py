"""How cells and values are shown: `%%html`, `%%markdown` and `%precision`."""

from __future__ import annotations

import sys

from ..values.displays import Display, show
from ..values.pretty import FloatFormat
from ..values.rich_forms import MAX_TEXT_CHARS
from .state import MagicContext

_NUMPY_DEFAULT_PRECISION = 8


def show_cell_as(
    mime: str, opening: str, closing: str, argument_and_text: str, caller: MagicContext
) -> None:
    """`%%html` and the like: show the cell itself as a type of text.

    Args:
        mime: The type.
        opening: Written before the cell.
        closing: Written after it.
        argument_and_text: The magic's first line, which has no meaning, and the cell.
        caller: The cell's context.
    """
    cell = argument_and_text.partition("\n")[2].strip()
    text = f"{opening}{cell}{closing}\n"
    is_plain = len(text) > MAX_TEXT_CHARS
    show(Display("" if is_plain else mime, text, text))


def set_precision(argument: str, caller: MagicContext) -> None:
    """`%precision`: set how floats are written, by a number of decimals, or a format such as
    ``%.2e``."""
    text = argument.strip()
    pattern = f"%.{int(text)}f" if text.isdecimal() else text
    if pattern:
        str(pattern % 1.0)  # raises an error if it is not a format of one number
    FloatFormat.pattern = pattern
    numpy = sys.modules.get("numpy")
    if numpy is not None and (text.isdecimal() or not text):
        numpy.set_printoptions(precision=int(text or _NUMPY_DEFAULT_PRECISION))
    if pattern:
        print(f"floats are written as {pattern % 3.14159265}")
    else:
        print("floats are as Python's")
