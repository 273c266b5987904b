"""Tells whether shell commands compute texts that may be anything.

A shell computes expressions in ``$(( ))``, in indexes of arrays, and where a variable is declared as an
integer. If a variable stands in an expression, the shell computes its value, too, and this may be any
text: it may set other variables (``HOME=5``) or contain commands (``a[$(rm x)]``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

from .command_folders import FOLDER_COMMANDS, value_forms
from .named_variables import (
    is_unquoted,
    makes_several_words,
    may_be_option,
    named_variables,
    possible_options,
)
from .shell_variables import VARIABLES_OF_SHELLS
from .shell_words import COMPUTING_COMMAND, NUMBER, PRINTED_NUMBER, Word
from .simple_commands import SimpleCommand, assigned_name

_DECLARING_COMMANDS = frozenset("declare export local readonly typeset".split())
_INTEGER_OPTION = re.compile(r"[-+][A-Za-z]*i")
"""The option with which a variable is declared whose values are computed."""
_INTEGER_VARIABLES = frozenset("HISTCMD OPTIND RANDOM SECONDS SRANDOM".split())
"""Variables whose values are computed without being declared."""
_TESTS = frozenset(("[", "test"))
_VARIABLE_TEST = "-v"
_VARIABLES_WITH_NUMBERS = frozenset(
    "BASHPID COLUMNS EPOCHSECONDS EUID LINENO LINES OPTERR PPID SHLVL UID".split()
)
"""Variables that shells set to numbers."""
_VARIABLES_WITH_TEXTS = re.compile(
    r"_|BASH_\w+|COMP_\w+|COPROC|FUNCNAME|HOSTNAME|MAPFILE|OPTARG|READLINE_\w+|REPLY"
)
"""Variables that shells set to texts."""
_ASSIGNMENT = re.compile(r"\b([A-Za-z_]\w*)\s{0,20}=(?!=)")
"""A variable that an expression sets."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEY = re.compile(r"\A(?:\[(.*?)\]\+?=|\{\w+\[(.*)\]\}\Z)", re.DOTALL)
"""The index before a value in parentheses, ``y=([z]=1)``, or of an item that gets a descriptor,
``{y[z]}<x``."""
_NUMBERS = re.compile(rf"[-+]?\d+|\$[?#$!]|\$\{{#\w+(?:\[[@*]\])?\}}|{re.escape(NUMBER)}")
"""A number, or what a shell replaces by one: the state of a command, a length, an expression."""
_EXPANSION_OF_NAME = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_OPERATORS = re.compile(r"[\w\s+*/%<>=!&|^~?:;,()#\[\].-]*")
_NUMBER_RANGE = re.compile(r"\{-?\d+\.\.-?\d+(?:\.\.-?\d+)?\}")


class _Expressions(NamedTuple):
    """What commands compute."""

    names: Mapping[str, None]
    """The variables in it."""
    set_names: Set[str]
    """Those of them that it sets."""
    unknown_part: str
    """What is not a plain expression of numbers and variables; empty if there is nothing else."""


def computed_names(commands: Iterable[SimpleCommand]) -> Iterable[str]:
    """Return the variables whose values commands compute."""
    return _read_expressions(commands, keeps_names=True).names


def describe_unknown_computation(commands: Sequence[SimpleCommand], *, keeps_names: bool) -> str:
    """Return words for what commands compute although it may be anything; empty if there is nothing.

    Args:
        commands: All commands.
        keeps_names: Whether the names of programs surely mean what they say.
    """
    part = _Computations(commands, keeps_names=keeps_names).unknown_part().strip()
    return f"`{part}`, which may be any text and may run as code," if part else ""


class _Computations:
    """What commands compute together: a variable that one sets may be computed by another."""

    def __init__(self, commands: Sequence[SimpleCommand], *, keeps_names: bool) -> None:
        """The parameters are those of `describe_unknown_computation`."""
        self._commands = commands
        self._keeps_names = keeps_names
        certain_commands = [command for command in commands if command.is_certain]
        self._expressions = _read_expressions(certain_commands, keeps_names=keeps_names)

    def unknown_part(self) -> str:
        """Return what the commands compute although it may be anything; empty if they compute only
        numbers, and variables that they set to numbers."""
        if self._expressions.unknown_part:
            return self._expressions.unknown_part
        for name in self._expressions.names:
            if name in (*VARIABLES_OF_SHELLS, "PATH") or _VARIABLES_WITH_TEXTS.fullmatch(name):
                return name
        if part := self._tested_item():
            return part
        if part := self._text_in_expressions():
            return part
        return self._unset_variable()

    def _tested_item(self) -> str:
        """Return an assignment of a text with an index to a variable that `test` splits into words: one
        of these may be an option, and the next the item of a variable, whose index is computed."""
        split_names = set(self._names_split_by_tests())
        for word in self._all_words():
            if assigned_name(word) in split_names and "[" in word.text.partition("=")[2]:
                return word.text
        return ""

    def _names_split_by_tests(self) -> Iterator[str]:
        """Yield the variables of whose values `test` may make several words."""
        for command in self._commands:
            if not command.is_certain or command.program not in _TESTS:
                continue
            for word in filter(is_unquoted, command.arguments):
                yield from chain.from_iterable(_EXPANSION_OF_NAME.findall(word.text))

    def _text_in_expressions(self) -> str:
        """Return a word that sets a variable to a text, although expressions contain the variable; empty
        if there is none."""
        if not self._expressions.names:
            return ""
        for command in self._commands:
            for word in self._words_setting_text(command):
                names = (name for form in value_forms(word) for name in _NAME.findall(form))
                if not self._expressions.names.keys().isdisjoint(names):
                    return word.text
        return ""

    def _words_setting_text(self, command: SimpleCommand) -> Iterator[Word]:
        """Yield the words of a command that set variables to something else than a number."""
        if command.program == COMPUTING_COMMAND or self._loops_over_numbers(command):
            return
        named_words = list(named_variables(command))
        assigning_words = command.words
        if command.is_harmless and not named_words:
            # Among the arguments of `echo`, what looks like an assignment is a text.
            assigning_words = command.words[: len(command.words) - len(command.arguments)]
        for word in (*filter(assigned_name, assigning_words), *named_words):
            is_option = command.program in _DECLARING_COMMANDS and word.text.startswith(("-", "+"))
            if word.is_computed or word.redirection or is_option:
                continue
            value = _without_numbers(word.text.partition("=")[2], keeps_names=self._keeps_names)
            if _NUMBERS.fullmatch(value) is None:
                yield word

    def _loops_over_numbers(self, command: SimpleCommand) -> bool:
        """Return whether a command begins a loop in which a variable has only numbers as values."""
        texts = [
            _without_numbers(word.text, keeps_names=self._keeps_names) for word in command.words
        ]
        begins_loop = texts[:1] == ["for"] and texts[2:3] == ["in"]
        return begins_loop and all(map(_is_number, texts[3:]))

    def _unset_variable(self) -> str:
        """Return a variable in expressions that the commands do not set, if they depend on variables
        which its value may set; empty if there is none.

        Otherwise it counts as a number: what is set elsewhere is looked at when the command starts.
        """
        if not any(map(_depends_on_variables, self._commands)):
            return ""
        set_names = self._expressions.set_names | _INTEGER_VARIABLES | _VARIABLES_WITH_NUMBERS
        set_names |= set(map(assigned_name, self._all_words()))
        for command in self._commands:
            set_names |= {word.text for word in named_variables(command)}
        return next((name for name in self._expressions.names if name not in set_names), "")

    def _all_words(self) -> Iterator[Word]:
        """Yield the words of all commands."""
        for command in self._commands:
            yield from command.words


