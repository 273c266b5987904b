"""What a node is told about its text at the beginning: its size, its parts, its beginning and
end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.llm.search_prompt_words import TEXT
from mahtab_tui.sandbox.searched_text import Document, SearchedText
from mahtab_tui.search.estimates import estimate_tokens
from mahtab_tui.search.tagged_text import tagged
from mahtab_tui.search.text_rows import RowFormat

MAX_DOCUMENTS = 30
MAX_NAME_CHARS = 100
"""Documents that are listed, and characters of the name of one."""
PREVIEW_CHARS = 500
"""Characters of the text's beginning in the first message; of its end, half as many."""
MIN_PREVIEW_CHARS = 100
"""The preview of one of several contexts has at least this many characters."""


def about_text(text: SearchedText, rows: RowFormat | None) -> list[str]:
    """Return the lines that describe a text.

    Args:
        rows: The rows that it consists of, if it does.
    """
    size = len(text.text)
    line_count = _count_lines(text.text)
    about = [
        f"context is a {_size(text.kind, text.parts, size)} in {line_count:,} lines (about {estimate_tokens(size):,} tokens)."
    ]
    if text.about:
        about.append(text.about)
    elif rows:
        about.append(f"It is {rows.form} with the columns {', '.join(rows.columns)}.")
    if text.parts:
        about += ["Documents, with their characters:", *map(_document, text.parts[:MAX_DOCUMENTS])]
        if len(text.parts) > MAX_DOCUMENTS:
            about.append(f"… and {len(text.parts) - MAX_DOCUMENTS:,} more")
    return about


class AboutContexts(NamedTuple):
    """The description of several contexts."""

    lines: list[str]
    previews: list[str]
    """The name of each context, then its beginning and end."""


def about_contexts(text: SearchedText) -> AboutContexts:
    """Describe a text that consists of several contexts."""
    size = len(text.text)
    count = len(text.contexts)
    # About three previews altogether.
    preview_chars = max(MIN_PREVIEW_CHARS, PREVIEW_CHARS * 3 // count)
    preview_chars = min(PREVIEW_CHARS, preview_chars)
    about = [
        f"The contexts have {size:,} characters together (about {estimate_tokens(size):,} tokens)."
    ]
    previews: list[str] = []
    for context in text.contexts:
        context_text = text.text[context.start : context.end]
        context_size = _size(context.kind, context.parts, len(context_text))
        line_count = _count_lines(context_text)
        about.append(f"{context.name} is a {context_size} in {line_count:,} lines.")
        if context.about:
            about.append(context.about)
        about += map(_document, context.parts[: MAX_DOCUMENTS // count + 1])
        previews += [f"{context.name}:", *preview(context_text, preview_chars)]
    return AboutContexts(about, previews)


def _count_lines(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def preview(text: str, max_chars: int = PREVIEW_CHARS, *, ends: bool = True) -> list[str]:
    """Return the beginning of a text, and its end, or all of a short one.

    Args:
        text: The text.
        max_chars: Characters of the beginning; of the end, half as many.
        ends: Whether to show the end; the beginning alone is half as long.
    """
    half = max_chars // 2
    if not text:
        return []
    if len(text) <= max_chars + half:
        return ["This is all of it:", tagged(TEXT, text)]
    if not ends:
        return ["It begins:", tagged(TEXT, text[:half])]
    return ["It begins:", tagged(TEXT, text[:max_chars]), "It ends:", tagged(TEXT, text[-half:])]


def _size(kind: str, documents: Sequence[Document], characters: int) -> str:
    """Return the type and the size of a text, in words."""
    type_words = "str of"
    if kind != "str":
        type_words = f"{kind} of {len(documents):,} documents, together"
    return f"{type_words} {characters:,} characters"


def _document(part: Document) -> str:
    """Return the line of a document in a list."""
    name, start, end = part
    name = " ".join(name.split())
    if len(name) > MAX_NAME_CHARS:
        name = name[:MAX_NAME_CHARS] + "…"
    return f"- {name}: {end - start:,}"
