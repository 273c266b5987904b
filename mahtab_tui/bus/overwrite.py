"""What a terminal would show of text that goes back over itself: progress bars, backspaces."""

from __future__ import annotations

import re

_PIECES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|.", re.DOTALL)
_ERASE_LINE = re.compile(r"\x1b\[([012]?)K")


def collapse(text: str) -> str:
    """The text with each line as it stood in the end. Colours are kept; moves to other lines are not followed."""
    if "\r" not in text and "\b" not in text and "\x1b[" not in text:
        return text
    return "\n".join(map(_collapse_line, text.split("\n")))


def _collapse_line(line: str) -> str:
    line = line.rstrip("\r") if line.endswith("\r") else line
    if "\r" not in line and "\b" not in line and _ERASE_LINE.search(line) is None:
        return line
    cells: list[str] = []
    column, style = 0, ""
    for piece in _PIECES.findall(line):
        if piece == "\r":
            column = 0
        elif piece == "\b":
            column = max(0, column - 1)
        elif erased := _ERASE_LINE.fullmatch(piece):
            if erased[1] in ("", "0"):
                del cells[column:]
            elif erased[1] == "2":
                cells = []
        elif len(piece) > 1:
            style += piece
        else:
            cells.extend([" "] * (column + 1 - len(cells)))
            cells[column] = style + piece
            style = ""
            column += 1
    return "".join(cells) + style
