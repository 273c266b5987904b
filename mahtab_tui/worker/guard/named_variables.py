"""Tells which arguments of a simple command are names of variables that it sets.

A name may stand in an option (``-vx``), and an option may come from what a shell puts in a word, so that
some arguments may be names or not. They count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .command_folders import value_forms
from .shell_words import Word
from .simple_commands import SimpleCommand

_SETTING_COMMANDS = frozenset(
    "declare export float for foreach getln getopts integer local mapfile nameref read readarray"
    " readonly select set setenv strftime sysread typeset unset vared zparseopts".split()
)
"""Commands that set, declare or remove variables whose names are among their arguments."""
_SETTING_OPTIONS = {
    "printf": re.compile(r"-v"),
    "print": re.compile(r"-[A-Za-z]*v"),
    "wait": re.compile(r"-[A-Za-z]*p"),
}
"""The option with which a command sets a variable, by the names of such commands. The name may be in
the same word."""
_SEVERAL_WORDS = re.compile(r"\$\{?[@=^]|\$\{[(!]|\[@\]")
"""An expansion to several words, also in quotes: ``$@``, ``${y[@]}``, ``${!y}`` if `y` is ``z[@]``, or,
in zsh, ``$=y``, ``$^y`` and ``${(s: :)y}``."""
_NEEDED_VARIABLES = frozenset("DIRSTACK HOME OLDPWD PWD".split())
"""Variables without which something else decides where a shell goes."""
_LOOPS = frozenset(("for", "foreach", "select"))
_NAME = re.compile(r"[A-Za-z_]\w*")
EXPANSION = re.compile(r"[$`{]")
"""A sign by which a shell puts something in a word."""
_OPTION_START = re.compile(r"(?:-[A-Za-z]*)?[$`{]")
"""How a word begins that may be an option because of what a shell puts in it."""
_OPTION_END = re.compile(r"(?:\$[@*#?!$-]?|[})`])\w*\Z|\]\Z")
"""How such a word ends if the name of a variable, or of an item, may be in it."""
_WRITTEN_OPTION = re.compile(r"-[A-Za-z]*\$|\$-|\$\\(?:x2d|0?55|u0*2d)", re.IGNORECASE)
"""How a word may begin that has the sign of an option itself: ``-$x``, ``$'-v'``, ``$'\\x2dv'``."""


def named_variables(command: SimpleCommand) -> list[Word]:
    """Return the arguments of a command that are, or may be, names of variables that it sets."""
    # A variable for the descriptors of the process stands before its command.
    if any(word.text == "coproc" for word in command.words):
        return list(command.words)
    arguments = [word for word in command.arguments if not word.redirection]
    if command.program == "unset":
        # What is set to decide something decides nothing without a value.
        return [word for word in arguments if word.is_expanded or _names_needed(word)]
    if command.program in _LOOPS:
        return arguments[:1]
    if command.program in _SETTING_COMMANDS:
        return arguments
    option = _SETTING_OPTIONS.get(command.program)
    if option is None:
        return []
    names = []
    for index, word in enumerate(arguments):
        if option.match(word.text):
            names += arguments[index : index + 2]
    return names


def possible_options(command: SimpleCommand) -> Iterator[Word]:
    """Yield the arguments of a command that may be options with names of variables because of what a
    shell puts in them."""
    if command.program not in _SETTING_OPTIONS:
        return
    names = named_variables(command)
    for word in command.arguments:
        if may_be_option(word):
            yield word
        elif not word.redirection and not word.text.startswith("-") and word not in names:
            return


def may_be_option(word: Word) -> bool:
    """Return whether a word may be an option, with a name in it or without one, because of what a shell
    puts in it."""
    if not word.is_expanded or _OPTION_START.match(word.text) is None:
        return False
    if _WRITTEN_OPTION.match(word.text) or _OPTION_END.search(word.text):
        return True
    return is_unquoted(word) or makes_several_words(word)


def makes_several_words(word: Word) -> bool:
    """Return whether a shell may make several words of what it puts in a word, also in quotes."""
    return _SEVERAL_WORDS.search(word.text) is not None


def is_unquoted(word: Word) -> bool:
    """Return whether a shell may make several words of what it puts in a word."""
    return word.is_expanded and EXPANSION.search(word.unquoted_text) is not None


def _names_needed(word: Word) -> bool:
    """Return whether a word names a needed variable, or an item of it, which may be all of it."""
    names = [_NAME.match(form) for form in value_forms(word)]
    return any(name is not None and name[0] in _NEEDED_VARIABLES for name in names)
