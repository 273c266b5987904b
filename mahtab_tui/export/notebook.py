"""Converts entries to a Jupyter notebook."""

from __future__ import annotations

import html
import platform
import re
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mahtab_tui.bus.conversation import Cell, Entry, Note, Question, ToolUse, Words
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export.entries import Output, Selected, has_run, outputs, shorten, to_title
from mahtab_tui.export.reading import Node

SCHEMES = ("http", "https", "mailto")
"""Schemes of links that lead to a page."""
_AFTER = "what follows"
_LONG = 200_000
"""With more characters, the parser would take many seconds."""
_MARKUP = re.compile("[<[]|```|~~~")
"""Text without it has no tag, picture, link or open code block."""
_DEEP = 20
_HTML_PARSER = MarkdownIt("commonmark", {"html": True, "maxNesting": _DEEP})
_HTML_PARSER.validateLink = lambda url: True  # type: ignore[method-assign]


def escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]>#&~|!])", r"\\\1", one_line(text)).replace("<", "&lt;")


def code_block(text: str, language: str = "") -> str:
    """Return a text as a Markdown code block that nothing in the text can close."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def make_inert(text: str) -> str:
    """Return Markdown; as a code block unless it has no tag and picture, links only to pages, and
    leaves no block open."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser does
    if _MARKUP.search(text) and (len(text) > _LONG or not _is_inert(text)):
        return code_block(text, "text")
    return text


def _is_inert(made: str) -> bool:
    tokens = _HTML_PARSER.parse(f"{made}\n\n{_AFTER}")
    after = tokens[-2] if len(tokens) > 1 else None
    if after is None or after.type != "inline" or after.content != _AFTER or after.level != 1:
        return False
    return all(map(_is_harmless, chain(tokens, *(token.children or () for token in tokens))))


def _is_harmless(token: Token) -> bool:
    try:
        address = urlsplit(str(token.attrGet("href") or "").strip())
    except ValueError:
        return False
    is_safe = address.scheme.lower() in SCHEMES or not (address.scheme or address.netloc)
    has_tag = token.type in ("html_block", "html_inline", "image")
    return token.level < _DEEP - 1 and not has_tag and is_safe


METADATA = "mahtab"
"""Metadata that notebooks do not have: who wrote a cell."""
_ID = re.compile(r"[^a-zA-Z0-9-]+")
_OMITTED = "# This cell uses a private variable, so it is left out."
METADATA_OF_NEW: Node = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "version": platform.python_version(),
    },
}


def notebook(selected: Selected) -> Any:
    """Return an nbformat 4.5 `NotebookNode` with stable cell ids."""
    metadata, made_cells = METADATA_OF_NEW, list(cells(selected))
    made = nbformat.from_dict(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made_cells}
    )
    nbformat.validate(made)
    return made


def cells(selected: Selected, used: Collection[str] = ()) -> Iterator[Node]:
    """Yield a cell for each entry. used: ids of other cells."""
    ids: dict[str, int] = {}
    for entry in selected.entries:
        name = _ID.sub("-", entry.key)[:40] or "text"
        number = ids.get(name, 0) + 1
        while _numbered(name, number) in used:
            number += 1
        ids[name] = number
        if has_run(entry):
            cell = code_cell(entry, selected)
        else:
            cell = {"cell_type": "markdown", "source": render_text_entry(entry)}
        about = {METADATA: {"by": author_name(entry), "name": entry.author}}
        yield {"id": _numbered(name, number), "metadata": about, **cell}


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def author_name(entry: Entry) -> str:
    match entry:
        case Question() | Cell(person=True):
            return "user"
        case Note():
            return "program"
        case Cell(agent_index=int()):
            return "agent"
    return "model"


def render_text_entry(entry: Entry) -> str:
    match entry:
        case Note():
            return f"*{escape_markdown(to_title(entry.text))}*"
        case Cell():
            return f"*This code of {escape_markdown(entry.author)} did not run:*\n\n{code_block(entry.code, 'python')}"
        case Question():
            labels = ", ".join(chip.label for chip in entry.attached if not chip.problem)
            who, text = f"Question (with {labels})" if labels else "Question", entry.text
        case ToolUse():
            result = code_block(shorten(entry.text), "text") if entry.text else ""
            ended = "" if entry.state in ("ok", "running") else f" · {entry.state}"
            summary = html.escape(to_title(f"{entry.name} {entry.arguments}") + ended)
            return f"<details><summary>{summary}</summary>\n\n{result}\n\n</details>"
        case _:
            who = entry.author[:1].upper() + entry.author[1:]
            text = entry.source if isinstance(entry, Words) else entry.plain_text
    return f"**{escape_markdown(who)}**\n\n{make_inert(text)}"


def code_cell(cell: Cell, selected: Selected) -> Node:
    if selected.is_private(cell):
        return {"cell_type": "code", "source": _OMITTED, "execution_count": None, "outputs": []}
    # From another program's session, or a damaged one; notebooks count from 0.
    number = cell.number if (cell.number or 0) >= 0 else None
    shown = [_output(output, number) for output in outputs(cell)]
    return {"cell_type": "code", "source": cell.code, "execution_count": number, "outputs": shown}


def _output(output: Output, number: int | None) -> Node:
    if output.kind == "traceback":
        name, value = parse_error(output.text)
        lines = output.text.rstrip("\n").split("\n")
        return {"output_type": "error", "ename": name, "evalue": value, "traceback": lines}
    if output.kind not in ("value", "display"):
        return {"output_type": "stream", "name": "stdout", "text": output.text}
    bundle = {"text/plain": output.text.removesuffix("\n")}
    if output.mime and output.mime != "text/plain":
        bundle[output.mime] = output.data
    shown = {"data": bundle, "metadata": {}}
    if output.kind == "value":
        return {"output_type": "execute_result", **shown, "execution_count": number}
    return {"output_type": "display_data", **shown}


def parse_error(traceback: str) -> tuple[str, str]:
    for line in reversed(traceback.strip().split("\n")):
        if found := re.match(r"(?!Hint: )([A-Za-z_][\w.]*)(?:: (.*))?$", line):
            return found[1], found[2] or ""
    return "Error", ""
