"""Commands that a user may type after a slash in every interface, and that need nothing but the
session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, get_args

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session.agent_rewinds import describe_points
from mahtab_tui.session.session import Session
from mahtab_tui.settings.model import ApprovalMode

REPORT_COLUMNS = 80
NO_NOTEBOOK = "This session has no notebook."
MAX_CELL_DIGITS = 9
"""A cell number has at most so many digits."""


class SessionCommand(NamedTuple):
    """A command that needs nothing but the session."""

    help: str
    """A phrase that says what it does."""
    run: Callable[[Session, str], str]
    """Called with the session and the words after the command, on a thread. Returns sentences for
    the user; empty if the session reports them. Raises `KernelError`."""
    argument: str = ""
    """What may follow the command; empty if nothing may."""


def data_variables(session: Session) -> list[Variable]:
    """Return the variables that are data, and not marked as internal by their names.

    Raises `KernelError`.
    """
    return [
        variable
        for variable in session.kernel.variables()
        if variable.kind == "data" and not variable.underscored
    ]


def _undo(session: Session, cell: str) -> str:
    number = session.undo.last_step() if not cell else read_cell_number(cell)
    session.undo.undo(number)
    return ""


def read_cell_number(text: str) -> int:
    """Return the number in ``12`` or ``In [12]``. Raises `KernelError`."""
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


def _model(session: Session, name: str) -> str:
    if not name:
        loop = session.agent.describe_loop()
        answers = f"{session.model} answers ({loop})." if loop else f"{session.model} answers."
        return f"{answers} /model NAME chooses another model."
    try:
        session.set_model(name)
    except ModelError as error:
        return str(error)
    return f"{session.model} answers from the next question on."


def _approval(session: Session, mode: str) -> str:
    info = session.info
    for known_mode in get_args(ApprovalMode):
        if mode == known_mode:
            info.set_approval(known_mode)
    modes = ", ".join(get_args(ApprovalMode))
    return f"Approval is {info.approval}. /approval MODE changes it: {modes}."


def _change_directory(session: Session, path: str) -> str:
    kernel = session.kernel
    folder = kernel.change_directory(path) if path else kernel.info().cwd
    return f"The working directory is {folder}."


def _python(session: Session, path: str) -> str:
    if not path:
        return session.kernel.info().executable
    session.kernel_control.activate(path)
    return ""


def _kernel(session: Session, address: str) -> str:
    if not address:
        info = session.kernel.info()
        return info.address or f"The kernel runs here: {info.executable}, Python {info.python}."
    from mahtab_tui.session.kernel import check_address

    if address != "here":
        check_address(address)
    session.kernel_control.move("" if address == "here" else address)
    return ""


def _rename(session: Session, title: str) -> str:
    if not title:
        return "Name the title, as in /rename Sales of May."
    session.rename(title)
    return ""


def _save(session: Session, _: str) -> str:
    notebook = session.notebook
    if notebook is None:
        return NO_NOTEBOOK
    try:
        return notebook.save() or f"{notebook.label} is already up to date."
    except OSError as error:
        return f"The notebook cannot be written: {error.strerror}. Nothing was changed."


def _context(session: Session, _: str) -> str:
    use = session.context_use()
    total = f"About {use.tokens:,} of {use.max_tokens:,} tokens go with the next question."
    parts = [f"  {part.name}: {part.tokens:,}  {part.advice}".rstrip() for part in use.parts]
    return "\n".join([total, *parts])


def _change_options(session: Session, words: str) -> str:
    return session.agent.change_options(words)


def _list_agents(session: Session, _: str) -> str:
    return session.joined_agents.describe()


def _disconnect(session: Session, name: str) -> str:
    return session.joined_agents.disconnect(name)


def _usage(session: Session, _: str) -> str:
    return session.spending.table(REPORT_COLUMNS)


SESSION_COMMANDS: Mapping[str, SessionCommand] = {
    "undo": SessionCommand(
        "Undo the last cell, or a cell and those after it",
        _undo,
        "CELL",
    ),
    "redo": SessionCommand("Take the last undo back", _redo),
    "points": SessionCommand(
        "List the cells and questions to which /rewind goes back", _list_points
    ),
    "compact": SessionCommand("Summarise the conversation so far", _compact, "WHAT TO KEEP"),
    "export": SessionCommand(
        "Write the session as a notebook, a script or Markdown", _export, "FILE"
    ),
    "model": SessionCommand("Choose the model that answers", _model, "NAME"),
    "approval": SessionCommand("Ask before the model's code runs, or not", _approval, "MODE"),
    "cd": SessionCommand("Change the kernel's working directory", _change_directory, "PATH"),
    "python": SessionCommand("Choose the kernel's Python", _python, "PATH"),
    "kernel": SessionCommand("Choose where the kernel runs", _kernel, "ADDRESS"),
    "rename": SessionCommand("Change the title of this session", _rename, "TITLE"),
    "save": SessionCommand("Write the notebook back to its file", _save),
    "agent": SessionCommand(
        "Show or set the mode, the model and other options of the agent that answers",
        _change_options,
        "OPTION VALUE",
    ),
    "agents": SessionCommand("List the agents in the session", _list_agents),
    "disconnect": SessionCommand("Disconnect an agent from the session", _disconnect, "NAME"),
    "usage": SessionCommand("Show what was used and what it cost", _usage),
    "context": SessionCommand("Show what fills the model's window", _context),
}
"""By name."""
