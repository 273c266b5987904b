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
_EXPANDED = re.compile(r"[A-Za-z0-9_({@*#?$!'\"-]")
"""What a dollar sign stands before if the shell replaces it."""
_PLAIN_BRACES = re.compile(r"\{[^'\"`\\${}]{0,200}\}")
"""What stands in ``${…}`` if it surely ends at the first closing brace."""
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_SEPARATES_COMMANDS = frozenset("\n;&|()")
_ESCAPED_IN_QUOTES = '$`"\\\n'
"""What a backslash escapes between double quotes."""
_ANSI_QUOTE = "$'"
"""How a text begins in which some shells read backslashes, and others do not."""
_HERE_DOCUMENT = "<<"


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
    if len(text) > MAX_COMMAND_CHARS:
        return None
    commands = split_commands(text)
    if len(commands) != 1 or len(commands[0]) != 3:
        return None
    if known_program(commands[0][0]) not in SHELLS:
        return None
    nested = _nested_command(commands[0])
    return None if nested is None or nested.is_expanded else nested.text


def split_commands(text: str) -> list[list[Word]]:
    """Return the simple commands of a shell command, with their words; also of those in ``$(…)``.
    Where shells may read the text in several ways, a command is inserted whose name is expanded."""
    return _Splitter(text).split()


class _HereDocument(NamedTuple):
    """A text that follows a command and is its input."""

    last_line: str
    is_expanded: bool
    has_tabs: bool
    """Whether tabs at the beginnings of its lines do not count."""


