"""Finds the texts in code that may be paths of files that it changes."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator

from mahtab_tui.bus.magic_code import (
    MAX_CODE_CHARS,
    MAX_NESTED_MAGICS,
    SHELL_MAGICS,
    function_name,
    read_code,
    shown_text,
)
from mahtab_tui.settings.approval_rules import mode_letter
from mahtab_tui.worker.guard.protected_commands import (
    command_only_reads,
    paths_changed_by_command,
    unreadable_part_of_command,
)
from mahtab_tui.worker.guard.protected_places import MAX_PATH_CHARS
from mahtab_tui.worker.guard.shell_words import join_words
from mahtab_tui.worker.magic.syntax import LINES, SHELL, parse_python

_PATH_FUNCTIONS = frozenset(
    (
        "Path PurePath PosixPath str fspath join joinpath expanduser expandvars abspath realpath"
        " resolve absolute with_name with_suffix format"
    ).split()
)
"""Functions and methods that return a path made from another one."""
_READING_FUNCTIONS = frozenset(
    (
        "read read_text read_bytes exists lexists is_file is_dir isfile isdir islink stat lstat"
        " getsize getmtime listdir scandir iterdir glob rglob walk print grep peek len startswith"
        " endswith load load_dotenv dotenv_values"
    ).split()
)
_SHELL_FUNCTIONS = frozenset(
    (
        "system popen Popen run call check_call check_output getoutput getstatusoutput"
        f" create_subprocess_shell spawn {SHELL} {LINES}"
    ).split()
)
"""Functions whose texts are commands of a shell."""
_SHELL_ONLY_FUNCTIONS = frozenset(
    f"system popen getoutput getstatusoutput create_subprocess_shell spawn {SHELL} {LINES}".split()
)
"""The functions of these that always start a shell."""
_BEFORE_COMMAND = re.compile(r"(\w[\w, ]*=)?")
"""What may stand before the `!` of a shell command, without the spaces around it."""


def protected_candidates(code: str) -> list[str]:
    """Return the texts in code that may name files that it changes: strings, except those that are
    only read from, and words of shell commands. Each text once."""
    tree = parse_python(code) if len(code) <= MAX_CODE_CHARS else None
    if tree is None:
        lines = code.split("\n")
        # A line may be a magic command, or one of the shell.
        words = (word for line in lines for word in paths_changed_by_command(line.lstrip("!% ")))
        return list(dict.fromkeys(words))
    return list(dict.fromkeys(_candidate_texts(tree)))


def unreadable_command_part(code: str) -> str:
    """Return the first part of a shell command in code because of which it is not known which files
    that changes; empty if there is none."""
    parts = map(unreadable_part_of_command, _shell_commands(code))
    return next(filter(None, parts), "")


def _shell_commands(code: str) -> Iterator[str]:
    """Yield the shell commands in code, as far as its text shows them: texts of calls, of `!` lines and
    of magic commands."""
    for part in read_code(code):
        if part.depth > MAX_NESTED_MAGICS:
            yield part.text
        elif part.tree is None:
            yield from _shell_lines(part.text)
        else:
            for node in ast.walk(part.tree):
                if isinstance(node, ast.Call) and function_name(node) in _SHELL_FUNCTIONS:
                    yield from _started_command(node)
            yield from part.commands


def _shell_lines(code: str) -> Iterator[str]:
    """Yield the shell commands in code that cannot be parsed."""
    for line in code.split("\n"):
        command_line = line.lstrip(" \t%")
        # These work without a sign, too.
        if command_line.partition(" ")[0] in SHELL_MAGICS:
            yield command_line
        beginning, mark, command = line.partition("!")
        if mark and _BEFORE_COMMAND.fullmatch(beginning.strip()):
            yield command.lstrip("!")


def _started_command(call: ast.Call) -> Iterator[str]:
    """Yield the command of a call that starts a program. What is not plain text in it is seen when it
    runs."""
    arguments = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "args")]
    for argument in arguments:
        if isinstance(argument, (ast.List, ast.Tuple)):
            yield join_words([shown_text(word) for word in argument.elts])
        elif function_name(call) in _SHELL_ONLY_FUNCTIONS or any(
            keyword.arg == "shell" for keyword in call.keywords
        ):
            yield shown_text(argument)


def _candidate_texts(tree: ast.AST) -> Iterator[str]:
    for text, call in _texts_with_calls(tree):
        if call is not None and (_only_reads(call) or _starts_reading_command(call, text)):
            continue
        if len(text) <= MAX_PATH_CHARS and "\n" not in text:
            yield text
        if call is not None and function_name(call) in _SHELL_FUNCTIONS:
            yield from paths_changed_by_command(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and function_name(node) in _SHELL_FUNCTIONS:
            for command in _started_command(node):
                yield from paths_changed_by_command(command)


def _texts_with_calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call | None]]:
    """Yield texts that are not only compared, each with the call that gets it or a path made of it:
    `read_text` for both texts of ``(Path("a") / "b").read_text()``."""
    pending_nodes: deque[tuple[ast.AST, ast.Call | None]] = deque([(tree, None)])
    while pending_nodes:
        parent, call = pending_nodes.popleft()
        if isinstance(parent, ast.stmt):
            call = None
        elif isinstance(parent, ast.Call) and function_name(parent) not in _PATH_FUNCTIONS:
            call = parent

        for child in ast.iter_child_nodes(parent):
            pending_nodes.append((child, call))
            if isinstance(child, ast.Constant) and not isinstance(parent, ast.Compare):
                if isinstance(child.value, str):
                    yield child.value, call
                elif isinstance(child.value, bytes):
                    yield child.value.decode("latin-1"), call


def _only_reads(call: ast.Call) -> bool:
    name = function_name(call)
    if name == "open":
        return _opens_for_reading(call)
    return name in _READING_FUNCTIONS or name.startswith("read_")


def _starts_reading_command(call: ast.Call, text: str) -> bool:
    """Return whether a call gives a text to the shell that is a command which only shows files."""
    match call.args:
        case [ast.Constant(value=str(command)), *_] if command == text:
            return function_name(call) in _SHELL_FUNCTIONS and command_only_reads(command)
    return False


def _opens_for_reading(call: ast.Call) -> bool:
    modes = [*call.args[1:2]]
    modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    if isinstance(call.func, ast.Attribute):  # a method of a path, or a function of a module
        modes += call.args[:1]
    values = [mode.value if isinstance(mode, ast.Constant) else None for mode in modes]
    return all(isinstance(value, str) and mode_letter(value) == "r" for value in values)
