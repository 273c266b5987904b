"""Fenced code blocks in Markdown: which are Python, and where they end, in a whole text and line by
line while it arrives."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")
_PYTHON = frozenset(("python", "python3", "py", "py3"))
MOST_PASSED = 8
"""Closing fences that are skipped inside a docstring: each requires another scan of the code."""

_STRINGS = re.compile(
    r"""#[^\n]*"""
    r"""|(?P<marks>\"{3}|'{3})(?:\\.?|[^\\])*?(?:(?P=marks)|(?P<open>\Z))"""  # an unterminated string is read once, to the end
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""",
    re.DOTALL,
)

LONGEST = 300
"""A longer line, in characters, is not a fence."""

_MARGIN = r"[ \t]*(?:>[ \t]*)*"
"""Indentation of a fence in a quotation or a list."""
_OPENING = re.compile(
    rf"(?P<margin>{_MARGIN})(?P<item>(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?)(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)"
)
_TO_BE_OPENING = re.compile(
    rf"{_MARGIN}(?:(?:[-*+]|\d{{1,9}}[.)]?)|(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:`*|~*))"
)
_CLOSING = re.compile(rf"{_MARGIN}(?P<marks>`{{3,}}|~{{3,}})[ \t]*")
_TO_BE_CLOSING = re.compile(rf"{_MARGIN}(?:`*|~*)[ \t]*")
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")


class Fence(NamedTuple):
    """A fenced block in a Markdown text; lines count from 0."""

    start: int
    """The line of the opening fence."""
    end: int
    """The first line after the block."""
    code: str
    closed: bool
    info: str
    """The language, as the opening line has it."""


def is_python(info: str, also: Collection[str] = ()) -> bool:
    """Return whether an info string names Python: ``python``, ``py``, ``Python3 {.x}``,
    ``{.python}``. False if it names no language.

    also: other names of Python, in lower case.
    """
    found = _LANGUAGE.match(info)
    return found is not None and (found[1].lower() in _PYTHON or found[1].lower() in also)


def in_docstring(code: str) -> bool:
    """Return whether code ends inside a triple-quoted string.

    It scans strings and comments itself: Python's parser also warns on stderr about escapes in
    them, and Python's tokenizer fails in several ways on code that is not quite Python.
    """
    return any(found["open"] is not None for found in _STRINGS.finditer(code))


def python_fences(text: str, also: Collection[str] = ()) -> Iterator[Fence]:
    """Yield the blocks of Python in a Markdown text, in order. Lines must end with ``\\n``. also:
    see `is_python`."""
    return (fence for fence in fences(text) if is_python(fence.info, also))


def fences(text: str) -> Iterator[Fence]:
    """Yield the blocks of every language, in order."""
    lines = text.split("\n")
    for token in _markdown().parse(text):
        if token.type == "fence" and token.map:
            start, end = token.map
            closed = end - start > 1 and _closes(lines[end - 1], token.markup)
            yield Fence(start, end, token.content, closed, token.info.strip())


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["code", "html_block", "inline"])
    parser.block.ruler.at(
        "fence", _fence, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return parser


def _closes(line: str, markup: str) -> bool:
    """Return whether a line, in a quotation or not, closes a fence that was opened with
    `markup`."""
    marks = line.strip(" \t>")
    return len(marks) >= len(markup) and set(marks) == {markup[0]}


def _line_of(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] : state.eMarks[line]]


def _fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Apply markdown-it's rule, except that a fence inside a docstring does not end a block of
    Python if a later one does."""
    from markdown_it.rules_block.fence import fence

    if not fence(state, start, end, silent):
        return False
    if silent:
        return True
    token = state.tokens[-1]
    if is_python(token.info) and in_docstring(token.content):
        lines = (
            line for line in range(state.line, end) if _closes(_line_of(state, line), token.markup)
        )
        for line in islice(lines, MOST_PASSED):
            content = state.getLines(start + 1, line, state.sCount[start], True)
            if not in_docstring(content):
                token.content, token.map = content, [start, line + 1]
                state.line = line + 1
                break
    return True


@dataclass(frozen=True, slots=True)
class OpenFence:
    """A fence whose end has not come yet."""

    marks: str
    info: str
    indent: int
    """Columns by which the lines of the block may be indented, counted from the quotation mark if
    there is one."""
    quoted: bool

    @property
    def python(self) -> bool:
        return is_python(self.info)

    def closed_by(self, line: str) -> bool:
        """Return whether a complete line closes the fence."""
        closing = _CLOSING.fullmatch(line) if len(line) <= LONGEST else None
        return closing is not None and closing["marks"].startswith(self.marks)

    def margin(self, line: str) -> int:
        """Return how many characters at the start of a line are indentation of the fence, not
        code."""
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
    return OpenFence(
        found["marks"], found["info"], inner + len(found["item"]), quotation is not None
    )


def may_open(line: str) -> bool:
    """Return whether the start of a line could still open a fence."""
    return len(line) <= LONGEST and (
        _TO_BE_OPENING.fullmatch(line) is not None or opening(line) is not None
    )


def may_close(line: str) -> bool:
    """Return whether the start of a line could still close a fence, or is indentation only."""
    return len(line) <= LONGEST and _TO_BE_CLOSING.fullmatch(line) is not None
