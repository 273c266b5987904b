"""Commands on what the user enters and on what runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

from mahtab_tui.settings.model import ApprovalMode
from mahtab_tui.tui.commands.command import CommandContext, command, slash_command

if TYPE_CHECKING:
    from textual.app import App

    from mahtab_tui.session import Session
    from mahtab_tui.store.history import HistoryEntry


@command(
    "focus-approval",
    "f7",
    "Answer",
    "Go to what waits for you: code, a search, or input() of a cell",
    "Session",
    footer=True,
    over_screens=False,
    when=lambda work: work.panes.asking_row is not None,
)
def answer(work: CommandContext) -> None:
    if (row := work.panes.asking_row) is not None:
        row.focus()


@command(
    "toggle-mode",
    "f2",
    "Python / Ask",
    "Go from Python to Ask or back; the draft stays",
    "Input",
    footer=True,
)
def toggle_mode(work: CommandContext) -> None:
    editor, prose = work.panes.editor, work.panes.transcript.failed_prose
    if prose and editor.mode == "python" and editor.is_empty:
        editor.begin_question(prose)
    else:
        editor.toggle_mode()
    editor.focus()


@command(
    "history-search",
    "ctrl+r",
    "Search history",
    "Search the inputs of all sessions",
    "Input",
    slash="history",
)
def search_history(work: CommandContext) -> None:
    from mahtab_tui.tui.screens.listing import HistorySearch

    editor = work.panes.editor

    def chosen(entry: HistoryEntry | None) -> None:
        if work.app.is_ending:  # the next key has ended the application
            return
        if entry is not None:
            editor.mode = "ask" if entry.mode == "ask" else "python"
            editor.text = entry.text
        editor.focus()

    work.app.push_screen(HistorySearch(work.history), chosen)


@command(
    "edit-input",
    "f4,ctrl+g",
    "Open in $EDITOR",
    "Edit the input in your editor; what you save comes back",
    "Input",
)
def edit_input(work: CommandContext) -> None:
    # Within the key's own event the screen would not be drawn again.
    work.app.call_later(_edit_input, work)


def _edit_input(work: CommandContext) -> None:
    from mahtab_tui.tui.external import edited

    editor = work.panes.editor
    try:
        editor.text = edited(work.app, editor.text, ".py" if editor.mode == "python" else ".md")
    except RuntimeError as error:
        work.notify(str(error), "warning")
    editor.focus()


@command(
    "explain",
    "alt+h",
    "Explain",
    "Show signature and docstring of the function call at the cursor",
    "Input",
)
def explain(work: CommandContext) -> None:
    work.panes.editor.explain()


@command("suggest", "alt+s", "Suggest", "Let the suggestion model complete the input", "Input")
def suggest(work: CommandContext) -> None:
    if not work.panes.editor.suggest():
        work.notify("No suggestion model is set: set suggestion_model in the settings (F12).")


@command(
    "find-input",
    "ctrl+f",
    "Find",
    "Find a text in the input, or in the transcript or namespace if that has the focus",
    "Input",
)
def find(work: CommandContext) -> None:
    work.panes.find()


@command(
    "take-offer",
    "alt+i",
    "Insert suggestion",
    "Put the suggested line into the input, such as an installation or another Python",
    "Input",
)
def take_offer(work: CommandContext) -> None:
    work.offers.take()


@command(
    "explain-error",
    "alt+x",
    "Explain error",
    "Begin a question about the last error; Enter sends it",
    "Input",
)
def explain_error(work: CommandContext) -> None:
    if question := work.panes.transcript.question_about_error:
        work.panes.editor.begin_question(question)
        work.panes.editor.focus()
    else:
        work.notify("There is no error to explain: no cell has failed.")


@command(
    "stop",
    "escape",
    "Stop",
    "Stop the model or the running cell; press it again to kill the kernel",
    "Session",
    footer=True,
    priority=False,
)
def stop(work: CommandContext) -> None:
    work.stopping.stop()


@command(
    "interrupt-or-copy",
    "ctrl+c",
    "Stop, copy or clear",
    "Stop what runs; else copy the selection; else clear the editor",
    "Session",
    over_questions=True,
)
def interrupt_or_copy(work: CommandContext) -> None:
    if work.session.cell_runs or work.session.turn_runs:
        work.stopping.stop()
    elif not work.copy_selection() and not work.panes.covered:
        work.panes.editor.clear()


@command(
    "cycle-approval",
    "f8",
    "Approval",
    "Ask before the model's code runs, review what it changed, or just run it",
    "Session",
    footer=True,
    slash="approval",
)
def cycle_approval(work: CommandContext) -> None:
    modes = get_args(ApprovalMode)
    work.session.set_approval(modes[(modes.index(work.session.approval) + 1) % len(modes)])


@slash_command(
    "plan",
    "Plan",
    "Plan mode: the model only reads and proposes steps; /plan run carries them out",
    "Session",
    slash="plan",
    argument="RUN",
    keys="alt+l",
)
def plan(work: CommandContext, argument: str) -> None:
    profile = work.session.profile
    match argument.strip():
        case "":
            profile.set_planning(not profile.planning)
        case "run" if work.session.turn_runs:
            work.refuse("The model is still answering. Run the plan after that.", "/plan run")
        case "run":
            profile.set_planning(False)
            work.session.submit("ask", "Carry out your plan now.")
        case _:
            work.refuse("Write /plan or /plan run.", f"/plan {argument}")


@slash_command(
    "undo",
    "Undo cells",
    "Undo what the last cell or answer did to variables, or everything from a cell on",
    "Session",
    slash="undo",
    argument="CELL",
)
def undo(work: CommandContext, cell: str) -> None:
    number = cell_number(cell)
    if number is None:
        work.refuse("Name a cell by its number, as in /undo 12", f"/undo {cell}")
    else:
        ask_to_undo(work.app, work.session, number or None)


def cell_number(typed: str) -> int | None:
    """Return the number of a cell that was typed, as in ``12`` and ``In [12]``; 0 if nothing was,
    None for anything else."""
    number = typed.strip().removeprefix("In").strip(" []")
    return int(number or 0) if not number or (number.isdecimal() and len(number) < 10) else None


def ask_to_undo(app: App[int], session: Session, cell: int | None) -> None:
    """Show what an undo would do, and ask. cell: None for what was run last."""
    from mahtab_tui.kernel.base import KernelError
    from mahtab_tui.tui.screens.session_info import UndoScreen

    try:
        first = session.undo.last_step() if cell is None else cell
        cells = session.undo.cells_from(first)
    except KernelError as error:
        app.notify(str(error), markup=False, timeout=3)
    else:
        app.push_screen(
            UndoScreen(
                cells, partial(session.undo.preview, first), partial(session.undo.undo, first)
            )
        )


@command(
    "redo",
    "",
    "Redo cells",
    "Reverse the last undo, if no other cell has run since",
    "Session",
    slash="redo",
)
def redo(work: CommandContext) -> None:
    work.session.kernel_control.redo()


@command(
    "reset",
    "f9",
    "Reset kernel",
    "Start a new kernel with an empty namespace; the transcript stays",
    "Session",
    slash="reset",
)
def reset(work: CommandContext) -> None:
    from mahtab_tui.tui.screens.dialog import confirm

    confirm(
        work.app,
        "Start over with an empty namespace? The transcript stays.",
        work.session.kernel_control.reset,
        yes="Reset",
        no="Keep",
    )


@command(
    "kill-kernel",
    "",
    "Kill kernel",
    "Kill an unresponsive kernel, and start a new one",
    "Session",
    slash="kill",
)
def kill_kernel(work: CommandContext) -> None:
    work.stopping.ask_to_kill()


@slash_command(
    "model",
    "Model",
    "Choose the model that answers; the conversation stays",
    "Session",
    slash="model",
    argument="NAME",
)
def choose_model(work: CommandContext, name: str) -> None:
    work.settings.choose_model(name)


@slash_command(
    "python",
    "Interpreter",
    "Choose the kernel's Python: a file or a virtual environment",
    "Session",
    slash="python",
    argument="PATH",
)
def choose_python(work: CommandContext, path: str) -> None:
    work.with_value(
        path,
        "Interpreter or virtual environment",
        work.session.kernel_control.activate,
        work.session.kernel.info().executable,
    )


@slash_command(
    "kernel",
    "Kernel…",
    "Choose where the kernel runs: here, over ssh, in a container; its variables stay there",
    "Session",
    slash="kernel",
    argument="ADDRESS",
)
def choose_kernel(work: CommandContext, address: str) -> None:
    from mahtab_tui.tui.screens.listing import choose_kernel

    choose_kernel(work, address)


@slash_command(
    "directory",
    "Working directory",
    "Change the kernel's working directory",
    "Session",
    slash="cd",
    argument="PATH",
)
def change_directory(work: CommandContext, path: str) -> None:
    work.with_value(
        path,
        "Working directory",
        work.session.kernel_control.change_directory,
        work.session.kernel.info().cwd,
    )


@command("agents", "", "Agents", "List the agents in the session", "Session", slash="agents")
def agents(work: CommandContext) -> None:
    work.session.notice(work.session.joined_agents.sentence())


@slash_command(
    "pause",
    "Pause agent",
    "Pause an agent, or let it continue",
    "Session",
    slash="pause",
    argument="NAME",
)
def pause_agent(work: CommandContext, name: str) -> None:
    work.session.notice(work.session.joined_agents.pause(name))


@slash_command(
    "disconnect",
    "Disconnect agent",
    "Disconnect an agent from the session",
    "Session",
    slash="disconnect",
    argument="NAME",
)
def disconnect_agent(work: CommandContext, name: str) -> None:
    work.session.notice(work.session.joined_agents.disconnect(name))
