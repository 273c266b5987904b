"""Fenced code blocks in Markdown, as both parsers understand them."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PYTHON = re.compile(r"\{?\s*\.?(?:python|py)(?:3(?:\.\d+)?)?\b", re.IGNORECASE)
_UNTERMINATED = "unterminated triple-quoted"


class Fence(NamedTuple):
    """One fenced block; lines count from 0."""

    start: int
    """The line of the opening fence."""
    end: int
    """The line after the closing fence, or after the text."""
    info: str
    content: str
    closed: bool


def is_python(info: str) -> bool:
    """Whether a fence's info string means Python: ``python``, ``py``, ``python3``, ``Python {.x}``, ``{.python}``."""
    return _PYTHON.match(info.strip()) is not None


def inside_string(code: str) -> bool:
    """Whether code ends inside a triple-quoted string."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        return _UNTERMINATED in (error.msg or "")
    except (ValueError, RecursionError, MemoryError):
        return False
    return False


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable(["code", "html_block"])


def first_fence(text: str) -> Fence | None:
    """The first fenced block of a text. A Python block that a fence inside a docstring would cut is extended to where it parses."""
    lines = text.split("\n")
    for token in _markdown().parse(text):
        if token.type == "fence" and token.map is not None:
            start, end = token.map
            closed = end - start > 1 and _closes(lines[end - 1], token.markup)
            fence = Fence(start, end, token.info, token.content, closed)
            return _extended(fence, lines, token.markup) if closed and is_python(token.info) else fence
    return None


def _closes(line: str, markup: str) -> bool:
    """Whether a line closes a fence that was opened with `markup` (inside lists and quotes, too)."""
    marks = line.strip().lstrip("> \t")
    return len(marks) >= len(markup) and set(marks) == {markup[0]}


def _extended(fence: Fence, lines: list[str], markup: str) -> Fence:
    if not inside_string(fence.content):
        return fence
    content = fence.content
    for place in range(fence.end, len(lines)):
        if _closes(lines[place], markup):
            content = "\n".join(lines[fence.start + 1 : place]) + "\n"
            if not inside_string(content):
                return fence._replace(end=place + 1, content=content)
    return fence
