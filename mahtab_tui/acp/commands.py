"""The commands that a user may type into an editor, after a slash."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.session import Session
from mahtab_tui.session.agent_rewinds import describe_points

MAX_CELL_DIGITS = 9
"""Of the number of a cell."""


class Command(NamedTuple):
    """A command."""

    description: str
    run: Callable[[Session, str], str]
    """Called with the session and the words after the command, on a thread. Returns sentences for
    the user; empty if the session reports them. Raises `KernelError`."""
    hint: str = ""
    """What may follow the command; empty if nothing may."""


def _run_code(session: Session, code: str) -> str:
    if not code:
        return "Type the code after /run."
    session.cells.run(code)
    return ""


def _list_variables(session: Session, _: str) -> str:
    rows = [
        f"| `{shorten_line(variable.name)}` | {shorten_line(variable.type)} | {shorten_line(variable.summary)} |"
        for variable in session.kernel.variables()
        if variable.kind == "data" and not variable.underscored
    ]
    if not rows:
        return "There are no variables."
    return "\n".join(["| name | type | value |", "| --- | --- | --- |", *rows])


def _undo(session: Session, cell: str) -> str:
    number = session.undo.last_step() if not cell else _cell_number(cell)
    session.undo.undo(number)
    return ""


def _cell_number(text: str) -> int:
    digits = text.removeprefix("In").strip(" []")
    if not digits.isdecimal() or len(digits) > MAX_CELL_DIGITS:
        raise KernelError(f"{shorten_line(text)} is not the number of a cell.")
    return int(digits)


def _redo(session: Session, _: str) -> str:
    session.undo.redo()
    return ""


def _list_points(session: Session, _: str) -> str:
    points = session.rewinding.points()
    lines = describe_points(points, set(), lambda _, code: shorten_line(code.partition("\n")[0]))
    return "\n".join(f"- {line}" for line in lines.split("\n"))


def _compact(session: Session, focus: str) -> str:
    is_summarised = session.agent.summarise(focus)
    return "The conversation was summarised." if is_summarised else ""


def _export(session: Session, typed_path: str) -> str:
    # An editor waits for the program's first answer, and these take long to load.
    from mahtab_tui.export.selection import NothingToExport
    from mahtab_tui.session.exports import ExportError, parse_export

    try:
        file = parse_export(typed_path, session.name)
        return session.write_export(file, Path(session.kernel.info().local_folder))
    except (ExportError, NothingToExport, StoreError) as error:
        return str(error)
    except OSError as error:
        return f"{typed_path} cannot be written: {error.strerror}."


COMMANDS: Mapping[str, Command] = {
    "run": Command("Run Python as your own cell", _run_code, "code"),
    "vars": Command("List the variables", _list_variables),
    "undo": Command(
        "Undo the last cell, or a cell and those after it",
        _undo,
        "number of the cell, if not the last",
    ),
    "redo": Command("Take the last undo back", _redo),
    "points": Command("List the cells and questions to which /rewind goes back", _list_points),
    "compact": Command(
        "Summarise the conversation so far", _compact, "what the summary must include"
    ),
    "export": Command("Write the session as a notebook, a script or Markdown", _export, "file"),
}
"""The commands by name. `/rewind` asks the user, so the agent has it."""


def command_rows() -> list[tuple[str, str, str]]:
    """Return the name, the description and the hint of each command."""
    rows = [(name, command.description, command.hint) for name, command in COMMANDS.items()]
    rows.append(("rewind", "Go back to before a cell or question", "In 3, or a question's name"))
    return rows


def parse_command(question: str) -> tuple[str, str] | None:
    """Return the name of a command and the words after it; None if the question is not one."""
    match = re.fullmatch(r"/(\S+)(.*)", question, re.DOTALL)
    if match is None or (match[1] not in COMMANDS and match[1] != "rewind"):
        return None
    return match[1], match[2].strip()
