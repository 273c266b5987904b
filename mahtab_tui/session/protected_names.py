"""Finds out which files code may change, as far as its text shows it.

Code that may change a protected file needs the user's approval. A text counts as the name of a changed
file unless it is clear that it is not, so ordinary code may be asked about as well.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from mahtab_tui.bus.magic_calls import (
    function_name,
    is_magic,
    other_magic_text,
    read_magic_arguments,
    shown_text,
)
from mahtab_tui.bus.magic_code import CODE_FUNCTIONS, MAX_NESTED_MAGICS, CodePart, read_code
from mahtab_tui.session.started_commands import (
    COMMAND_FUNCTIONS,
    PROGRAM_STARTERS,
    shell_lines,
    started_commands,
)
from mahtab_tui.settings.approval_rules import mode_letter
from mahtab_tui.worker.guard.protected_commands import (
    command_only_reads,
    paths_changed_by_command,
    unreadable_part_of_command,
)
from mahtab_tui.worker.guard.protected_places import MAX_PATH_CHARS
from mahtab_tui.worker.guard.shell_words import join_words

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
"""Functions and methods that do not change files. Neither do those whose names begin with `read_`."""
_TOO_DEEP_CODE = f"code in more than {MAX_NESTED_MAGICS} magic commands or texts"


def protected_candidates(code: str) -> list[str]:
    """Return the texts in code that may name files that it changes, each text once.

    They are strings, except for those from which the code only reads, and words of shell commands.
    """
    return list(dict.fromkeys(_candidate_texts(code)))


def unreadable_command_part(code: str) -> str:
    """Return the first part of code that hides which files its shell commands change.

    Returns:
        A part of a command, or words for code that is nested too deeply; empty if nothing hides it.
    """
    return next(filter(None, _unreadable_parts(code)), "")


def _unreadable_parts(code: str) -> Iterator[str]:
    """Yield what hides which files change: for each shell command a part of it, or an empty text.

    The commands are those in calls, in `!` lines and in magic commands.
    """
    for part in read_code(code):
        if part.depth > MAX_NESTED_MAGICS:
            yield _TOO_DEEP_CODE
        else:
            yield from map(unreadable_part_of_command, _commands_of_part(part))


def shell_commands(code: str) -> list[str]:
    """Return the shell commands in code, each once, as far as its text shows them."""
    parts = (part for part in read_code(code) if part.depth <= MAX_NESTED_MAGICS)
    return list(dict.fromkeys(chain.from_iterable(map(_commands_of_part, parts))))


def _commands_of_part(part: CodePart) -> Iterator[str]:
    if part.tree is None:
        yield from shell_lines(part.text)
    else:
        yield from started_commands(part.tree)
        yield from part.commands


def _candidate_texts(code: str) -> Iterator[str]:
    """Yield the texts that `protected_candidates` returns, perhaps several times."""
    for part in read_code(code):
        if part.tree is None:
            # A line may be a magic command, or a command of a shell.
            for line in part.text.split("\n"):
                yield from paths_changed_by_command(line.lstrip("!% "))
        else:
            yield from _candidates_in_tree(part.tree)
        for command in part.commands:
            yield from paths_changed_by_command(command)


def _candidates_in_tree(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in parsed code that may name files that it changes."""
    nodes = list(ast.walk(tree))
    texts_by_call = _texts_by_call(tree)
    # A text that is a whole statement, such as a docstring, reaches no function.
    statements = {node.value for node in nodes if isinstance(node, ast.Expr)}
    used_texts = set(chain.from_iterable(texts_by_call.values())) - statements
    may_start_programs = _mentions_program_starter(nodes, used_texts)

    for call, texts in texts_by_call.items():
        for constant in _without_read_texts(call, texts):
            text = shown_text(constant)
            if len(text) <= MAX_PATH_CHARS and "\n" not in text:
                yield text
            # Where programs are started, any text may reach a shell later, by way of a variable.
            may_reach_shell = may_start_programs and constant in used_texts
            if may_reach_shell or _is_run_unread(constant, call):
                yield from paths_changed_by_command(text)

    for node in nodes:
        if isinstance(node, ast.Call) and is_magic(node):
            yield from paths_changed_by_command(other_magic_text(node))
    for command in started_commands(tree):
        yield from paths_changed_by_command(command)


