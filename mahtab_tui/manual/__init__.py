"""The manual: one Markdown page a topic."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TOPICS = (
    "start keys commands python asking rules transcript inspector models search agents skills tools mcp sessions kernels configuration secrets scripting embedding trouble"
).split()

_FOLDER = Path(__file__).parent
_COMMENT = re.compile(r"<!--[^<>]*-->\n?")
_PICTURE = re.compile(r"^!\[.*?\]\(.*?\)\n+", re.MULTILINE)
_PAGE_LINK = re.compile(r"\[([^\[\]]+)\]\(\w+\.md(?:#[\w-]+)?\)")
_RULE = re.compile(r"\|[\s|:-]+\|")


class TopicNotFound(Exception):
    """There is no page on a topic; the message names near ones."""


class Page(NamedTuple):
    """A page without pictures and links to other pages."""

    topic: str
    title: str
    summary: str
    """The first paragraph: one sentence."""
    text: str
    """With title and summary."""


@cache
def page(topic: str) -> Page:
    if topic not in TOPICS:
        near = difflib.get_close_matches(topic.lower(), TOPICS, n=2, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Topics: {', '.join(TOPICS)}."
        raise TopicNotFound(f"The manual has no topic {topic!r}. {hint}")
    source = (_FOLDER / f"{topic}.md").read_text("utf-8")
    text = _PAGE_LINK.sub(r"\1", _PICTURE.sub("", _COMMENT.sub("", source)))
    title, summary, *_ = text.split("\n\n", 2)
    return Page(topic, title.removeprefix("# "), summary, text)


def filter_page(text: str, words: str) -> str:
    """Return the blocks of a page that have a text, under their headings; of tables, lists and code
    the lines that have it."""
    lowercase_words = words.lower()
    heading = ""
    matching_blocks: list[str] = []
    for block in _blocks(text):
        if block.startswith("#"):
            heading = block
        elif (
            lines := _matching_lines(block, lowercase_words)
            if lowercase_words not in heading.lower()
            else block
        ):
            matching_blocks += (
                [heading, lines] if heading and heading not in matching_blocks else [lines]
            )
    return "\n\n".join(matching_blocks)


def _blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        fenced ^= line.startswith("```")
        if line.strip() or fenced:
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []


def _matching_lines(block: str, lowercase_words: str) -> str:
    lines = block.split("\n")
    if block.startswith("```"):
        return block if lowercase_words in block.lower() else ""
    head = lines[:2] if len(lines) > 2 and _RULE.fullmatch(lines[1]) else []
    matching_lines = [line for line in lines[len(head) :] if lowercase_words in line.lower()]
    return "\n".join([*head, *matching_lines]) if matching_lines else ""
