"""Puts a mask over the secrets in a text."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.bus.secret_forms import SecretSpan

MASK = "••••••••"


def mask_spans(text: str, spans: Sequence[SecretSpan]) -> str:
    """Return the text with `MASK` in place of some spans. Line ends within them stay."""
    return between(text, spans, 0, len(text))


def between(text: str, spans: Sequence[SecretSpan], start: int, end: int) -> str:
    """Return `text[start:end]` with `MASK` in place of some spans of the whole text."""
    if not spans or start >= end:
        return text[start:end]
    pieces: list[str] = []
    for span in spans:
        if start < span.end and span.start < end:
            pieces += (
                text[start : span.start],
                MASK,
                "\n" * text.count("\n", span.start, span.end),
            )
            start = span.end
    return "".join([*pieces, text[start:end]])
