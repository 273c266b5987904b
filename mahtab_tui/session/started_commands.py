"""Finds the commands of the programs that code starts, as far as its text shows them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mahtab_tui.bus.magic_calls import SHELL_MAGICS, function_name, shown_text
from mahtab_tui.worker.guard.shell_words import join_words
from mahtab_tui.worker.magic.syntax import SHELL_BUILTIN, SHELL_OUTPUT_BUILTIN

_SHELL_FUNCTIONS = frozenset(
    f"system popen getoutput getstatusoutput create_subprocess_shell spawn {SHELL_BUILTIN} {SHELL_OUTPUT_BUILTIN}".split()
)
"""Functions whose first argument is a text for a shell."""
COMMAND_FUNCTIONS = _SHELL_FUNCTIONS.union("Popen run call check_call check_output".split())
"""Functions whose first argument is a command: a list of words, or a text for a shell."""
_PROGRAM_FUNCTIONS = frozenset(
    (
        "create_subprocess_exec execl execle execlp execlpe execv execve execvp execvpe posix_spawn"
        " posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"
    ).split()
)
"""Functions whose arguments are a program and the words that it gets."""
PROGRAM_STARTERS = COMMAND_FUNCTIONS | _PROGRAM_FUNCTIONS
"""All functions that start programs."""
_SPLITTING_FUNCTION = "split"
"""The name of `shlex.split` and of the method of a text, which return the words of a command."""
_BEFORE_COMMAND = re.compile(r"(\w[\w, ]*=)?")
"""What may stand before the `!` of a shell command, without the spaces around it."""


class _CommandArgument(NamedTuple):
    """An argument that says which command a call starts."""

    value: ast.expr | str
    """The expression; if it is only a name, the name."""
    is_for_shell: bool
    """Whether the call may start a shell with it: any `shell=` counts."""


def started_commands(tree: ast.Module) -> Iterator[str]:
    """Yield the commands of the calls that start programs.

    An `x` stands for each part that is not plain text; it is only known when the command runs.
    """
    # A dictionary, because each name is looked up once, however many calls get it.
    arguments: dict[_CommandArgument, None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = function_name(node)
        if name in _PROGRAM_FUNCTIONS:
            yield _join_expressions(_words_of_program(node))
        elif name in COMMAND_FUNCTIONS:
            arguments.update(dict.fromkeys(_command_arguments(node)))

    assigned_values = _assigned_values(tree)
    commands: dict[tuple[ast.expr, bool], None] = {}
    for argument in arguments:
        values: Sequence[ast.expr]
        if isinstance(argument.value, str):
            values = assigned_values.get(argument.value, ())
        else:
            values = (argument.value,)
        for value in values:
            commands[value, argument.is_for_shell] = None
    for value, is_for_shell in commands:
        yield from _commands_in(value, is_for_shell=is_for_shell)


def _words_of_program(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the words of a call's arguments, some of which may be lists of words."""
    for argument in call.args:
        if isinstance(argument, (ast.List, ast.Tuple)):
            yield from argument.elts
        else:
            yield argument


def _command_arguments(call: ast.Call) -> Iterator[_CommandArgument]:
    """Yield the arguments of a call that may be its command: the first one, and `args`."""
    has_shell_keyword = any(keyword.arg == "shell" for keyword in call.keywords)
    is_for_shell = has_shell_keyword or function_name(call) in _SHELL_FUNCTIONS
    values = [
        *call.args[:1],
        *(keyword.value for keyword in call.keywords if keyword.arg == "args"),
    ]
    for value in values:
        name_or_value = value.id if isinstance(value, ast.Name) else value
        yield _CommandArgument(name_or_value, is_for_shell)


def _assigned_values(tree: ast.AST) -> Mapping[str, Sequence[ast.expr]]:
    """Return the expressions that code assigns to names, by these names."""
    values: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        values[target.id].append(value)
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                values[name].append(value)
            case ast.For(target=ast.Name(id=name), iter=ast.List() | ast.Tuple() as items):
                values[name] += items.elts
    return values


def _commands_in(value: ast.expr, *, is_for_shell: bool) -> Iterator[str]:
    """Yield the commands in an argument: a list of words, the call that splits a text into words, or a
    text for a shell."""
    if isinstance(value, (ast.List, ast.Tuple)):
        yield _join_expressions(value.elts)
    elif isinstance(value, ast.Call) and function_name(value) == _SPLITTING_FUNCTION:
        # `shlex.split(text)` gets the text, and `text.split()` is a method of the text.
        yield from map(shown_text, value.args[:1])
        if isinstance(value.func, ast.Attribute):
            yield shown_text(value.func.value)
    elif is_for_shell:
        yield shown_text(value)


def _join_expressions(words: Iterator[ast.expr] | Sequence[ast.expr]) -> str:
    """Return the command that consists of words, as it is written in a shell."""
    return join_words([shown_text(word) for word in words])


def shell_lines(code: str) -> Iterator[str]:
    """Yield the shell commands in code that cannot be parsed."""
    for line in code.split("\n"):
        command_line = line.lstrip(" \t%")
        # These magic commands also work without a sign.
        if command_line.partition(" ")[0] in SHELL_MAGICS:
            yield command_line
        beginning, mark, command = line.partition("!")
        if mark and _BEFORE_COMMAND.fullmatch(beginning.strip()):
            yield command.lstrip("!")
