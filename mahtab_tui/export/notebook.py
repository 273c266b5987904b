"""Entries as a Jupyter notebook."""

from __future__ import annotations

import html
import platform
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mahtab_tui import __version__
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export.entries import Annotation, Cell, Entry, Output, Selected, TextEntry
from mahtab_tui.export.reading import Node

SCHEMES = ("http", "https", "mailto")
"""Schemes of links that lead to a page."""
_AFTER = "what follows"
_LONG = 200_000
"""Characters; of more, the parser would need many seconds."""
_MARKUP = re.compile("[<[]|```|~~~")
"""Without it, a text has no tag, picture, link or open block of code."""
_DEEP = 20
"""Levels of nesting that are read."""
_HTML_PARSER = MarkdownIt("commonmark", {"html": True, "maxNesting": _DEEP})
_HTML_PARSER.validateLink = lambda url: True  # type: ignore[method-assign]


def escape_markdown(text: str) -> str:
    """Return a text as one line of Markdown that has no markup."""
    return re.sub(r"([\\`*_\[\]>#&~|!])", r"\\\1", one_line(text)).replace("<", "&lt;")


def code_block(text: str, language: str = "") -> str:
    """Return a text as a block of Markdown, which nothing in it ends."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def make_inert(text: str) -> str:
    """Return Markdown as it is if it draws no tag and no picture, links to pages only and ends
    where it ends; else as a block of code."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser does
    if _MARKUP.search(text) and (len(text) > _LONG or not _is_inert(text)):
        return code_block(text, "text")
    return text


def _is_inert(made: str) -> bool:
    """Return whether a program that trusts a text would draw no tag and no picture, link to pages
    only, and end it where it ends."""
    tokens = _HTML_PARSER.parse(f"{made}\n\n{_AFTER}")
    ends = any(
        token.type == "inline" and token.content == _AFTER and token.level == 1
        for token in tokens[-2:-1]
    )
    return ends and all(map(_is_harmless, _iter_tokens(tokens)))


def _is_harmless(token: Token) -> bool:
    return (
        token.level < _DEEP - 1
        and token.type not in ("html_block", "html_inline", "image")
        and _is_safe_link(token)
    )


def _iter_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _is_safe_link(token: Token) -> bool:
    """Return whether a token that is a link leads to a page, or to a place in the text."""
    try:
        address = urlsplit(str(token.attrGet("href") or "").strip())
    except ValueError:
        return False
    return address.scheme.lower() in SCHEMES or not (address.scheme or address.netloc)


METADATA = "mahtab"
"""The key of what notebooks do not know by themselves: who wrote a cell, and what became of it."""
_ID = re.compile(r"[^a-zA-Z0-9-]+")
_LANGUAGES = {"code": "python", "text": "text", "output": "text"}
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
    """Return the entries as a `NotebookNode` of nbformat 4.5. Ids of its cells are the same each
    time, so that versions can be compared."""
    about = {
        "version": 1,
        "program": f"mahtab-tui {__version__}",
        "session": selected.session,
        "title": selected.title,
    }
    metadata = {**METADATA_OF_NEW, METADATA: about}
    made = nbformat.from_dict(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells(selected))}
    )
    nbformat.validate(made)
    return made


