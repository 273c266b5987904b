"""IPython's syntax and names at the prompt."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Mapping

# Pickles of earlier versions look for `Macro` here, and the guard for all three.
from .state import Aliases, Macro
from .state import Reloading as Reloading

SHELL = "__mahtab_shell__"
LINES = "__mahtab_lines__"
MAGIC = "__mahtab_magic__"
HELP = "__mahtab_help__"
"""Builtins that replace lines that are not Python."""

_MAY_BE_OURS = re.compile(r"[!%?]|^[ \t]*[,;/]", re.MULTILINE)
"""What is in every cell with a line that `transform` replaces, and in many others."""

_SHELL = re.compile(r"^([ \t]*)!(?![!=])[ \t]*(\S.*)$")
_SHELL_LINES = re.compile(r"^([ \t]*)!!(?!=)[ \t]*(\S.*)$")
_TARGETS = r"^([ \t]*[^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)*[ \t]*=[ \t]*)"
_ASSIGNED = re.compile(_TARGETS + r"!!?(?!=)[ \t]*(\S.*)$")
_ASSIGNED_MAGIC = re.compile(_TARGETS + r"%([^\W\d]\w*)[ \t]*(.*)$")
_MAGIC = re.compile(r"^([ \t]*)%(%?[^\W\d]\w*|%!)[ \t]*(.*)$")
_HELP = re.compile(r"^([ \t]*)([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*(\?\??)[ \t]*$")
_HELP_BEFORE = re.compile(r"^([ \t]*)(\?\??)[ \t]*([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*$")
_HELP_FOR_MAGIC = re.compile(r"^([ \t]*)(?:\?\??[ \t]*(%%?\w+)|(%%?\w+)[ \t]*\?\??)[ \t]*$")
_GENERAL_HELP = re.compile(r"^([ \t]*)\?\??[ \t]*$")
_WILDCARDS = re.compile(r"^([ \t]*)(?:\?\??[ \t]*([\w.*]+)|([\w.*]+)[ \t]*\?\??)[ \t]*$")
"""Help for names that contain `*`. The others are those of `_HELP`."""
_QUOTED_CALL = re.compile(r"^([ \t]*)([,;/])[ \t]*([^\W\d][\w.]*)[ \t]*(.*)$")
"""IPython's calls without parentheses: `,f a b`, `;f a b` and `/f a, b`."""

BARE_COMMANDS = frozenset(
    (
        "alias autoreload cat cd conda cp debug dhist dirs env hist history ldir less lf lk ll"
        " load_ext ls lsmagic lx macro man mamba matplotlib mkdir more mv pdef pdoc pfile pinfo"
        " pinfo2 pip popd precision prun psearch psource pushd pwd pycat quickref recall rerun rm"
        " rmdir run save tb time timeit unalias uv who who_ls whos xdel xmode"
    ).split()
)
"""They work without ``%`` unless a variable has their name, as in IPython."""

LEAVING_NAMES = ("exit", "quit")
"""A cell that is one of these calls it."""

_BARE = re.compile(r"([^\W\d]\w*)(?:[ \t]+([^=(\[,:\s].*))?")
_LIKE_A_PATH = re.compile(r"[-/~*.]\S")
"""Arguments that Python would read as an operator and a name: ``ls -l``, ``cat /etc/hosts``."""


def transform(source: str) -> str:
    """Replace lines that are not Python by calls, keeping the number of lines."""
    source = dedent(source)
    if not _MAY_BE_OURS.search(source) or parse_python(source):
        return source
    lines = source.split("\n")
    first_index = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = _MAGIC.match(lines[first_index])
    is_help = _HELP_FOR_MAGIC.match(lines[first_index])
    if magic is not None and magic[2].startswith("%") and not is_help:
        body = "\n".join([magic[3], *lines[first_index + 1 :]])
        lines[first_index:] = [
            f"{MAGIC}({magic[2]!r}, {body!r})",
            *[""] * (len(lines) - first_index - 1),
        ]
    else:
        _replace_lines(source, lines)
    return "\n".join(lines)


def dedent(source: str) -> str:
    """Remove the indentation of a cell that was copied from inside a block, as IPython does."""
    if source[:1] not in (" ", "\t", "\n"):
        return source
    lines = source.split("\n")
    # Not a comment: Python lets those stand anywhere.
    code_lines = (line for line in lines if line.strip() and line.lstrip()[0] != "#")
    first_line = next(code_lines, "")
    indent = first_line[: len(first_line) - len(first_line.lstrip(" \t"))]
    if not indent:
        return source
    return "\n".join(line.removeprefix(indent) for line in lines)


