"""Rewrites IPython's syntax, such as `!ls`, `%time` and `name?`, as calls in Python."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Mapping

from ..stdlib import own_module

# Pickles of earlier versions look for `Macro` here, and the guard for all three.
from .state import Aliases as Aliases
from .state import Macro as Macro
from .state import Reloading as Reloading

SHELL_BUILTIN = "__mahtab_shell__"
"""The builtin that replaces `!command`."""
SHELL_OUTPUT_BUILTIN = "__mahtab_lines__"
"""The builtin that replaces `!!command` and `name = !command`: it returns the lines of the output."""
MAGIC_BUILTIN = "__mahtab_magic__"
"""The builtin that replaces `%name` and `%%name`."""
HELP_BUILTIN = "__mahtab_help__"
"""The builtin that replaces `name?` and `name??`."""

_MAY_NEED_REWRITE = re.compile(r"[!%?]|^[ \t]*[,;/]", re.MULTILINE)
"""A cheap test: cells without a match never need rewriting."""

_INDENT = r"^(?P<prefix>[ \t]*)"
_TARGETS = r"^(?P<prefix>[ \t]*[^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)*[ \t]*=[ \t]*)"
"""The names to which a line assigns, with the equals sign."""
_EXPRESSION = r"(?P<expression>[^\W\d][\w.]*(?:\[[^\]]*\])*)"

_SHELL_LINE = re.compile(_INDENT + r"!(?![!=])[ \t]*(?P<command>\S.*)$")
_SHELL_OUTPUT_LINE = re.compile(_INDENT + r"!!(?!=)[ \t]*(?P<command>\S.*)$")
_ASSIGNED_SHELL_LINE = re.compile(_TARGETS + r"!!?(?!=)[ \t]*(?P<command>\S.*)$")
_MAGIC_LINE = re.compile(_INDENT + r"%(?P<name>%?[^\W\d]\w*|%!)[ \t]*(?P<text>.*)$")
_ASSIGNED_MAGIC_LINE = re.compile(_TARGETS + r"%(?P<name>[^\W\d]\w*)[ \t]*(?P<text>.*)$")
_HELP_LINE = re.compile(_INDENT + _EXPRESSION + r"[ \t]*(?P<marks>\?\??)[ \t]*$")
"""`name?`"""
_HELP_FIRST_LINE = re.compile(_INDENT + r"(?P<marks>\?\??)[ \t]*" + _EXPRESSION + r"[ \t]*$")
"""`?name`"""
_MAGIC_HELP_LINE = re.compile(
    _INDENT + r"(?:\?\??[ \t]*(?P<second>%%?\w+)|(?P<first>%%?\w+)[ \t]*\?\??)[ \t]*$"
)
"""`?%name` or `%name?`"""
_GENERAL_HELP_LINE = re.compile(_INDENT + r"\?\??[ \t]*$")
_WILDCARD_HELP_LINE = re.compile(
    _INDENT + r"(?:\?\??[ \t]*(?P<second>[\w.*]+)|(?P<first>[\w.*]+)[ \t]*\?\??)[ \t]*$"
)
"""`?pattern` or `pattern?`. A pattern without `*` is an expression, and is matched before."""
_CALL_LINE = re.compile(
    _INDENT + r"(?P<sign>[,;/])[ \t]*(?P<function>[^\W\d][\w.]*)[ \t]*(?P<text>.*)$"
)
"""IPython's calls without parentheses: `,f a b`, `;f a b` and `/f a b`."""

BARE_COMMANDS = frozenset(
    (
        "alias autoreload cat cd conda cp debug dhist dirs env hist history ldir less lf lk ll"
        " load_ext ls lsmagic lx macro man mamba matplotlib mkdir more mv pdef pdoc pfile pinfo"
        " pinfo2 pip popd precision prun psearch psource pushd pwd pycat quickref recall rerun rm"
        " rmdir run save tb time timeit unalias uv who who_ls whos xdel xmode"
    ).split()
)
"""Magic commands that work without ``%`` unless a variable has their name, as in IPython."""

LEAVING_NAMES = ("exit", "quit")
"""A cell consisting only of one of these names calls it."""

_BARE_COMMAND = re.compile(r"(?P<name>[^\W\d]\w*)(?:[ \t]+(?P<arguments>[^=(\[,:\s].*))?")
_LIKE_A_PATH = re.compile(r"[-/~*.]\S")
"""Arguments that Python would read as an operator and a name: ``ls -l``, ``cat /etc/hosts``."""


def transform(source: str) -> str:
    """Replace the lines of IPython's syntax by calls. The number of lines stays the same."""
    source = dedent(source)
    if not _MAY_NEED_REWRITE.search(source) or parse_python(source):
        return source
    lines = source.split("\n")
    if not _replace_cell_magic(lines):
        _replace_lines(source, lines)
    return "\n".join(lines)