def cells(selected: Selected, used: Collection[str] = ()) -> Iterator[Node]:
    """Return a cell for each entry. used: ids that other cells of the notebook have."""
    ids: dict[str, int] = {}
    for entry in selected.entries:
        name = _ID.sub("-", entry.entry)[:40] or "text"
        number = ids.get(name, 0) + 1
        while _numbered(name, number) in used:
            number += 1
        ids[name] = number
        cell = (
            code_cell(entry, selected)
            if isinstance(entry, Cell)
            else {"cell_type": "markdown", "source": render_text_entry(entry, selected)}
        )
        yield {
            "id": _numbered(name, number),
            "metadata": {METADATA: _metadata(entry, selected)},
            **cell,
        }


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _metadata(entry: Entry, selected: Selected) -> dict[str, Any]:
    about: dict[str, Any] = {"by": author_name(entry), "name": entry.party}
    if entry.turn is not None:
        about["question"] = entry.turn
    if selected.is_hidden(entry):
        about["hidden"] = True
    if isinstance(entry, Cell):
        about |= (
            {"status": entry.status}
            | ({"seconds": entry.duration} if entry.duration is not None else {})
            | ({"undone": True} if entry.undone else {})
        )
    elif (
        isinstance(entry, TextEntry)
        and entry.kind == "question"
        and entry.turn is not None
        and entry.turn in selected.costs
    ):
        about["usd"] = round(selected.costs[entry.turn], 6)
    return about


def author_name(entry: Entry) -> str:
    """Return who wrote an entry: a user, a model or an agent; "program" for warnings."""
    if isinstance(entry, Cell):
        return entry.author
    return {"question": "user", "notice": "program"}.get(entry.kind, "model")


def render_text_entry(entry: TextEntry | Annotation, selected: Selected) -> str:
    """Return an entry that is no cell, as Markdown. Tool calls and searches are folded."""
    if isinstance(entry, Annotation):
        if not entry.calls:
            return f"*{escape_markdown(entry.title)}*"
        texts = "\n\n".join(
            f"**{escape_markdown(text)}**" if kind == "line" else code_block(text, _LANGUAGES[kind])
            for kind, text in selected.parts(entry)
        )
        return f"<details><summary>{html.escape(entry.title)}</summary>\n\n{texts}\n\n</details>"
    if entry.kind == "code":
        return f"*This code of {escape_markdown(entry.party)} did not run:*\n\n{code_block(entry.text, 'python')}"
    return f"**{escape_markdown(heading(entry))}**\n\n{make_inert(entry.text)}"


def heading(entry: TextEntry) -> str:
    """Return who says it, and what the question has with it: one line."""
    who = "Question" if entry.kind == "question" else entry.party[:1].upper() + entry.party[1:]
    return f"{who} (with {', '.join(entry.attached)})" if entry.attached else who


def code_cell(cell: Cell, selected: Selected) -> Node:
    """Return a cell that ran: its type, source, number and outputs."""
    if selected.is_private(cell):
        return {"cell_type": "code", "source": _OMITTED, "execution_count": None, "outputs": []}
    number = (
        cell.number if cell.number >= 0 else None
    )  # of a session from elsewhere, or a damaged one; notebooks count from 0
    outputs = [_output(output, number) for output in selected.outputs(cell)]
    return {"cell_type": "code", "source": cell.code, "execution_count": number, "outputs": outputs}


def _output(output: Output, number: int | None) -> Node:
    if output.kind == "value":
        return {
            "output_type": "execute_result",
            "data": _bundle(output),
            "metadata": {},
            "execution_count": number,
        }
    if output.kind == "traceback":
        name, value = parse_error(output.text)
        return {
            "output_type": "error",
            "ename": name,
            "evalue": value,
            "traceback": output.text.rstrip("\n").split("\n"),
        }
    if output.kind == "display":
        return {"output_type": "display_data", "data": _bundle(output), "metadata": {}}
    return {"output_type": "stream", "name": "stdout", "text": output.text}


def _bundle(output: Output) -> Mapping[str, str]:
    bundle = {"text/plain": output.text.removesuffix("\n")}
    if output.mime and output.mime != "text/plain":
        bundle[output.mime] = output.data
    return bundle


def parse_error(traceback: str) -> tuple[str, str]:
    """Return the name and the message of an error, from the last line of its traceback that begins
    with a name. A hint may follow it."""
    for line in reversed(traceback.strip().split("\n")):
        if found := re.match(r"(?!Hint: )([A-Za-z_][\w.]*)(?:: (.*))?$", line):
            return found[1], found[2] or ""
    return "Error", ""
