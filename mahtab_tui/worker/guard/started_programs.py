"""Reads from the interpreter's audit events which command starts a program, where, and with which
variables."""

from __future__ import annotations

from collections.abc import Mapping

from .shell_words import join_words
from .side_effects import to_text

COMMAND_EVENTS = frozenset(
    ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "mahtab_tui.terminal")
)
"""The audit events of starting a program."""
_ENVIRONMENT_INDEX = {"subprocess.Popen": 3, "os.exec": 2, "os.posix_spawn": 2}
"""Where among the arguments of an event the environment of the program is."""


def started_command(args: tuple[object, ...]) -> str:
    """Return the shell command that starts the same program.

    Args:
        args: Of an event that starts one.
    """
    if len(args) == 1:
        command = args[0]
        # For the terminal, it is a program with its arguments.
        if isinstance(command, (list, tuple)):
            return join_words([to_text(word) for word in command])
        return to_text(command)

    # The first word of a program's arguments is its own name, which may be another than that of the
    # file that is started.
    program = to_text(args[0])
    words = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    return join_words([program, *map(to_text, words[1:])])


def start_folder(event: str, args: tuple[object, ...]) -> str:
    """Return the folder in which a program starts; empty for the working folder.

    The parameters are those of the event.
    """
    folder = args[2] if event == "subprocess.Popen" else None
    return "" if folder is None else to_text(folder)


def start_environment(event: str, args: tuple[object, ...]) -> Mapping[str, str] | None:
    """Return the variables that a program gets; None for those of this process.

    The parameters are those of the event.
    """
    index = _ENVIRONMENT_INDEX.get(event, len(args))
    variables = args[index] if index < len(args) else None
    if not isinstance(variables, Mapping):
        return None
    return {to_text(name): to_text(value) for name, value in variables.items()}
