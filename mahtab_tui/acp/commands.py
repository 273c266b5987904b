"""The commands that a user may type into an editor, after a slash."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.session import Session
from mahtab_tui.session.session_commands import (
    SESSION_COMMANDS,
    SessionCommand,
    data_variables,
)


def _run_code(session: Session, code: str) -> str:
    if not code:
        return "Type the code after /run."
    session.cells.run(code)
    return ""


def _list_variables(session: Session, _: str) -> str:
    rows = [
        f"| `{shorten_line(variable.name)}` | {shorten_line(variable.type)} | {shorten_line(variable.summary)} |"
        for variable in data_variables(session)
    ]
    if not rows:
        return "There are no variables."
    return "\n".join(["| name | type | value |", "| --- | --- | --- |", *rows])


COMMANDS: Mapping[str, SessionCommand] = {
    "run": SessionCommand("Run Python as your own cell", _run_code, "code"),
    "vars": SessionCommand("List the variables", _list_variables),
    **{name: SESSION_COMMANDS[name] for name in ("undo", "redo", "points", "compact", "export")},
}
"""The commands by name. `/rewind` asks the user, so the agent has it."""


def command_rows() -> list[tuple[str, str, str]]:
    """Return the name, the description and the hint of each command."""
    rows = [(name, command.help, command.argument) for name, command in COMMANDS.items()]
    rows.append(("rewind", "Go back to before a cell or question", "In 3, or a question's name"))
    return rows


def parse_command(question: str) -> tuple[str, str] | None:
    """Return the name of a command and the text after it; None if the question is not one."""
    match = re.fullmatch(r"/(\S+)(.*)", question, re.DOTALL)
    if match is None or (match[1] not in COMMANDS and match[1] != "rewind"):
        return None
    return match[1], match[2].strip()
