"""Tells which simple commands set variables that decide what shells and programs do.

After such a command, the words of the others do not show which files they change (`command_words`).
"""

from __future__ import annotations

import re

from .command_folders import value_forms
from .named_variables import EXPANSION, makes_several_words, named_variables
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
_SPLITTING_COMMANDS = frozenset(("export", "local", "readonly"))
"""Setting commands for which some shells make several words of what they expand, so that a value may set
further variables."""
_PLAIN_EXPANSION = re.compile(
    r"\$\{?(?:HOME|LANG|LOGNAME|PATH|PWD|SHELL|TMPDIR|USER)\b\}?"
    rf"|\$[?#]|\$\{{#\w+\}}|{re.escape(NUMBER)}"
)
"""A variable of the system's or a number, which have no assignments in them."""
_REFERRING_COMMANDS = frozenset(("declare", "local", "typeset"))
"""Commands with an option, `-n`, by which a name stands for another variable from then on."""
_REFERRING_OPTION = re.compile(r"-[A-Za-z]*n")
_NAME = re.compile(r"[A-Za-z_]\w*")
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
    """Return whether a word sets, or may set, a variable by which shells or programs do something
    else."""
    name = assigned_name(word)
    if name in VARIABLES_OF_SHELLS:
        return True
    value = word.text.partition("=")[2]
    if name and _VARIABLES_OF_PROGRAMS.fullmatch(name) and value not in _PLAIN_PROGRAMS:
        return True
    if word.is_expanded and _INDIRECT_ASSIGNMENT.search(word.text):
        return True
    if _INNER_ASSIGNMENT.search(word.text) is not None:
        return True
    return _DESCRIPTOR_VARIABLE.search(word.text) is not None


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


def _may_name_deciding(word: Word) -> bool:
    """Return whether a word among names of variables is a deciding one, or may be."""
    if word.is_expanded and EXPANSION.search(word.text.partition("=")[0]):
        return True
    names = [_NAME.match(form) for form in value_forms(word)]
    return any(name is not None and _is_deciding(name[0]) for name in names)


def _is_deciding(name: str) -> bool:
    """Return whether a variable decides what shells or programs do."""
    return name in VARIABLES_OF_SHELLS or _VARIABLES_OF_PROGRAMS.fullmatch(name) is not None


def makes_references(command: SimpleCommand) -> bool:
    """Return whether a command lets a name stand for another variable, which later ones set by it."""
    if command.program == "nameref":
        return True
    return command.program in _REFERRING_COMMANDS and any(
        _REFERRING_OPTION.match(word.text) for word in command.arguments
    )
