"""Finds the texts in code that may be paths of files that it changes."""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from mahtab_tui.bus.magic_code import (
    CODE_FUNCTIONS,
    MAX_NESTED_MAGICS,
    SHELL_MAGICS,
    function_name,
    is_magic,
    other_magic_text,
    read_code,
    read_magic_arguments,
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
_PROGRAM_STARTERS = _COMMAND_FUNCTIONS | _PROGRAM_FUNCTIONS
_SPLITTING_FUNCTION = "split"
"""The name of `shlex.split` and of the method of a text, which return the words of a command."""
_BEFORE_COMMAND = re.compile(r"(\w[\w, ]*=)?")
"""What may stand before the `!` of a shell command, without the spaces around it."""
_TOO_DEEP_CODE = f"code in more than {MAX_NESTED_MAGICS} magic commands or texts"


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
    """Return the first part of code because of which it is not known which files its shell commands
    change: a part of a command, or code that is nested too deeply; empty if there is none."""
    return next(filter(None, _unreadable_parts(code)), "")


def _unreadable_parts(code: str) -> Iterator[str]:
    """Yield code that is nested too deeply, and what cannot be read of each shell command in code, as
    far as its text shows them: texts of calls, of `!` lines and of magic commands. What is empty can
    be read."""
    for part in read_code(code):
        if part.depth > MAX_NESTED_MAGICS:
            yield _TOO_DEEP_CODE
        elif part.tree is None:
            yield from map(unreadable_part_of_command, _shell_lines(part.text))
        else:
            yield from map(unreadable_part_of_command, _started_commands(part.tree))
            yield from map(unreadable_part_of_command, part.commands)


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


def _started_commands(tree: ast.Module) -> Iterator[str]:
    """Yield the commands of calls that start programs. What is not plain text in them is seen when they
    run."""
    # Each with whether a shell reads it. What a name stands for is read once, however many calls get it.
    arguments: dict[tuple[ast.expr | str, bool], None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or function_name(node) not in _PROGRAM_STARTERS:
            continue
        if function_name(node) in _PROGRAM_FUNCTIONS:
            words = [word for argument in node.args for word in _words(argument)]
            yield join_words(list(map(shown_text, words)))
            continue
        starts_shell = function_name(node) in _SHELL_ONLY_FUNCTIONS or any(
            keyword.arg == "shell" for keyword in node.keywords
        )
        for argument in _command_arguments(node):
            name_or_value = argument.id if isinstance(argument, ast.Name) else argument
            arguments[name_or_value, starts_shell] = None

    assigned_values = _assigned_values(tree)
    commands: dict[tuple[ast.expr, bool], None] = {}
    for name_or_value, starts_shell in arguments:
        if isinstance(name_or_value, str):
            values = assigned_values.get(name_or_value, ())
        else:
            values = (name_or_value,)
        commands.update(((value, starts_shell), None) for value in values)
    for value, starts_shell in commands:
        yield from _command_texts(value, starts_shell=starts_shell)


def _command_arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args[:1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "args")


def _command_texts(value: ast.expr, *, starts_shell: bool) -> Iterator[str]:
    """Yield the commands in an argument of a function that starts programs. A text is one if a shell reads
    it."""
    if isinstance(value, (ast.List, ast.Tuple)):
        yield join_words(list(map(shown_text, value.elts)))
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
    nodes = list(ast.walk(tree))
    # A docstring, for example, reaches no function.
    statements = {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts_by_call = _texts_by_call(tree)
    used_texts = set(chain.from_iterable(texts_by_call.values())) - statements
    may_start_programs = _mentions_program_starter(nodes, used_texts)
    for call, texts in texts_by_call.items():
        for constant in _without_read_texts(call, texts):
            text = shown_text(constant)
            if len(text) <= MAX_PATH_CHARS and "\n" not in text:
                yield text
            # Where programs are started, any text may be handed to a shell later, by another name.
            runs_text = call is not None and _runs_unread_text(call, constant)
            if runs_text or (may_start_programs and constant in used_texts):
                yield from paths_changed_by_command(text)
    for node in nodes:
        if isinstance(node, ast.Call) and is_magic(node):
            yield from paths_changed_by_command(other_magic_text(node))
    for command in _started_commands(tree):
        yield from paths_changed_by_command(command)


def _runs_unread_text(call: ast.Call, text: ast.Constant) -> bool:
    """Return whether a call may run a text as code or as a command, except for code that `read_code`
    reads: a plain first argument."""
    if function_name(call) in CODE_FUNCTIONS:
        return text not in call.args[:1]
    return function_name(call) in _PROGRAM_STARTERS or is_magic(call)


def _mentions_program_starter(nodes: Sequence[ast.AST], texts: Iterable[ast.Constant]) -> bool:
    """Return whether code mentions a function that starts programs, by its name or a text, except for
    calls without arguments, as in `platform.system()`, and definitions and imports with that name.
    From where such a function comes does not count, because an earlier cell may have imported it.

    Args:
        nodes: All parts of the code.
        texts: The texts in it that a function may get, such as `getattr`.
    """
    called_without_arguments = {
        node.func
        for node in nodes
        if isinstance(node, ast.Call) and not (node.args or node.keywords)
    }
    names = set(map(shown_text, texts))
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()) if (
                node not in called_without_arguments
            ):
                names.add(name)
            case ast.alias(name=name, asname=str()):
                names.add(name)
    return not names.isdisjoint(_PROGRAM_STARTERS)


def _texts_by_call(tree: ast.AST) -> Mapping[ast.Call | None, Sequence[ast.Constant]]:
    """Return texts that are not only compared, by the call that gets them or a path made of them:
    `read_text` for both texts of ``(Path("a") / "b").read_text()``."""
    texts: defaultdict[ast.Call | None, list[ast.Constant]] = defaultdict(list)
    pending_nodes: deque[tuple[ast.AST, ast.Call | None]] = deque([(tree, None)])
    while pending_nodes:
        parent, call = pending_nodes.popleft()
        if isinstance(parent, ast.stmt):
            call = None
        elif isinstance(parent, ast.Call) and function_name(parent) not in _PATH_FUNCTIONS:
            call = parent

        for child in ast.iter_child_nodes(parent):
            pending_nodes.append((child, call))
            if isinstance(parent, ast.Compare) or not isinstance(child, ast.Constant):
                continue
            if isinstance(child.value, (str, bytes)):
                texts[call].append(child)
    return texts


def _without_read_texts(
    call: ast.Call | None, texts: Sequence[ast.Constant]
) -> Iterator[ast.Constant]:
    """Yield the texts of a call, without those that it only reads from, and those of a magic command
    that are read as such."""
    if call is None:
        yield from texts
    elif is_magic(call):
        arguments = set(read_magic_arguments(call))
        yield from (text for text in texts if text not in arguments)
    elif not _only_reads(call):
        command_texts = _reading_command_texts(call)
        yield from (text for text in texts if shown_text(text) not in command_texts)


def _only_reads(call: ast.Call) -> bool:
    name = function_name(call)
    if name == "open":
        return _opens_for_reading(call)
    return name in _READING_FUNCTIONS or name.startswith("read_")


def _reading_command_texts(call: ast.Call) -> Set[str]:
    """Return the texts with which a call starts a command that only shows files."""
    if function_name(call) not in _COMMAND_FUNCTIONS:
        return frozenset()
    match call.args:
        case [ast.Constant(value=str(command)), *_]:
            return {command} if command_only_reads(command) else frozenset()
    words = _constant_words(call)
    return set(words) if words and command_only_reads(join_words(words)) else frozenset()


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
