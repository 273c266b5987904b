"""Puts texts by others into Markdown, harmless also for programs that draw tags and load pictures."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from mahtab_tui.bus.html_table import HtmlTable, numeric_columns
from mahtab_tui.bus.sanitize import one_line

SCHEMES = ("http", "https", "mailto")
"""Of links that lead to a page."""
_AFTER = "what follows"
_LONG = 200_000
"""Characters; of more, the parser would need many seconds."""
_MARKUP = re.compile("[<[]|```|~~~")
"""Without it, a text has no tag, picture, link or open block of code."""
_SPECIAL = re.compile(
    r"\\[!-/:-@\[-`{-~]"  # an escape
    r"|`+"
    r"|<(?:https?://|mailto:)[^\s<>]*>"  # a link that shows its address
    r"|<(?=[a-zA-Z/!?])"
    r"|!(?=\[)"
)
_DEEP = 20
"""Levels of nesting that are read."""
_CAREFUL, _TRUSTING = (MarkdownIt("commonmark", {"html": html, "maxNesting": _DEEP}) for html in (False, True))
_TRUSTING.validateLink = lambda url: True  # type: ignore[method-assign]


def escaped(text: str) -> str:
    """Return a text as one line of Markdown that has no markup."""
    return re.sub(r"([\\`*_\[\]>#&~|!])", r"\\\1", one_line(text)).replace("<", "&lt;")


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of Markdown, which nothing in it ends."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def markdown_table(table: HtmlTable) -> str:
    """Return a table as Markdown whose columns are aligned also where it is read as text; numbers stand on the right."""
    lines = [[escaped(cell.text) for cell in line] for line in table.body]
    width = max((len(line) for line in (*table.header, *table.body)), default=0)
    head = ["\u00b7".join(filter(None, (line[column].text for line in table.header if column < len(line)))) for column in range(width)]
    rows = [[escaped(text) for text in head], *(line + [""] * (width - len(line)) for line in lines)]
    right = numeric_columns(table.body)
    widths = [max(3, *(cell_len(row[column]) for row in rows)) for column in range(width)]
    rules = [("-" * (cells - 1) + ":") if numeric else "-" * cells for cells, numeric in zip(widths, right, strict=False)]

    def line(row: Sequence[str]) -> str:
        pieces = zip(row, widths, [*right, *[False] * width], strict=False)
        return f"| {' | '.join(_padded(text, cells, numeric) for text, cells, numeric in pieces)} |"

    rules += ["-" * cells for cells in widths[len(rules) :]]
    notes = "".join(f"\n\n*{escaped(note)}*" for note in table.notes)
    return "\n".join([line(rows[0]), line(rules), *map(line, rows[1:])]) + notes


def _padded(text: str, cells: int, right: bool) -> str:
    space = " " * (cells - cell_len(text))
    return space + text if right else text + space


def inert(text: str) -> str:
    """Return Markdown that is drawn as the screen draws it: tags are text, pictures are links, and a block of code that stays open is closed.

    What would be drawn differently all the same, has links that lead to no page, or is very long, becomes a block of code.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser does
    if len(text) > _LONG:
        return fenced(text, "text")
    if not _MARKUP.search(text):
        return text
    lines = text.split("\n")
    tokens = _CAREFUL.parse(text)
    for token in tokens:
        if token.type == "inline" and token.map is not None:
            start, end = token.map
            lines[start:end] = _without_markup("\n".join(lines[start:end])).split("\n")
    made = "\n".join([*lines, *_missing_end(tokens, lines)])
    return made if _is_inert(made) else fenced(text, "text")


def _without_markup(text: str) -> str:
    """Return a paragraph in which tags are text and pictures are links. What is in code stays as it is."""
    ends: dict[int, list[int]] = {}
    """Where runs of so many backticks begin."""
    for run in re.finditer("`+", text):
        ends.setdefault(len(run[0]), []).append(run.start())
    pieces, place = list[str](), 0
    while found := _SPECIAL.search(text, place):
        pieces.append(text[place : found.start()])
        word, place = found[0], found.end()
        if word[0] == "`":
            later = ends.get(len(word), [])
            if (index := bisect_right(later, found.start())) < len(later):
                place = later[index] + len(word)
            pieces.append(text[found.start() : place])
        else:
            pieces.append({"<": "&lt;", "!": r"\!"}.get(word, word))
    return "".join([*pieces, text[place:]])


def _missing_end(tokens: Sequence[Token], lines: Sequence[str]) -> list[str]:
    """Return the last line of a block of code that does not end, which would take in what follows."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.map is None:
        return []
    start, end = last.map
    closing = lines[end - 1].strip()
    closed = end - start > 1 and len(closing) >= len(last.markup) and set(closing) == {last.markup[0]}
    return [] if closed else [last.markup]


def _is_inert(made: str) -> bool:
    """Return whether a program that trusts a text would draw no tag and no picture, link to pages only, and end it where it ends."""
    tokens = _TRUSTING.parse(f"{made}\n\n{_AFTER}")
    ends = any(token.type == "inline" and token.content == _AFTER and token.level == 1 for token in tokens[-2:-1])
    return ends and all(map(_is_harmless, _all(tokens)))


def _is_harmless(token: Token) -> bool:
    return token.level < _DEEP - 1 and token.type not in ("html_block", "html_inline", "image") and _may_be_linked(token)


def _all(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _may_be_linked(token: Token) -> bool:
    """Return whether a token that is a link leads to a page, or to a place in the text."""
    try:
        address = urlsplit(str(token.attrGet("href") or "").strip())
    except ValueError:
        return False
    return address.scheme.lower() in SCHEMES or not (address.scheme or address.netloc)
