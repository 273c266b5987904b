"""Finds the fenced blocks of a Markdown text and the Python code in them, and writes such blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_SKIPPED_FENCES = 8
"""Maximum number of closing fences that are skipped inside a docstring; each scans the code
again."""
MAX_FENCE_CHARS = 300
"""A longer line is not a fence."""

PYTHON_NAMES = frozenset(("python", "python3", "py", "py3"))
"""Names of Python after a fence."""
_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")
_STRING_OR_COMMENT = re.compile(
    r"""#[^\n]*"""
    r"""|(?P<marks>\"{3}|'{3})(?:\\.?|[^\\])*?(?:(?P=marks)|(?P<open>\Z))"""  # an unterminated string is read once, to the end
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""",
    re.DOTALL,
)

_MARGIN = r"[ \t]*(?:>[ \t]*)*"
_OPENING_FENCE = re.compile(
    rf"(?P<margin>{_MARGIN})(?P<item>(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?)(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)"
)
_PARTIAL_OPENING = re.compile(
    rf"{_MARGIN}(?:(?:[-*+]|\d{{1,9}}[.)]?)|(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:`*|~*))"
)
_CLOSING_FENCE = re.compile(rf"{_MARGIN}(?P<marks>`{{3,}}|~{{3,}})[ \t]*")
_PARTIAL_CLOSING = re.compile(rf"{_MARGIN}(?:`*|~*)[ \t]*")
_TICKS = re.compile("`{3,}")
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")


def is_python(info: str, also: Collection[str] = ()) -> bool:
    """Return whether a fence's info string names Python.

    Args:
        info: The info string.
        also: Its other names, in lower case.
    """
    match = _LANGUAGE.match(info)
    if match is None:
        return False
    language = match[1].lower()
    return language in PYTHON_NAMES or language in also


def in_docstring(code: str) -> bool:
    """Return whether code, which need not be valid Python, ends inside a triple-quoted string."""
    return any(match["open"] is not None for match in _STRING_OR_COMMENT.finditer(code))


@dataclass(frozen=True, slots=True)
class OpenFence:
    """The line that opens a fenced block."""

    marks: str
    info: str
    """What follows the marks, such as the language."""
    indent: int
    """Characters before the marks, without those of a quotation."""
    quoted: bool
    """Whether the block is within a quotation (``> ``)."""

    def closed_by(self, line: str) -> bool:
        """Return whether a line closes the block."""
        if len(line) > MAX_FENCE_CHARS:
            return False
        closing = _CLOSING_FENCE.fullmatch(line)
        return closing is not None and closing["marks"].startswith(self.marks)

    def margin(self, line: str) -> int:
        """Return how many characters at a line's start are the fence's indentation, not code."""
        start = 0
        if self.quoted and (quotation := _QUOTATION.match(line)):
            start = quotation.end()
        blank_count = len(line) - start - len(line[start:].lstrip(" "))
        return start + min(blank_count, self.indent)


def opening(line: str) -> OpenFence | None:
    """Return the fence that a line opens; None if it opens none."""
    if len(line) > MAX_FENCE_CHARS:
        return None
    match = _OPENING_FENCE.fullmatch(line)
    if match is None:
        return None
    # A line such as ```x``` is inline code.
    if match["marks"][0] == "`" and "`" in match["info"]:
        return None
    quotation = _QUOTATION.match(match["margin"])
    indent = len(match["margin"] + match["item"])
    if quotation is not None:
        indent -= quotation.end()
    return OpenFence(match["marks"], match["info"], indent, quotation is not None)


class Fence(NamedTuple):
    """A fenced block; lines count from 0."""

    start: int
    end: int
    """The line after the block."""
    code: str
    """The lines between the fences, without the fence's indentation."""
    closed: bool
    """Whether it has a closing fence; else it goes to the end of the text."""
    info: str
    """What follows the marks of the opening fence, such as the language."""


def fences(text: str) -> Iterator[Fence]:
    """Yield the fenced blocks of a Markdown text.

    A fence inside a docstring does not close a Python block if a later one does.
    """
    lines = text.split("\n")
    start = 0
    while start < len(lines):
        fence = opening(lines[start])
        if fence is None:
            start += 1
            continue
        block = _read_block(lines, start, fence)
        yield block
        # The line after the closing one; an unclosed block ends with the text.
        start = block.end if block.closed else len(lines)


def _read_block(lines: Sequence[str], start: int, fence: OpenFence) -> Fence:
    """Read the fenced block that a line opens."""
    code_lines: list[str] = []
    closing_lines: list[int] = []
    """Lines that could close the block; all but the last are inside a docstring."""
    ends_in_docstring = True
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if fence.closed_by(line):
            closing_lines.append(number)
            ends_in_docstring = is_python(fence.info) and in_docstring("".join(code_lines))
            if not ends_in_docstring or len(closing_lines) > MAX_SKIPPED_FENCES:
                break
        code_lines.append(line[fence.margin(line) :] + "\n")
    else:
        ends_in_docstring = True

    # If the docstring is never closed, it was none: the first line closed the block.
    end = len(lines)
    if closing_lines:
        if ends_in_docstring:
            end = closing_lines[0]
        else:
            end = closing_lines[-1]
    code = "".join(code_lines[: end - start - 1])
    next_line = min(end + 1, len(lines))
    return Fence(start, next_line, code, bool(closing_lines), fence.info.strip())


def may_open(line: str) -> bool:
    """Return whether a line opens a fence, or could if it went on."""
    is_partial = len(line) <= MAX_FENCE_CHARS and _PARTIAL_OPENING.fullmatch(line) is not None
    return is_partial or opening(line) is not None


def may_close(line: str) -> bool:
    """Return whether a line closes a fence, or could if it went on."""
    return len(line) <= MAX_FENCE_CHARS and _PARTIAL_CLOSING.fullmatch(line) is not None


def fenced(code: str, language: str = "python") -> str:
    """Return a Markdown block that the code cannot close."""
    longest_run = max(map(len, _TICKS.findall(code)), default=2)
    ticks = "`" * (longest_run + 1)
    end = "" if code.endswith("\n") else "\n"
    return f"{ticks}{language}\n{code}{end}{ticks}"