def _replace_lines(source: str, lines: list[str]) -> None:
    """Replace those of a cell's lines that are not Python, in place."""
    from ..completion.tokens import next_line_start

    index = 0
    start: int | None = 0
    while start is not None:
        call = _call(lines[index])
        if call is None:
            # What is inside a string or brackets is not looked at.
            next_start = next_line_start(source, start)
            index += source.count("\n", start, next_start)
            start = next_start
            continue

        end = _last_continued_line(lines, index) + 1
        continued_lines = lines[index:end]
        blank_lines = [""] * (len(continued_lines) - 1)
        lines[index:end] = [_call(_join_continued(continued_lines)) or call, *blank_lines]
        start += sum(len(line) + 1 for line in continued_lines)
        index = end
        if index == len(lines):
            return


def _last_continued_line(lines: list[str], first_index: int) -> int:
    """Return the index of the line that ends a line continued by backslashes."""
    last_index = first_index
    while last_index + 1 < len(lines) and lines[last_index].endswith("\\"):
        last_index += 1
    return last_index


def _join_continued(lines: list[str]) -> str:
    return " ".join([*(line[:-1].rstrip() for line in lines[:-1]), lines[-1]])


def _call(line: str) -> str | None:
    """Return the call that replaces a line; None if the line may be Python."""
    # A backslash at the end is kept: Python then reports that the input is incomplete.
    unfinished = " \\" if line.endswith("\\") else ""
    line = line.removesuffix("\\")
    for pattern, function in ((_SHELL, SHELL), (_SHELL_LINES, LINES), (_ASSIGNED, LINES)):
        if match := pattern.match(line):
            return f"{match[1]}{function}({match[2].rstrip()!r}){unfinished}"
    if help_call := _help_call(line):
        return help_call
    for pattern in (_MAGIC, _ASSIGNED_MAGIC):
        if match := pattern.match(line):
            return f"{match[1]}{MAGIC}({match[2]!r}, {match[3].rstrip()!r}){unfinished}"
    if match := _QUOTED_CALL.match(line):
        return f"{match[1]}{match[3]}({_quoted_arguments(match[2], match[4])}){unfinished}"
    return None


def _help_call(line: str) -> str | None:
    """Return the call for a line that asks for help, as in `name?`; None if it does not."""
    if "?" not in line:
        return None
    if match := _HELP.match(line):
        return f"{match[1]}{HELP}({match[2]!r}, {len(match[3])})"
    if match := _HELP_BEFORE.match(line):
        return f"{match[1]}{HELP}({match[3]!r}, {len(match[2])})"
    if match := _HELP_FOR_MAGIC.match(line):
        return f"{match[1]}{MAGIC}('lsmagic', {match[2] or match[3]!r})"
    if match := _GENERAL_HELP.match(line):
        return f"{match[1]}{MAGIC}('quickref', '')"
    match = _WILDCARDS.match(line)
    if match is None or "*" not in line:
        return None
    return f"{match[1]}{MAGIC}('psearch', {match[2] or match[3]!r})"


def _quoted_arguments(mark: str, text: str) -> str:
    """Return the arguments of a call without parentheses.

    Args:
        mark: `,` if each word is a string, `;` if the whole text is one, `/` if they are Python's.
        text: what is after the function's name.
    """
    if mark == ";":
        return repr(text.strip())
    words = text.split()
    return ", ".join(map(repr, words) if mark == "," else words)


def parse_python(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def complete_command(source: str, names: Mapping[str, object]) -> str:
    """Add the ``%`` to a cell of one line that is a magic command without it, and the parentheses
    to `exit` and `quit`, as IPython does.

    Args:
        source: the cell's code.
        names: the namespace, whose names hide magic commands.
    """
    line = source.strip()
    match = _BARE.fullmatch(line)
    if match is None:
        return source
    command = match[1]
    arguments = match[2] or ""
    if type(names.get(line)) is Macro:
        return f"%rerun {line}"
    if line in LEAVING_NAMES and line not in names:
        return f"{line}()"
    is_command = command in BARE_COMMANDS or command in Aliases.commands
    if not is_command or command in names or command in builtins.__dict__:
        return source
    may_be_python = arguments and not _LIKE_A_PATH.match(arguments)
    if may_be_python and parse_python(source):
        return source
    return f"%{line}"
