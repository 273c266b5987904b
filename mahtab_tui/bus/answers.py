"""Splits a model's answer into words and code. Only text classified as code here may run.

    <assistant-chat> … </assistant-chat>        words, without the tags
    <assistant-repl-in> … </assistant-repl-in>  code
    a Python fence                              code
    a fence of another language                 words, including the fence
    <think> … </think>                          words ("thought"), including the tags
    a tag right after a backtick                words

Text that could still become a tag or a fence is held back, so that the result does not depend on
how the text is split into tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

Kind = Literal["chat", "code", "thought"]

MAX_SKIPPED_FENCES = 8
"""Maximum number of closing fences that are skipped inside a docstring; each scans the code
again."""
MAX_FENCE_CHARS = 300
"""A longer line is not a fence."""
MAX_TAG_CHARS = 300
"""A longer text is not the start of a tag."""
MAX_THOUGHT_TAG_CHARS = 20

PYTHON_NAMES = frozenset(("python", "python3", "py", "py3"))
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
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")
_BLANKS = re.compile(r"[ \t]+|\n")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")

_TAG = re.compile(r"<(?P<end>/?)assistant-(?P<name>repl-in|chat)(?:\s[^<>\n]{0,200})?>")
_TAG_STARTS = tuple(
    f"<{slash}assistant-{name}" for slash in ("", "/") for name in ("repl-in", "chat")
)
_PARTIAL_TAG = re.compile(r"</?assistant-(?:repl-in|chat)(?:\s[^<>\n]{0,200})?\Z")
_CODE_END_TAG = re.compile(r"</assistant-repl-in\s{0,10}>")
_PARTIAL_CODE_END_TAG = re.compile(r"</assistant-repl-in\s{0,10}\Z")
_THOUGHT_TAG = re.compile(r"<(?P<end>/?)(?P<name>think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT_TAGS = tuple(
    f"<{slash}{name}>" for slash in ("", "/") for name in "think thinking thought reasoning".split()
)

_RECORD_TAG = r"(?:(?:user|assistant)-repl-out|user-repl-in|user-chat|assistant-tool|user-attachment|recent-activity|surroundings)"
_COPIED_TAG = re.compile(
    rf"(?m)^[ \t]{{0,20}}</?{_RECORD_TAG}(?:[ \t][^<>\n]{{0,200}})?>|</?{_RECORD_TAG}(?:[ \t][^<>\n]{{0,200}})?>[ \t]{{0,20}}$"
)
_COPIED_CODE_END_TAG = re.compile(r"(?m)</assistant-repl-in[ \t]{0,20}>[ \t]{0,20}$")


def is_python(info: str, also: Collection[str] = ()) -> bool:
    """Return whether a fence's info string names Python. also: its other names, in lower case."""
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
    """What follows the marks: the language."""
    indent: int
    """Characters before the marks, without those of a quotation."""
    quoted: bool
    """Whether the block is within a quotation (``> ``)."""

    def closed_by(self, line: str) -> bool:
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
    """The line after it."""
    code: str
    closed: bool
    info: str


def fences(text: str) -> Iterator[Fence]:
    """Yield the fenced blocks of a Markdown text. A fence inside a docstring does not close a
    Python block if a later one does."""
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
    """Whether a line opens a fence, or could if it went on."""
    is_partial = len(line) <= MAX_FENCE_CHARS and _PARTIAL_OPENING.fullmatch(line) is not None
    return is_partial or opening(line) is not None


def may_close(line: str) -> bool:
    """Whether a line closes a fence, or could if it went on."""
    return len(line) <= MAX_FENCE_CHARS and _PARTIAL_CLOSING.fullmatch(line) is not None


class AnswerPiece(NamedTuple):
    """A piece of an answer while it arrives."""

    kind: Kind
    block: int
    """Index of the code block, from 0; for words, of the next one."""
    text: str


