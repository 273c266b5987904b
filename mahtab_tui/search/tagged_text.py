"""Outside text in the prompts of searches, between tags that it cannot forge."""

from __future__ import annotations

from mahtab_tui.bus.record_xml import escape_content, escape_tags, escape_unseen_tags
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.search_prompt_words import OUTPUT, QUERY, TEXT

_TAGS = (QUERY, TEXT, OUTPUT)


def defused(text: str) -> str:
    """Return a text as it is, except for what could begin or end a tag and what cannot be sent."""
    escaped = escape_tags(escape_content(make_encodable(text)), *_TAGS)
    return escape_unseen_tags(escaped, *_TAGS)


def tagged(tag: str, text: str, attributes: str = "") -> str:
    """Return a text between tags.

    Args:
        attributes: Of the start tag, as they are written there.
    """
    start = f"{tag} {attributes}" if attributes else tag
    return f"<{start}>\n{defused(text)}\n</{tag}>"


def join_paragraphs(*paragraphs: str) -> str:
    """Join the paragraphs that are not empty."""
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
