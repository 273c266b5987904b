"""Reads a shell command as the simple commands that it runs, with those that it hands to other
shells and programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from .command_splitter import split_commands
from .known_programs import (
    COMMAND_TAKERS,
    HARMLESS,
    HARMLESS_SETTERS,
    INNER_PROGRAMS,
    PREFIXES,
    SHELLS,
    SOURCING_PROGRAMS,
    STARTED_PROGRAMS,
    STARTERS,
)
from .shell_words import Word

MAX_COMMAND_CHARS = 20_000
"""Longer commands are not read."""
MAX_NESTED_SHELLS = 5
MAX_SIMPLE_COMMANDS = 5_000
"""Simple commands that are read of a command, with those of the commands in it."""
MAX_INNER_PROGRAMS = 8
"""Words of a simple command that may be the program which another one starts (`nice xargs rm`)."""
COMMAND_FOLDERS = ("", "/bin", "/usr/bin", "/usr/local/bin")
"""Folders of the system's commands; without a folder, the shell finds them there."""

_ASSIGNMENT = re.compile(r"\A([A-Za-z_]\w*)(?:\[[^\]]{0,100}\])?\+?=")
_CODE_OPTION = re.compile(r"[-+][A-Zabd-z]*c[A-Za-z]*")
"""The option of a shell before its command."""
_INPUT_OPTION = re.compile(r"-[A-Za-rt-z]*s[A-Za-z]*|-")
"""The option of a shell that reads commands from its input, although it has arguments."""
_STREAMS = ("/dev/", "/proc/")
"""Where the input of a program has a path."""
_COMMAND_SIGN = re.compile(r"[\s;&|<>`$()]")
"""What a text has that is more than one word for a shell."""
_REDEFINING = re.compile(r"\(\s*\)|\b(?:function|alias|hash|enable)\b")
"""What gives the name of a command another meaning."""
_SETS_SEARCH_PATH = re.compile(
    r"\A(?:-\w*|\{)?PATH\}?\Z"
    r"|(?<![\w$])PATH\s{0,20}(?:\[|:?[-+*/%&|^<>]{0,2}=|\+\+|--)|(?:\+\+|--)\s{0,20}PATH\b"
)
"""A word that sets the variable which does so, after the name of a command that sets variables."""


class SimpleCommand(NamedTuple):
    """A command without others in it."""

    words: Sequence[Word]
    """All of its words, with its redirections."""
    name: Word | None
    """The word that names the program; None if it only sets variables."""
    program: str
    """The program, as `known_program` returns it; empty if there is none."""
    arguments: Sequence[Word]
    """The words after the name."""
    is_harmless: bool
    """Whether it changes no file that an argument names."""
    is_certain: bool
    """Whether it surely runs: a text among the arguments of any program may be a command or not."""
    is_whole: bool
    """Whether its words belong to it alone."""

    @property
    def basename(self) -> str:
        """The program without its folder."""
        return os.path.basename(self.program)

    @property
    def operands(self) -> list[str]:
        """The arguments that are neither options nor redirections."""
        return [
            word.text
            for word in self.arguments
            if not word.redirection and not word.text.startswith("-")
        ]


class ReadCommand(NamedTuple):
    """What a shell command consists of."""

    commands: Sequence[SimpleCommand]
    unread_part: str
    """What of it was not read, because it is too long or too deep; empty if all was."""
    keeps_names: bool
    """Whether commands of the system surely mean what their names say."""


def read_simple_commands(text: str) -> ReadCommand:
    """Read a shell command and those that it hands to other shells. Of long ones, nothing is read."""
    if _REDEFINING.search(text) is None:
        command = _read_with(text, keeps_names=True)
        if not any(map(_may_set_search_path, command.commands)):
            return command
    return _read_with(text, keeps_names=False)


def _read_with(text: str, *, keeps_names: bool) -> ReadCommand:
    """Read a command as `read_simple_commands` does.

    Args:
        text: The command.
        keeps_names: Whether commands of the system surely mean what their names say.
    """
    reader = _Reader(keeps_names=keeps_names)
    reader.read(text, depth=0, is_certain=True)
    return ReadCommand(reader.commands, reader.unread_part, keeps_names)


def _may_set_search_path(command: SimpleCommand) -> bool:
    """Return whether a command may change where the shell finds commands, so that their names may mean
    others."""
    words = command.words
    if command.is_harmless and command.program not in HARMLESS_SETTERS:
        # Its arguments set no variable, but for a descriptor as in `{PATH}>file`.
        descriptor_words = [word for word in command.arguments if word.text.startswith("{")]
        words = [*words[: len(words) - len(command.arguments)], *descriptor_words]
    return any(_SETS_SEARCH_PATH.search(word.text) is not None for word in words)


