"""The words of shell commands as the shell reads them, as far as that can be told without running
it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MAX_COMMAND_CHARS = 20_000
"""Longer commands are not read."""
MAX_NESTED_SHELLS = 5
SHELLS = frozenset("sh bash dash zsh ksh ash fish".split())

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
_FIND_ACTIONS = frozenset(
    "-delete -exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf".split()
)
_GIT_COMMANDS_WITH_SETTINGS = frozenset("config remote submodule worktree".split())
_GIT_OPTIONS_WITH_VALUE = ("-c", "-C", "--git-dir", "--work-tree")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_EXPANDED = re.compile(r"[A-Za-z0-9_({@*#?$!'\"-]")
"""What a dollar sign stands before if the shell replaces it."""
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_SEPARATES_COMMANDS = frozenset("\n;&|()")


class Word(NamedTuple):
    """A word of a command, without its quotes."""

    text: str
    is_expanded: bool = False
    """Whether the shell puts something in it: a variable, the output of a command, one of several
    texts."""
    is_pattern: bool = False
    """Whether it stands for the files whose names match it."""
    redirection: str = ""
    """``>`` if the command's output goes to it, ``<`` if its input comes from it."""


def join_words(words: Sequence[str]) -> str:
    """Return the shell command that starts a program with these arguments."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def nested_command(text: str) -> str | None:
    """Return the command that a shell command hands to another shell, if it does nothing else."""
    commands = split_commands(text[:MAX_COMMAND_CHARS])
    if len(commands) != 1 or len(commands[0]) != 3:
        return None
    nested = _nested_command(commands[0])
    return None if nested is None or nested.is_expanded else nested.text


def split_commands(text: str) -> list[list[Word]]:
    """Return the simple commands of a shell command, with their words; also of those in ``$(…)``."""
    return _Splitter().split(text)


class _Splitter:
    """Reads a shell command sign by sign."""

    def __init__(self) -> None:
        self._commands: list[list[Word]] = [[]]
        self._quote = ""
        self._outer_quotes: list[str] = []
        """Those in which the open parentheses are."""
        self._redirection = ""
        self._clear_word()

    def _clear_word(self) -> None:
        self._pieces: list[str] = []
        self._is_word = False
        self._is_expanded = False
        self._is_pattern = False

    def split(self, text: str) -> list[list[Word]]:
        index = 0
        while index < len(text):
            sign = text[index]
            next_sign = text[index + 1 : index + 2]
            index += 1
            if self._quote == "'":
                self._read_literal(sign)
            elif sign == "\\" and (not self._quote or next_sign in '$`"\\\n'):
                self._add("" if next_sign == "\n" else next_sign)
                index += 1
            elif sign in "'\"" and self._quote in ("", sign):
                self._quote = "" if self._quote else sign
                self._is_word = True
            elif sign == "`" or (sign == "$" and _EXPANDED.match(next_sign)):
                self._add(sign)
                self._is_expanded = True
                if sign == "`":
                    self._end_command()
                elif next_sign == "(":
                    self._open_parenthesis()
                    index += 1
            elif self._quote or sign not in _ENDS_WORD:
                self._is_pattern |= not self._quote and sign in "*?["
                self._is_expanded |= not self._quote and sign == "{"
                self._add(sign)
            else:
                self._read_separator(sign)
        self._end_word()
        return [command for command in self._commands if command]

    def _add(self, sign: str) -> None:
        self._pieces.append(sign)
        self._is_word = True

    def _read_literal(self, sign: str) -> None:
        if sign == "'":
            self._quote = ""
        else:
            self._pieces.append(sign)

    def _read_separator(self, sign: str) -> None:
        self._end_word()
        if sign in "<>":
            self._redirection = sign
        elif sign == "(":
            self._open_parenthesis()
        elif sign in _SEPARATES_COMMANDS:
            self._end_command()
            if sign == ")" and self._outer_quotes:
                self._quote = self._outer_quotes.pop()

    def _open_parenthesis(self) -> None:
        self._end_command()
        self._outer_quotes.append(self._quote)
        self._quote = ""

    def _end_word(self) -> None:
        if self._is_word:
            word = Word(
                "".join(self._pieces), self._is_expanded, self._is_pattern, self._redirection
            )
            self._commands[-1].append(word)
            self._redirection = ""
            self._clear_word()

    def _end_command(self) -> None:
        self._end_word()
        self._redirection = ""
        if self._commands[-1]:
            self._commands.append([])


def read_words(text: str, depth: int = 0) -> Iterator[Word]:
    """Yield the words of a shell command that may name files which it changes, and those of commands
    that it hands to other shells. Of long commands, nothing is read."""
    if len(text) > MAX_COMMAND_CHARS:
        return
    for command in split_commands(text):
        name, arguments = _program(command)
        program = "" if name is None else os.path.basename(name.text)
        for word in command:
            if program not in _HARMLESS or word.redirection == ">":
                yield word
        if program == "git" and _changes_settings_of_git(arguments):
            yield Word(".git/config")
        nested = _nested_command(command)
        if nested is not None and depth < MAX_NESTED_SHELLS:
            yield from read_words(nested.text, depth + 1)


def _changes_settings_of_git(arguments: Sequence[Word]) -> bool:
    texts = [word.text for word in arguments]
    operands = [
        text
        for text, text_before in zip(texts, ["", *texts])
        if not text.startswith("-") and text_before not in _GIT_OPTIONS_WITH_VALUE
    ]
    options = {text for text in texts if text.startswith("-")}
    if {"clone", "init"} & set(operands[:1]):
        return True
    return (
        len(operands) > 2
        and operands[0] in _GIT_COMMANDS_WITH_SETTINGS
        and options.isdisjoint(("--get", "--get-all", "--list", "-l"))
    )


def unreadable_part(text: str, depth: int = 0) -> str:
    """Return a word of a shell command because of which it is not known which files it changes: one in
    which the shell puts something, or a command that makes commands. Empty if there is none."""
    if len(text) > MAX_COMMAND_CHARS:
        return f"more than {MAX_COMMAND_CHARS:,} characters"
    parts = (_unreadable_word(command, depth) for command in split_commands(text))
    return next(filter(None, parts), "")


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
        return (
            nested.text if depth >= MAX_NESTED_SHELLS else unreadable_part(nested.text, depth + 1)
        )
    operands = [
        word for word in arguments if not word.redirection and not word.text.startswith("-")
    ]
    if program in SHELLS and not operands:
        return program  # it reads its commands from its input
    if program in _HARMLESS:
        return ""
    return next((word.text for word in arguments if word.is_expanded), "")


def _program(command: Sequence[Word]) -> tuple[Word | None, Sequence[Word]]:
    """Return the name and the arguments of a simple command; None if it only sets variables."""
    for index, word in enumerate(command):
        is_prefix = word.text in _PREFIXES or _ASSIGNMENT.match(word.text) is not None
        if not is_prefix and not word.redirection:
            return word, command[index + 1 :]
    return None, ()


def _nested_command(command: Sequence[Word]) -> Word | None:
    """Return the word that is itself a command: what follows ``sh -c``."""
    has_shell = False
    for index, word in enumerate(command[:-1]):
        has_shell |= os.path.basename(word.text) in SHELLS
        if has_shell and word.text.startswith("-") and word.text.endswith("c"):
            return command[index + 1]
    return None
