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
from functools import cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")
_PYTHON = frozenset(("python", "python3", "py", "py3"))
MOST_PASSED = 8
"""Maximum number of closing fences skipped inside a docstring, because each requires another scan
of the code."""

_STRINGS = re.compile(
    r"""#[^\n]*"""
    r"""|(?P<marks>\"{3}|'{3})(?:\\.?|[^\\])*?(?:(?P=marks)|(?P<open>\Z))"""  # an unterminated string is read once, to the end
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""",
    re.DOTALL,
)

LONGEST = 300
"""Maximum characters of a fence line."""

_MARGIN = r"[ \t]*(?:>[ \t]*)*"
"""Indentation of a fence in a quotation or list."""
_OPENING = re.compile(
    rf"(?P<margin>{_MARGIN})(?P<item>(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?)(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)"
)
_PARTIAL_OPENING = re.compile(
    rf"{_MARGIN}(?:(?:[-*+]|\d{{1,9}}[.)]?)|(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:`*|~*))"
)
_CLOSING = re.compile(rf"{_MARGIN}(?P<marks>`{{3,}}|~{{3,}})[ \t]*")
_PARTIAL_CLOSING = re.compile(rf"{_MARGIN}(?:`*|~*)[ \t]*")
_QUOTATION = re.compile(r"[ \t]*(?:>[ \t]?)+")


class Fence(NamedTuple):
    """A fenced block in a Markdown text; lines count from 0."""

    start: int
    """The line of the opening fence."""
    end: int
    """The line after the block."""
    code: str
    closed: bool
    info: str
    """The language, as written in the opening line."""


def is_python(info: str, also: Collection[str] = ()) -> bool:
    """Return whether an info string names Python, as do ``python``, ``py``, ``Python3 {.x}`` and
    ``{.python}``. False if it names no language.

    also: other names of Python, in lower case.
    """
    found = _LANGUAGE.match(info)
    return found is not None and (found[1].lower() in _PYTHON or found[1].lower() in also)


def in_docstring(code: str) -> bool:
    """Return whether code ends inside a triple-quoted string.

    This scans strings and comments itself: Python's parser also warns on stderr about escapes, and
    Python's tokenizer fails in several ways on text that is not quite Python.
    """
    return any(found["open"] is not None for found in _STRINGS.finditer(code))


def python_fences(text: str, also: Collection[str] = ()) -> Iterator[Fence]:
    """Yield the Python blocks of a Markdown text, in order. Lines must end with ``\\n``. also: see
    `is_python`."""
    return (fence for fence in fences(text) if is_python(fence.info, also))


def fences(text: str) -> Iterator[Fence]:
    """Yield the fenced blocks of all languages, in order."""
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
    """Return whether a line, in a quotation or not, closes a fence opened with `markup`."""
    marks = line.strip(" \t>")
    return len(marks) >= len(markup) and set(marks) == {markup[0]}


def _line_of(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] : state.eMarks[line]]


def _fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Apply markdown-it's rule, except that a fence inside a docstring does not close a Python
    block if a later one does."""
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
    """A fence that is not closed yet."""

    marks: str
    info: str
    indent: int
    """Maximum indentation of the block's lines, counted from the quotation mark if there is one."""
    quoted: bool

    @property
    def python(self) -> bool:
        return is_python(self.info)

    def closed_by(self, line: str) -> bool:
        """Return whether a complete line closes the fence."""
        closing = _CLOSING.fullmatch(line) if len(line) <= LONGEST else None
        return closing is not None and closing["marks"].startswith(self.marks)

    def margin(self, line: str) -> int:
        """Return the number of characters at the start of a line that are the fence's indentation,
        not code."""
        quotation = _QUOTATION.match(line) if self.quoted else None
        start = quotation.end() if quotation else 0
        blanks = len(line) - start - len(line[start:].lstrip(" "))
        return start + min(blanks, self.indent)


def opening(line: str) -> OpenFence | None:
    """Return the fence that a complete line opens; None if it opens none."""
    found = _OPENING.fullmatch(line) if len(line) <= LONGEST else None
    if found is None or (found["marks"][0] == "`" and "`" in found["info"]):
        return None
    quotation = _QUOTATION.match(found["margin"])
    inner = len(found["margin"]) - (quotation.end() if quotation else 0)
    return OpenFence(
        found["marks"], found["info"], inner + len(found["item"]), quotation is not None
    )


def may_open(line: str) -> bool:
    """Return whether a line that starts like this could still open a fence."""
    return len(line) <= LONGEST and (
        _PARTIAL_OPENING.fullmatch(line) is not None or opening(line) is not None
    )


def may_close(line: str) -> bool:
    """Return whether a line that starts like this could still close a fence, or is only
    indentation."""
    return len(line) <= LONGEST and _PARTIAL_CLOSING.fullmatch(line) is not None


Kind = Literal["chat", "code", "thought"]

_TAG = re.compile(r"<(?P<end>/?)assistant-(?P<name>repl-in|chat)(?:\s[^<>\n]{0,200})?>")
_PARTIAL_TAG = re.compile(r"</?assistant-(?:repl-in|chat)(?:\s[^<>\n]{0,200})?\Z")
_END = re.compile(r"</assistant-repl-in\s{0,10}>")
_PARTIAL_END = re.compile(r"</assistant-repl-in\s{0,10}\Z")
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
    """A stretch of words or code."""

    kind: Kind
    block: int
    """Index of the code block, from 0; for words, that of the next block."""
    text: str


class AnswerSplitter:
    """Splits tokens into pieces. With ``fences=False`` only tags mark code, and Python fences are
    words."""

    def __init__(self, *, fences: bool = True) -> None:
        self._fences = fences
        self._pending, self._at = "", 0
        """The unprocessed text, and the position up to which it has been processed."""
        self._before = ""
        """The character before `_pending`."""
        self._final = False
        self._line_start = True
        self._step = self._words
        self._fence: OpenFence | None = None
        self._fence_code: list[str] = []
        """The lines of an open Python fence."""
        self._passed = 0
        """Closing lines skipped because they are inside a docstring."""
        self._thought_end = ""
        """The tag that will end the current thought."""
        self._block = 0
        self._block_has_code = False
        self._pieces: list[tuple[Kind, int, list[str]]] = []

    @property
    def in_tag(self) -> bool:
        """Whether a tag has started code that is still open."""
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
        """End the answer; return the remaining pieces."""
        self._final = True
        return self.feed("")

    # The states: each processes the start of the pending text, and returns False if it needs more
    # text first.

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
        self._emit("chat", self._up_to("<"))
        return True

    def _tag_in_words(self) -> bool | None:
        """Process a tag; None if it is not one of ours."""
        if (self._pending[self._at - 1] if self._at else self._before) == "`":
            return None
        if thought := _THOUGHT.match(self._pending, self._at):
            self._begin_thought(thought)
            return True
        tag = _TAG.match(self._pending, self._at)
        if tag is None:
            return (
                False
                if self._unfinished(_HEADS, _PARTIAL_TAG) or self._unfinished_thought()
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
        """Start a thought. An unmatched end tag also ends a thought: the prompt started it, and all
        text before the tag belongs to it."""
        self._emit("thought", tag.end())
        self._line_start = True
        if not tag["end"]:
            self._thought_end, self._step = f"</{tag['name'].lower()}>", self._thought

    def _thought(self) -> bool:
        if self._here() == "<":
            here = self._pending[self._at : self._at + len(self._thought_end)].lower()
            if here == self._thought_end:
                self._emit("thought", self._at + len(here))
                self._step, self._line_start = self._words, True
                return True
            if not self._final and self._thought_end.startswith(here):
                return False
        self._emit("thought", self._up_to("<"))
        return True

    def _open_fence(self, fence: OpenFence, line: str) -> None:
        self._fence, self._fence_code, self._passed = fence, [], 0
        self._step = self._python if fence.python else self._foreign
        self._fence_line(line)

    def _foreign(self) -> bool:
        """Process text inside a fence of another language."""
        assert self._fence is not None
        if self._line_start:
            line, whole = self._line()
            if not whole and may_close(line):
                return False
            if self._fence.closed_by(line):
                self._step = self._words
        self._emit("chat", self._up_to("\n"))
        return True

    def _python(self) -> bool:
        """Process text inside a Python fence."""
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
        self._fence_code.append(self._pending[self._at : end])
        self._emit("code" if self._fences else "chat", end)
        return True

    def _tag_begins(self) -> bool:
        """After the opening tag, skip blanks, blank lines, and a fence around the code."""
        if blank := (_BLANK_LINES if self._line_start else _BLANKS).match(self._pending, self._at):
            self._at = blank.end()
            self._line_start = self._pending[self._at - 1] == "\n"
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
        """Process text between the tags."""
        if self._here() == "<":
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

    def _here(self) -> str:
        return self._pending[self._at]

    def _line(self) -> tuple[str, bool]:
        """Return the pending part of the line, and whether it is complete."""
        end = self._pending.find("\n", self._at)
        return (
            (self._pending[self._at :], self._final)
            if end < 0
            else (self._pending[self._at : end], True)
        )

    def _up_to(self, sign: str) -> int:
        """Return the end of the line (including its newline) or the next `sign`, whichever comes
        first, at least one character on."""
        end = self._pending.find("\n", self._at) + 1 or len(self._pending)
        found = self._pending.find(sign, self._at + 1, end)
        return end if found < 0 or sign == "\n" else found

    def _unfinished(self, heads: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
        """Return whether the pending text could still become a tag."""
        if self._final or len(self._pending) - self._at > 300:
            return False
        rest = self._pending[self._at :]
        return any(head.startswith(rest) for head in heads) or pattern.match(rest) is not None

    def _unfinished_thought(self) -> bool:
        """Return whether the pending text could still become the tag of a thought."""
        rest = self._pending[self._at : self._at + 20].lower()
        return not self._final and any(tag.startswith(rest) for tag in _THOUGHTS)

    def _in_docstring(self) -> bool:
        self._passed += 1
        return self._passed <= MOST_PASSED and in_docstring("".join(self._fence_code))

    def _fence_line(self, line: str) -> None:
        """Skip a line that opens or closes a Python block."""
        end = min(self._at + len(line) + 1, len(self._pending))
        if self._fence is not None and self._fence.python and self._fences:
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
    """A stretch of an answer."""

    kind: Kind
    """``thought`` is what the model thinks aloud. Code in it never runs."""
    text: str
    closed: bool = True
    """False for code that is not closed."""


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """An answer in parts."""

    parts: tuple[AnswerPart, ...]
    ended: bool = True
    """Whether the model completed its turn, rather than being cut off."""

    @property
    def code_blocks(self) -> tuple[str, ...]:
        """The code that may run. An unclosed block counts only if the model completed its turn."""
        return tuple(
            part.text for part in self.parts if part.kind == "code" and (part.closed or self.ended)
        )

    @property
    def chat(self) -> str:
        """The words, including thoughts."""
        return "\n\n".join(part.text for part in self.parts if part.kind != "code")

    @property
    def spoken(self) -> str:
        """The words without thoughts."""
        return "\n\n".join(part.text for part in self.parts if part.kind == "chat")


def parse_response(text: str, *, ended: bool = True, also: Collection[str] = ()) -> ParsedResponse:
    """Split an answer by ``<assistant-repl-in>`` tags and Python fences in Markdown. Accepts any
    text.

    also: other names for Python in fences.
    """
    return ParsedResponse(tuple(part for part in _parts(text, also) if part.text), ended)


def strip_copied_tags(text: str) -> str:
    """Remove tags that a model copied from the records in its prompt.

    Only tags at the start or end of a line are removed, so that code about such tags is not
    changed.
    """
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
            yield AnswerPart(
                "code", _trimmed(stretch), closed=number < len(stretches) or not splitter.in_tag
            )
        else:
            yield from _markdown_parts(stretch, also)


def _count_leading_thoughts(stretches: Sequence[tuple[Kind, str]]) -> int:
    """Return the number of leading stretches that are thoughts started by the prompt: those before
    an unmatched ``</think>`` on a line of its own."""
    ends = (
        number
        for number, (kind, text) in enumerate(stretches)
        if kind == "thought" and text.startswith("</")
    )
    alone = (
        number
        for number in ends
        if _text(stretches, number - 1)[-1:] in "\n" and _text(stretches, number + 1)[:1] in "\n"
    )
    return max(alone, default=0)


def _text(stretches: Sequence[tuple[Kind, str]], number: int) -> str:
    return stretches[number][1] if 0 <= number < len(stretches) else ""


def _markdown_parts(text: str, also: Collection[str]) -> Iterator[AnswerPart]:
    lines, done = text.split("\n"), 0
    for fence in python_fences(text, also):
        yield AnswerPart("chat", _trimmed("\n".join(lines[done : fence.start])))
        yield AnswerPart("code", _trimmed(fence.code), fence.closed)
        done = fence.end
    yield AnswerPart("chat", _trimmed("\n".join(lines[done:])))


def _trimmed(text: str) -> str:
    """Remove blank lines around a text; the first line keeps its indentation."""
    lines = text.rstrip().split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    return "\n".join(lines[first:])