def _depends_on_variables(command: SimpleCommand) -> bool:
    """Return whether variables decide which folder a command enters, or what its words stand for."""
    if command.program in FOLDER_COMMANDS:
        return True
    if command.is_harmless:
        return False
    return any(
        (word.is_pattern and not assigned_name(word)) or word.text.startswith("~")
        for word in command.words
    )


def _read_expressions(commands: Iterable[SimpleCommand], *, keeps_names: bool) -> _Expressions:
    """Return what commands compute. The parameters are those of
    `describe_unknown_computation`."""
    names: dict[str, None] = {}
    set_names: set[str] = set()
    unknown_part = ""
    for command in commands:
        names.update(dict.fromkeys(_declared_integers(command)))
        for expression in _expressions(command):
            names.update(dict.fromkeys(_NAME.findall(_EXPANSION_OF_NAME.sub(r"\1\2", expression))))
            set_names.update(_ASSIGNMENT.findall(expression))
            plain_expression = _without_numbers(expression, keeps_names=keeps_names)
            plain_expression = _EXPANSION_OF_NAME.sub("0", plain_expression)
            if _OPERATORS.fullmatch(plain_expression) is None:
                unknown_part = unknown_part or expression
    return _Expressions(names, set_names, unknown_part)


def _without_numbers(text: str, *, keeps_names: bool) -> str:
    """Return a text with a digit for each number that a shell puts in it."""
    if keeps_names:
        text = text.replace(PRINTED_NUMBER, "0")
    return _NUMBERS.sub("0", text)


def _expressions(command: SimpleCommand) -> Iterator[str]:
    """Yield the texts that a command computes."""
    if command.program == COMPUTING_COMMAND:
        yield from (word.text for word in command.arguments if not word.redirection)
    for word in command.words:
        if assigned_name(word):
            yield from _indexes(word.text.partition("=")[0])
        yield from filter(None, chain.from_iterable(_KEY.findall(word.text)))
    named_words = command.arguments if command.program == "unset" else named_variables(command)
    for word in named_words:
        yield from _indexes(word.text.partition("=")[0])
    if command.program in _TESTS:
        yield from _tested_expressions(command)
    # The name of a variable that an option sets may be that of an item.
    yield from (word.text for word in possible_options(command))


def _tested_expressions(command: SimpleCommand) -> Iterator[str]:
    """Yield the words of `test` that may name an item after ``-v``: its index is computed."""
    for operator, word in zip(command.arguments, command.arguments[1:]):
        is_variable_test = operator.text == _VARIABLE_TEST or may_be_option(operator)
        if is_variable_test and (word.is_expanded or "[" in word.text):
            yield word.text
    yield from (word.text for word in command.arguments if makes_several_words(word))


def _indexes(text: str) -> Iterator[str]:
    """Yield the index in the name of a variable's item; nothing if it is a whole variable."""
    index = text.partition("[")[2].rpartition("]")[0]
    if index not in ("", "@", "*"):
        yield index


def _declared_integers(command: SimpleCommand) -> Iterator[str]:
    """Yield the names of the variables whose values are computed when a command, or a later one, sets
    them."""
    for word in (*command.words, *named_variables(command)):
        yield from _INTEGER_VARIABLES.intersection(_NAME.findall(word.text.partition("=")[0]))
    if command.program not in _DECLARING_COMMANDS:
        return
    if any(_INTEGER_OPTION.match(word.text) for word in command.arguments):
        for word in command.arguments:
            if not word.text.startswith(("-", "+")):
                yield from _NAME.findall(word.text.partition("=")[0])


def _is_number(text: str) -> bool:
    """Return whether a word stands for a number, or for a range of numbers."""
    return (_NUMBERS.fullmatch(text) or _NUMBER_RANGE.fullmatch(text)) is not None
