"""Magic commands that give shell commands and other magic commands new names.

The functions get the text after the command. `state.Aliases` keeps the names, and the code that
replaces magics calls `fill_alias` for them."""

from __future__ import annotations

import keyword
from collections.abc import Collection

from ..tools import shell_commands
from .state import Aliases, MagicContext


def define_alias(text: str, caller: MagicContext) -> None:
    """Give a shell command a name: ``%alias NAME COMMAND``; without arguments, list the names."""
    name, _space, command = text.strip().partition(" ")
    if not name:
        for alias, aliased_command in sorted(Aliases.commands.items()):
            print(f"{alias}: {aliased_command}")
        return
    if not command.strip():
        if name not in Aliases.commands:
            raise LookupError(f"there is no alias {name}: %alias {name} COMMAND makes one")
        print(f"{name}: {Aliases.commands[name]}")
        return
    _check_name(name)
    if "%s" in command and "%l" in command:
        raise ValueError("an alias takes either %s (an argument) or %l (all of them), not both")
    Aliases.commands[name] = command.strip()


def remove_alias(text: str, caller: MagicContext) -> None:
    """Remove a name: ``%unalias NAME``."""
    name = text.strip()
    if Aliases.commands.pop(name, None) is None and Aliases.magics.pop(name, None) is None:
        raise LookupError(f"there is no alias {name}")


def alias_magic(text: str, caller: MagicContext, magic_names: Collection[str]) -> None:
    """Give a magic command another name: ``%alias_magic NAME MAGIC``."""
    words = [word.lstrip("%") for word in text.split() if word not in ("-l", "-c")]
    if len(words) != 2:
        raise ValueError("%alias_magic needs two names, as in %alias_magic t timeit")
    name, target = words
    _check_name(name)
    if target not in magic_names:
        raise LookupError(f"there is no magic command {target}")
    Aliases.magics[name] = target


def _check_name(name: str) -> None:
    """Raise `ValueError` for what cannot be a name."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name} cannot be the name of an alias, because it is not a name")


def fill_alias(name: str, text: str) -> str:
    """Return the shell command of an alias with these arguments."""
    command = Aliases.commands[name]
    if "%l" in command:
        return command.replace("%l", text)
    expected_count = command.count("%s")
    if not expected_count:
        return f"{command} {text}".rstrip()
    words = text.split(None, expected_count)
    if len(words) < expected_count:
        arguments = "argument" if expected_count == 1 else "arguments"
        raise ValueError(f"{name} needs {expected_count} {arguments}: it is an alias of {command}")
    first_piece, *pieces = command.split("%s")
    filled = first_piece + "".join(word + piece for word, piece in zip(words, pieces))
    return " ".join([filled, *words[expected_count:]])


def run_alias(text: str, caller: MagicContext) -> None:
    """Run the shell command that `fill_alias` returned."""
    shell_commands.run_command(text)
