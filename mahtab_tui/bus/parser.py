"""A model's whole answer, taken apart into words and code. What is code here is what will run."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.fences import Fence, first_fence, is_python
from mahtab_tui.bus.records import emit

_OPEN = re.compile(r"<assistant-repl-in(?:\s[^<>\n]*)?>")
_CLOSE = re.compile(r"</assistant-repl-in\s*>")
_CHAT = re.compile(r"</?assistant-chat(?:\s[^<>\n]*)?>")


class Part(NamedTuple):
    """A stretch of an answer."""

    kind: Literal["chat", "code"]
    text: str
    closed: bool = True
    """Whether the block was ended by its author."""


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """An answer in parts, in order."""

    parts: tuple[Part, ...]
    ended: bool

    @property
    def code_blocks(self) -> tuple[str, ...]:
        """What may run: a block that was never closed only where the model really ended its turn."""
        return tuple(part.text for part in self.parts if part.kind == "code" and (part.closed or self.ended))

    @property
    def chat(self) -> str:
        """The words."""
        return "\n\n".join(part.text.strip("\n") for part in self.parts if part.kind == "chat")


def parse_response(text: str, *, ended: bool = True) -> ParsedResponse:
    """Take an answer apart; understands ``<assistant-repl-in>`` tags and fences of Python. Any text is an answer."""
    parts: list[Part] = []
    words = ""
    rest = text.replace("\r\n", "\n")
    while rest:
        opened = _OPEN.search(rest)
        fence = first_fence(rest)
        at_fence = _offset(rest, fence.start) if fence is not None else -1
        if opened is not None and (fence is None or opened.start() < at_fence):
            words += rest[: opened.start()]
            rest, part = _tagged(rest[opened.end() :])
        elif fence is not None:
            words += rest[:at_fence]
            after = _offset(rest, fence.end)
            if not is_python(fence.info):
                words, rest = words + rest[at_fence:after], rest[after:]
                continue
            rest, part = rest[after:], _fenced(fence)
        else:
            words, rest = words + rest, ""
            continue
        words = _add_words(parts, words)
        if part.text.strip():
            parts.append(part)
    _add_words(parts, words)
    return ParsedResponse(tuple(parts), ended)


def route_response(text: str, log: logging.Logger, *, ended: bool = True, **attrs: Any) -> ParsedResponse:
    """Log a whole answer as `assistant-chat`, and take it apart."""
    emit(log, tags.ASSISTANT_CHAT, text, **attrs)
    return parse_response(text, ended=ended)


def _offset(text: str, line: int) -> int:
    """Where a line begins."""
    place = 0
    for _ in range(line):
        found = text.find("\n", place)
        if found < 0:
            return len(text)
        place = found + 1
    return place


def _tagged(text: str) -> tuple[str, Part]:
    """The rest of the text and the code that stands before the closing tag."""
    closed = _CLOSE.search(text)
    code, rest = (text[: closed.start()], text[closed.end() :]) if closed else (text, "")
    fence = first_fence(code)
    if fence is not None and code.strip().startswith(("```", "~~~")) and is_python(fence.info or "python"):
        code = fence.content
    return rest, Part("code", code.strip("\n"), closed is not None)


def _fenced(fence: Fence) -> Part:
    return Part("code", fence.content.rstrip("\n"), fence.closed)


def _add_words(parts: list[Part], words: str) -> str:
    """Append words that are not empty; returns the new, empty words."""
    words = _CHAT.sub("", words)
    if words.strip():
        parts.append(Part("chat", words.strip("\n")))
    return ""
