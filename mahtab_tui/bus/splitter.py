"""Splits a model's answer into words and code blocks while it streams.

    <assistant-chat> … </assistant-chat>        words; the tags are left out
    <assistant-repl-in> … </assistant-repl-in>  code
    a fence of Python                           code
    a fence of another language                 words, including the fence
    <think> … </think>                          words ("thought"), including the tags
    a tag right after a backtick                words

Text that could still become a tag or a fence is held back, so that the result does not depend on
how the text is cut into tokens.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from mahtab_tui.bus.fences import MOST_PASSED, OpenFence, in_docstring, may_close, may_open, opening

Kind = Literal["chat", "code", "thought"]

_TAG = re.compile(r"<(?P<end>/?)assistant-(?P<name>repl-in|chat)(?:\s[^<>\n]{0,200})?>")
_TO_BE_TAG = re.compile(r"</?assistant-(?:repl-in|chat)(?:\s[^<>\n]{0,200})?\Z")
_END = re.compile(r"</assistant-repl-in\s{0,10}>")
_TO_BE_END = re.compile(r"</assistant-repl-in\s{0,10}\Z")
_THOUGHT = re.compile(r"<(?P<end>/?)(?P<name>think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHTS = tuple(
    f"<{slash}{name}>"
    for slash in ("", "/")
    for name in ("think", "thinking", "thought", "reasoning")
)
_HEADS = tuple(f"<{slash}assistant-{name}" for slash in ("", "/") for name in ("repl-in", "chat"))
_BLANKS = re.compile(r"[ \t]+|\n")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")


class AnswerPiece(NamedTuple):
    """A stretch of words or of code."""

    kind: Kind
    block: int
    """Index of the code block, from 0; for words, of the next block."""
    text: str


class AnswerSplitter:
    """Converts tokens to pieces. With ``fences=False`` only tags make code, and fences of Python
    are words."""

    def __init__(self, *, fences: bool = True) -> None:
        self._fences = fences
        self._held, self._at = "", 0
        """The text that is held, and the position up to which it is processed."""
        self._before = ""
        """The character before `_held`."""
        self._final = False
        self._line_start = True
        self._step = self._words
        self._fence: OpenFence | None = None
        self._fence_code: list[str] = []
        """The lines of an open fence of Python."""
        self._passed = 0
        """Closing lines that were skipped because they are inside a docstring."""
        self._thought_end = ""
        """The tag that ends the thought."""
        self._block = 0
        self._block_has_code = False
        self._pieces: list[tuple[Kind, int, list[str]]] = []

    @property
    def in_tag(self) -> bool:
        """Whether a tag has started code that has not ended."""
        return self._step == self._tag and self._block_has_code

    def feed(self, token: str) -> list[AnswerPiece]:
        """Add a token; return the pieces that are certain now."""
        if self._at:
            self._before = self._held[self._at - 1]
        self._held, self._at = self._held[self._at :] + token, 0
        if self._held.endswith("\r") and not self._final:
            return []  # may be half of "\r\n"
        if "\r" in self._held:
            self._held = self._held.replace("\r\n", "\n").replace("\r", "\n")
        while self._at < len(self._held) and self._step():
            pass
        pieces, self._pieces = self._pieces, []
        return [AnswerPiece(kind, block, "".join(texts)) for kind, block, texts in pieces]

    def end(self) -> list[AnswerPiece]:
        """End the answer; return the rest."""
        self._final = True
        return self.feed("")

    # The states: each processes the start of the held text, and returns False if it needs more text
    # first.

    def _words(self) -> bool:
        if self._here() == "<" and (done := self._tag_in_words()) is not None:
            return done
        if self._line_start:
            line, whole = self._line()
            if not whole and may_open(line):
                return False
            if fence := opening(line):
                self._open_fence(fence, line)
                return True
        self._say("chat", self._up_to("<"))
        return True

    def _tag_in_words(self) -> bool | None:
        """Process a tag; None if it is not one of ours."""
        if (self._held[self._at - 1] if self._at else self._before) == "`":
            return None
        if thought := _THOUGHT.match(self._held, self._at):
            self._begin_thought(thought)
            return True
        tag = _TAG.match(self._held, self._at)
        if tag is None:
            return (
                False
                if self._unfinished(_HEADS, _TO_BE_TAG) or self._unfinished_thought()
                else None
            )
        if tag["name"] == "chat":
            self._at = tag.end()
            return True
        if tag["end"]:
            return None
        self._at = tag.end()
        self._step, self._fence, self._line_start = self._tag_begins, None, False
        return True

    def _begin_thought(self, tag: re.Match[str]) -> None:
        """Begin a thought. An unmatched end tag is a thought too: the prompt began it, and all text
        before the tag belongs to it."""
        self._say("thought", tag.end())
        self._line_start = True
        if not tag["end"]:
            self._thought_end, self._step = f"</{tag['name'].lower()}>", self._thought

    def _thought(self) -> bool:
        if self._here() == "<":
            here = self._held[self._at : self._at + len(self._thought_end)].lower()
            if here == self._thought_end:
                self._say("thought", self._at + len(here))
                self._step, self._line_start = self._words, True
                return True
            if not self._final and self._thought_end.startswith(here):
                return False
        self._say("thought", self._up_to("<"))
        return True

    def _open_fence(self, fence: OpenFence, line: str) -> None:
        self._fence, self._fence_code, self._passed = fence, [], 0
        self._step = self._python if fence.python else self._foreign
        self._fence_line(line)

    def _foreign(self) -> bool:
        """Inside a fence of another language."""
        assert self._fence is not None
        if self._line_start:
            line, whole = self._line()
            if not whole and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._step = self._words
        self._say("chat", self._up_to("\n"))
        return True

    def _python(self) -> bool:
        """Inside a fence of Python."""
        assert self._fence is not None
        if self._line_start:
            line, whole = self._line()
            if not whole and may_close(line):
                return False
            if self._fence.closed_by(line) and not self._in_docstring():
                self._fence_line(line)
                self._end_block()
                return True
            if self._fences:
                self._at += self._fence.margin(line)
        end = self._up_to("\n")
        self._fence_code.append(self._held[self._at : end])
        self._say("code" if self._fences else "chat", end)
        return True

    def _tag_begins(self) -> bool:
        """After the opening tag: skip blanks, blank lines, and a fence around the code."""
        if blank := (_BLANK_LINES if self._line_start else _BLANKS).match(self._held, self._at):
            self._at = blank.end()
            self._line_start = self._held[self._at - 1] == "\n"
            return True
        line, whole = self._line()
        if not whole and (may_open(line) or not line.strip()):
            return False
        fence = opening(line)
        if fence is not None and (fence.python or not fence.info.strip()):
            self._fence = fence
            self._at += len(line) + 1
        self._step, self._line_start = self._tag, True
        return True

    def _tag(self) -> bool:
        """Between the tags."""
        if self._here() == "<":
            if end := _END.match(self._held, self._at):
                self._at = end.end()
                self._end_block()
                return True
            if self._unfinished(("</assistant-repl-in",), _TO_BE_END):
                return False
        elif self._line_start and self._fence is not None:
            line, whole = self._line()
            if not whole and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._at += len(line) + 1
                return True
        self._say("code", self._up_to("<"))
        return True

    def _here(self) -> str:
        return self._held[self._at]

    def _line(self) -> tuple[str, bool]:
        """Return the held part of the line, and whether it is complete."""
        end = self._held.find("\n", self._at)
        return (
            (self._held[self._at :], self._final) if end < 0 else (self._held[self._at : end], True)
        )

    def _up_to(self, sign: str) -> int:
        """Return the end of the line, including its newline, or the next `sign` before that; at
        least one character on."""
        end = self._held.find("\n", self._at) + 1 or len(self._held)
        found = self._held.find(sign, self._at + 1, end)
        return end if found < 0 or sign == "\n" else found

    def _unfinished(self, heads: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
        """Return whether the held text could still become a tag."""
        if self._final or len(self._held) - self._at > 300:
            return False
        rest = self._held[self._at :]
        return any(head.startswith(rest) for head in heads) or pattern.match(rest) is not None

    def _unfinished_thought(self) -> bool:
        """Return whether the held text could still become a tag of a thought."""
        rest = self._held[self._at : self._at + 20].lower()
        return not self._final and any(tag.startswith(rest) for tag in _THOUGHTS)

    def _in_docstring(self) -> bool:
        self._passed += 1
        return self._passed <= MOST_PASSED and in_docstring("".join(self._fence_code))

    def _fence_line(self, line: str) -> None:
        """Skip a line that begins or ends a block of Python."""
        end = min(self._at + len(line) + 1, len(self._held))
        if self._fence is not None and self._fence.python and self._fences:
            self._at, self._line_start = end, True
        else:
            self._say("chat", end)

    def _end_block(self) -> None:
        self._step, self._line_start = self._words, True
        self._block += self._block_has_code
        self._block_has_code = False

    def _say(self, kind: Kind, end: int) -> None:
        text, self._at = self._held[self._at : end], end
        self._line_start = text.endswith("\n")
        if kind == "code" and text.strip():
            self._block_has_code = True
        if not self._pieces or self._pieces[-1][:2] != (kind, self._block):
            self._pieces.append((kind, self._block, []))
        self._pieces[-1][2].append(text)
