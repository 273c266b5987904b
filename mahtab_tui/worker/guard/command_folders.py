"""Tells in which folders the commands of a shell command may run, so that the relative paths in their
words can be read (`command_words`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .shell_words import Word
from .simple_commands import SimpleCommand

FOLDER_COMMANDS = frozenset(("cd", "chdir", "pushd"))
MAX_FOLDERS = 50
"""Folders in which a command may run: with more, it is not known where it does."""

_REPEATING_WORDS = frozenset("for while until select do function".split())
"""Words with which a part of a command may run several times."""
_FOLDER_OPTIONS = (
    *("-C", "-D", "-t", "--chdir", "--directory", "--cwd", "--wd", "--workdir"),
    *("--working-directory", "--work-tree", "--target-directory", "--root"),
)
"""Options of programs whose values are folders in which they work."""
_MAX_OPTION_LETTERS = 6
"""Letters of options that may stand together before a value."""
_STACK_ENTRY = re.compile(r"[+-]\d*")
"""What names an earlier folder for `cd` and `pushd`."""


class CommandFolders(NamedTuple):
    """Where a command may run."""

    paths: Sequence[str]
    """The first is empty: the working folder."""
    unknown_part: str
    """A word by which it may also run elsewhere; empty if there is none."""


def find_folders(
    commands: Sequence[SimpleCommand], first_folder: str, *, may_repeat: bool, may_set_home: bool
) -> CommandFolders:
    """Return the folders in which commands may run.

    Subshells, functions, traps and failures decide which of the changes of the folder count for a
    command, so that each may.

    Args:
        commands: The commands, also texts that may not be commands.
        first_folder: Where they start; empty for the working folder.
        may_repeat: Whether parts of the command may run several times.
        may_set_home: Whether they may set which folder `cd` enters without an argument.
    """
    paths = {"": None}
    if first_folder:
        paths[first_folder] = None
    unknown_part = ""
    for command in commands:
        if command.program not in FOLDER_COMMANDS:
            continue
        folder = _named_folder(command)
        unknown_word = _unknown_folder(command, may_repeat=may_repeat, may_set_home=may_set_home)
        if not unknown_word:
            paths.update(dict.fromkeys(_enter(paths, folder)))
        elif command.is_certain and not unknown_part:
            unknown_part = unknown_word
        if len(paths) > MAX_FOLDERS:
            return CommandFolders([*paths][:MAX_FOLDERS], unknown_part or folder)

    option_folders = dict.fromkeys(
        folder for command in commands for folder in _folder_options(command)
    )
    for folder in option_folders:
        if len(paths) > MAX_FOLDERS:
            return CommandFolders([*paths][:MAX_FOLDERS], unknown_part or folder)
        paths.update(dict.fromkeys(_enter(paths, folder)))
    return CommandFolders(list(paths), unknown_part)


def repeats_parts(commands: Iterable[SimpleCommand], text: str) -> bool:
    """Return whether parts of a command may run several times: in loops and functions."""
    if re.search(r"\(\s*\)", text):
        return True
    return any(word.text in _REPEATING_WORDS for command in commands for word in command.words[:1])


def _named_folder(command: SimpleCommand) -> str:
    """Return the folder that a command enters, as it is written; without one, it is the home folder."""
    return command.operands[0] if command.operands else "~"


def _unknown_folder(command: SimpleCommand, *, may_repeat: bool, may_set_home: bool) -> str:
    """Return the word that keeps the folder which a command enters from being known; empty if it is
    known. The parameters are those of `find_folders`."""
    for word in command.arguments:
        if word.redirection:
            continue
        if word.is_expanded or word.is_pattern:
            return word.text
        if _STACK_ENTRY.fullmatch(word.text):
            return f"{command.program} {word.text}"
    if len(command.operands) > 1:
        return " ".join((command.program, *command.operands))

    folder = _named_folder(command)
    # Each time, a relative path leads further.
    if may_repeat and not folder.startswith(("/", "~")):
        return folder
    if may_set_home and folder.startswith("~"):
        return command.program
    return ""


def _enter(paths: Iterable[str], folder: str) -> Iterator[str]:
    """Yield where a path leads from some folders.

    Shells take away what stands before ``..``; the system follows a link there.
    """
    for path in list(paths):
        joined = os.path.join(path, folder)
        normal = os.path.normpath(joined)
        yield "" if normal == "." else normal
        if ".." in joined and joined != normal:
            yield joined


def _folder_options(command: SimpleCommand) -> Iterator[str]:
    """Yield the folders that options name: ``-C x``, ``-Cx``, ``--chdir=x``."""
    if command.is_harmless:
        return
    previous = ""
    for word in command.words:
        text = word.text
        if previous in _FOLDER_OPTIONS:
            yield text
        name, _, value = text.partition("=")
        if value and name in _FOLDER_OPTIONS:
            yield value
        elif text[:2] in ("-C", "-D") and len(text) > 2:
            yield text[2:]
        previous = text


def value_forms(word: Word) -> Iterator[str]:
    """Yield the texts in a word that may be a path: the word, what follows ``=``, and what follows the
    letter of an option."""
    text = word.text
    yield text
    if "=" in text:
        yield text.partition("=")[2]
        yield text.rpartition("=")[2]
    if text.startswith("-") and not text.startswith("--"):
        for start in range(2, min(len(text), 2 + _MAX_OPTION_LETTERS)):
            yield text[start:]