def dedent(source: str) -> str:
    """Remove the indentation of a cell that was copied from inside a block, as IPython does."""
    if source[:1] not in (" ", "\t", "\n"):
        return source
    lines = source.split("\n")
    # Comments may have any indentation, so they do not count.
    code_lines = (line for line in lines if line.strip() and line.lstrip()[0] != "#")
    first_line = next(code_lines, "")
    indent = first_line[: len(first_line) - len(first_line.lstrip(" \t"))]
    if not indent:
        return source
    return "\n".join(line.removeprefix(indent) for line in lines)


def _replace_cell_magic(lines: list[str]) -> bool:
    """Replace the lines of a cell that begins with `%%name` by a call, in place. Return whether the
    cell begins so."""
    first_index = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first_index is None:
        return False
    magic = _MAGIC_LINE.match(lines[first_index])
    if magic is None or not magic["name"].startswith("%"):
        return False
    if _MAGIC_HELP_LINE.match(lines[first_index]):
        return False
    text = "\n".join([magic["text"], *lines[first_index + 1 :]])
    blank_lines = [""] * (len(lines) - first_index - 1)
    lines[first_index:] = [f"{MAGIC_BUILTIN}({magic['name']!r}, {text!r})", *blank_lines]
    return True


def _replace_lines(source: str, lines: list[str]) -> None:
    """Replace the lines of a cell that are not Python, in place."""
    tokens = own_module("completion.tokens")
    index = 0
    start: int | None = 0
    while start is not None:
        if _rewrite_line(lines[index]) is None:
            # Lines inside strings or brackets are skipped.
            next_start = tokens.next_line_start(source, start)
            index += source.count("\n", start, next_start)
            start = next_start
            continue

        end = _last_continued_line(lines, index) + 1
        continued_lines = lines[index:end]
        call = _rewrite_line(_join_continued(continued_lines))
        if call is not None:
            lines[index:end] = [call, *[""] * (len(continued_lines) - 1)]
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


def _rewrite_line(line: str) -> str | None:
    """Return the call that replaces a line; None if the line may be Python."""
    # A backslash at the end is kept: Python then reports that the input is incomplete.
    unfinished = " \\" if line.endswith("\\") else ""
    line = line.removesuffix("\\")
    for pattern, function in (
        (_SHELL_LINE, SHELL_BUILTIN),
        (_SHELL_OUTPUT_LINE, SHELL_OUTPUT_BUILTIN),
        (_ASSIGNED_SHELL_LINE, SHELL_OUTPUT_BUILTIN),
    ):
        if match := pattern.match(line):
            return f"{match['prefix']}{function}({match['command'].rstrip()!r}){unfinished}"
    help_call = _rewrite_help(line)
    if help_call is not None:
        return help_call + unfinished
    for pattern in (_MAGIC_LINE, _ASSIGNED_MAGIC_LINE):
        if match := pattern.match(line):
            arguments = f"{match['name']!r}, {match['text'].rstrip()!r}"
            return f"{match['prefix']}{MAGIC_BUILTIN}({arguments}){unfinished}"
    if match := _CALL_LINE.match(line):
        arguments = _call_arguments(match["sign"], match["text"])
        return f"{match['prefix']}{match['function']}({arguments}){unfinished}"
    return None


def _rewrite_help(line: str) -> str | None:
    """Return the call for a line that asks for help, as in `name?`; None for other lines."""
    if "?" not in line:
        return None
    for pattern in (_HELP_LINE, _HELP_FIRST_LINE):
        if match := pattern.match(line):
            level = len(match["marks"])
            return f"{match['prefix']}{HELP_BUILTIN}({match['expression']!r}, {level})"
    if match := _MAGIC_HELP_LINE.match(line):
        name = match["first"] or match["second"]
        return f"{match['prefix']}{MAGIC_BUILTIN}('lsmagic', {name!r})"
    if match := _GENERAL_HELP_LINE.match(line):
        return f"{match['prefix']}{MAGIC_BUILTIN}('quickref', '')"
    match = _WILDCARD_HELP_LINE.match(line)
    if match is None or "*" not in line:
        return None
    name_pattern = match["first"] or match["second"]
    return f"{match['prefix']}{MAGIC_BUILTIN}('psearch', {name_pattern!r})"


def _call_arguments(sign: str, text: str) -> str:
    """Return the arguments of a call without parentheses, as IPython splits them.

    Args:
        sign: `,` if each word is a string, `;` if the whole text is one string, `/` if each word is
            an expression.
        text: What follows the function's name.
    """
    if sign == ";":
        return repr(text.strip())
    words = text.split()
    return ", ".join(map(repr, words) if sign == "," else words)


def parse_python(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def complete_command(source: str, names: Mapping[str, object]) -> str:
    """Complete a cell of one line as IPython does.

    A magic command without ``%`` gets the sign. `exit` and `quit` get parentheses. The name of a
    macro becomes the command that runs the macro's inputs.

    Args:
        source: The cell's code.
        names: The namespace, whose names hide magic commands.
    """
    line = source.strip()
    match = _BARE_COMMAND.fullmatch(line)
    if match is None:
        return source
    command = match["name"]
    arguments = match["arguments"] or ""
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
