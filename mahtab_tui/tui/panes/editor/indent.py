"""The indentation of a new line, and of pasted code."""

from __future__ import annotations

import re
import textwrap

from mahtab_tui.bus.sanitize import plain

STEP = "    "

_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")
_OPENS = re.compile(r"[(\[{]\s*(?:#.*)?$|:\s*(?:#.*)?$")
_PROMPT = re.compile(r"^(?:>>> ?|\.\.\. ?|In \[\d+\]: ?|   \.\.\.: ?)")


def next_indent(line: str) -> str:
    """What a line after this one (its text up to the cursor) begins with."""
    indent = line[: len(line) - len(line.lstrip())]
    if _OPENS.search(line):
        return indent + STEP
    if _LEAVES_BLOCK.match(line):
        return indent[: -len(STEP)] if len(indent) >= len(STEP) else ""
    return indent


def pasted(text: str, *, python: bool, into_empty: bool) -> str:
    """A pasted text as it is put in: no control characters, line breaks of one kind; of Python, without prompts and the indentation common to all
    lines where it comes to stand alone."""
    text = plain(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not python:
        return text
    text = text.expandtabs(4)
    lines = text.split("\n")
    if lines and _PROMPT.match(lines[0]):
        text = "\n".join(_PROMPT.sub("", line) for line in lines)
    return textwrap.dedent(text) if into_empty else text
