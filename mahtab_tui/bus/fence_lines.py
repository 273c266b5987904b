"""The line that opens a fence, the line that closes it, and what stands between, while a text is still coming."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mahtab_tui.bus.fences import is_python

LONGEST = 300
"""Characters of a line that can be a fence."""

_MARGIN = r"[ \t]*(?:>[ \t]*)*"
"""What a fence in a quotation or a list is indented by."""
_OPENING = re.compile(rf"(?P<margin>{_MARGIN})(?P<item>(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?)(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)")
_TO_BE_OPENING = re.compile(rf"{_MARGIN}(?:(?:[-*+]|\d{{1,9}}[.)]?)|(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:`*|~*))")
_CLOSING = re.compile(rf"{_MARGIN}(?P<marks>`{{3,}}|~{{3,}})[ \t]*")
_TO_BE_CLOSING = re.compile(rf"{_MARGIN}(?:`*|~*)[ \t]*")
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")


@dataclass(frozen=True, slots=True)
class OpenFence:
    """A fence that has been opened."""

    marks: str
    info: str
    indent: int
    """Columns by which the lines of the block may be indented, in their quotation where they are in one."""
    quoted: bool

    @property
    def python(self) -> bool:
        return is_python(self.info)

    def closed_by(self, line: str) -> bool:
        """Whether a whole line closes it."""
        closing = _CLOSING.fullmatch(line) if len(line) <= LONGEST else None
        return closing is not None and closing["marks"].startswith(self.marks)

    def margin(self, line: str) -> int:
        """How many characters at the beginning of a line are not the block's own."""
        quotation = _QUOTATION.match(line) if self.quoted else None
        start = quotation.end() if quotation else 0
        blanks = len(line) - start - len(line[start:].lstrip(" "))
        return start + min(blanks, self.indent)


def opening(line: str) -> OpenFence | None:
    """The fence that a whole line opens."""
    found = _OPENING.fullmatch(line) if len(line) <= LONGEST else None
    if found is None or (found["marks"][0] == "`" and "`" in found["info"]):
        return None
    quotation = _QUOTATION.match(found["margin"])
    inner = len(found["margin"]) - (quotation.end() if quotation else 0)
    return OpenFence(found["marks"], found["info"], inner + len(found["item"]), quotation is not None)


def may_open(line: str) -> bool:
    """Whether the beginning of a line may yet open a fence."""
    return len(line) <= LONGEST and (_TO_BE_OPENING.fullmatch(line) is not None or opening(line) is not None)


def may_close(line: str) -> bool:
    """Whether the beginning of a line may yet close a fence, or is all margin."""
    return len(line) <= LONGEST and _TO_BE_CLOSING.fullmatch(line) is not None
