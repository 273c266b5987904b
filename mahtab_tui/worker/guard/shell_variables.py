"""Tells which simple commands set variables that decide what shells and programs do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .command_folders import value_forms
from .shell_words import NUMBER, Word
from .simple_commands import SimpleCommand, assigned_name

VARIABLES_OF_SHELLS = frozenset(
    "BASHOPTS BASH_ALIASES BASH_CMDS BASH_ENV CDPATH DIRSTACK ENV FPATH GLOBIGNORE HOME IFS OLDPWD"
    " PROMPT_COMMAND PS0 PS1 PS2 PS4 PWD SHELLOPTS ZDOTDIR LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT".split()
)
"""Variables that decide how a shell reads what follows, or what else it runs."""
_VARIABLES_OF_PROGRAMS = re.compile(
    r"GIT_(?:CONFIG\w*|DIR|COMMON_DIR|WORK_TREE|EXEC_PATH|TEMPLATE_DIR|OBJECT_DIRECTORY)"
    r"|GIT_(?:SSH\w*|ALLOW_PROTOCOL|PROXY_COMMAND|EXTERNAL_DIFF|ASKPASS)"
    r"|\w*(?:EDITOR|PAGER|VISUAL|BROWSER|COMMAND)"
    r"|LESS|LESSOPEN|LESSCLOSE|LESSKEY\w*|RIPGREP_CONFIG_PATH|XDG_CONFIG_HOME"
)
"""Variables whose values programs run as commands, or that name a file with such commands."""
_PLAIN_PROGRAMS = frozenset(("", ":", "true", "false", "cat", "less", "more"))
"""Values of such variables that change nothing."""
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
_SPLITTING_COMMANDS = frozenset(("export", "local", "readonly"))
"""Setting commands for which some shells make several words of what they expand, so that a value may set
further variables."""
_PLAIN_EXPANSION = re.compile(
    r"\$\{?(?:HOME|LANG|LOGNAME|PATH|PWD|SHELL|TMPDIR|USER)\b\}?"
    rf"|\$[?#]|\$\{{#\w+\}}|{re.escape(NUMBER)}"
)
"""A variable of the system's or a number, which have no assignments in them."""
_SEVERAL_WORDS = re.compile(r"\$\{?[@=^]|\$\{[(!]|\[@\]")
"""An expansion to several words, also in quotes: ``$@``, ``${y[@]}``, ``${!y}`` if `y` is ``z[@]``, or,
in zsh, ``$=y``, ``$^y`` and ``${(s: :)y}``."""
_NEEDED_VARIABLES = frozenset("DIRSTACK HOME OLDPWD PWD".split())
"""Variables without which something else decides where a shell goes."""
_LOOPS = frozenset(("for", "foreach", "select"))
_REFERRING_COMMANDS = frozenset(("declare", "local", "typeset"))
"""Commands with an option, `-n`, by which a name stands for another variable from then on."""
_REFERRING_OPTION = re.compile(r"-[A-Za-z]*n")
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANSION = re.compile(r"[$`{]")
_OPTION_START = re.compile(r"(?:-[A-Za-z]*)?[$`{]")
"""How a word begins that may be an option because of what a shell puts in it."""
_OPTION_END = re.compile(r"(?:\$[@*#?!$-]?|[})`])\w*\Z|\]\Z")
"""How such a word ends if the name of a variable, or of an item, may be in it."""
_WRITTEN_OPTION = re.compile(r"-[A-Za-z]*\$|\$-|\$\\(?:x2d|0?55|u0*2d)", re.IGNORECASE)
"""How a word may begin that has the sign of an option itself: ``-$x``, ``$'-v'``, ``$'\\x2dv'``."""
_SHELL_NAMES = "|".join(sorted(VARIABLES_OF_SHELLS))
_INNER_ASSIGNMENT = re.compile(
    rf"(?<![\w$])(?:{_SHELL_NAMES})(?:\[[^\]]{{0,100}}\])?\s{{0,20}}"
    r"(?::{1,2}|[-+*/%&|^]|<<|>>)?=(?!=)"
)
"""An assignment inside a word: ``${HOME:=x}``, or one in arithmetic."""
_INDIRECT_ASSIGNMENT = re.compile(r"\$\{[!(][^}]{0,200}=")
"""An assignment to a variable that another one names."""
_DESCRIPTOR_VARIABLE = re.compile(rf"(?<!\$)\{{(?:{_SHELL_NAMES})\}}")
"""A variable that a redirection sets to a number."""


