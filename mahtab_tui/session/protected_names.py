"""Finds the texts in code that may be paths of files that it changes."""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from mahtab_tui.bus.magic_code import (
    MAX_NESTED_MAGICS,
    SHELL_MAGICS,
    function_name,
    is_magic,
    other_magic_text,
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
from mahtab_tui.worker.magic.syntax import SHELL_BUILTIN, SHELL_OUTPUT_BUILTIN

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
_SHELL_ONLY_FUNCTIONS = frozenset(
    f"system popen getoutput getstatusoutput create_subprocess_shell spawn {SHELL_BUILTIN} {SHELL_OUTPUT_BUILTIN}".split()
)
"""Functions that start a shell with their first text."""
_COMMAND_FUNCTIONS = _SHELL_ONLY_FUNCTIONS.union("Popen run call check_call check_output".split())
"""Functions whose first argument is a command: its words, or a text for a shell."""
_PROGRAM_FUNCTIONS = frozenset(
    (
        "create_subprocess_exec execl execle execlp execlpe execv execve execvp execvpe posix_spawn"
        " posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"
    ).split()
)
"""Functions whose arguments are a program and its words."""
_STARTERS = _COMMAND_FUNCTIONS | _PROGRAM_FUNCTIONS
_SPLITTING_FUNCTION = "split"
"""What makes the words of a command from its text: `shlex.split`, or the method of a text."""
_BEFORE_COMMAND = re.compile(r"(\w[\w, ]*=)?")
"""What may stand before the `!` of a shell command, without the spaces around it."""


def protected_candidates(code: str) -> list[str]:
    """Return the texts in code that may name files that it changes: strings, except those that are
    only read from, and words of shell commands. Each text once."""
    return list(dict.fromkeys(_candidate_texts(code)))


def _candidate_texts(code: str) -> Iterator[str]:
    for part in read_code(code):
        if part.tree is None:
            # A line may be a magic command, or one of the shell.
            for line in part.text.split("\n"):
                yield from paths_changed_by_command(line.lstrip("!% "))
        else:
            yield from _texts_in_tree(part.tree)
        for command in part.commands:
            yield from paths_changed_by_command(command)


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
            values = _assigned_values(part.tree)
            for node in ast.walk(part.tree):
                if isinstance(node, ast.Call) and function_name(node) in _STARTERS:
                    yield from _started_commands(node, values)
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


def _started_commands(call: ast.Call, values: Mapping[str, Sequence[ast.expr]]) -> Iterator[str]:
    """Yield the commands of a call that starts a program. What is not plain text in them is seen when
    they run. values: what names stand for, as `_assigned_values` returns it."""
    name = function_name(call)
    if name in _PROGRAM_FUNCTIONS:
        yield join_words([shown_text(word) for argument in call.args for word in _words(argument)])
        return
    starts_shell = name in _SHELL_ONLY_FUNCTIONS or any(
        word.arg == "shell" for word in call.keywords
    )
    arguments = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "args")]
    for argument in arguments:
        for value in _possible_values(argument, values):
            if isinstance(value, (ast.List, ast.Tuple)):
                yield join_words([shown_text(word) for word in value.elts])
            elif isinstance(value, ast.Call) and function_name(value) == _SPLITTING_FUNCTION:
                yield from map(shown_text, _split_texts(value))
            elif starts_shell:
                yield shown_text(value)


def _words(argument: ast.expr) -> Sequence[ast.expr]:
    return argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else (argument,)


def _split_texts(call: ast.Call) -> Iterator[ast.expr]:
    """Yield what `shlex.split(text)` or `text.split()` splits."""
    yield from call.args[:1]
    if isinstance(call.func, ast.Attribute):
        yield call.func.value


def _possible_values(
    argument: ast.expr, values: Mapping[str, Sequence[ast.expr]]
) -> Sequence[ast.expr]:
    return values.get(argument.id, ()) if isinstance(argument, ast.Name) else (argument,)


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


def _texts_in_tree(tree: ast.Module) -> Iterator[str]:
    may_start_programs = any(map(_names_starter, ast.walk(tree)))
    for text, call in _texts_with_calls(tree):
        if call is not None and (_only_reads(call) or _starts_reading_command(call, text)):
            continue
        if call is not None and is_magic(call):
            continue
        if len(text) <= MAX_PATH_CHARS and "\n" not in text:
            yield text
        # Any text may be handed to a shell later, by another name.
        if may_start_programs:
            yield from paths_changed_by_command(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if is_magic(node):
            yield from paths_changed_by_command(other_magic_text(node))
        elif function_name(node) in _STARTERS and not _has_reading_words(node):
            for command in _started_commands(node, {}):
                yield from paths_changed_by_command(command)


def _names_starter(node: ast.AST) -> bool:
    """Return whether a part of code names a function that starts programs, also as a text."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name in _STARTERS
        case ast.Constant(value=str(text)):
            return text in _STARTERS
    return False


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
    """Return whether a call starts a command with a text that only shows files."""
    if function_name(call) not in _COMMAND_FUNCTIONS:
        return False
    match call.args:
        case [ast.Constant(value=str(command)), *_] if command == text:
            return command_only_reads(command)
    return text in _constant_words(call) and _has_reading_words(call)


def _has_reading_words(call: ast.Call) -> bool:
    """Return whether a call starts a program, with words that are all known, that only shows files."""
    words = _constant_words(call)
    return bool(words) and command_only_reads(join_words(words))


def _constant_words(call: ast.Call) -> list[str]:
    """Return the words of the program that a call starts; none if the code does not show them all."""
    if any(keyword.arg in (None, "executable") for keyword in call.keywords):
        return []
    match call.args:
        case [ast.List(elts=elements) | ast.Tuple(elts=elements)]:
            words = [word.value for word in elements if isinstance(word, ast.Constant)]
            texts = [word for word in words if isinstance(word, str)]
            return texts if len(texts) == len(elements) else []
    return []


def _opens_for_reading(call: ast.Call) -> bool:
    modes = [*call.args[1:2]]
    modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    if isinstance(call.func, ast.Attribute):  # a method of a path, or a function of a module
        modes += call.args[:1]
    values = [mode.value if isinstance(mode, ast.Constant) else None for mode in modes]
    return all(isinstance(value, str) and mode_letter(value) == "r" for value in values)
