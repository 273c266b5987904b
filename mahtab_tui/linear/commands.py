"""The commands that are typed after a slash: those that ask the user, and those of any interface.

A command that needs nothing but the session is in `session.session_commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mahtab_tui.bus.change_lines import add_separators, change_lines
from mahtab_tui.bus.plans import find_steps, plan_request
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.restorations import outside_note, undo_question
from mahtab_tui.linear.line_writer import LineWriter
from mahtab_tui.linear.prompts import FullScreenWanted
from mahtab_tui.linear.questions import Questions
from mahtab_tui.linear.record_printer import RecordPrinter
from mahtab_tui.llm.base import ModelError
from mahtab_tui.manual import TOPICS, TopicNotFound, page
from mahtab_tui.session import Session
from mahtab_tui.session.agent_rewinds import describe_preview
from mahtab_tui.session.session_commands import (
    NO_NOTEBOOK,
    SESSION_COMMANDS,
    SessionCommand,
    data_variables,
    read_cell_number,
)


class CommandContext(NamedTuple):
    """What commands act on."""

    session: Session
    writer: LineWriter
    printer: RecordPrinter
    questions: Questions
    screen_problem: Callable[[], str]
    """Returns why the full screen cannot be shown, as a sentence; empty if it can."""


class Command(NamedTuple):
    """A command."""

    help: str
    """What it does, as ``/help`` says it."""
    run: Callable[[CommandContext, str], str]
    """Called with the words after the command. Returns sentences for the user, or nothing. Raises
    `KernelError`."""
    argument: str = ""
    """What can be typed after it, as ``/help`` says it; empty for nothing."""


def _help(context: CommandContext, topic: str) -> str:
    """Show the commands, or a page of the manual."""
    if topic:
        try:
            return page(topic).text
        except TopicNotFound as error:
            return str(error)
    rows = [("`", "At the very start: goes from Python to questions and back")]
    rows += [
        (f"/{name} {command.argument}".rstrip(), command.help) for name, command in COMMANDS.items()
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {help}" for name, help in rows]
    lines.append(f"/help TOPIC shows a page of the manual: {', '.join(TOPICS)}.")
    return "\n".join(lines)


def _list_variables(context: CommandContext, _: str) -> str:
    variables = data_variables(context.session)
    if not variables:
        return "There are no variables."
    name_width = max(len(variable.name) for variable in variables)
    type_width = max(len(variable.type) for variable in variables)
    return "\n".join(
        f"{variable.name:<{name_width}}  {variable.type:<{type_width}}  {add_separators(variable.summary)}"
        for variable in variables
    )


def _undo(context: CommandContext, cell: str) -> str:
    """Show what an undo would do, ask, and do it."""
    undo = context.session.undo
    first_cell = read_cell_number(cell) if cell else undo.last_step()
    cells = undo.cells_from(first_cell)
    restoration = context.session.kernel.preview_undo(first_cell)
    context.writer.write_changes(
        change_lines(restoration.changes, restoration.not_restored, restoration.files)
    )
    context.writer.write_line(outside_note(restoration), "muted")
    if context.questions.confirm(undo_question(cells), yes="Undo", no="Keep"):
        undo.undo(first_cell)
        return ""
    return "Nothing was changed."


def _rewind(context: CommandContext, point: str) -> str:
    """Show what would go back to before a point, ask, and do it."""
    if not point:
        return "Name a point, as in /rewind In 3. /points lists them."
    rewinding = context.session.rewinding
    preview = rewinding.preview(rewinding.find(point))
    text = describe_preview(preview)
    if preview.does_nothing:
        return text
    context.writer.write_line(text)
    if context.questions.confirm(
        f"Go back to before {point}?", yes="Go back", no="Keep everything as it is"
    ):
        rewinding.rewind(preview)
        return ""
    return "Nothing was changed."


def _plan(context: CommandContext, argument: str) -> str:
    """Begin to plan, with or without a question; end planning; or let the model run the plan."""
    session = context.session
    if not argument:
        session.info.set_planning(not session.info.planning)
        return "" if session.info.planning else "Planning has ended."
    if argument == "run":
        session.info.set_planning(False)
        steps = find_steps(context.printer.answers.last_answer)
        session.submit("ask", plan_request(steps))
    else:
        session.info.set_planning(True)
        session.submit("ask", argument)
    return ""


def _reset(context: CommandContext, _: str) -> str:
    question = "Start over with an empty namespace? What is above stays."
    if context.questions.confirm(question, yes="Reset", no="Keep"):
        context.session.kernel_control.reset()
    return ""


def _run_notebook(context: CommandContext, typed: str) -> str:
    """Run the cells of the notebook, or those up to one."""
    from mahtab_tui.session.notebook_file import CellNotFound

    notebook = context.session.notebook
    if notebook is None:
        return NO_NOTEBOOK
    if not notebook.confirmed:
        question = f"This notebook is for {notebook.language}. Run its cells as Python?"
        notebook.confirmed = context.questions.confirm(question, yes="Run", no="Leave")
    if not notebook.confirmed:
        return ""
    number = typed.removeprefix("to ")
    try:
        notebook.run_up_to(read_cell_number(number) if number else None)
    except CellNotFound as error:
        return str(error)
    return ""


def _full_screen(context: CommandContext, _: str) -> str:
    problem = context.screen_problem()
    if problem:
        return problem
    raise FullScreenWanted


def _quit(context: CommandContext, _: str) -> str:
    raise EOFError


COMMANDS: Mapping[str, Command | SessionCommand] = {
    "help": Command("Show the commands, or a page of the manual", _help, "TOPIC"),
    "vars": Command("List the variables", _list_variables),
    **SESSION_COMMANDS,
    "undo": Command("Undo the last cell or answer, or everything from a cell on", _undo, "CELL"),
    "rewind": Command("Go back to before a question or cell", _rewind, "POINT"),
    "plan": Command("Let the model only read and propose steps", _plan, "QUESTION"),
    "reset": Command("Start a new kernel with an empty namespace", _reset),
    "run": Command("Run all cells of the notebook, or those up to one", _run_notebook, "[to CELL]"),
    "fullscreen": Command("Go on in the full screen, as Ctrl+G does", _full_screen),
    "quit": Command("Leave, as Ctrl+D does", _quit),
}
"""The commands by name, without the slash."""


def run_command(context: CommandContext, name: str, argument: str) -> None:
    """Run a command, and write what it returns, or why it failed.

    Args:
        context: What the command acts on.
        name: Its name, without the slash.
        argument: The words after it.

    Raises:
        FullScreenWanted: The user wants to go on in the full screen.
        EOFError: The user leaves.
        KeyboardInterrupt: The user does not wait for the command, or does not answer its question.
    """
    command = COMMANDS.get(name)
    if command is None:
        text = f"There is no command /{name} here. /help lists them; /fullscreen has more."
        context.writer.write_line(text, "highlight")
        return
    try:
        if isinstance(command, SessionCommand):
            text = command.run(context.session, argument)
        else:
            text = command.run(context, argument)
    except (KernelError, ModelError) as error:
        context.writer.write_line(f"Error: {error}", "bad")
        return
    if text:
        context.writer.write_line(text)