class _Splitter:
    """Reads a shell command sign by sign."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        """Where the next sign is."""
        self._commands: list[list[Word]] = [[]]
        self._quote = ""
        self._outer_quotes: list[str] = []
        """Those in which the open parentheses are."""
        self._has_arithmetic = False
        """Whether there were two open parentheses next to each other."""
        self._backtick_quote: str | None = None
        """The quote in which the open backtick is; None if there is no open one."""
        self._ambiguous_parts: list[str] = []
        self._redirection = ""
        self._has_tabs = False
        """Whether the here-document that is about to be named is one of ``<<-``."""
        self._here_documents: list[_HereDocument] = []
        """Those that begin on the next line."""
        self._clear_word()

    def _clear_word(self) -> None:
        self._pieces: list[str] = []
        self._is_word = False
        self._has_quotes = False
        self._is_expanded = False
        self._is_pattern = False

    def split(self) -> list[list[Word]]:
        while self._index < len(self._text):
            sign = self._text[self._index]
            self._index += 1
            if self._quote in ("'", _ANSI_QUOTE):
                self._read_literal(sign)
            elif sign == "\\":
                self._read_backslash()
            elif sign in "'\"" and self._quote in ("", sign):
                self._read_quote(sign)
            elif sign == "`":
                self._read_backtick()
            elif sign == "$" and _EXPANDED.match(self._next_sign()):
                self._read_expansion()
            elif self._quote:
                self._add(sign)
            elif sign == "#" and not self._is_word:
                self._skip_comment()
            elif sign in _ENDS_WORD:
                self._read_separator(sign)
            else:
                self._is_pattern |= sign in "*?["
                self._is_expanded |= sign == "{"
                self._add(sign)
        self._end_word()
        ambiguous_commands = [[Word(part, is_expanded=True)] for part in self._ambiguous_parts[:1]]
        return [*ambiguous_commands, *filter(None, self._commands)]

    def _next_sign(self) -> str:
        return self._text[self._index : self._index + 1]

    def _add(self, sign: str) -> None:
        self._pieces.append(sign)
        self._is_word = True

    def _note_ambiguity(self, part: str) -> None:
        """Note that it is not known how the shell reads the text. part: what it depends on."""
        self._ambiguous_parts.append(part)

    def _read_literal(self, sign: str) -> None:
        if sign == "'":
            self._quote = ""
            return
        self._pieces.append(sign)
        if sign in "`\\" and self._backtick_quote is not None:
            self._note_ambiguity("`")
        if sign == "\\" and self._quote == _ANSI_QUOTE and self._next_sign() in ("'", "\\"):
            self._note_ambiguity(_ANSI_QUOTE)
            self._pieces.append(self._next_sign())
            self._index += 1

    def _read_backslash(self) -> None:
        next_sign = self._next_sign()
        if self._backtick_quote or (self._backtick_quote == "" and next_sign == "`"):
            self._note_ambiguity("`")
        if self._quote and next_sign not in _ESCAPED_IN_QUOTES:
            self._add("\\")
            return
        self._index += 1
        self._has_quotes = True
        self._add("" if next_sign == "\n" else next_sign)

    def _read_quote(self, sign: str) -> None:
        if self._backtick_quote:
            self._note_ambiguity("`")
        self._quote = "" if self._quote else sign
        self._is_word = True
        self._has_quotes = True

    def _read_backtick(self) -> None:
        if self._backtick_quote is None:
            self._backtick_quote = self._quote
        else:
            if self._quote != self._backtick_quote:
                self._note_ambiguity("`")
            self._backtick_quote = None
        self._add("`")
        self._is_expanded = True
        self._end_command()

    def _read_expansion(self) -> None:
        """Read what follows a dollar sign, as far as it decides how the rest is read."""
        next_sign = self._next_sign()
        self._is_expanded = True
        if next_sign == "(":
            self._index += 1
            self._add("$(…)")
            self._open_parenthesis()
            return
        self._add("$")
        if next_sign == "'" and not self._quote:
            self._index += 1
            self._quote = _ANSI_QUOTE
            self._has_quotes = True
        elif next_sign == "{":
            braces = _PLAIN_BRACES.match(self._text, self._index)
            if braces is None:
                self._note_ambiguity("${…}")
            else:
                self._add(braces[0])
                self._index = braces.end()

    def _skip_comment(self) -> None:
        is_after_expansion = self._text[max(0, self._index - 2)] in ")`"
        if is_after_expansion or (self._has_arithmetic and self._outer_quotes):
            self._note_ambiguity("#")
        ends = [self._text.find("\n", self._index)]
        if self._backtick_quote is not None:
            ends.append(self._text.find("`", self._index))
        end = min((end for end in ends if end >= 0), default=len(self._text))
        if self._backtick_quote is not None and self._text[end - 1] == "\\":
            self._note_ambiguity("`")
        self._index = end

    def _read_separator(self, sign: str) -> None:
        self._end_word()
        if sign in "<>":
            self._read_redirection(sign)
        elif sign == "(":
            self._open_parenthesis()
        elif sign in _SEPARATES_COMMANDS:
            self._end_command()
            if sign == "\n":
                self._read_here_documents()
            if sign == ")" and self._outer_quotes:
                self._quote = self._outer_quotes.pop()

    def _read_redirection(self, sign: str) -> None:
        self._redirection = sign
        if sign == ">" or self._next_sign() != "<":
            return
        self._index += 1
        if self._next_sign() == "<":  # a text on the same line
            self._index += 1
            return
        if self._has_arithmetic:  # where this shifts a number
            self._note_ambiguity(_HERE_DOCUMENT)
        self._redirection = _HERE_DOCUMENT
        self._has_tabs = self._next_sign() == "-"
        self._index += self._has_tabs

    def _read_here_documents(self) -> None:
        """Skip the texts that begin here. What they expand may be commands."""
        for document in self._here_documents:
            while self._index < len(self._text):
                end = self._text.find("\n", self._index)
                end = len(self._text) if end < 0 else end
                line = self._text[self._index : end]
                self._index = min(end + 1, len(self._text))
                if (line.lstrip("\t") if document.has_tabs else line) == document.last_line:
                    break
                if document.is_expanded and ("`" in line or "$(" in line):
                    self._note_ambiguity("`" if "`" in line else "$(…)")
        self._here_documents = []

    def _open_parenthesis(self) -> None:
        self._has_arithmetic |= self._text.startswith("((", self._index - 2)
        self._end_command()
        self._outer_quotes.append(self._quote)
        self._quote = ""

    def _end_word(self) -> None:
        if not self._is_word:
            return
        text = "".join(self._pieces)
        if self._redirection == _HERE_DOCUMENT:
            self._here_documents.append(_HereDocument(text, not self._has_quotes, self._has_tabs))
        else:
            word = Word(text, self._is_expanded, self._is_pattern, self._redirection)
            self._commands[-1].append(word)
        if text == "case" and any(self._outer_quotes):
            # The parentheses after its patterns do not end what began before it.
            self._note_ambiguity(text)
        self._redirection = ""
        self._clear_word()

    def _end_command(self) -> None:
        self._end_word()
        self._redirection = ""
        if self._commands[-1]:
            self._commands.append([])


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
