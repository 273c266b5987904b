"""The manual: one Markdown page a topic."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TOPICS = tuple(
    "start keys commands linear python asking rules transcript inspector models local search agents acp skills"
    " tools mcp sessions checking kernels configuration secrets editors scripting embedding trouble".split()
)
"""The topics in the order in which they are listed."""
FOLDER = Path(__file__).parent
MAX_SUGGESTED_TOPICS = 2
MIN_SIMILARITY = 0.5
"""How similar a suggested topic must be to what was typed, from 0 to 1."""

_COMMENT = re.compile(r"<!--[^<>]*-->\n?")
_PICTURE = re.compile(r"^!\[.*?\]\(.*?\)\n+", re.MULTILINE)
_PAGE_LINK = re.compile(r"\[([^\[\]]+)\]\(\w+\.md(?:#[\w-]+)?\)")
_TABLE_RULE = re.compile(r"\|[\s|:-]+\|")
"""The second line of a table, below its headings."""
_FENCE = "```"


class TopicNotFound(Exception):
    """There is no page on a topic; the message names near ones."""


class Page(NamedTuple):
    """A page without pictures and links to other pages."""

    topic: str
    title: str
    summary: str
    """The first paragraph: one sentence."""
    text: str
    """The whole page, with title and summary."""


@cache
def page(topic: str) -> Page:
    """Read a page of the manual. Raises `TopicNotFound`."""
    if topic not in TOPICS:
        raise TopicNotFound(f"The manual has no topic {topic!r}. {_suggest_topics(topic)}")
    text = (FOLDER / f"{topic}.md").read_text("utf-8")
    text = _COMMENT.sub("", text)
    text = _PICTURE.sub("", text)
    text = _PAGE_LINK.sub(r"\1", text)
    title, summary, *_ = text.split("\n\n", 2)
    return Page(topic, title.removeprefix("# "), summary, text)


def _suggest_topics(typed: str) -> str:
    """Return a sentence with the topics that are similar to what was typed, or with all of them."""
    similar_topics = difflib.get_close_matches(
        typed.lower(), TOPICS, n=MAX_SUGGESTED_TOPICS, cutoff=MIN_SIMILARITY
    )
    if similar_topics:
        return f"Did you mean {' or '.join(similar_topics)}?"
    return f"Topics: {', '.join(TOPICS)}."


def filter_page(text: str, words: str) -> str:
    """Return the blocks of a page that contain some words, each below its heading.

    Of tables and lists, only the matching lines are returned. Below a heading that contains the
    words itself, all blocks are.

    Args:
        text: The text of a page, as Markdown.
        words: What to find, in any case.
    """
    lowercase_words = words.lower()
    heading = ""
    matching_blocks: list[str] = []
    for block in _blocks(text):
        if block.startswith("#"):
            heading = block
            continue
        if lowercase_words in heading.lower():
            matching_part = block
        else:
            matching_part = _matching_lines(block, lowercase_words)
        if not matching_part:
            continue

        # The heading stands once, above the first block that matches.
        if heading and heading not in matching_blocks:
            matching_blocks.append(heading)
        matching_blocks.append(matching_part)
    return "\n\n".join(matching_blocks)


def _blocks(text: str) -> Iterator[str]:
    """Yield what blank lines separate; a fenced block of code is whole."""
    block_lines: list[str] = []
    is_fenced = False
    # A blank line at the end closes the last block.
    for line in [*text.split("\n"), ""]:
        if line.startswith(_FENCE):
            is_fenced = not is_fenced
        if line.strip() or is_fenced:
            block_lines.append(line)
        elif block_lines:
            yield "\n".join(block_lines)
            block_lines = []


def _matching_lines(block: str, lowercase_words: str) -> str:
    """Return the lines of a block that contain the words, of a table with its headings; of code all
    lines, if one does. Empty if none does."""
    if block.startswith(_FENCE):
        return block if lowercase_words in block.lower() else ""

    lines = block.split("\n")
    is_table = len(lines) > 2 and _TABLE_RULE.fullmatch(lines[1]) is not None
    head_lines = lines[:2] if is_table else []
    matching_lines = [line for line in lines[len(head_lines) :] if lowercase_words in line.lower()]
    if not matching_lines:
        return ""
    return "\n".join([*head_lines, *matching_lines])
