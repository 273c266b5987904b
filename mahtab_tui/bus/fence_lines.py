"""Recognises the lines that open and close a fence while a text is still arriving."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mahtab_tui.bus.fences import is_python

LONGEST = 300
"""A longer line, in characters, is not a fence."""

_MARGIN = r"[ \t]*(?:>[ \t]*)*"
"""Indentation of a fence in a quotation or a list."""
_OPENING = re.compile(rf"(?P<margin>{_MARGIN})(?P<item>(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?)(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)")
_TO_BE_OPENING = re.compile(rf"{_MARGIN}(?:(?:[-*+]|\d{{1,9}}[.)]?)|(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:`*|~*))")
_CLOSING = re.compile(rf"{_MARGIN}(?P<marks>`{{3,}}|~{{3,}})[ \t]*")
_TO_BE_CLOSING = re.compile(rf"{_MARGIN}(?:`*|~*)[ \t]*")
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")


@dataclass(frozen=True, slots=True)
class OpenFence:
    """A fence whose end has not come yet."""

    marks: str
    info: str
    indent: int
    """Columns by which the lines of the block may be indented, counted from the quotation mark if there is one."""
    quoted: bool

    @property
    def python(self) -> bool:
        return is_python(self.info)

    def closed_by(self, line: str) -> bool:
        """Return whether a complete line closes the fence."""
        closing = _CLOSING.fullmatch(line) if len(line) <= LONGEST else None
        return closing is not None and closing["marks"].startswith(self.marks)

    def margin(self, line: str) -> int:
        """Return how many characters at the start of a line are indentation of the fence, not code."""
        quotation = _QUOTATION.match(line) if self.quoted else None
        start = quotation.end() if quotation else 0
        blanks = len(line) - start - len(line[start:].lstrip(" "))
        return start + min(blanks, self.indent)


def opening(line: str) -> OpenFence | None:
    """Return the fence that a complete line opens, if any."""
    found = _OPENING.fullmatch(line) if len(line) <= LONGEST else None
    if found is None or (found["marks"][0] == "`" and "`" in found["info"]):
        return None
    quotation = _QUOTATION.match(found["margin"])
    inner = len(found["margin"]) - (quotation.end() if quotation else 0)
    return OpenFence(found["marks"], found["info"], inner + len(found["item"]), quotation is not None)


def may_open(line: str) -> bool:
    """Return whether the start of a line could still open a fence."""
    return len(line) <= LONGEST and (_TO_BE_OPENING.fullmatch(line) is not None or opening(line) is not None)


def may_close(line: str) -> bool:
    """Return whether the start of a line could still close a fence, or is indentation only."""
    return len(line) <= LONGEST and _TO_BE_CLOSING.fullmatch(line) is not None
