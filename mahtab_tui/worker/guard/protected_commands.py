"""Tells which protected files a shell command may change, and whether it shows that."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ..stdlib import late_import
from .command_words import (
    is_open_ended_path,
    nested_command,
    read_folder_words,
    read_target_words,
    read_words,
    unreadable_part,
)
from .protected_places import (
    TooManyEntriesError,
    is_hard_link,
    leads_to_protected,
    protected_path_in,
    resolve_path,
)
from .shell_arithmetic import computed_names
from .shell_variables import VARIABLES_OF_SHELLS
from .shell_words import PRINTED_NUMBER, Word, split_commands
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
_MAX_PATTERN_LEVELS = 4
"""Levels of folders for which a pattern in a command has wildcards: more could stand for the whole
disk."""
_TOO_MANY_FILES = (
    "The command may change protected files: it names too many to look at."
    " Name the files in the command, and the user will be asked"
)
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


def _files_of(words: Iterable[Word], deadline: float) -> Iterator[str]:
    """Yield the paths that words stand for, and the files that patterns match.

    Raises `PermissionError` after the deadline, by `time.monotonic`.
    """
    for word in words:
        if time.monotonic() > deadline:
            raise PermissionError(_TOO_MANY_FILES)
        yield word.text
        if not word.is_pattern:
            continue
        pattern = "/".join(map(_without_brackets, word.text.split("/")))
        if sum(map(_has_wildcard, pattern.split("/"))) > _MAX_PATTERN_LEVELS:
            raise PermissionError(_TOO_MANY_FILES)
        folder, *parts = os.path.expanduser(pattern).split("/")
        if folder:
            yield from _matching_paths("", [folder, *parts], deadline)
        else:
            yield from _matching_paths("/", parts, deadline)


def _matching_paths(folder: str, parts: Sequence[str], deadline: float) -> Iterator[str]:
    """Yield the files in a folder that a pattern matches, as in `glob.iglob`, which may be silent
    for minutes. Raises `PermissionError` after the deadline, by `time.monotonic`.

    Args:
        parts: The pattern, split at each slash.
    """
    if not parts:
        if os.path.lexists(folder):
            yield folder
        return
    plain_count = next((n for n, part in enumerate(parts) if _has_wildcard(part)), len(parts))
    if plain_count:
        inner_folder = os.path.join(folder, *parts[:plain_count])
        yield from _matching_paths(inner_folder, parts[plain_count:], deadline)
        return
    part, *inner_parts = parts
    fnmatch = late_import("fnmatch")
    for name in _names_in(folder):
        if time.monotonic() > deadline:
            raise PermissionError(_TOO_MANY_FILES)
        is_hidden = name.startswith(".") and not part.startswith(".")
        if not is_hidden and fnmatch.fnmatchcase(name, part):
            yield from _matching_paths(os.path.join(folder, name), inner_parts, deadline)


def _names_in(folder: str) -> Iterator[str]:
    """Yield the names in a folder; nothing if it cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                yield entry.name
    except (OSError, ValueError):
        return


def _has_wildcard(part: str) -> bool:
    return "*" in part or "?" in part


def _without_brackets(pattern: str) -> str:
    """Return a pattern that matches as many names, or more, but has no sets of letters: shells know
    more of them than Python."""
    before, bracket, rest = pattern.partition("[")
    return f"{before}*{rest.rpartition(']')[2]}" if bracket and "]" in rest else pattern


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
    name = _changed_variable(
        variables, _VARIABLES_OF_READING_COMMANDS if only_reads else VARIABLES_OF_SHELLS
    )
    if only_reads and not name and _leads_to_files_of_keys(variables.get("HOME", ""), folder):
        name = "HOME"
    if name:
        raise PermissionError(
            f"The command may change protected files: code has set {name}, which decides what a shell"
            " runs. Only code that the user has approved by hand may start it"
        )
    if only_reads:
        return
    part = unreadable_part_of_command(command, folder)
    if part:
        raise PermissionError(
            f"The command may change protected files: {part} does not show which. Write"
            " the whole command as plain text in the code, and the user will be asked"
        )
    for name in computed_names(read_simple_commands(command).commands):
        value = variables.get(name, "")
        if _INTEGER.fullmatch(value) is None:
            raise PermissionError(
                f"The command may change protected files: {name} is set to a text, and the command may"
                " run it as code"
            )
    path = _changed_file(command, folder, time.monotonic() + _MAX_MATCHING_S)
    if path:
        raise PermissionError(
            f"{path} is protected: only code that the user has approved by hand may change it."
            " Name the files in the command, and the user will be asked"
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
    deadline = time.monotonic() + _MAX_MATCHING_S
    paths = []
    for command in commands:
        try:
            path = "" if command_only_reads(command) else _changed_file(command, "", deadline)
        except PermissionError:
            path = UNKNOWN_FILE
        paths.append(path)
    return paths


def _changed_file(command: str, folder: str, deadline: float) -> str:
    """Return the protected file that a command may change, as far as the files there show it; empty
    if there is none. Raises `PermissionError` if they are too many, or at the deadline, by
    `time.monotonic`.

    Args:
        folder: As for `paths_changed_by_command`.
    """
    for path in _files_of(read_words(command, folder), deadline):
        if leads_to_protected(path) or is_hard_link(path):
            return path
    for path in _files_of(read_target_words(command, folder), deadline):
        if os.path.isdir(path) and leads_to_open_folder(path):
            return path
    for path in _files_of(read_folder_words(command, folder), deadline):
        if not os.path.isdir(path):
            continue
        if time.monotonic() > deadline:
            raise PermissionError(_TOO_MANY_FILES)
        try:
            inner_path = protected_path_in(path)
        except TooManyEntriesError:
            raise PermissionError(_TOO_MANY_FILES) from None
        if inner_path:
            return inner_path
    return ""


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
