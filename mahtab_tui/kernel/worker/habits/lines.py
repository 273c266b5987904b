"""Replaces lines of a cell that are not Python by calls."""

from __future__ import annotations

import ast
import re
import warnings

from . import HELP, LINES, MAGIC, SHELL, SIGNS

_SHELL = re.compile(r"^([ \t]*)!(?!=)[ \t]*(\S.*)$")
_ASSIGNED = re.compile(
    r"^([ \t]*[^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)*[ \t]*=[ \t]*)!(?!=)[ \t]*(\S.*)$"
)
_MAGIC = re.compile(r"^([ \t]*)%(%?[^\W\d]\w*)[ \t]*(.*)$")
_HELP = re.compile(r"^([ \t]*)([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*(\?\??)[ \t]*$")
_HELP_BEFORE = re.compile(r"^([ \t]*)(\?\??)[ \t]*([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*$")


def transform(source: str) -> str:
    """Replace such lines by calls, keeping the number of lines. A cell that is valid Python is not
    changed."""
    if SIGNS.isdisjoint(source) or is_python(source):
        return source
    lines = source.split("\n")
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    whole = _MAGIC.match(lines[first])
    if whole is not None and whole[2].startswith("%"):
        body = "\n".join([whole[3], *lines[first + 1 :]])
        return (
            "\n".join(lines[:first])
            + "\n" * bool(first)
            + f"{MAGIC}({whole[2]!r}, {body!r})"
            + "\n" * (len(lines) - first - 1)
        )
    for place, line in enumerate(lines):
        call = _call(line)
        if call is not None and not _inside(lines[:place]):
            lines[place] = call
    return "\n".join(lines)


def _call(line: str) -> str | None:
    if found := _SHELL.match(line):
        return f"{found[1]}{SHELL}({found[2].rstrip()!r})"
    if found := _ASSIGNED.match(line):
        return f"{found[1]}{LINES}({found[2].rstrip()!r})"
    if found := _MAGIC.match(line):
        return f"{found[1]}{MAGIC}({found[2]!r}, {found[3].rstrip()!r})"
    if found := _HELP.match(line):
        return f"{found[1]}{HELP}({found[2]!r}, {len(found[3])})"
    if found := _HELP_BEFORE.match(line):
        return f"{found[1]}{HELP}({found[3]!r}, {len(found[2])})"
    return None


def _inside(lines: list[str]) -> bool:
    """Tell whether a string or bracket is open after these lines, or the last line continues."""
    from ..completion.tokens import tokenize

    text = "\n".join(lines)
    tokens = tokenize(text)
    return (
        bool(tokens.open)
        or text.endswith("\\")
        or (bool(tokens.all) and tokens.all[-1].quote[-3:] in ('"""', "'''"))
    )


def is_python(source: str) -> bool:
    """Tell whether a text is valid Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
