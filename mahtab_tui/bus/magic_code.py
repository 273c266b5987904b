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
_CODE_MAGICS = {
    "prun": re.compile(r"(?:[ \t]*-(?:[rq]+|[slTD][ \t]*\S+)(?:[ \t]+|$|(?=\n)))*+"),
    "time": re.compile(r"(?:[ \t]*--no-raise-error(?:[ \t]+|$|(?=\n)))*+"),
    "timeit": re.compile(r"(?:[ \t]*-(?:[nrp][ \t]*\d+|[oqtcv]+)(?:[ \t]+|$|(?=\n)))*+"),
}
"""Magic commands whose text is code of the session, with patterns for the options before it."""
_PYTHON_MAGICS = frozenset(("python", "python3"))
"""Magic commands whose text is code that another process runs."""
_SHELL_NAMES = frozenset("bash dash ksh sh zsh".split())
"""Programs, and magic commands of cells, that run a text as commands of a shell."""


class CodePart(NamedTuple):
    """A whole cell, or the code in a magic command."""

    text: str
    tree: ast.Module | None
    """None if it cannot be parsed."""
    depth: int
    """How many magic commands contain it."""
    commands: tuple[str, ...] = ()
    """The shell commands of its magic commands."""
    is_separate: bool = False
    """Whether another process runs it, which does not have the session's variables."""


class _MagicText(NamedTuple):
    """The text of a magic command."""

    code: str = ""
    command: str = ""
    """A command of a shell."""
    is_separate: bool = False
    """Whether another process runs the code."""


def read_code(code: str) -> Iterator[CodePart]:
    """Yield code, and the code in its magic commands. `!` lines are calls of `syntax.SHELL` and
    `syntax.LINES` in the trees."""
    pending = deque([CodePart(code, None, 0)])
    while pending:
        part = pending.popleft()
        tree = None
        if len(part.text) <= MAX_CODE_CHARS and part.depth <= MAX_NESTED_MAGICS:
            tree = parse_python(transform(part.text))
        if tree is None:
            yield part
            continue

        magics = [
            _read_magic(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and function_name(node) in _MAGIC_FUNCTIONS
        ]
        for magic in magics:
            if magic.code:
                is_separate = part.is_separate or magic.is_separate
                inner_part = CodePart(magic.code, None, part.depth + 1, is_separate=is_separate)
                pending.append(inner_part)
        commands = tuple(magic.command for magic in magics if magic.command)
        yield part._replace(tree=tree, commands=commands)


def session_code(call: ast.Call) -> str:
    """Return the code in a magic command that uses the session's variables; empty if the call is no
    such command."""
    if function_name(call) not in _MAGIC_FUNCTIONS:
        return ""
    magic = _read_magic(call)
    return "" if magic.is_separate else magic.code


def keeps_names(call: ast.Call) -> bool:
    """Return whether variables that the code in a magic command makes are there after it: `%timeit`
    runs its code in a function."""
    return not call.args or shown_text(call.args[0]).removeprefix("%") != "timeit"


def _read_magic(call: ast.Call) -> _MagicText:
    """Read a call of a magic command: of what `transform` makes of a line, or of `get_ipython()`."""
    texts = [shown_text(argument) for argument in call.args]
    if len(texts) < 2:
        return _MagicText()
    name = texts[0].removeprefix("%")
    text = "\n".join(texts[1:])
    if name in _CODE_MAGICS:
        # Code in the first line of a cell runs as well.
        code = _CODE_MAGICS[name].sub("", text, count=1)
        return _MagicText(code=code.lstrip(" \t"))
    first_line, _line_break, body = text.partition("\n")
    if name == "capture":
        return _MagicText(code=body)
    if name in _PYTHON_MAGICS:
        return _MagicText(code=body, is_separate=True)
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
