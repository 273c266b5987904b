"""Splits a model's answer into words and code while it arrives, in pieces that can be drawn.

Text that could still become a tag or a fence is held back, so that the result does not depend on
how the text is split into tokens. `bus.answers` says what counts as code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus.fences import (
    MAX_SKIPPED_FENCES,
    OpenFence,
    in_docstring,
    is_python,
    may_close,
    may_open,
    opening,
)

Kind = Literal["chat", "code", "thought"]
"""What a piece of an answer is; "chat" stands for words."""

MAX_TAG_CHARS = 300
"""A longer text is not the start of a tag."""
MAX_THOUGHT_TAG_CHARS = 20
"""No tag of thinking is longer."""

_BLANKS = re.compile(r"[ \t]+|\n")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")

_TAG = re.compile(r"<(?P<end>/?)assistant-(?P<name>repl-in|chat)(?:\s[^<>\n]{0,200})?>")
_TAG_STARTS = tuple(
    f"<{slash}assistant-{name}" for slash in ("", "/") for name in ("repl-in", "chat")
)
_PARTIAL_TAG = re.compile(r"</?assistant-(?:repl-in|chat)(?:\s[^<>\n]{0,200})?\Z")
_CODE_TAG_NAME = r"assistant-repl-in|python(?:-block)?"
_CODE_END_TAG = re.compile(rf"</(?P<name>{_CODE_TAG_NAME})\s{{0,10}}>")
_PARTIAL_CODE_END_TAG = re.compile(rf"</(?:{_CODE_TAG_NAME})\s{{0,10}}\Z")
_PYTHON_TAG = re.compile(r"<(?P<name>python(?:-block)?)>[ \t]{0,20}(?=\n)")
"""A tag that small models make up for code, alone in a line."""
_PYTHON_TAG_STARTS = ("<python>", "<python-block>")
_PARTIAL_PYTHON_TAG = re.compile(r"<python(?:-block)?>[ \t]{0,20}\Z")
_THOUGHT_TAG = re.compile(r"<(?P<end>/?)(?P<name>think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT_TAGS = tuple(
    f"<{slash}{name}>" for slash in ("", "/") for name in "think thinking thought reasoning".split()
)


class AnswerPiece(NamedTuple):
    """A piece of an answer while it arrives."""

    kind: Kind
    block: int
    """Index of the code block, from 0; for words, that of the next one."""
    text: str


@dataclass
class _GrowingPiece:
    """A piece to which more text may be added."""

    kind: Kind
    block: int
    texts: list[str] = field(default_factory=list)

    def finished(self) -> AnswerPiece:
        """Return the piece as it is now."""
        return AnswerPiece(self.kind, self.block, "".join(self.texts))


class _Line(NamedTuple):
    """What is left of a line after the text that was read."""

    text: str
    is_complete: bool
    """Whether no more text of it comes."""


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
        """The code of that fence, if it is Python."""
        self._skipped_fences = 0
        """How many lines in it could have closed it."""
        self._code_tag = ""
        """The name of the tag whose code is being read."""
        self._thought_end = ""
        """The tag that ends the thought, in lower case."""
        self._block = 0
        """Number of the block that is read, from 0; between blocks, of the next one."""
        self._block_has_code = False
        self._pieces: list[_GrowingPiece] = []
        """What was read since the last token."""

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

        # The last character may be the first half of "\r\n".
        if self._pending.endswith("\r") and not self._is_final:
            return []
        if "\r" in self._pending:
            self._pending = self._pending.replace("\r\n", "\n").replace("\r", "\n")

        while self._position < len(self._pending):
            if not self._state():
                break
        pieces = [piece.finished() for piece in self._pieces]
        self._pieces = []
        return pieces

    def end(self) -> list[AnswerPiece]:
        """Return what was held back; no more tokens may follow."""
        self._is_final = True
        return self.feed("")

    # The states. Each processes the start of the pending text; False if it needs more text first.

    def _read_words(self) -> bool:
        """Read words, up to a tag or a fence that begins something else."""
        # After a backquote, a tag is only written about.
        if self._pending[self._position] == "<" and self._char_before() != "`":
            if self._read_tag_in_words():
                return True
            if self._may_become_tag():
                return False
        if self._at_line_start:
            line = self._current_line()
            if not line.is_complete and may_open(line.text):
                return False
            fence = opening(line.text)
            if fence is not None:
                self._fence = fence
                self._fence_code = []
                self._skipped_fences = 0
                self._state = self._read_fence
                self._skip_fence_line(line.text)
                return True
        self._emit("chat", self._end_before("<"))
        return True

    def _read_tag_in_words(self) -> bool:
        """Read a tag; False if there is none yet."""
        thought_tag = _THOUGHT_TAG.match(self._pending, self._position)
        if thought_tag is not None:
            self._begin_thought(thought_tag)
            return True
        python_tag = _PYTHON_TAG.match(self._pending, self._position)
        if python_tag is not None and self._at_line_start:
            self._begin_tagged_code(python_tag, python_tag["name"])
            return True
        tag = _TAG.match(self._pending, self._position)
        if tag is None:
            return False
        if tag["name"] == "chat":
            self._position = tag.end()
            return True
        if tag["end"]:
            return False
        self._begin_tagged_code(tag, f"assistant-{tag['name']}")
        return True

    def _begin_tagged_code(self, tag: re.Match[str], name: str) -> None:
        """Read code, up to the end tag of this name."""
        self._code_tag = name
        self._position = tag.end()
        self._state = self._read_tag_start
        self._fence = None
        self._at_line_start = False

    def _may_become_tag(self) -> bool:
        """Return whether more text could make a tag of the pending text."""
        if self._is_final:
            return False
        start = self._pending[self._position : self._position + MAX_THOUGHT_TAG_CHARS].lower()
        if any(tag.startswith(start) for tag in _THOUGHT_TAGS):
            return True
        if self._at_line_start and self._is_unfinished(_PYTHON_TAG_STARTS, _PARTIAL_PYTHON_TAG):
            return True
        return self._is_unfinished(_TAG_STARTS, _PARTIAL_TAG)

    def _begin_thought(self, tag: re.Match[str]) -> None:
        """Read the tag that begins a thought.

        An end tag alone ends a thought that the prompt began.
        """
        self._emit("thought", tag.end())
        self._at_line_start = True
        if not tag["end"]:
            self._thought_end = f"</{tag['name'].lower()}>"
            self._state = self._read_thought

    def _read_thought(self) -> bool:
        """Read thinking, up to the tag that ends it."""
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
        """Read a line within a fence: code if the fence says so, or else words."""
        assert self._fence is not None
        is_python_fence = is_python(self._fence.info)
        is_code = is_python_fence and self._fences
        if self._at_line_start:
            line = self._current_line()
            if not line.is_complete and may_close(line.text):
                return False
            if self._fence.closed_by(line.text):
                self._skipped_fences += 1
                if not is_python_fence:
                    self._state = self._read_words
                elif self._ends_code():
                    self._skip_fence_line(line.text)
                    self._end_block()
                    return True
            if is_code:
                self._position += self._fence.margin(line.text)

        end = self._line_end()
        if is_python_fence:
            self._fence_code.append(self._pending[self._position : end])
        self._emit("code" if is_code else "chat", end)
        return True

    def _ends_code(self) -> bool:
        """Return whether a closing fence ends the code, and does not stand in a docstring of it.

        How often that is looked up is limited.
        """
        if self._skipped_fences > MAX_SKIPPED_FENCES:
            return True
        return not in_docstring("".join(self._fence_code))

    def _read_tag_start(self) -> bool:
        """Skip blank lines, and a fence that is not needed, after an opening tag."""
        blanks = _BLANK_LINES if self._at_line_start else _BLANKS
        blank = blanks.match(self._pending, self._position)
        if blank is not None:
            self._position = blank.end()
            self._at_line_start = self._pending[self._position - 1] == "\n"
            return True

        line = self._current_line()
        if not line.is_complete and (may_open(line.text) or not line.text.strip()):
            return False
        fence = opening(line.text)
        if fence is not None and (is_python(fence.info) or not fence.info.strip()):
            self._fence = fence
            self._position += len(line.text) + 1
        self._state = self._read_tag
        self._at_line_start = True
        return True

    def _read_tag(self) -> bool:
        """Read code within a tag, up to the tag that ends it."""
        if self._pending[self._position] == "<":
            end_tag = _CODE_END_TAG.match(self._pending, self._position)
            if end_tag is not None and end_tag["name"] == self._code_tag:
                self._position = end_tag.end()
                self._end_block()
                return True
            if self._is_unfinished((f"</{self._code_tag}",), _PARTIAL_CODE_END_TAG):
                return False
        elif self._at_line_start and self._fence is not None:
            line = self._current_line()
            if not line.is_complete and may_close(line.text):
                return False
            if self._fence.closed_by(line.text):
                self._position += len(line.text) + 1
                return True
        self._emit("code", self._end_before("<"))
        return True

    # What the states read and write.

    def _current_line(self) -> _Line:
        """Return the rest of the line."""
        end = self._pending.find("\n", self._position)
        if end < 0:
            return _Line(self._pending[self._position :], self._is_final)
        return _Line(self._pending[self._position : end], True)

    def _char_before(self) -> str:
        """Return the character before the current position; empty at the start of the answer."""
        if self._position:
            return self._pending[self._position - 1]
        return self._previous_char

    def _line_end(self) -> int:
        """Return where the next line starts, or the pending text ends."""
        return self._pending.find("\n", self._position) + 1 or len(self._pending)

    def _end_before(self, sign: str) -> int:
        """Return where the next sign stands in the line, or else the line ends.

        A sign at the current position does not count.
        """
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
        """Go on with words. A block without code does not count."""
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
        last_piece = self._pieces[-1] if self._pieces else None
        if last_piece is None or (last_piece.kind, last_piece.block) != (kind, self._block):
            last_piece = _GrowingPiece(kind, self._block)
            self._pieces.append(last_piece)
        last_piece.texts.append(text)
