"""Edits of whole lines and words, as pure functions on text."""

from __future__ import annotations

import re
from collections.abc import Sequence

COMMENT = "# "

_WORD = re.compile(r"\W*\w*")
"""A word and what stands between it and the cursor, in either direction."""

_ARGUMENT = re.compile(r"\s*\S*")


def word_start(line: str, column: int) -> int:
    """Return the column where the word before `column` starts, as readline's Alt+B finds it."""
    return column - _length_at_end(_WORD, line[:column])


def word_end(line: str, column: int) -> int:
    """Return the column where the word after `column` ends, as readline's Alt+F finds it."""
    match = _WORD.match(line, column)
    return column if match is None else match.end()


def argument_start(line: str, column: int) -> int:
    """Return the column where the text between blanks before `column` starts, for Ctrl+W."""
    return column - _length_at_end(_ARGUMENT, line[:column])


def _length_at_end(pattern: re.Pattern[str], text: str) -> int:
    """Return how many characters at the end of a text match a pattern.

    The text is read from its end, which takes linear time.
    """
    match = pattern.match(text[::-1])
    return 0 if match is None else match.end()


def toggle_comment(lines: Sequence[str]) -> list[str]:
    """Comment out lines of Python at their common indentation; if all are comments, undo that.

    Blank lines stay as they are, unless there are no others.
    """
    code_lines = [line for line in lines if line.strip()]
    if not code_lines:
        return [COMMENT + line for line in lines]
    if all(line.lstrip().startswith("#") for line in code_lines):
        return [_uncomment(line) for line in lines]

    indent = min(len(line) - len(line.lstrip()) for line in code_lines)
    commented_lines = []
    for line in lines:
        if line.strip():
            line = line[:indent] + COMMENT + line[indent:]
        commented_lines.append(line)
    return commented_lines


def _uncomment(line: str) -> str:
    if not line.strip():
        return line
    indent, _, code = line.partition("#")
    return indent + code.removeprefix(" ")
