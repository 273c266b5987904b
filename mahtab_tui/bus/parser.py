"""Splits a model's whole answer into words and code. Only what is code here may run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from mahtab_tui.bus.fences import python_fences
from mahtab_tui.bus.splitter import AnswerSplitter, Kind

_RECORD = r"(?:(?:user|assistant)-repl-out|user-repl-in|user-chat|assistant-tool|user-attachment|recent-activity|surroundings)"
_COPIED = re.compile(
    rf"(?m)^[ \t]{{0,20}}</?{_RECORD}(?:[ \t][^<>\n]{{0,200}})?>|</?{_RECORD}(?:[ \t][^<>\n]{{0,200}})?>[ \t]{{0,20}}$"
)
_COPIED_END = re.compile(r"(?m)</assistant-repl-in[ \t]{0,20}>[ \t]{0,20}$")


class AnswerPart(NamedTuple):
    """A stretch of an answer."""

    kind: Kind
    """``thought``: what the model thinks aloud. Code in it never runs."""
    text: str
    closed: bool = True
    """False for code without an end."""


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """An answer in parts, in order."""

    parts: tuple[AnswerPart, ...]
    ended: bool = True
    """Whether the model ended its turn itself, rather than being cut off."""

    @property
    def code_blocks(self) -> tuple[str, ...]:
        """The code that may run. A block without an end counts only if the model ended its turn
        itself."""
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
    """Split an answer by ``<assistant-repl-in>`` tags and Markdown fences of Python. Accepts any
    text.

    also: other names that a fence of Python may have.
    """
    return ParsedResponse(tuple(part for part in _parts(text, also) if part.text), ended)


def without_copied_tags(text: str) -> str:
    """Return an answer without the tags that its model has copied from the records it was shown.

    Only tags that begin or end a line are removed, so that code about such tags stays.
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
    thoughts = _end_of_thoughts(stretches)
    for number, (kind, stretch) in enumerate(stretches, 1):
        if kind == "thought" or number <= thoughts:
            yield AnswerPart("thought", stretch.strip("\n"))
        elif kind == "code":
            yield AnswerPart(
                "code", _trimmed(stretch), closed=number < len(stretches) or not splitter.in_tag
            )
        else:
            yield from _markdown_parts(stretch, also)


def _end_of_thoughts(stretches: Sequence[tuple[Kind, str]]) -> int:
    """Return how many stretches are thoughts that the prompt began: those before an unmatched
    ``</think>`` on a line of its own."""
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
    first = next((place for place, line in enumerate(lines) if line.strip()), len(lines))
    return "\n".join(lines[first:])