def deciding_assignment(command: SimpleCommand) -> str:
    """Return a word of a command that sets, or may set, a variable by which shells or programs do
    something else; empty if there is none."""
    for word in command.words:
        if _sets_deciding_variable(word):
            return word.text
    if command.program in _SPLITTING_COMMANDS:
        for word in command.arguments:
            if _may_be_split(word):
                return word.text
    return next((word.text for word in named_variables(command) if _may_name_deciding(word)), "")


def sets_home(command: SimpleCommand) -> bool:
    """Return whether a command sets the folder that `cd` enters without an argument, perhaps."""
    if any("HOME" in word.text and _sets_deciding_variable(word) for word in command.words):
        return True
    if command.program in _SPLITTING_COMMANDS and any(map(_may_be_split, command.arguments)):
        return True
    named_words = [word for word in named_variables(command) if _may_name_deciding(word)]
    return any("HOME" in word.text or word.is_expanded for word in named_words)


def _sets_deciding_variable(word: Word) -> bool:
    name = assigned_name(word)
    if name in VARIABLES_OF_SHELLS:
        return True
    value = word.text.partition("=")[2]
    if name and _VARIABLES_OF_PROGRAMS.fullmatch(name) and value not in _PLAIN_PROGRAMS:
        return True
    if word.is_expanded and _INDIRECT_ASSIGNMENT.search(word.text):
        return True
    return any(
        pattern.search(word.text) is not None
        for pattern in (_INNER_ASSIGNMENT, _DESCRIPTOR_VARIABLE)
    )


def _may_be_split(word: Word) -> bool:
    """Return whether a word that sets a variable may become several words, which set others."""
    name = assigned_name(word)
    if not name:
        return False
    # Not all shells expand `$=y`.
    if makes_several_words(word):
        return True
    if not word.is_expanded:
        return False
    value = _PLAIN_EXPANSION.sub("", word.unquoted_text)
    own_value = re.compile(rf"\$(?:{name}\b|\{{{name}\}})")
    return "$" in own_value.sub("", value) or "`" in value


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
    patterns = (_WRITTEN_OPTION.match, _OPTION_END.search)
    is_option = any(find(word.text) is not None for find in patterns)
    return is_option or is_unquoted(word) or makes_several_words(word)


def makes_several_words(word: Word) -> bool:
    """Return whether a shell may make several words of what it puts in a word, also in quotes."""
    return _SEVERAL_WORDS.search(word.text) is not None


def is_unquoted(word: Word) -> bool:
    """Return whether a shell may make several words of what it puts in a word."""
    return word.is_expanded and _EXPANSION.search(word.unquoted_text) is not None


def _names_needed(word: Word) -> bool:
    """Return whether a word names a needed variable, or an item of it, which may be all of it."""
    names = [_NAME.match(form) for form in value_forms(word)]
    return any(name is not None and name[0] in _NEEDED_VARIABLES for name in names)


def _may_name_deciding(word: Word) -> bool:
    """Return whether a word among names of variables is a deciding one, or may be."""
    if word.is_expanded and _EXPANSION.search(word.text.partition("=")[0]):
        return True
    names = [_NAME.match(form) for form in value_forms(word)]
    return any(name is not None and _is_deciding(name[0]) for name in names)


def _is_deciding(name: str) -> bool:
    return name in VARIABLES_OF_SHELLS or _VARIABLES_OF_PROGRAMS.fullmatch(name) is not None


def makes_references(command: SimpleCommand) -> bool:
    """Return whether a command lets a name stand for another variable, which later ones set by it."""
    if command.program == "nameref":
        return True
    return command.program in _REFERRING_COMMANDS and any(
        _REFERRING_OPTION.match(word.text) for word in command.arguments
    )
