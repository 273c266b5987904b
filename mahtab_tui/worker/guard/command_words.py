"""What shell commands may change, as far as their words show it without running them. What cannot be
read surely counts as unreadable."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from . import git_commands
from .command_folders import CommandFolders, find_folders, repeats_parts, value_forms
from .command_splitter import split_commands
from .known_programs import CHANGES_READING, READ_SHELLS, SHELLS, WORDS_AS_CODE
from .shell_arithmetic import describe_unknown_computation
from .shell_variables import deciding_assignment, makes_references, sets_home
from .shell_words import Word
from .simple_commands import (
    MAX_COMMAND_CHARS,
    SimpleCommand,
    known_program,
    nested_commands,
    read_simple_commands,
    reads_commands_elsewhere,
)

MAX_PLACES = 10_000
"""Paths that the words of a command may stand for, in all the folders in which it may run."""

_FIND_ACTIONS = frozenset(
    "-delete -exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf".split()
)
_CHANGES_WHOLE_FOLDERS = frozenset("chattr chgrp chmod chown rm setfacl shred trash".split())
"""Programs that change or remove all that is in a folder."""
_COPIES_FOLDERS = frozenset("cp install ln mv rsync scp".split())
"""Programs that move or copy folders to the place that their last argument names."""
_READING_OPTIONS = re.compile(r"--(?:exclude|ignore|prune|skip)[\w-]*")
"""Options whose values name files that a program leaves alone."""
_OPEN_ENDED = re.compile(r"(?:^|/)(?:[^/]*\.git|\.config)/*$|^/+etc/*$", re.IGNORECASE)
"""Paths of folders in which protected files have names that do not show it."""
_READING_OPTION = re.compile(r"[-+][A-Za-z]*[OH]|histexpand")
"""An option of a shell that sets how it reads patterns, or commands of its history."""
_CALLING_COMMANDS = frozenset(("mapfile", "readarray"))
_CALLING_OPTION = re.compile(r"-[A-Za-z]*C")
"""The option with which these run a text for each line."""


def nested_command(text: str) -> str | None:
    """Return the command that a shell command hands to another shell, if it does nothing else."""
    if len(text) > MAX_COMMAND_CHARS:
        return None
    commands = split_commands(text)
    if len(commands) != 1 or len(commands[0]) != 3:
        return None
    if known_program(commands[0][0]) not in SHELLS:
        return None
    read = read_simple_commands(text).commands
    nested = list(nested_commands(read[0]))
    return nested[0].text if len(nested) == 1 and not nested[0].is_expanded else None


def read_words(text: str, folder: str = "") -> Iterator[Word]:
    """Yield the words of a shell command that may name files which it changes, and those of commands
    that it hands to other shells. Of long commands, nothing is read.

    Args:
        text: The command.
        folder: Where it starts, if not in the working folder. Words are yielded with it, as well, and
            with the folders that the command enters. At most `MAX_PLACES` are yielded.
    """
    commands = read_simple_commands(text).commands
    folders = _folders(text, folder, commands).paths
    texts: set[str] = set()
    for command in commands:
        if command.basename == "git" and _writes_git_settings(command):
            yield Word(".git/config")
        for word in _changed_words(command):
            for path in _places(word, folders):
                if path not in texts:
                    texts.add(path)
                    yield word._replace(text=path)
                if len(texts) > MAX_PLACES:
                    return


def read_target_words(text: str, folder: str = "") -> Iterator[Word]:
    """Yield the words of a shell command that may name folders in which it changes something.

    The parameters are those of `read_words`.
    """
    commands = read_simple_commands(text).commands
    folders = _folders(text, folder, commands).paths
    for command in commands:
        for word in _target_words(command):
            for path in _places(word, folders):
                yield word._replace(text=path)


def read_folder_words(text: str, folder: str = "") -> Iterator[Word]:
    """Yield the words of a shell command that name files which it moves, removes or copies with all
    that is in them, if they are folders. The parameters are those of `read_words`."""
    commands = read_simple_commands(text).commands
    folders = _folders(text, folder, commands).paths
    for command in commands:
        if command.basename in _CHANGES_WHOLE_FOLDERS or command.basename in _COPIES_FOLDERS:
            for word in _operands_with_contents(command):
                for path in _places(word, folders):
                    yield word._replace(text=path)


def _operands_with_contents(command: SimpleCommand) -> Sequence[Word]:
    operands = [
        word for word in command.arguments if not word.redirection and not word.text.startswith("-")
    ]
    names_target = any(
        word.text.startswith(("-t", "--target-directory")) for word in command.arguments
    )
    # What is in the last one stays as it is.
    if command.basename in _COPIES_FOLDERS and not names_target:
        return operands[:-1]
    return operands


def _folders(text: str, folder: str, commands: Sequence[SimpleCommand]) -> CommandFolders:
    return find_folders(
        commands,
        folder,
        may_repeat=repeats_parts(commands, text),
        may_set_home=any(map(sets_home, commands)),
    )


def _writes_git_settings(command: SimpleCommand) -> bool:
    arguments = command.arguments
    return git_commands.changes_settings(arguments) or git_commands.makes_repository(arguments)


def _changed_words(command: SimpleCommand) -> Iterator[Word]:
    """Yield the words of a simple command that may name files which it changes."""
    for word in command.words:
        if not command.is_harmless or word.redirection == ">":
            yield word


def _places(word: Word, folders: Sequence[str]) -> Iterator[str]:
    """Yield the paths that a word may stand for."""
    for form in value_forms(word):
        yield form
        if form.startswith(("/", "~")):
            continue
        for folder in folders:
            if folder:
                yield os.path.join(folder, form)


def unreadable_part(text: str, folder: str = "") -> str:
    """Return the reason why it is not known which files a shell command changes: a word in which
    the shell puts something, for example, or a command that makes commands. Empty if it is known.

    Args:
        folder: As for `read_words`.
    """
    read = read_simple_commands(text)
    commands = read.commands
    certain_commands = [command for command in commands if command.is_certain]
    unreadable_words = filter(None, map(_unreadable_word, certain_commands))
    reason = (
        next(unreadable_words, "")
        or read.unread_part
        or describe_unknown_computation(commands, keeps_names=read.keeps_names)
    )
    if reason:
        return reason

    folders = _folders(text, folder, commands)
    if folders.unknown_part and any(map(_may_name_changed_files, certain_commands)):
        return folders.unknown_part
    word_count = sum(len([*_changed_words(command)]) for command in commands)
    if word_count * len(folders.paths) > MAX_PLACES:
        return f"more than {MAX_PLACES:,} paths"
    return ""


def _unreadable_word(command: SimpleCommand) -> str:
    """Return what `unreadable_part` does, for one simple command."""
    for word in command.words:
        if word.redirection == ">" and word.is_expanded:
            return word.text
    assignment = deciding_assignment(command)
    if assignment or command.name is None:
        return assignment
    may_be_pattern = command.name.is_pattern or "[" in command.program
    if command.name.is_expanded or (may_be_pattern and command.program not in ("[", "[[")):
        return command.name.text
    return _unreadable_program(command) or _unreadable_argument(command)


def _unreadable_program(command: SimpleCommand) -> str:
    """Return the program of a command if it does what its words do not show."""
    program = command.basename
    if program in WORDS_AS_CODE or program in CHANGES_READING or makes_references(command):
        return program
    if program == "find" and _has_find_action(command):
        return program
    if program == "git" and git_commands.starts_programs(command.arguments):
        return program
    if _has_split_option(command):
        return "env -S"
    if program in SHELLS - READ_SHELLS and [*nested_commands(command)]:
        return program
    nested = [word for word in nested_commands(command) if not word.is_expanded]
    if not nested and reads_commands_elsewhere(command):
        return program
    if program in (*SHELLS, "set") and _has_option(command, _READING_OPTION):
        return program
    if program in _CALLING_COMMANDS and _has_option(command, _CALLING_OPTION):
        return program
    return ""


def _has_option(command: SimpleCommand, option: re.Pattern[str]) -> bool:
    return any(option.match(word.text) for word in command.arguments)


def _has_find_action(command: SimpleCommand) -> bool:
    return not _FIND_ACTIONS.isdisjoint(word.text for word in command.arguments)


def _has_split_option(command: SimpleCommand) -> bool:
    """Return whether `env` makes a command of a text."""
    texts = [word.text for word in command.words]
    has_env = any(os.path.basename(text) == "env" for text in texts)
    return has_env and any(re.match(r"-[A-Za-z]*S|--split", text) for text in texts)


def _unreadable_argument(command: SimpleCommand) -> str:
    """Return an argument of a command that shows only when it runs what it stands for."""
    # What a shell runs is read as a command.
    if command.is_harmless or (command.basename in SHELLS and [*nested_commands(command)]):
        return ""
    for word in command.arguments:
        if word.is_expanded:
            return word.text
    return next((word.text for word in _target_words(command) if _is_open_ended(word)), "")


def _target_words(command: SimpleCommand) -> Iterator[Word]:
    """Yield the words of a simple command that may name folders in which it changes something."""
    # Git's own arguments are read elsewhere, and `find` does nothing to files without an action.
    if command.is_harmless or command.basename == "git" or command.program == "find":
        return
    previous = ""
    for word in command.words:
        if _READING_OPTIONS.match(previous or word.text) is None:
            yield word
        previous = word.text if _READING_OPTIONS.fullmatch(word.text) else ""


def _is_open_ended(word: Word) -> bool:
    """Return whether a word names a folder in which a program may change protected files."""
    if "://" in word.text:
        return False
    return any(map(is_open_ended_path, value_forms(word)))


def is_open_ended_path(path: str) -> bool:
    """Return whether a path is that of a folder in which protected files have names that do not show
    it, such as `.git`."""
    return _OPEN_ENDED.search(path) is not None


def _may_name_changed_files(command: SimpleCommand) -> bool:
    """Return whether a simple command changes files, perhaps, and has words that may name them."""
    if any(word.redirection == ">" for word in command.words):
        return True
    return command.name is not None and bool(command.arguments) and not command.is_harmless