class _Reader:
    """Collects simple commands."""

    def __init__(self, *, keeps_names: bool) -> None:
        """
        Args:
            keeps_names: Whether commands of the system surely mean what their names say.
        """
        self.commands: list[SimpleCommand] = []
        self.unread_part = ""
        self._keeps_names = keeps_names

    def read(self, text: str, *, depth: int, is_certain: bool) -> None:
        """Read a command.

        Args:
            text: The command.
            depth: How many other shells it is handed to.
            is_certain: As in `SimpleCommand`.
        """
        if len(text) > MAX_COMMAND_CHARS:
            self._note_unread(f"more than {MAX_COMMAND_CHARS:,} characters", is_certain)
            return
        if depth > MAX_NESTED_SHELLS:
            self._note_unread(text, is_certain)
            return
        for words in split_commands(text):
            if len(self.commands) >= MAX_SIMPLE_COMMANDS:
                self._note_unread(f"more than {MAX_SIMPLE_COMMANDS:,} commands", True)
                return
            self._read_simple(words, depth, is_certain)

    def _note_unread(self, part: str, is_certain: bool) -> None:
        if is_certain and not self.unread_part:
            self.unread_part = part

    def _read_simple(self, words: Sequence[Word], depth: int, is_certain: bool) -> None:
        """Read a simple command, and the programs that it may start."""
        command = self._command_from(words, is_certain)
        self.commands.append(command)
        self._read_nested(command, depth, is_certain)
        # Git's own reader knows which programs it starts.
        if command.is_harmless or command.basename == "git":
            return
        inner_commands = list(islice(_inner_commands(command), MAX_INNER_PROGRAMS + 1))
        for inner_command in inner_commands[:MAX_INNER_PROGRAMS]:
            self.commands.append(inner_command)
            self._read_nested(inner_command, depth, is_certain)
        if len(inner_commands) > MAX_INNER_PROGRAMS:
            self._note_unread(inner_commands[-1].words[0].text, is_certain)

    def _command_from(self, words: Sequence[Word], is_certain: bool) -> SimpleCommand:
        """Return the simple command that consists of words."""
        name, arguments = _name_and_arguments(words)
        program = "" if name is None else known_program(name)
        return SimpleCommand(
            words,
            name,
            program,
            arguments,
            is_harmless=self._keeps_names and program in HARMLESS,
            is_certain=is_certain,
            is_whole=True,
        )

    def _read_nested(self, command: SimpleCommand, depth: int, is_certain: bool) -> None:
        """Read the words of a simple command that are commands, or may be."""
        nested_texts = {word.text for word in nested_commands(command)}
        for text in dict.fromkeys(nested_texts):
            self.read(text, depth=depth + 1, is_certain=is_certain)
        if command.is_harmless or not command.is_whole:
            return
        for word in command.words:
            if word.text not in nested_texts and _COMMAND_SIGN.search(word.text):
                self.read(word.text, depth=depth + 1, is_certain=False)


def _inner_commands(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """Yield the programs that a simple command may start, with the arguments after their names."""
    name_end = len(command.words) - len(command.arguments)
    for index, word in enumerate(command.words[name_end:], name_end):
        if _starts_program(word, command.words[:index]):
            yield SimpleCommand(
                command.words[index:],
                word,
                known_program(word),
                command.words[index + 1 :],
                is_harmless=False,
                is_certain=command.is_certain,
                is_whole=False,
            )


def _starts_program(word: Word, words_before: Sequence[Word]) -> bool:
    """Return whether an argument may be the program that a simple command starts.

    Args:
        word: The argument.
        words_before: Those before it in the command.
    """
    if word.redirection:
        return False
    program = os.path.basename(word.text)
    if program in INNER_PROGRAMS:
        return True
    if program not in STARTED_PROGRAMS:
        return False
    programs_before = {os.path.basename(word_before.text) for word_before in words_before}
    return not programs_before.isdisjoint(STARTERS | COMMAND_TAKERS)


def nested_commands(command: SimpleCommand) -> Iterator[Word]:
    """Yield the words of a simple command that a shell runs: what follows ``trap``, and ``sh -c`` with
    its options, which may have arguments."""
    words = [word for word in command.arguments if not word.redirection]
    if command.program == "trap":
        yield from [word for word in words if word.text != "--"][:1]
    elif command.basename in SHELLS:
        yield from _operands_after_option(words)
    elif command.basename in COMMAND_TAKERS:
        yield from (word for word in words if _COMMAND_SIGN.search(word.text))


def _operands_after_option(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the arguments of a shell that may be its command: those after `-c`."""
    has_option = False
    for word in words:
        if has_option and not word.text.startswith(("-", "+")):
            yield word
        has_option |= _CODE_OPTION.fullmatch(word.text) is not None


def reads_commands_elsewhere(command: SimpleCommand) -> bool:
    """Return whether a command runs commands from its input, or from a stream that has a path."""
    words = [word.text for word in command.arguments if not word.redirection]
    operands = [word for word in words if not word.startswith("-")]
    if command.program in SOURCING_PROGRAMS:
        return not operands or operands[0].startswith(_STREAMS)
    if command.basename not in SHELLS:
        return False
    has_input_option = any(map(_INPUT_OPTION.fullmatch, words))
    return not operands or has_input_option or operands[0].startswith(_STREAMS)


def known_program(name: Word) -> str:
    """Return the name of a command of the system; of another program, its whole path."""
    folder, program = os.path.split(name.text)
    return program if folder in COMMAND_FOLDERS else name.text


def assigned_name(word: Word) -> str:
    """Return the variable that a word sets; empty if it sets none."""
    assignment = _ASSIGNMENT.match(word.text)
    return "" if assignment is None else assignment[1]


def _name_and_arguments(words: Sequence[Word]) -> tuple[Word | None, Sequence[Word]]:
    """Return the word that names the program of a simple command, and those after it."""
    has_prefix = False
    for index, word in enumerate(words):
        is_prefix = word.text in PREFIXES or assigned_name(word) != ""
        has_prefix |= is_prefix
        is_option = has_prefix and word.text.startswith("-")
        if not is_prefix and not is_option and not word.redirection:
            return word, words[index + 1 :]
    return None, ()
