"""Runs magic commands, and shows help, for the calls that replace lines of IPython's syntax."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable

from ..stdlib import own_module
from .expansion import Names, expand_arguments, expand_command
from .state import Aliases, MagicContext
from .syntax import HELP, MAGIC


class UnknownMagicError(Exception):
    __module__ = "builtins"


def _show_help(expression: str, level: int) -> None:
    show_help_about(expression, level, Names.of_frame(sys._getframe(1)))


def show_help_about(expression: str, level: int, names: Names) -> None:
    """Show help about a value. level: 1, or 2 with its source."""
    try:
        value = names.evaluate(expression)
    except (NameError, AttributeError, LookupError) as error:
        print(f"There is no {expression}: {error}")
        return
    about = own_module("completion.explanations").explain(value, expression)
    parts = [about["signature"], about["doc"] or "It has no docstring.", about["where"]]
    if level > 1:
        parts.append(about["source"] or "Its source is unknown.")
    own_module("values.displays").show_help("\n\n".join(part.rstrip() for part in parts if part))


def install_magics(namespace: dict[str, object], await_: Callable[[Any], object]) -> None:
    def magic(command: str, text: str) -> Any:
        return run_magic(command, text, Names.of_frame(sys._getframe(1)), await_)

    def get_ipython() -> Any:
        """Return an object with the methods of IPython's shell that cells call."""
        return own_module("magic.ipython_shell").get_shell(namespace, await_)

    builtins.__dict__.update({MAGIC: magic, HELP: _show_help, "get_ipython": get_ipython})


def run_magic(command: str, text: str, names: Names, await_: Callable[[Any], object]) -> object:
    """Run a magic, and return its value.

    Args:
        command: its name; with a percent sign before it if it is one for a whole cell.
        text: its arguments, and the lines below it, if any.
        names: the names that its caller sees.
        await_: waits for an awaitable value, and returns its result.

    Raises:
        UnknownMagicError: there is no such magic.
        UnknownNameError: a `$name` in the arguments is not a name that anything sets.
    """
    commands = own_module("magic.commands")
    if command.startswith("%"):
        table = commands.CELL_COMMANDS
    else:
        table = commands.LINE_COMMANDS
    name = command.lstrip("%")
    name = Aliases.magics.get(name, name)
    if name in Aliases.commands and table is commands.LINE_COMMANDS:
        text = own_module("magic.aliases").fill_alias(name, text)
        name = "alias_command"
    run = table.get(name)
    if run is None:
        tables = commands.LINE_COMMANDS, commands.CELL_COMMANDS
        raise UnknownMagicError(
            own_module("magic.session_commands").unknown_magic(command, *tables)
        )
    if name not in commands.TAKES_CODE:
        arguments, line_break, body = text.partition("\n")
        if name in commands.SHELL_COMMANDS:
            expanded = expand_command(arguments, names)
        else:
            expanded = expand_arguments(arguments, names)
        text = f"{expanded}{line_break}{body}"
    return run(text, MagicContext(names.namespace, await_))
