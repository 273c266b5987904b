"""Commands on the session, its kernel and the input."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, get_args

from mahtab_tui.settings.files import SettingsError, project_folder
from mahtab_tui.settings.model import ApprovalMode
from mahtab_tui.tui.commands.command import CommandContext, command

if TYPE_CHECKING:
    from mahtab_tui.bus.entries import Cell
    from mahtab_tui.session import Session
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.store.input_history import HistoryEntry

_input = partial(command, group="Input")
_session = partial(command, group="Session")

NO_NOTEBOOK = "This session has no notebook: mahtab-tui FILE.ipynb opens one, and /export FILE.ipynb makes one from this session."

_MAX_NAMED_CELLS = 20
"""Stale cells that a dialog names; more are counted."""

TEXT_CLEARED = (
    "The text in the editor was cleared; Ctrl+Z brings it back. Ctrl+C again stops what waits."
)


@_session(
    "focus-approval f7",
    "Answer: Go to what waits for you: code, a search, or input() of a cell",
    footer=True,
    over_screens=False,
    available=lambda context: context.panes.prompt_row is not None,
)
def answer(context: CommandContext) -> None:
    row = context.panes.prompt_row
    if row is not None:
        row.focus()


@_input(
    "toggle-mode f2", "Python / Ask: Go from Python to Ask or back; the draft stays", footer=True
)
def toggle_mode(context: CommandContext) -> None:
    editor = context.panes.editor
    # A sentence that was run as Python by mistake becomes a question.
    prose = context.panes.transcript.failed_prose
    if prose and editor.mode == "python" and editor.is_empty:
        editor.put("ask", prose)
    else:
        editor.toggle_mode()
    editor.focus()


@_input(
    "history-search ctrl+r /history",
    "Search history: Search the inputs of all sessions",
    available=lambda context: not context.panes.editor.redoes_by_key,
)
def search_history(context: CommandContext) -> None:
    editor = context.panes.editor

    def edit_entry(entry: HistoryEntry | None) -> None:
        # The next key may already have ended the application.
        if context.app.is_ending:
            return
        if entry is not None:
            editor.mode = "ask" if entry.mode == "ask" else "python"
            editor.text = entry.text
        editor.focus()

    context.navigation.search_history(context.history, edit_entry)


@_input(
    "edit-input f4,ctrl+g",
    "Open in $EDITOR: Edit the input in your editor; what you save comes back",
)
def edit_input(context: CommandContext) -> None:
    # Deferred, because the screen is not drawn while the key's own event is handled.
    context.app.call_later(_edit_input, context)


def _edit_input(context: CommandContext) -> None:
    from mahtab_tui.tui.external import edit_text

    editor = context.panes.editor
    suffix = ".py" if editor.mode == "python" else ".md"
    try:
        editor.text = edit_text(context.app, editor.text, suffix)
    except RuntimeError as error:
        context.app.notify(str(error), "warning")
    editor.focus()


@_input("explain alt+h", "Explain: Show signature and docstring of the function call at the cursor")
def explain(context: CommandContext) -> None:
    context.panes.editor.explain()


@_input(
    "find-input ctrl+f", "Find: Find a text in the transcript, or in the pane that has the focus"
)
def find(context: CommandContext) -> None:
    context.panes.find_in_focused()


@_input(
    "explain-error alt+x", "Explain error: Begin a question about the last error; Enter sends it"
)
def explain_error(context: CommandContext) -> None:
    question = context.panes.transcript.question_about_error
    if question:
        context.panes.editor.put("ask", question)
        context.panes.editor.focus()
    else:
        context.app.notify("There is no error to explain: no cell has failed.")


@_input(
    "error-frames f6",
    "Frames: While the newest entry is an error: show its frames with their source",
    footer=True,
    available=lambda context: context.panes.failed_cell is not None,
)
def open_frames(context: CommandContext) -> None:
    context.panes.transcript.open_failed_frames()


@_session(
    "stop escape",
    "Stop: Stop the model or the running cell; press it again to kill the kernel",
    footer=True,
    priority=False,
)
def stop(context: CommandContext) -> None:
    context.interrupter.stop()


@_session(
    "interrupt-or-copy ctrl+c",
    "Stop, copy or clear: Stop what runs; else copy the selection; else clear the editor. While something only waits, the text in the editor is cleared first",
    over_questions=True,
)
def interrupt_or_copy(context: CommandContext) -> None:
    editor = context.panes.editor
    if editor.is_being_typed_in and _only_waits(context):
        if not context.copy_selection():
            editor.clear()
            context.app.notify(TEXT_CLEARED)
    elif context.navigation.stop_check():
        return
    elif context.session.cells.running or context.session.agent.in_turn:
        context.interrupter.stop()
    elif not context.copy_selection() and not context.panes.is_covered:
        context.panes.editor.clear()


def _only_waits(context: CommandContext) -> bool:
    """Return whether a question to the user waits, and nothing runs but the cell that asks it."""
    from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
    from mahtab_tui.tui.widgets.input_row import InputRow

    row = context.panes.prompt_row
    if row is None:
        return False
    is_asked_by_cell = isinstance(row, FanOutRow | InputRow)
    return is_asked_by_cell or not context.session.cells.running


@_session(
    "cycle-approval f8 /approval",
    "Approval: Ask before the model's code runs, review what it changed, or just run it",
    footer=True,
)
def cycle_approval(context: CommandContext) -> None:
    modes = get_args(ApprovalMode)
    info = context.session.info
    next_index = (modes.index(info.approval) + 1) % len(modes)
    info.set_approval(modes[next_index])


@_session(
    "plan alt+l /plan QUESTION",
    "Plan: Plan mode: the model only reads and proposes steps; /plan run carries them out",
)
def plan(context: CommandContext, argument: str) -> None:
    info = context.session.info
    match argument.strip():
        case "":
            info.set_planning(not info.planning)
        case "run" if context.session.agent.in_turn:
            context.refuse("The model is still answering. Run the plan after that.", "/plan run")
        case "run":
            from mahtab_tui.bus.plans import find_steps, plan_request

            info.set_planning(False)
            steps = find_steps(context.panes.last_answer)
            context.session.submit("ask", plan_request(steps))
        case question:
            if not info.planning:
                info.set_planning(True)
            context.session.submit("ask", question)


@_session(
    "undo /undo CELL",
    "Undo cells: Undo what the last cell or answer did to variables, or everything from a cell on",
)
def undo(context: CommandContext, cell: str) -> None:
    number = cell_number(cell)
    if number is None:
        context.refuse("Name a cell by its number, as in /undo 12", f"/undo {cell}")
    else:
        context.navigation.ask_to_undo(number or None)


def cell_number(typed: str) -> int | None:
    """Parse ``12`` or ``In [12]``; 0 if nothing was typed, None if it is not the number of a cell."""
    number = typed.strip().removeprefix("In").strip(" []")
    if not number:
        return 0
    if not number.isdecimal() or len(number) >= 10:
        return None
    return int(number)


@_session(
    "rewind /rewind",
    "Rewind: Go back to before a question or cell, with conversation, variables and files",
)
def rewind(context: CommandContext) -> None:
    context.navigation.open_rewind()


@_session("redo /redo", "Redo: Reverse the last undo or rewind, if no other cell has run since")
def redo(context: CommandContext) -> None:
    context.session.kernel_control.redo()


@_session(
    "reset f9 /reset",
    "Reset kernel: Start a new kernel with an empty namespace; the transcript stays",
)
def reset(context: CommandContext) -> None:
    question = "Start over with an empty namespace? The transcript stays."
    kernel_control = context.session.kernel_control
    context.navigation.confirm(question, kernel_control.reset, yes="Reset", no="Keep")


@_session("kill-kernel /kill", "Kill kernel: Kill an unresponsive kernel, and start a new one")
def kill_kernel(context: CommandContext) -> None:
    context.interrupter.ask_to_kill()


@_session("model /model NAME", "Model: Choose the model that answers; the conversation stays")
def choose_model(context: CommandContext, name: str) -> None:
    if name:
        context.settings.use_model(name)
    else:
        context.navigation.choose_model(context.settings)


@_session(
    "python /python PATH",
    "Interpreter: Choose the kernel's Python: a file or a virtual environment",
)
def choose_python(context: CommandContext, path: str) -> None:
    session = context.session
    title = "Interpreter or virtual environment"
    current = session.kernel.info().executable
    context.with_value(path, title, session.kernel_control.activate, current)


@_session(
    "kernel /kernel ADDRESS",
    "Kernel…: Choose where the kernel runs: here, over ssh, in a container; its variables stay there",
)
def choose_kernel(context: CommandContext, address: str) -> None:
    if address == "here":
        switch_kernel(context, "here", "")
    elif address:
        switch_kernel(context, "address", address)
    else:
        context.navigation.choose_kernel(
            context.ui_state.kernels,
            lambda choice: switch_kernel(context, choice.kind, choice.name),
        )


def switch_kernel(context: CommandContext, kind: str, name: str) -> None:
    """Switch to another kernel.

    Args:
        kind: That of a `KernelChoice`.
        name: That of a `KernelChoice`.
    """
    control = context.session.kernel_control
    match kind:
        case "python":
            control.activate(name)
        case "session":
            context.quit_flow.switch_to(name)
        case "here":
            control.move("")
        case _:
            from mahtab_tui.kernel.base import KernelError
            from mahtab_tui.session.kernel import check_address

            try:
                check_address(name)
            except KernelError as error:
                context.app.notify(str(error), "error")
                return
            control.move(name)
            context.ui_state.remember_kernel(name)


@_session("directory /cd PATH", "Working directory: Change the kernel's working directory")
def change_directory(context: CommandContext, path: str) -> None:
    change = context.session.kernel_control.change_directory
    current = context.session.kernel.info().cwd
    context.with_value(path, "Working directory", change, current)


@_session(
    "agent /agent [OPTION VALUE]",
    "Agent's options: Show or set the mode, the model and other options of the agent that answers",
)
def agent(context: CommandContext, words: str) -> None:
    context.session.change_agent_options(words)


@_session("agents /agents", "Agents: List the agents in the session")
def agents(context: CommandContext) -> None:
    context.session.notice(context.session.joined_agents.describe())


@_session("disconnect /disconnect NAME", "Disconnect agent: Disconnect an agent from the session")
def disconnect_agent(context: CommandContext, name: str) -> None:
    context.session.notice(context.session.joined_agents.disconnect(name))


@_session("skills /skills", "Skills: Find, read and load skills")
def skills(context: CommandContext) -> None:
    try:
        context.navigation.open_skills()
    except SettingsError as error:
        context.app.notify(str(error), "error")


@_session(
    "instructions /instructions",
    "Instructions: Show the instructions that the model gets with every question, and trust a project's",
)
def instructions(context: CommandContext) -> None:
    context.navigation.open_instructions()


@_session(
    "mcp /mcp",
    "MCP servers: List MCP servers with their state, tools and messages, and start one again",
)
def mcp(context: CommandContext) -> None:
    context.navigation.open_servers()


@_session(
    "usage /usage", "Usage: Show what the session, each question and each search have used and cost"
)
def usage(context: CommandContext) -> None:
    context.navigation.open_usage()


@_session("context /context", "Context: Show what fills the model's window, and what shortens it")
def context(context: CommandContext) -> None:
    context.navigation.open_context()


@_session(
    "compact /compact WHAT TO KEEP",
    "Compact: Let the model summarise the conversation before the last question; you may say what to keep",
)
def compact(context: CommandContext, keep: str) -> None:
    context.session.compact(keep)


@_session(
    "export /export [FILE]", "Export: Export the session as a notebook, script, Markdown or page"
)
def export(context: CommandContext, typed: str) -> None:
    from mahtab_tui.session.exports import ExportError, parse_export

    session = context.session
    try:
        file = parse_export(typed, session.info.name)
    except ExportError as error:
        context.refuse(str(error), f"/export {typed}")
        return

    folder = project_folder()
    write = partial(session.export, file, folder)
    path = folder / file
    if os.path.lexists(path) and not os.path.isdir(path):
        question = f"{file} already exists. Replace it?"
        context.navigation.confirm(question, write, yes="Replace", no="Keep")
    else:
        write()


@_session(
    "sessions /sessions",
    "Sessions: Search the conversations and cells of all sessions; read, resume, rename or delete one",
)
def sessions(context: CommandContext) -> None:
    context.navigation.choose_session(context.quit_flow.switch_to)


@_session(
    "rename /rename TITLE", "Rename session: Change the title of this session in lists of sessions"
)
def rename(context: CommandContext, title: str) -> None:
    context.with_value(title, "Title of this session", context.session.rename, "")


@_session(
    "run /run [to CELL]",
    "Run notebook: Run all cells of the notebook until one fails, or those up to a cell",
)
def run(context: CommandContext, typed: str) -> None:
    number = cell_number(typed.removeprefix("to "))
    if number is None or (typed and not typed.startswith("to ")):
        context.refuse("/run runs all cells, /run to 3 those up to cell 3", f"/run {typed}")
    else:
        last_cell = number or None
        run_notebook(context, lambda notebook: notebook.run_up_to(last_cell))


def run_notebook(context: CommandContext, start: Callable[[Notebook], None]) -> None:
    """Run cells of the notebook; before the first, ask if it is for another language."""
    notebook = context.session.notebook
    if notebook is None:
        context.app.notify(NO_NOTEBOOK, "warning")
        return

    def run_cells() -> None:
        from mahtab_tui.session.notebook_file import CellNotFound

        notebook.confirmed = True
        try:
            start(notebook)
        except CellNotFound as error:
            context.app.notify(str(error), "warning")

    if notebook.confirmed:
        run_cells()
    else:
        question = f"This notebook is for {notebook.language}. Run its cells as Python?"
        context.navigation.confirm(question, run_cells, yes="Run", no="Leave")


@_session(
    "rerun /rerun [stale]",
    "Run stale cells: Run the cells again whose variables have changed since, in order",
)
def rerun(context: CommandContext, typed: str) -> None:
    from mahtab_tui.bus.masking import MASK

    if typed not in ("", "stale"):
        context.refuse("/rerun stale runs stale cells again; %rerun 3 runs one", f"/rerun {typed}")
        return
    cells = context.panes.transcript.viewport.transcript.outdated_cells
    masked_cells = [cell for cell in cells if MASK in cell.code]
    codes = [cell.code for cell in cells]

    def run_cells() -> None:
        for code in codes:
            context.session.submit("python", code)

    if not cells:
        context.app.notify("Nothing is stale: no cell has used a variable that changed later.")
    elif masked_cells:
        names = _cell_names(masked_cells)
        context.app.notify(f"Run {names} yourself: a secret in it was masked.", "warning")
    else:
        question = f"Run again, in this order: {_cell_names(cells)}?"
        context.navigation.confirm(question, run_cells, yes="Run", no="Leave")


def _cell_names(cells: Sequence[Cell]) -> str:
    """Return the names of cells, and the number of those that a dialog has no space for."""
    names = [f"In {cell.number}" for cell in cells[:_MAX_NAMED_CELLS]]
    if len(cells) > _MAX_NAMED_CELLS:
        names.append(f"and {len(cells) - _MAX_NAMED_CELLS:,} more")
    return ", ".join(names)


@_session(
    "check /check",
    "Check results: Run the cells again in a copy of the folder, and see what is still the same",
)
def check(context: CommandContext) -> None:
    safety = "so your files stay as they are"
    risk = context.session.check_risk
    if risk:
        safety = f"but can change your files by absolute paths (preventing that {risk})"
    question = (
        "Run this session's cells again, to see what is still the same? They run in a new kernel and a"
        f" copy of the folder, {safety}. What they do over the network, or with other programs, they do"
        " again."
    )
    context.navigation.confirm(question, context.navigation.open_check, yes="Run", no="Leave")


@_session("save /save", "Save notebook: Write the notebook back to its file")
def save(context: CommandContext) -> None:
    session = context.session
    if session.notebook is None:
        context.app.notify(NO_NOTEBOOK, "warning")
    else:
        context.panes.transcript.action_scroll_end()
        work = partial(_save_notebook, session, session.notebook)
        threading.Thread(target=work, name="notebook", daemon=True).start()


def _save_notebook(session: Session, notebook: Notebook) -> None:
    try:
        session.notice(notebook.save() or f"{notebook.label} is already up to date.")
    except OSError as error:
        session.notice(
            f"The notebook cannot be written: {error.strerror}. Nothing was changed.", "error"
        )


@_session(
    "clear ctrl+l /clear",
    "Clear transcript: Empty the transcript; nothing else is lost",
    over_screens=False,
)
def clear(context: CommandContext) -> None:
    context.panes.transcript.clear()
