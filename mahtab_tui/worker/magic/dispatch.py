"""Runs magic commands, and shows help, for the calls that replace lines of IPython's syntax."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Callable

from ..stdlib import own_module
from ..tools.shell_commands import read_shell_line, run_shell_line
from .expansion import Names, expand_arguments, expand_command
from .state import Aliases, MagicContext, Reloading
from .syntax import HELP_BUILTIN, MAGIC_BUILTIN, SHELL_BUILTIN, SHELL_OUTPUT_BUILTIN

if TYPE_CHECKING:
    from .cell_history import CellHistory


class UnknownMagicError(Exception):
    """There is no magic command of this name."""

    __module__ = "builtins"  # so that tracebacks name it as code does


def install_magics(
    namespace: dict[str, object], run_awaitable: Callable[[Any], object], history: CellHistory
) -> None:
    """Put the functions that replace lines of IPython's syntax into builtins, and `get_ipython`.

    Args:
        namespace: The kernel's namespace.
        run_awaitable: Waits for an awaitable value, and returns its result.
        history: The kernel's earlier inputs.
    """
    # An earlier kernel of this process may have left its own.
    Aliases.commands.clear()
    Aliases.magics.clear()
    Reloading.reloader = None
    shell: Any = None

    def run_magic_line(magic: str, text: str) -> object:
        return run_magic(magic, text, Names.of_caller(), run_awaitable)

    def get_ipython() -> Any:
        """Return an object with the methods of IPython's shell that cells call."""
        nonlocal shell
        if shell is None:
            shell_module = own_module("magic.ipython_shell")
            shell = shell_module.InteractiveShell(namespace, run_awaitable, history)
        return shell

    builtins.__dict__.update(
        {
            SHELL_BUILTIN: run_shell_line,
            SHELL_OUTPUT_BUILTIN: read_shell_line,
            MAGIC_BUILTIN: run_magic_line,
            HELP_BUILTIN: _show_help,
            "get_ipython": get_ipython,
        }
    )


def _show_help(expression: str, level: int) -> None:
    show_help_about(expression, level, Names.of_caller())


def show_help_about(expression: str, level: int, names: Names) -> None:
    """Show help about a value.

    Args:
        expression: An expression, whose value is explained.
        level: 1 for the signature and the docstring, 2 to add the source.
        names: The names that the expression may use.
    """
    try:
        value = names.evaluate(expression)
    except (NameError, AttributeError, LookupError) as error:
        print(f"Cannot show help for `{expression}`: {error}")
        return
    explanation = own_module("completion.explanations").explain(value, expression)
    paragraphs = [
        explanation["signature"],
        explanation["doc"] or "It has no docstring.",
        explanation["where"],
    ]
    if level > 1:
        paragraphs.append(explanation["source"] or "Its source is unknown.")
    text = "\n\n".join(paragraph.rstrip() for paragraph in paragraphs if paragraph)
    own_module("values.displays").show_help(text)


def run_magic(
    magic: str, text: str, names: Names, run_awaitable: Callable[[Any], object]
) -> object:
    """Run a magic command, and return its value.

    Args:
        magic: The name of the command; with a percent sign before it if it is one for a whole cell.
        text: The arguments, and the lines below them, if any.
        names: The names that the caller sees.
        run_awaitable: Waits for an awaitable value, and returns its result.

    Raises:
        UnknownMagicError: There is no such command.
        UnknownNameError: A `$name` in the arguments is not a name that anything sets.
    """
    commands = own_module("magic.commands")
    is_for_cell = magic.startswith("%")
    functions = commands.CELL_COMMANDS if is_for_cell else commands.LINE_COMMANDS
    name = magic.lstrip("%")
    name = Aliases.magics.get(name, name)
    if name in Aliases.commands and not is_for_cell:
        text = own_module("magic.aliases").fill_alias(name, text)
        name = "alias_command"
    function = functions.get(name)
    if function is None:
        unknown_name = magic.lstrip("%")
        raise UnknownMagicError(commands.describe_unknown(unknown_name, is_for_cell=is_for_cell))
    if name not in commands.TAKES_CODE:
        arguments, line_break, body = text.partition("\n")
        expand = expand_command if name in commands.SHELL_COMMANDS else expand_arguments
        text = f"{expand(arguments, names)}{line_break}{body}"
    return function(text, MagicContext(names.namespace, run_awaitable))