def _texts_by_call(tree: ast.AST) -> Mapping[ast.Call | None, Sequence[ast.Constant]]:
    """Return the texts in code by the call that gets them, or gets a path that is made of them.

    In ``(Path("a") / "b").read_text()``, this is the call of `read_text` for both texts. It is None
    for texts that no call gets. Texts that are only compared are left out.
    """
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


def _mentions_program_starter(nodes: Sequence[ast.AST], texts: Iterable[ast.Constant]) -> bool:
    """Return whether code mentions a function that starts programs, by its name or in a text.

    Calls without arguments do not count, as in `platform.system()`, and neither do definitions and
    imports with that name. It does not matter from where such a function comes, because an earlier
    cell may have imported it.

    Args:
        nodes: All nodes of the code.
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
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                if node not in called_without_arguments:
                    names.add(name)
            case ast.alias(name=name, asname=str()):
                names.add(name)
    return not names.isdisjoint(PROGRAM_STARTERS)


def _is_run_unread(text: ast.Constant, call: ast.Call | None) -> bool:
    """Return whether a call may run a text as code or as a command.

    The first argument of a function that runs code does not count, because `read_code` reads it.
    """
    if call is None:
        return False
    if function_name(call) in CODE_FUNCTIONS:
        return text not in call.args[:1]
    return function_name(call) in PROGRAM_STARTERS or is_magic(call)


def _without_read_texts(
    call: ast.Call | None, texts: Sequence[ast.Constant]
) -> Iterator[ast.Constant]:
    """Yield the texts of a call, except for names of files from which it only reads.

    Texts of a magic command that are read as code or as a command are also left out.
    """
    if call is None:
        yield from texts
    elif is_magic(call):
        read_arguments = set(read_magic_arguments(call))
        yield from (text for text in texts if text not in read_arguments)
    elif not _only_reads(call):
        reading_texts = _texts_of_reading_command(call)
        yield from (text for text in texts if shown_text(text) not in reading_texts)


def _only_reads(call: ast.Call) -> bool:
    """Return whether a call changes no file, judging by its name and the mode of `open`."""
    name = function_name(call)
    if name == "open":
        return _opens_for_reading(call)
    return name in _READING_FUNCTIONS or name.startswith("read_")


def _opens_for_reading(call: ast.Call) -> bool:
    """Return whether a call of `open` opens a file for reading only."""
    modes = [*call.args[1:2]]
    modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    # The method of a path gets the mode first, and a function of a module gets it second.
    if isinstance(call.func, ast.Attribute):
        modes += call.args[:1]
    for mode in modes:
        value = mode.value if isinstance(mode, ast.Constant) else None
        if not isinstance(value, str) or mode_letter(value) != "r":
            return False
    return True


def _texts_of_reading_command(call: ast.Call) -> Set[str]:
    """Return the texts of the command that a call starts, if the command only shows files."""
    if function_name(call) not in COMMAND_FUNCTIONS:
        return frozenset()
    match call.args:
        case [ast.Constant(value=str(command)), *_]:
            return {command} if command_only_reads(command) else frozenset()
    words = _constant_words(call)
    if words and command_only_reads(join_words(words)):
        return set(words)
    return frozenset()


def _constant_words(call: ast.Call) -> list[str]:
    """Return the words of the command that a call starts, as a list in its only argument.

    Returns:
        The words; empty if the code does not show all of them.
    """
    # Another program may be named by `executable`, or by what `**` stands for.
    if any(keyword.arg in (None, "executable") for keyword in call.keywords):
        return []
    match call.args:
        case [ast.List(elts=elements) | ast.Tuple(elts=elements)]:
            values = [word.value for word in elements if isinstance(word, ast.Constant)]
            words = [value for value in values if isinstance(value, str)]
            if len(words) == len(elements):
                return words
    return []
