"""Splits a model's complete answer into words and code. Only text classified as code here may run.

<assistant-chat> … </assistant-chat>        words, without the tags
<assistant-repl-in> … </assistant-repl-in>  code
<python> … </python>                        code, if the first tag has a line of its own
a Python fence                              code
a fence of another language                 words, including the fence
<think> … </think>                          words ("thought"), including the tags
a tag right after a backtick                words
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from mahtab_tui.bus.answer_splitter import AnswerSplitter, Kind
from mahtab_tui.bus.fences import fences, is_python
from mahtab_tui.bus.records import AssistantChat

_RECORD_TAG = r"(?:(?:user|assistant)-repl-out|user-repl-in|user-chat|assistant-tool|user-attachment|recent-activity|surroundings)"
_COPIED_TAG = re.compile(
    rf"(?m)^[ \t]{{0,20}}</?{_RECORD_TAG}(?:[ \t][^<>\n]{{0,200}})?>|</?{_RECORD_TAG}(?:[ \t][^<>\n]{{0,200}})?>[ \t]{{0,20}}$"
)
_COPIED_CODE_END_TAG = re.compile(r"(?m)</assistant-repl-in[ \t]{0,20}>[ \t]{0,20}$")


class AnswerPart(NamedTuple):
    """A part of a complete answer."""

    kind: Kind
    """Code in a ``thought`` never runs."""
    text: str
    is_closed: bool = True
    """Whether code has its end tag or fence."""


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """A complete answer, or what there is of one."""

    parts: tuple[AnswerPart, ...]
    has_ended: bool = True
    """Whether the model completed its turn."""

    @property
    def code_blocks(self) -> tuple[str, ...]:
        """The code that may run. An unclosed block counts only if the model completed its turn."""
        code_parts = (part for part in self.parts if part.kind == "code")
        return tuple(part.text for part in code_parts if part.is_closed or self.has_ended)

    @property
    def chat(self) -> str:
        """Words and thoughts."""
        return "\n\n".join(part.text for part in self.parts if part.kind != "code")

    @property
    def prose(self) -> str:
        """Words without thoughts."""
        return "\n\n".join(part.text for part in self.parts if part.kind == "chat")


def parse_response(
    text: str, *, has_ended: bool = True, python_names: Collection[str] = ()
) -> ParsedResponse:
    """Split any text by tags for code and Python fences.

    Args:
        text: The answer.
        has_ended: Whether the model completed its turn.
        python_names: Further names of Python in fences, in lower case.
    """
    parts = tuple(part for part in _split_parts(text, python_names) if part.text)
    return ParsedResponse(parts, has_ended)


def answer_parts(record: AssistantChat) -> Sequence[AnswerPart]:
    """Return the parts of an answer; what an agent wrote is words."""
    if record.is_prose:
        return [AnswerPart("chat", record.text)] if record.text else []
    return parse_response(record.text).parts


def answer_prose(record: AssistantChat) -> str:
    """Return the words of an answer without its thoughts and code."""
    return "\n\n".join(part.text for part in answer_parts(record) if part.kind == "chat")


def strip_copied_tags(text: str) -> str:
    """Remove tags at the start or end of a line that a model copied from its prompt."""
    text = _COPIED_TAG.sub("", text)
    if "<assistant-repl-in" in text:
        return text
    return _COPIED_CODE_END_TAG.sub("", text)


def _split_parts(text: str, python_names: Collection[str]) -> Iterator[AnswerPart]:
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
            yield from _split_markdown(section, python_names)


def _count_leading_thoughts(sections: Sequence[tuple[Kind, str]]) -> int:
    """Count the sections before an unmatched ``</think>`` on a line of its own."""
    texts = [text for _, text in sections]
    thought_count = 0
    for index, (kind, text) in enumerate(sections):
        if kind != "thought" or not text.startswith("</"):
            continue
        starts_line = index == 0 or texts[index - 1].endswith("\n")
        ends_line = index + 1 == len(texts) or texts[index + 1].startswith("\n")
        if starts_line and ends_line:
            thought_count = index
    return thought_count


def _split_markdown(text: str, python_names: Collection[str]) -> Iterator[AnswerPart]:
    """Yield the Python blocks of a text, and the words between them."""
    lines = text.split("\n")
    words_start = 0
    for fence in fences(text):
        if not is_python(fence.info, python_names):
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
