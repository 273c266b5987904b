"""Reads code as the kernel does: Python with magic commands, which contain code or commands of a
shell."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator
from os.path import basename
from typing import NamedTuple

from mahtab_tui.worker.magic.syntax import MAGIC, parse_python, transform

MAX_CODE_CHARS = 100_000
"""Longer code is not parsed."""
MAX_NESTED_MAGICS = 5
"""Code in more magic commands is not parsed."""
FILE_MAGICS = frozenset("cp mkdir mv rm rmdir".split())
"""Magic commands that are commands of a shell, and change files."""
_MAGIC_FUNCTIONS = frozenset((MAGIC, "run_line_magic", "run_cell_magic"))
"""Functions whose texts are the name of a magic command and what follows it."""
_COMMAND_MAGICS = frozenset(("!", "sx", "system"))
"""Magic commands whose text is a command of a shell."""
_CODE_MAGICS = frozenset("capture prun python python3 time timeit".split())
"""Magic commands whose text is code."""
_OPTIONS = re.compile(r"^(?:-\w+(?: +\d+)? +)*+")
"""Those of a magic command before its code."""
_SHELL_NAMES = frozenset("bash dash ksh sh zsh".split())
"""Programs, and magic commands of cells, that run a text as commands of a shell."""


class CodePart(NamedTuple):
    """A whole cell, or the code in a magic command."""

    text: str
    tree: ast.Module | None
    """None if it cannot be parsed."""
    depth: int
    """In how many magic commands it is."""
    commands: tuple[str, ...] = ()
    """The shell commands of its magic commands."""


class _MagicText(NamedTuple):
    """The text of a magic command."""

    code: str = ""
    command: str = ""
    """A command of a shell."""


class _InnerCode(NamedTuple):
    """Code that is not parsed yet."""

    text: str
    depth: int


def read_code(code: str) -> Iterator[CodePart]:
    """Yield code, and the code in its magic commands. `!` lines are calls of `syntax.SHELL` and
    `syntax.LINES` in the trees."""
    pending = deque([_InnerCode(code, 0)])
    while pending:
        text, depth = pending.popleft()
        tree = None
        if len(text) <= MAX_CODE_CHARS and depth <= MAX_NESTED_MAGICS:
            tree = parse_python(transform(text))
        if tree is None:
            yield CodePart(text, None, depth)
            continue

        magics = [
            _read_magic(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and function_name(node) in _MAGIC_FUNCTIONS
        ]
        pending += [_InnerCode(magic.code, depth + 1) for magic in magics if magic.code]
        commands = tuple(magic.command for magic in magics if magic.command)
        yield CodePart(text, tree, depth, commands)


def _read_magic(call: ast.Call) -> _MagicText:
    """Read a call of a magic command: of what `transform` makes of a line, or of `get_ipython()`."""
    texts = [shown_text(argument) for argument in call.args]
    if len(texts) < 2:
        return _MagicText()
    name = texts[0].removeprefix("%")
    first_line, _line_break, body = "\n".join(texts[1:]).partition("\n")
    if name in _CODE_MAGICS:
        return _MagicText(code=body or _OPTIONS.sub("", first_line))
    if name in _COMMAND_MAGICS:
        return _MagicText(command=f"{first_line}\n{body}".strip())
    if name in FILE_MAGICS:
        return _MagicText(command=f"{name} {first_line}")
    # The words of %%script name the program.
    programs = {name, *map(basename, first_line.split())}
    return _MagicText() if programs.isdisjoint(_SHELL_NAMES) else _MagicText(command=body)


def function_name(call: ast.Call) -> str:
    """Return the last part of the name of a called function; empty if it has none."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def shown_text(expression: ast.expr) -> str:
    """Return the text of an expression, with an `x` for each part that is not plain text."""
    texts: list[str] = []
    # A stack, because a sum of texts is nested as deeply as it is long.
    pending = [expression]
    while pending:
        match pending.pop():
            case ast.Constant(value=str(text)):
                texts.append(text)
            case ast.JoinedStr(values=parts):
                pending += reversed(parts)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                pending += (right, left)
            case _:
                texts.append("x")
    return "".join(texts)
