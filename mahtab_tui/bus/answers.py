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

_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")
_PYTHON = frozenset(("python", "python3", "py", "py3"))
MOST_PASSED = 8
"""Maximum number of closing fences that are skipped inside a docstring; each scans the code
again."""

_STRINGS = re.compile(
    r"""#[^\n]*"""
    r"""|(?P<marks>\"{3}|'{3})(?:\\.?|[^\\])*?(?:(?P=marks)|(?P<open>\Z))"""  # an unterminated string is read once, to the end
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""",
    re.DOTALL,
)

LONGEST = 300

_MARGIN = r"[ \t]*(?:>[ \t]*)*"
_OPENING = re.compile(
    rf"(?P<margin>{_MARGIN})(?P<item>(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?)(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)"
)
_PARTIAL_OPENING = re.compile(
    rf"{_MARGIN}(?:(?:[-*+]|\d{{1,9}}[.)]?)|(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:`*|~*))"
)
_CLOSING = re.compile(rf"{_MARGIN}(?P<marks>`{{3,}}|~{{3,}})[ \t]*")
_PARTIAL_CLOSING = re.compile(rf"{_MARGIN}(?:`*|~*)[ \t]*")
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")


def is_python(info: str, also: Collection[str] = ()) -> bool:
    """Return whether a fence's info string names Python. also: its other names, in lower case."""
    found = _LANGUAGE.match(info)
    return found is not None and (found[1].lower() in _PYTHON or found[1].lower() in also)


def in_docstring(code: str) -> bool:
    """Return whether code, which need not be valid Python, ends inside a triple-quoted string."""
    return any(found["open"] is not None for found in _STRINGS.finditer(code))


@dataclass(frozen=True, slots=True)
class OpenFence:
    marks: str
    info: str
    indent: int
    quoted: bool

    def closed_by(self, line: str) -> bool:
        closing = _CLOSING.fullmatch(line) if len(line) <= LONGEST else None
        return closing is not None and closing["marks"].startswith(self.marks)

    def margin(self, line: str) -> int:
        """Return how many characters at a line's start are the fence's indentation, not code."""
        quotation = _QUOTATION.match(line) if self.quoted else None
        start = quotation.end() if quotation else 0
        blanks = len(line) - start - len(line[start:].lstrip(" "))
        return start + min(blanks, self.indent)


def opening(line: str) -> OpenFence | None:
    found = _OPENING.fullmatch(line) if len(line) <= LONGEST else None
    if found is None or (found["marks"][0] == "`" and "`" in found["info"]):
        return None
    quotation = _QUOTATION.match(found["margin"])
    margin = len(found["margin"] + found["item"]) - (quotation.end() if quotation else 0)
    return OpenFence(found["marks"], found["info"], margin, quotation is not None)


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
        code: list[str] = []
        closing: list[int] = []
        """Closing lines, the last of which is no longer inside a docstring."""
        for number in range(start + 1, len(lines)):
            line = lines[number]
            if fence.closed_by(line):
                closing.append(number)
                inside = is_python(fence.info) and in_docstring("".join(code))
                if not inside or len(closing) > MOST_PASSED:
                    break
            code.append(line[fence.margin(line) :] + "\n")
        else:
            inside = True
        end = closing[0 if inside else -1] if closing else len(lines)
        body, after = "".join(code[: end - start - 1]), min(end + 1, len(lines))
        yield Fence(start, after, body, bool(closing), fence.info.strip())
        start = end + 1


def may_open(line: str) -> bool:
    is_partial = len(line) <= LONGEST and _PARTIAL_OPENING.fullmatch(line) is not None
    return is_partial or opening(line) is not None


def may_close(line: str) -> bool:
    return len(line) <= LONGEST and _PARTIAL_CLOSING.fullmatch(line) is not None


Kind = Literal["chat", "code", "thought"]

_TAG = re.compile(r"<(?P<end>/?)assistant-(?P<name>repl-in|chat)(?:\s[^<>\n]{0,200})?>")
_PARTIAL_TAG = re.compile(r"</?assistant-(?:repl-in|chat)(?:\s[^<>\n]{0,200})?\Z")
_END = re.compile(r"</assistant-repl-in\s{0,10}>")
_PARTIAL_END = re.compile(r"</assistant-repl-in\s{0,10}\Z")
_THOUGHT = re.compile(r"<(?P<end>/?)(?P<name>think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHTS = tuple(
    f"<{slash}{name}>" for slash in ("", "/") for name in "think thinking thought reasoning".split()
)
_HEADS = tuple(f"<{slash}assistant-{name}" for slash in ("", "/") for name in ("repl-in", "chat"))
_BLANKS = re.compile(r"[ \t]+|\n")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")


class AnswerPiece(NamedTuple):
    kind: Kind
    block: int
    """Index of the code block, from 0; for words, of the next one."""
    text: str


class AnswerSplitter:
    """Splits tokens into pieces. Without `fences`, only tags mark code."""

    def __init__(self, *, fences: bool = True) -> None:
        self._fences = fences
        self._pending, self._at = "", 0
        self._before = ""
        self._final = False
        self._line_start = True
        self._step = self._words
        self._fence: OpenFence | None = None
        self._fence_code: list[str] = []
        self._passed = 0
        self._thought_end = ""
        self._block = 0
        self._block_has_code = False
        self._pieces: list[tuple[Kind, int, list[str]]] = []

    @property
    def in_tag(self) -> bool:
        return self._step == self._tag and self._block_has_code

    def feed(self, token: str) -> list[AnswerPiece]:
        """Add a token; return the pieces that are now certain."""
        if self._at:
            self._before = self._pending[self._at - 1]
        self._pending, self._at = self._pending[self._at :] + token, 0
        if self._pending.endswith("\r") and not self._final:
            return []  # may be the first half of "\r\n"
        if "\r" in self._pending:
            self._pending = self._pending.replace("\r\n", "\n").replace("\r", "\n")
        while self._at < len(self._pending) and self._step():
            pass
        pieces, self._pieces = self._pieces, []
        return [AnswerPiece(kind, block, "".join(texts)) for kind, block, texts in pieces]

    def end(self) -> list[AnswerPiece]:
        self._final = True
        return self.feed("")

    # The states. Each processes the start of the pending text; False if it needs more text first.

    def _words(self) -> bool:
        if self._pending[self._at] == "<" and (done := self._tag_in_words()) is not None:
            return done
        if self._line_start:
            line, whole = self._line()
            if not whole and may_open(line):
                return False
            if fence := opening(line):
                self._fence, self._fence_code, self._passed = fence, [], 0
                self._step = self._in_fence
                self._fence_line(line)
                return True
        self._emit("chat", self._up_to("<"))
        return True

    def _tag_in_words(self) -> bool | None:
        if (self._pending[self._at - 1] if self._at else self._before) == "`":
            return None
        if thought := _THOUGHT.match(self._pending, self._at):
            self._begin_thought(thought)
            return True
        tag = _TAG.match(self._pending, self._at)
        if tag is None:
            begun = self._pending[self._at : self._at + 20].lower()
            is_thought = not self._final and any(tag.startswith(begun) for tag in _THOUGHTS)
            return False if is_thought or self._unfinished(_HEADS, _PARTIAL_TAG) else None
        if tag["name"] == "chat":
            self._at = tag.end()
            return True
        if tag["end"]:
            return None
        self._at = tag.end()
        self._step, self._fence, self._line_start = self._tag_begins, None, False
        return True

    def _begin_thought(self, tag: re.Match[str]) -> None:
        """An unmatched end tag ends a thought that the prompt started."""
        self._emit("thought", tag.end())
        self._line_start = True
        if not tag["end"]:
            self._thought_end, self._step = f"</{tag['name'].lower()}>", self._thought

    def _thought(self) -> bool:
        if self._pending[self._at] == "<":
            here = self._pending[self._at : self._at + len(self._thought_end)].lower()
            if here == self._thought_end:
                self._emit("thought", self._at + len(here))
                self._step, self._line_start = self._words, True
                return True
            if not self._final and self._thought_end.startswith(here):
                return False
        self._emit("thought", self._up_to("<"))
        return True

    def _in_fence(self) -> bool:
        assert self._fence is not None
        python = is_python(self._fence.info)
        if self._line_start:
            line, whole = self._line()
            if not whole and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._passed += 1
                if not python:
                    self._step = self._words
                elif self._passed > MOST_PASSED or not in_docstring("".join(self._fence_code)):
                    self._fence_line(line)
                    self._end_block()
                    return True
            if python and self._fences:
                self._at += self._fence.margin(line)
        end = self._up_to("\n")
        if python:
            self._fence_code.append(self._pending[self._at : end])
        self._emit("code" if python and self._fences else "chat", end)
        return True

    def _tag_begins(self) -> bool:
        if blank := (_BLANK_LINES if self._line_start else _BLANKS).match(self._pending, self._at):
            self._at = blank.end()
            self._line_start = self._pending[self._at - 1] == "\n"
            return True
        line, whole = self._line()
        if not whole and (may_open(line) or not line.strip()):
            return False
        fence = opening(line)
        if fence is not None and (is_python(fence.info) or not fence.info.strip()):
            self._fence = fence
            self._at += len(line) + 1
        self._step, self._line_start = self._tag, True
        return True

    def _tag(self) -> bool:
        if self._pending[self._at] == "<":
            if end := _END.match(self._pending, self._at):
                self._at = end.end()
                self._end_block()
                return True
            if self._unfinished(("</assistant-repl-in",), _PARTIAL_END):
                return False
        elif self._line_start and self._fence is not None:
            line, whole = self._line()
            if not whole and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._at += len(line) + 1
                return True
        self._emit("code", self._up_to("<"))
        return True

    def _line(self) -> tuple[str, bool]:
        end = self._pending.find("\n", self._at)
        if end < 0:
            return self._pending[self._at :], self._final
        return self._pending[self._at : end], True

    def _up_to(self, sign: str) -> int:
        end = self._pending.find("\n", self._at) + 1 or len(self._pending)
        found = self._pending.find(sign, self._at + 1, end)
        return end if found < 0 or sign == "\n" else found

    def _unfinished(self, heads: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
        if self._final or len(self._pending) - self._at > 300:
            return False
        rest = self._pending[self._at :]
        return any(head.startswith(rest) for head in heads) or pattern.match(rest) is not None

    def _fence_line(self, line: str) -> None:
        end = min(self._at + len(line) + 1, len(self._pending))
        if self._fence is not None and is_python(self._fence.info) and self._fences:
            self._at, self._line_start = end, True
        else:
            self._emit("chat", end)

    def _end_block(self) -> None:
        self._step, self._line_start = self._words, True
        self._block += self._block_has_code
        self._block_has_code = False

    def _emit(self, kind: Kind, end: int) -> None:
        text, self._at = self._pending[self._at : end], end
        self._line_start = text.endswith("\n")
        if kind == "code" and text.strip():
            self._block_has_code = True
        if not self._pieces or self._pieces[-1][:2] != (kind, self._block):
            self._pieces.append((kind, self._block, []))
        self._pieces[-1][2].append(text)


_RECORD = r"(?:(?:user|assistant)-repl-out|user-repl-in|user-chat|assistant-tool|user-attachment|recent-activity|surroundings)"
_COPIED = re.compile(
    rf"(?m)^[ \t]{{0,20}}</?{_RECORD}(?:[ \t][^<>\n]{{0,200}})?>|</?{_RECORD}(?:[ \t][^<>\n]{{0,200}})?>[ \t]{{0,20}}$"
)
_COPIED_END = re.compile(r"(?m)</assistant-repl-in[ \t]{0,20}>[ \t]{0,20}$")


class AnswerPart(NamedTuple):
    kind: Kind
    """Code in a ``thought`` never runs."""
    text: str
    closed: bool = True


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    parts: tuple[AnswerPart, ...]
    ended: bool = True
    """Whether the model completed its turn."""

    @property
    def code_blocks(self) -> tuple[str, ...]:
        """The code that may run. An unclosed block counts only if the model completed its turn."""
        code = (part for part in self.parts if part.kind == "code")
        return tuple(part.text for part in code if part.closed or self.ended)

    @property
    def chat(self) -> str:
        return "\n\n".join(part.text for part in self.parts if part.kind != "code")

    @property
    def spoken(self) -> str:
        return "\n\n".join(part.text for part in self.parts if part.kind == "chat")


def parse_response(text: str, *, ended: bool = True, also: Collection[str] = ()) -> ParsedResponse:
    """Split any text by ``<assistant-repl-in>`` tags and Python fences. also: see `is_python`."""
    return ParsedResponse(tuple(part for part in _parts(text, also) if part.text), ended)


def strip_copied_tags(text: str) -> str:
    """Remove tags at the start or end of a line that a model copied from its prompt."""
    text = _COPIED.sub("", text)
    return text if "<assistant-repl-in" in text else _COPIED_END.sub("", text)


def _parts(text: str, also: Collection[str]) -> Iterator[AnswerPart]:
    splitter = AnswerSplitter(fences=False)
    pieces = [*splitter.feed(text), *splitter.end()]
    stretches = [
        (kind, "".join(piece.text for piece in group))
        for (kind, _), group in groupby(pieces, key=lambda piece: piece[:2])
    ]
    thoughts = _count_leading_thoughts(stretches)
    for number, (kind, stretch) in enumerate(stretches, 1):
        if kind == "thought" or number <= thoughts:
            yield AnswerPart("thought", stretch.strip("\n"))
        elif kind == "code":
            closed = number < len(stretches) or not splitter.in_tag
            yield AnswerPart("code", _trimmed(stretch), closed)
        else:
            yield from _markdown_parts(stretch, also)


def _count_leading_thoughts(stretches: Sequence[tuple[Kind, str]]) -> int:
    """Count the stretches before an unmatched ``</think>`` on a line of its own."""
    texts, found = ["", *(text for _, text in stretches), ""], 0
    for number, (kind, text) in enumerate(stretches):
        is_alone = texts[number][-1:] in "\n" and texts[number + 2][:1] in "\n"
        if kind == "thought" and text.startswith("</") and is_alone:
            found = number
    return found


def _markdown_parts(text: str, also: Collection[str]) -> Iterator[AnswerPart]:
    lines, done = text.split("\n"), 0
    for fence in fences(text):
        if not is_python(fence.info, also):
            continue
        yield AnswerPart("chat", _trimmed("\n".join(lines[done : fence.start])))
        yield AnswerPart("code", _trimmed(fence.code), fence.closed)
        done = fence.end
    yield AnswerPart("chat", _trimmed("\n".join(lines[done:])))


def _trimmed(text: str) -> str:
    lines = text.rstrip().split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    return "\n".join(lines[first:])
