"""Converts inline Markdown to spans. Other markup stays text."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it.tree import SyntaxTreeNode
from rich.style import Style

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.rows.palette import BOLD, ITALIC, STRIKE, UNDERLINE, Palette
from mahtab_tui.tui.rows.row import Span

_STYLES = {"strong": BOLD, "em": ITALIC, "s": STRIKE}


def inline_spans(node: SyntaxTreeNode, style: Style, palette: Palette) -> Iterator[Span]:
    """Yield the spans of a node and its children. A line break is the span "\\n"."""
    match node.type:
        case "code_inline":
            yield plain(node.content), style + palette.panel
        case "softbreak" | "hardbreak":  # models list things in lines
            yield "\n", style
        case "link":
            yield from _link(node, style, palette)
        case "image":
            yield (
                f"{plain(node.content)} ({plain(str(node.attrs.get('src', '')))})",
                style + palette.muted,
            )
        case "text":
            # Entities were resolved after the text was sanitised.
            yield plain(node.content).replace("\n", " "), style
        case kind:
            for child in node.children:
                yield from inline_spans(child, style + _STYLES.get(kind, Style.null()), palette)


def _link(node: SyntaxTreeNode, style: Style, palette: Palette) -> Iterator[Span]:
    """Yield the link's text, and its address if that differs."""
    address = plain(str(node.attrs.get("href", "")))
    words = [
        span for child in node.children for span in inline_spans(child, style + UNDERLINE, palette)
    ]
    yield from words
    if address and "".join(text for text, _ in words) != address:
        yield f" ({address})", style + palette.muted


def split_lines(spans: Iterator[Span]) -> list[list[Span]]:
    lines: list[list[Span]] = [[]]
    for span in spans:
        if span[0] == "\n":
            lines.append([])
        else:
            lines[-1].append(span)
    return lines
