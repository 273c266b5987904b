"""What shell commands may change, as far as their words show it without running them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from .shell_words import Word, split_commands

MAX_COMMAND_CHARS = 20_000
"""Longer commands are not read."""
MAX_NESTED_SHELLS = 5
SHELLS = frozenset("sh bash dash zsh ksh ash fish".split())

COMMAND_FOLDERS = ("", "/bin", "/usr/bin", "/usr/local/bin")
"""Folders of the system's commands; without a folder, the shell finds them there."""

_PREFIXES = frozenset(
    "env sudo nohup time exec command builtin nice then do else if elif while until ! {".split()
)
"""Words before the name of a command."""
_HARMLESS = frozenset(
    "cat cd diff du echo export false file grep head ls printf pwd read sleep stat tail test true"
    " type unset wait wc which [ [[".split()
)
"""Commands that change no file that an argument names."""
_WORDS_AS_CODE = frozenset(("eval", "xargs", "parallel"))
_FOLDER_COMMANDS = ("cd", "pushd")
_FIND_ACTIONS = frozenset(
    "-delete -exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf".split()
)
_GIT_COMMANDS_WITH_SETTINGS = frozenset("config remote submodule worktree".split())
_GIT_SETTING_SUBCOMMANDS = frozenset(("submodule init", "submodule update", "config edit"))
_GIT_READING_SUBCOMMANDS = frozenset(
    ("config get", "config list", "remote show", "remote get-url", "submodule status")
)
_GIT_READING_OPTIONS = frozenset(("--get", "--get-all", "--get-regexp", "--list", "-l"))
_GIT_REMOVING_OPTIONS = frozenset(
    ("--unset", "--unset-all", "--remove-section", "--rename-section", "--edit", "-e")
)
_GIT_OPTIONS_WITH_VALUE = ("-c", "-C", "--git-dir", "--work-tree")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_CODE_OPTION = re.compile(r"-[A-Zabd-z]*c[A-Za-z]*")
"""The option of a shell before its command."""
_INPUT_OPTION = re.compile(r"-[A-Za-rt-z]*s[A-Za-z]*")
"""The option of a shell that reads commands from its input, although it has arguments."""


def nested_command(text: str) -> str | None:
    """Return the command that a shell command hands to another shell, if it does nothing else."""
    if len(text) > MAX_COMMAND_CHARS:
        return None
    commands = split_commands(text)
    if len(commands) != 1 or len(commands[0]) != 3:
        return None
    if known_program(commands[0][0]) not in SHELLS:
        return None
    nested = _nested_command(commands[0])
    return None if nested is None or nested.is_expanded else nested.text


def read_words(text: str, folders: Sequence[str] = (), depth: int = 0) -> Iterator[Word]:
    """Yield the words of a shell command that may name files which it changes, and those of commands
    that it hands to other shells. Of long commands, nothing is read.

    Args:
        text: The command.
        folders: Where relative paths may begin, besides the working folder. Words are yielded with
            these, as well, and with the folders that the command enters.
        depth: Of nested shells around it.
    """
    if len(text) > MAX_COMMAND_CHARS:
        return
    first_folders = folders
    for command in split_commands(text):
        name, arguments = _program(command)
        program = "" if name is None else known_program(name)
        for word in command:
            if program not in _HARMLESS or word.redirection == ">":
                yield word
                for folder in folders:
                    yield word._replace(text=os.path.join(folder, word.text))
        if os.path.basename(program) == "git" and _changes_settings_of_git(arguments):
            yield Word(".git/config")
        if program in _FOLDER_COMMANDS:
            # A subshell that has ended has left its folder.
            entered = _operand(arguments)
            beginnings = dict.fromkeys((*(first_folders or ("",)), *folders[-1:]))
            folders = [os.path.join(beginning, entered) for beginning in beginnings]
        nested = _nested_command(command)
        if nested is not None and depth < MAX_NESTED_SHELLS:
            yield from read_words(nested.text, folders, depth + 1)


def _operand(arguments: Sequence[Word]) -> str:
    """Return the first argument that is no option; the user's folder if there is none."""
    operands = [word.text for word in arguments if not word.text.startswith("-")]
    return operands[0] if operands else "~"


