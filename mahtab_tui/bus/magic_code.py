"""Reads code as the kernel does: Python whose magic commands, and texts that it runs, contain further
code or commands of a shell.

`read_code` yields all of that code, parsed. Whoever asks what code uses or changes begins here.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mahtab_tui.bus.magic_calls import (
    HELP_MAGICS,
    MAGIC_FUNCTIONS,
    SEARCH_MAGIC,
    MagicText,
    function_name,
    is_magic,
    read_magic,
    shown_text,
)
from mahtab_tui.worker.magic.syntax import (
    HELP_BUILTIN,
    SHELL_BUILTIN,
    SHELL_OUTPUT_BUILTIN,
    complete_command,
    parse_python,
    transform,
)

MAX_CODE_CHARS = 100_000
"""Longer code is not parsed."""
MAX_NESTED_MAGICS = 5
"""Code in more magic commands is not parsed."""
CODE_FUNCTIONS = frozenset("compile eval ev ex exec repeat run_cell run_code timeit Timer".split())
"""Functions whose first text is code."""
_COMMAND_FUNCTIONS = frozenset((SHELL_BUILTIN, SHELL_OUTPUT_BUILTIN, "system", "getoutput"))
"""Functions whose text is a command of a shell."""
_BRACES = re.compile(r"\{([^{}]+)\}")
"""An expression in a command, which is replaced by its value."""
_CONVERSION = re.compile(r"![rsa]\Z")
"""The end of an expression between braces, as in `{name!r}`."""


class CodePart(NamedTuple):
    """A whole cell, or the code in a magic command."""

    text: str
    tree: ast.Module | None
    """None if it cannot be parsed."""
    depth: int
    """How many magic commands and texts that are run contain it."""
    commands: tuple[str, ...] = ()
    """The shell commands of its magic commands."""
    is_separate: bool = False
    """Whether another process runs it, which does not have the session's variables."""
    unread: str = ""
    """Why it is not known what runs, as a clause; empty if that is known."""


def read_code(code: str) -> Iterator[CodePart]:
    """Yield code, and the code in its magic commands and in texts that it runs (`exec`).

    `!` lines are calls of `syntax.SHELL_BUILTIN` and `syntax.SHELL_OUTPUT_BUILTIN` in the trees.
    """
    pending = deque([CodePart(code, None, 0)])
    while pending:
        part = pending.popleft()
        unread = _unread_reason(part)
        tree = None if unread else _parse(part)
        if tree is None:
            yield part._replace(unread=unread or "it is not Python that can be read here")
            continue

        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        magics = [read_magic(call) for call in calls if is_magic(call)]
        pending += _inner_parts(part, calls, magics)
        for expression in _expressions(calls):
            expression_part = CodePart(expression, parse_python(expression), part.depth + 1)
            # What is not Python stays as it is, for a shell.
            if expression_part.tree is not None:
                yield expression_part
        commands = tuple(magic.command for magic in magics if magic.command)
        unread = next((magic.unread for magic in magics if magic.unread), "")
        yield part._replace(tree=tree, commands=commands, unread=unread)


def _inner_parts(
    part: CodePart, calls: Iterable[ast.Call], magics: Iterable[MagicText]
) -> Iterator[CodePart]:
    """Yield the code in texts that code runs, and in its magic commands, neither of them parsed."""
    inner_depth = part.depth + 1
    for call in calls:
        if function_name(call) in CODE_FUNCTIONS and call.args:
            code = shown_text(call.args[0])
            yield CodePart(code, None, inner_depth, is_separate=part.is_separate)
    for magic in magics:
        if magic.code:
            is_separate = part.is_separate or magic.is_separate
            yield CodePart(magic.code, None, inner_depth, is_separate=is_separate)


def _unread_reason(part: CodePart) -> str:
    """Return why code is not parsed, as a clause; empty if it is."""
    if len(part.text) > MAX_CODE_CHARS:
        return f"it has more than {MAX_CODE_CHARS:,} characters"
    if part.depth > MAX_NESTED_MAGICS:
        return f"it has code in more than {MAX_NESTED_MAGICS} magic commands"
    return ""


def _parse(part: CodePart) -> ast.Module | None:
    """Parse code with magic commands; None if this is impossible."""
    tree = parse_python(transform(part.text))
    if tree is None and not part.depth:
        # A cell of one line may be a magic command without its sign.
        tree = parse_python(transform(complete_command(part.text, {})))
    return tree


def _expressions(calls: Iterable[ast.Call]) -> Iterator[str]:
    """Yield the expressions that calls evaluate, as far as their texts show it: those between braces,
    and what help is asked about."""
    for call in calls:
        name = function_name(call)
        if name == HELP_BUILTIN:
            yield from (shown_text(argument) for argument in call.args[:1])
        elif name in _COMMAND_FUNCTIONS:
            yield from _braced_expressions("\n".join(map(shown_text, call.args)))
        elif name in MAGIC_FUNCTIONS:
            yield from _magic_expressions(call)


def _magic_expressions(call: ast.Call) -> Iterator[str]:
    """Yield the expressions that a magic command evaluates in its first line, not in its body."""
    texts = [shown_text(argument) for argument in call.args]
    name = "".join(texts[:1]).lstrip("%")
    first_line = "".join(texts[1:2]).partition("\n")[0]
    if name in HELP_MAGICS:
        yield first_line.strip()
    if name == SEARCH_MAGIC:
        yield first_line.strip().rpartition(".")[0]
    yield from _braced_expressions(first_line)


def _braced_expressions(text: str) -> Iterator[str]:
    """Yield the expressions between braces."""
    for expression in _BRACES.findall(text):
        yield _CONVERSION.sub("", expression.strip())