class AnswerSplitter:
    """Splits tokens into pieces. Without `fences`, only tags mark code.

    It is a state machine: `_state` is the method that reads the start of the pending text.
    """

    def __init__(self, *, fences: bool = True) -> None:
        self._fences = fences
        self._pending = ""
        """Text from just before the part that is not classified yet."""
        self._position = 0
        """Where that part starts."""
        self._previous_char = ""
        """The character before the pending text."""
        self._is_final = False
        """Whether no more text comes."""
        self._at_line_start = True
        self._state = self._read_words
        self._fence: OpenFence | None = None
        """The fence of the code that is being read; in a tag, the one right after it."""
        self._fence_code: list[str] = []
        self._skipped_fences = 0
        self._thought_end = ""
        """The tag that ends the thought, in lower case."""
        self._block = 0
        self._block_has_code = False
        self._pieces: list[tuple[Kind, int, list[str]]] = []

    @property
    def in_tag(self) -> bool:
        """Whether a code tag is open that has code already."""
        return self._state == self._read_tag and self._block_has_code

    def feed(self, token: str) -> list[AnswerPiece]:
        """Add a token; return the pieces that are now certain."""
        if self._position:
            self._previous_char = self._pending[self._position - 1]
        self._pending = self._pending[self._position :] + token
        self._position = 0

        # May be the first half of "\r\n".
        if self._pending.endswith("\r") and not self._is_final:
            return []
        if "\r" in self._pending:
            self._pending = self._pending.replace("\r\n", "\n").replace("\r", "\n")

        while self._position < len(self._pending):
            if not self._state():
                break
        pieces = [AnswerPiece(kind, block, "".join(texts)) for kind, block, texts in self._pieces]
        self._pieces = []
        return pieces

    def end(self) -> list[AnswerPiece]:
        """Return what was held back; no more tokens may follow."""
        self._is_final = True
        return self.feed("")

    # The states. Each processes the start of the pending text; False if it needs more text first.

    def _read_words(self) -> bool:
        if self._pending[self._position] == "<":
            is_read = self._read_tag_in_words()
            if is_read is not None:
                return is_read
        if self._at_line_start:
            line, is_complete = self._current_line()
            if not is_complete and may_open(line):
                return False
            fence = opening(line)
            if fence is not None:
                self._fence = fence
                self._fence_code = []
                self._skipped_fences = 0
                self._state = self._read_fence
                self._skip_fence_line(line)
                return True
        self._emit("chat", self._end_before("<"))
        return True

    def _read_tag_in_words(self) -> bool | None:
        """Read a tag; None if there is none, so that its text is words."""
        previous_char = self._previous_char
        if self._position:
            previous_char = self._pending[self._position - 1]
        if previous_char == "`":
            return None

        thought_tag = _THOUGHT_TAG.match(self._pending, self._position)
        if thought_tag is not None:
            self._begin_thought(thought_tag)
            return True
        tag = _TAG.match(self._pending, self._position)
        if tag is None:
            if self._may_become_tag():
                return False
            return None
        if tag["name"] == "chat":
            self._position = tag.end()
            return True
        if tag["end"]:
            return None

        self._position = tag.end()
        self._state = self._read_tag_start
        self._fence = None
        self._at_line_start = False
        return True

    def _may_become_tag(self) -> bool:
        """Whether more text could make a tag of the pending text."""
        if self._is_final:
            return False
        start = self._pending[self._position : self._position + MAX_THOUGHT_TAG_CHARS].lower()
        if any(tag.startswith(start) for tag in _THOUGHT_TAGS):
            return True
        return self._is_unfinished(_TAG_STARTS, _PARTIAL_TAG)

    def _begin_thought(self, tag: re.Match[str]) -> None:
        """An unmatched end tag ends a thought that the prompt started."""
        self._emit("thought", tag.end())
        self._at_line_start = True
        if not tag["end"]:
            self._thought_end = f"</{tag['name'].lower()}>"
            self._state = self._read_thought

    def _read_thought(self) -> bool:
        if self._pending[self._position] == "<":
            end = self._position + len(self._thought_end)
            text = self._pending[self._position : end].lower()
            if text == self._thought_end:
                self._emit("thought", end)
                self._state = self._read_words
                self._at_line_start = True
                return True
            if not self._is_final and self._thought_end.startswith(text):
                return False
        self._emit("thought", self._end_before("<"))
        return True

    def _read_fence(self) -> bool:
        assert self._fence is not None
        is_python_fence = is_python(self._fence.info)
        is_code = is_python_fence and self._fences
        if self._at_line_start:
            line, is_complete = self._current_line()
            if not is_complete and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._skipped_fences += 1
                if not is_python_fence:
                    self._state = self._read_words
                elif self._skipped_fences > MAX_SKIPPED_FENCES or not in_docstring(
                    "".join(self._fence_code)
                ):
                    self._skip_fence_line(line)
                    self._end_block()
                    return True
            if is_code:
                self._position += self._fence.margin(line)

        end = self._line_end()
        if is_python_fence:
            self._fence_code.append(self._pending[self._position : end])
        self._emit("code" if is_code else "chat", end)
        return True

    def _read_tag_start(self) -> bool:
        """Skip blank lines, and a fence that is not needed, after an opening tag."""
        blanks = _BLANK_LINES if self._at_line_start else _BLANKS
        blank = blanks.match(self._pending, self._position)
        if blank is not None:
            self._position = blank.end()
            self._at_line_start = self._pending[self._position - 1] == "\n"
            return True

        line, is_complete = self._current_line()
        if not is_complete and (may_open(line) or not line.strip()):
            return False
        fence = opening(line)
        if fence is not None and (is_python(fence.info) or not fence.info.strip()):
            self._fence = fence
            self._position += len(line) + 1
        self._state = self._read_tag
        self._at_line_start = True
        return True

    def _read_tag(self) -> bool:
        if self._pending[self._position] == "<":
            end_tag = _CODE_END_TAG.match(self._pending, self._position)
            if end_tag is not None:
                self._position = end_tag.end()
                self._end_block()
                return True
            if self._is_unfinished(("</assistant-repl-in",), _PARTIAL_CODE_END_TAG):
                return False
        elif self._at_line_start and self._fence is not None:
            line, is_complete = self._current_line()
            if not is_complete and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._position += len(line) + 1
                return True
        self._emit("code", self._end_before("<"))
        return True

    # What the states read and write.

    def _current_line(self) -> tuple[str, bool]:
        """Return the rest of the line, and whether it is complete."""
        end = self._pending.find("\n", self._position)
        if end < 0:
            return self._pending[self._position :], self._is_final
        return self._pending[self._position : end], True

    def _line_end(self) -> int:
        """Return where the next line starts, or the pending text ends."""
        return self._pending.find("\n", self._position) + 1 or len(self._pending)

    def _end_before(self, sign: str) -> int:
        """Return where the next sign stands in the line, or else the line ends. A sign at the
        current position does not count."""
        line_end = self._line_end()
        sign_position = self._pending.find(sign, self._position + 1, line_end)
        if sign_position < 0:
            return line_end
        return sign_position

    def _is_unfinished(self, starts: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
        """Whether the pending text begins one of the starts, or matches a pattern for more."""
        if self._is_final or len(self._pending) - self._position > MAX_TAG_CHARS:
            return False
        text = self._pending[self._position :]
        return any(start.startswith(text) for start in starts) or pattern.match(text) is not None

    def _skip_fence_line(self, line: str) -> None:
        """Skip the line of a fence; it belongs to the words if its block does."""
        end = min(self._position + len(line) + 1, len(self._pending))
        if self._fence is not None and is_python(self._fence.info) and self._fences:
            self._position = end
            self._at_line_start = True
        else:
            self._emit("chat", end)

    def _end_block(self) -> None:
        self._state = self._read_words
        self._at_line_start = True
        if self._block_has_code:
            self._block += 1
        self._block_has_code = False

    def _emit(self, kind: Kind, end: int) -> None:
        """Add the text up to a position to the pieces."""
        text = self._pending[self._position : end]
        self._position = end
        self._at_line_start = text.endswith("\n")
        if kind == "code" and text.strip():
            self._block_has_code = True
        if not self._pieces or self._pieces[-1][:2] != (kind, self._block):
            self._pieces.append((kind, self._block, []))
        _, _, texts = self._pieces[-1]
        texts.append(text)


class AnswerPart(NamedTuple):
    """A part of a complete answer."""

    kind: Kind
    """Code in a ``thought`` never runs."""
    text: str
    closed: bool = True


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """A complete answer, or what there is of one."""

    parts: tuple[AnswerPart, ...]
    ended: bool = True
    """Whether the model completed its turn."""

    @property
    def code_blocks(self) -> tuple[str, ...]:
        """The code that may run. An unclosed block counts only if the model completed its turn."""
        code_parts = (part for part in self.parts if part.kind == "code")
        return tuple(part.text for part in code_parts if part.closed or self.ended)

    @property
    def chat(self) -> str:
        """Words and thoughts."""
        return "\n\n".join(part.text for part in self.parts if part.kind != "code")

    @property
    def prose(self) -> str:
        """Words without thoughts."""
        return "\n\n".join(part.text for part in self.parts if part.kind == "chat")


def parse_response(text: str, *, ended: bool = True, also: Collection[str] = ()) -> ParsedResponse:
    """Split any text by ``<assistant-repl-in>`` tags and Python fences.

    Args:
        ended: Whether the model completed its turn.
        also: See `is_python`.
    """
    parts = tuple(part for part in _split_parts(text, also) if part.text)
    return ParsedResponse(parts, ended)


def strip_copied_tags(text: str) -> str:
    """Remove tags at the start or end of a line that a model copied from its prompt."""
    text = _COPIED_TAG.sub("", text)
    if "<assistant-repl-in" in text:
        return text
    return _COPIED_CODE_END_TAG.sub("", text)


def _split_parts(text: str, also: Collection[str]) -> Iterator[AnswerPart]:
    splitter = AnswerSplitter(fences=False)
    pieces = [*splitter.feed(text), *splitter.end()]
    sections = [
        (kind, "".join(piece.text for piece in section_pieces))
        for (kind, _), section_pieces in groupby(pieces, key=lambda piece: piece[:2])
    ]
    thought_count = _count_leading_thoughts(sections)
    for number, (kind, section) in enumerate(sections, 1):
        if kind == "thought" or number <= thought_count:
            yield AnswerPart("thought", section.strip("\n"))
        elif kind == "code":
            is_last = number == len(sections)
            yield AnswerPart("code", _trim(section), not (is_last and splitter.in_tag))
        else:
            yield from _split_markdown(section, also)


def _count_leading_thoughts(sections: Sequence[tuple[Kind, str]]) -> int:
    """Count the sections before an unmatched ``</think>`` on a line of its own."""
    texts = [text for _, text in sections]
    thought_count = 0
    for index, (kind, text) in enumerate(sections):
        if kind != "thought" or not text.startswith("</"):
            continue
        preceding = texts[index - 1] if index else ""
        following = ""
        if index + 1 < len(texts):
            following = texts[index + 1]
        if preceding[-1:] in "\n" and following[:1] in "\n":
            thought_count = index
    return thought_count


def _split_markdown(text: str, also: Collection[str]) -> Iterator[AnswerPart]:
    """Yield the Python blocks of a text, and the words between them."""
    lines = text.split("\n")
    words_start = 0
    for fence in fences(text):
        if not is_python(fence.info, also):
            continue
        yield AnswerPart("chat", _trim("\n".join(lines[words_start : fence.start])))
        yield AnswerPart("code", _trim(fence.code), fence.closed)
        words_start = fence.end
    yield AnswerPart("chat", _trim("\n".join(lines[words_start:])))


def _trim(text: str) -> str:
    """Remove blank lines at the start, and blanks at the end."""
    lines = text.rstrip().split("\n")
    first = 0
    while first < len(lines) and not lines[first].strip():
        first += 1
    return "\n".join(lines[first:])