def _changes_settings_of_git(arguments: Sequence[Word]) -> bool:
    texts = [word.text for word in arguments]
    operands = [
        text
        for text, text_before in zip(texts, ["", *texts])
        if not text.startswith("-") and text_before not in _GIT_OPTIONS_WITH_VALUE
    ]
    subcommand = " ".join(operands[:2])
    if operands[:1] in (["clone"], ["init"]) or subcommand in _GIT_SETTING_SUBCOMMANDS:
        return True
    if operands[:1] == ["config"] and not _GIT_REMOVING_OPTIONS.isdisjoint(texts):
        return True
    return (
        len(operands) > 2
        and operands[0] in _GIT_COMMANDS_WITH_SETTINGS
        and subcommand not in _GIT_READING_SUBCOMMANDS
        and _GIT_READING_OPTIONS.isdisjoint(texts)
    )


def unreadable_part(text: str, depth: int = 0) -> str:
    """Return a word of a shell command because of which it is not known which files it changes: one in
    which the shell puts something, or a command that makes commands. Empty if there is none."""
    if len(text) > MAX_COMMAND_CHARS:
        return f"more than {MAX_COMMAND_CHARS:,} characters"
    unknown_folder = ""
    for command in split_commands(text):
        part = _unreadable_word(command, depth)
        if part or (unknown_folder and _may_name_changed_files(command)):
            return part or unknown_folder
        name, arguments = _program(command)
        if name is not None and name.text in _FOLDER_COMMANDS:
            unknown_folder = _expanded_word(arguments)
    return ""


def _unreadable_word(command: Sequence[Word], depth: int) -> str:
    """Return what `unreadable_part` does, for one simple command."""
    for word in command:
        if word.redirection == ">" and word.is_expanded:
            return word.text
    name, arguments = _program(command)
    if name is None:
        return ""

    program = os.path.basename(name.text)
    if name.is_expanded or program in _WORDS_AS_CODE:
        return name.text
    if program == "find" and not _FIND_ACTIONS.isdisjoint(word.text for word in arguments):
        return program
    nested = _nested_command(command)
    if nested is not None and not nested.is_expanded:
        if depth >= MAX_NESTED_SHELLS:
            return nested.text
        part = unreadable_part(nested.text, depth + 1)
        if part or program in SHELLS:
            return part
    elif program in SHELLS and _reads_commands_from_input(arguments):
        return program
    return "" if known_program(name) in _HARMLESS else _expanded_word(arguments)


def _reads_commands_from_input(arguments: Sequence[Word]) -> bool:
    """Return whether a shell with these arguments does."""
    words = [word.text for word in arguments if not word.redirection]
    has_operands = any(not word.startswith("-") for word in words)
    return not has_operands or any(map(_INPUT_OPTION.fullmatch, words))


def _may_name_changed_files(command: Sequence[Word]) -> bool:
    """Return whether a simple command changes files, perhaps, and has words that may name them."""
    name, arguments = _program(command)
    if any(word.redirection == ">" for word in command):
        return True
    return name is not None and bool(arguments) and known_program(name) not in _HARMLESS


def _expanded_word(words: Sequence[Word]) -> str:
    return next((word.text for word in words if word.is_expanded), "")


def known_program(name: Word) -> str:
    """Return the name of a command of the system; of another program, its whole path."""
    folder, program = os.path.split(name.text)
    return program if folder in COMMAND_FOLDERS else name.text


def _program(command: Sequence[Word]) -> tuple[Word | None, Sequence[Word]]:
    """Return the name and the arguments of a simple command; None if it only sets variables."""
    has_prefix = False
    for index, word in enumerate(command):
        is_prefix = word.text in _PREFIXES or _ASSIGNMENT.match(word.text) is not None
        has_prefix |= is_prefix
        is_option = has_prefix and word.text.startswith("-")
        if not is_prefix and not is_option and not word.redirection:
            return word, command[index + 1 :]
    return None, ()


def _nested_command(command: Sequence[Word]) -> Word | None:
    """Return the word that is itself a command: what follows ``trap``, or ``sh -c`` and more
    options."""
    if command and command[0].text == "trap":
        return next((word for word in command[1:] if not word.redirection), None)
    has_shell = False
    has_option = False
    for word in command:
        if has_option and not word.redirection and not word.text.startswith(("-", "+")):
            return word
        has_option |= has_shell and _CODE_OPTION.fullmatch(word.text) is not None
        has_shell |= os.path.basename(word.text) in SHELLS
    return None
