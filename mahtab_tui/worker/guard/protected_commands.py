"""Tells which protected files a shell command may change, and whether it shows that.

`protected` asks when a program starts, and the host before code runs. The words of a command are read by
`command_words`, and the files that they name are found by `named_files`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set

from .command_splitter import split_commands
from .command_words import (
    is_open_ended_path,
    nested_command,
    read_folder_words,
    read_target_words,
    read_words,
    unreadable_part,
)
from .named_files import MatchingDeadline, find_files, too_many_files
from .protected_places import (
    TooManyEntriesError,
    is_hard_link,
    leads_to_protected,
    protected_path_in,
    resolve_path,
)
from .shell_arithmetic import computed_names
from .shell_variables import VARIABLES_OF_SHELLS
from .shell_words import PRINTED_NUMBER
from .simple_commands import MAX_COMMAND_CHARS, known_program, read_simple_commands

_WORD_SEPARATORS = re.compile(r"""[\s'"`;&|<>()=]+""")
_SHELL_OPERATORS = re.compile(r"[;&|<>`\n]|\$\(")
"""Signs with which a command can do more than its first word says."""
_READING_COMMANDS = frozenset("cat diff file grep head less ls more rg stat tail wc".split())
_WRITING_WITH_OPTIONS = frozenset("file less more rg".split())
"""Reading commands with options that write a file or start a program."""
_INTEGER = re.compile(r"[-+]?\d{0,100}")
_VARIABLES_OF_READING_COMMANDS = frozenset(
    "BASHOPTS BASH_ENV LD_AUDIT LD_PRELOAD SHELLOPTS ZDOTDIR"
    " LESS LESSCLOSE LESSOPEN RIPGREP_CONFIG_PATH"
    " LESSKEY LESSKEYIN LESSKEYIN_SYSTEM LESSKEY_CONTENT LESSKEY_SYSTEM XDG_CONFIG_HOME".split()
)
"""Those that make even a command which only reads do more: by them, a shell runs something before each
command, a program loads code by its path, or `less` and `rg` start a program for each file. The files
of keys that `less` reads may set its other variables.

Where programs and libraries are looked for (`LD_LIBRARY_PATH`, as `PATH`) does not count: many packages
set it, and code can start its own files directly."""
_FILES_OF_KEYS = (".less", ".lesskey", ".config/less", ".config/lesskey")
"""Where `less` looks in the home folder for keys, and for the programs that it starts."""
_EXPORTED_FUNCTION = "BASH_FUNC_"
"""Beginning of the variables in which Bash hands functions to other shells."""
_FIRST_VARIABLES = dict(os.environ)
"""The environment before the first cell."""
_FOLDER_VARIABLES = frozenset(("PWD", "OLDPWD"))
"""Variables that a shell sets itself."""
UNKNOWN_FILE = "a protected file"
"""What stands for the path of a file if there are too many to look at."""
_MAX_MATCHING_S = 5.0
"""Seconds for which files are looked for that patterns in a command stand for."""


def paths_changed_by_command(command: str, folder: str = "") -> Iterator[str]:
    """Yield the words of a shell command that may name a file that it changes.

    Args:
        command: The command.
        folder: Where it starts, if not in the working folder. Words are also yielded as paths in it.
    """
    if command_only_reads(command):
        return
    yield from filter(None, _WORD_SEPARATORS.split(command))
    for word in read_words(command, folder):
        yield word.text


def unreadable_part_of_command(command: str, folder: str = "") -> str:
    """Return why it is not known which files a shell command changes: a word in which the shell puts
    something, for example. Empty if it is known, or if the command changes none."""
    if command_only_reads(command):
        return ""
    return unreadable_part(command, folder).replace(PRINTED_NUMBER, "$(…)")


def leads_to_open_folder(text: str) -> bool:
    """Return whether a text leads to a folder, such as `.git`, in which protected files have names that
    do not show it."""
    resolved = resolve_path(text)
    return resolved is not None and any(map(is_open_ended_path, resolved))


def command_only_reads(command: str) -> bool:
    """Return whether a shell command is one that shows files, and nothing else."""
    commands = split_commands(command) if len(command) <= MAX_COMMAND_CHARS else []
    if len(commands) != 1:
        return False
    nested = nested_command(command)
    if nested is not None:
        return command_only_reads(nested)
    if _SHELL_OPERATORS.search(command):
        return False

    name, *arguments = commands[0]
    program = known_program(name)
    if name.is_expanded or program not in _READING_COMMANDS:
        return False
    # What is expanded may be an option, too.
    has_options = any(word.is_expanded or word.text.startswith(("-", "+")) for word in arguments)
    return not (has_options and program in _WRITING_WITH_OPTIONS)


def check_command(command: str, folder: str, environment: Mapping[str, str] | None) -> None:
    """Refuse a command whose text does not show that it changes no protected file. Raises
    `PermissionError`.

    Args:
        command: The command.
        folder: As for `paths_changed_by_command`.
        environment: The variables that its program gets; None for those of this process.
    """
    variables = os.environ if environment is None else environment
    only_reads = command_only_reads(command)
    _check_variables(variables, folder, only_reads=only_reads)
    if only_reads:
        return
    part = unreadable_part_of_command(command, folder)
    if part:
        raise PermissionError(
            f"The command may change protected files: {part} does not show which. Write"
            " the whole command as plain text in the code, and the user will be asked"
        )
    _check_computed_names(command, variables)
    path = _changed_file(command, folder, MatchingDeadline(_MAX_MATCHING_S))
    if path:
        raise PermissionError(
            f"{path} is protected: only code that the user has approved by hand may change it."
            " Name the files in the command, and the user will be asked"
        )


def _check_variables(variables: Mapping[str, str], folder: str, *, only_reads: bool) -> None:
    """Raise `PermissionError` if code has set a variable by which a command does more than it says.

    Args:
        variables: All variables of the command.
        folder: As for `paths_changed_by_command`.
        only_reads: Whether the command, as it is written, only shows files.
    """
    deciding_names = _VARIABLES_OF_READING_COMMANDS if only_reads else VARIABLES_OF_SHELLS
    name = _changed_variable(variables, deciding_names)
    if only_reads and not name and _leads_to_files_of_keys(variables.get("HOME", ""), folder):
        name = "HOME"
    if name:
        raise PermissionError(
            f"The command may change protected files: code has set {name}, which decides what a shell"
            " runs. Only code that the user has approved by hand may start it"
        )


def _check_computed_names(command: str, variables: Mapping[str, str]) -> None:
    """Raise `PermissionError` if a command computes a variable that has a text, which may be code."""
    for name in computed_names(read_simple_commands(command).commands):
        if _INTEGER.fullmatch(variables.get(name, "")) is None:
            raise PermissionError(
                f"The command may change protected files: {name} is set to a text, and the command may"
                " run it as code"
            )


def _leads_to_files_of_keys(home: str, folder: str) -> bool:
    """Return whether a home folder is not that of the start, and has what `less` reads.

    Args:
        home: The value of HOME, which may be relative. If it is empty, `less` looks in no home folder.
        folder: As for `paths_changed_by_command`.
    """
    if home in ("", _FIRST_VARIABLES.get("HOME")):
        return False
    return any(os.path.lexists(os.path.join(folder, home, name)) for name in _FILES_OF_KEYS)


def changed_files(commands: Iterable[str]) -> list[str]:
    """Return, for each shell command, the protected file that it may change, as far as the files and
    folders show it to which its words lead. The text is empty if there is none, and `UNKNOWN_FILE` if
    there are too many to look at."""
    deadline = MatchingDeadline(_MAX_MATCHING_S)
    paths = []
    for command in commands:
        try:
            path = "" if command_only_reads(command) else _changed_file(command, "", deadline)
        except PermissionError:
            path = UNKNOWN_FILE
        paths.append(path)
    return paths


def _changed_file(command: str, folder: str, deadline: MatchingDeadline) -> str:
    """Return the protected file that a command may change, as far as the files there show it; empty
    if there is none. Raises `PermissionError` if they are too many, or at the deadline.

    Args:
        folder: As for `paths_changed_by_command`.
    """
    for path in find_files(read_words(command, folder), deadline):
        if leads_to_protected(path) or is_hard_link(path):
            return path
    for path in find_files(read_target_words(command, folder), deadline):
        if os.path.isdir(path) and leads_to_open_folder(path):
            return path
    for path in find_files(read_folder_words(command, folder), deadline):
        if os.path.isdir(path):
            deadline.check()
            if inner_path := _find_protected_in(path):
                return inner_path
    return ""


def _find_protected_in(folder: str) -> str:
    """Return a protected file or folder in a folder; empty if there is none. Raises `PermissionError`
    if neither is known."""
    try:
        return protected_path_in(folder)
    except TooManyEntriesError:
        raise too_many_files() from None


def _changed_variable(environment: Mapping[str, str], names: Set[str]) -> str:
    """Return a variable with one of the names, or a function for Bash, that was set after the start;
    empty if there is none."""
    # What `~` stands for here is read from the present environment.
    first_variables = {**_FIRST_VARIABLES, "HOME": os.environ.get("HOME")}
    for name, value in environment.items():
        is_of_shells = name in names or name.startswith(_EXPORTED_FUNCTION)
        if is_of_shells and name not in _FOLDER_VARIABLES and value != first_variables.get(name):
            return name
    return ""
