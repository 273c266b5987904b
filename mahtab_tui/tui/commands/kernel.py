"""Commands that run, stop and undo code."""

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
    when=lambda context: context.panes.prompt_row is not None,
)
def answer(context: CommandContext) -> None:
    if (row := context.panes.prompt_row) is not None:
        row.focus()


@command(
    "toggle-mode",
    "f2",
    "Python / Ask",
    "Go from Python to Ask or back; the draft stays",
    "Input",
    footer=True,
)
def toggle_mode(context: CommandContext) -> None:
    editor, prose = context.panes.editor, context.panes.transcript.failed_prose
    if prose and editor.mode == "python" and editor.is_empty:
        editor.put("ask", prose)
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
def search_history(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.listing import HistorySearch

    editor = context.panes.editor

    def chosen(entry: HistoryEntry | None) -> None:
        if context.app.is_ending:  # the next key already ended the application
            return
        if entry is not None:
            editor.mode = "ask" if entry.mode == "ask" else "python"
            editor.text = entry.text
        editor.focus()

    context.app.push_screen(HistorySearch(context.history), chosen)


@command(
    "edit-input",
    "f4,ctrl+g",
    "Open in $EDITOR",
    "Edit the input in your editor; what you save comes back",
    "Input",
)
def edit_input(context: CommandContext) -> None:
    # Deferred, because the screen is not drawn while the key's own event is handled.
    context.app.call_later(_edit_input, context)


def _edit_input(context: CommandContext) -> None:
    from mahtab_tui.tui.external import edit_text

    editor = context.panes.editor
    try:
        editor.text = edit_text(
            context.app, editor.text, ".py" if editor.mode == "python" else ".md"
        )
    except RuntimeError as error:
        context.app.notify(str(error), "warning")
    editor.focus()


@command(
    "explain",
    "alt+h",
    "Explain",
    "Show signature and docstring of the function call at the cursor",
    "Input",
)
def explain(context: CommandContext) -> None:
    context.panes.editor.explain()


@command("suggest", "alt+s", "Suggest", "Let the suggestion model complete the input", "Input")
def suggest(context: CommandContext) -> None:
    if not context.panes.editor.suggest():
        context.app.notify(
            "No suggestion model is set: set suggestion_model in the settings (F12)."
        )


@command(
    "find-input",
    "ctrl+f",
    "Find",
    "Find a text in the input, or in the transcript or namespace if that has the focus",
    "Input",
)
def find(context: CommandContext) -> None:
    context.panes.find()


@command(
    "take-offer",
    "alt+i",
    "Insert suggestion",
    "Put the suggested line into the input, such as an installation or another Python",
    "Input",
)
def accept_offer(context: CommandContext) -> None:
    context.offers.accept()


@command(
    "explain-error",
    "alt+x",
    "Explain error",
    "Begin a question about the last error; Enter sends it",
    "Input",
)
def explain_error(context: CommandContext) -> None:
    if question := context.panes.transcript.question_about_error:
        context.panes.editor.put("ask", question)
        context.panes.editor.focus()
    else:
        context.app.notify("There is no error to explain: no cell has failed.")


@command(
    "stop",
    "escape",
    "Stop",
    "Stop the model or the running cell; press it again to kill the kernel",
    "Session",
    footer=True,
    priority=False,
)
def stop(context: CommandContext) -> None:
    context.interrupter.stop()


@command(
    "interrupt-or-copy",
    "ctrl+c",
    "Stop, copy or clear",
    "Stop what runs; else copy the selection; else clear the editor",
    "Session",
    over_questions=True,
)
def interrupt_or_copy(context: CommandContext) -> None:
    if context.session.cells.running or context.session.agent.in_turn:
        context.interrupter.stop()
    elif not context.copy_selection() and not context.panes.is_covered:
        context.panes.editor.clear()


@command(
    "cycle-approval",
    "f8",
    "Approval",
    "Ask before the model's code runs, review what it changed, or just run it",
    "Session",
    footer=True,
    slash="approval",
)
def cycle_approval(context: CommandContext) -> None:
    modes = get_args(ApprovalMode)
    context.session.info.set_approval(
        modes[(modes.index(context.session.info.approval) + 1) % len(modes)]
    )


@slash_command(
    "plan",
    "Plan",
    "Plan mode: the model only reads and proposes steps; /plan run carries them out",
    "Session",
    slash="plan",
    argument="RUN",
    keys="alt+l",
)
def plan(context: CommandContext, argument: str) -> None:
    profile = context.session.info
    match argument.strip():
        case "":
            profile.set_planning(not profile.planning)
        case "run" if context.session.agent.in_turn:
            context.refuse("The model is still answering. Run the plan after that.", "/plan run")
        case "run":
            profile.set_planning(False)
            context.session.submit("ask", "Carry out your plan now.")
        case _:
            context.refuse("Write /plan or /plan run.", f"/plan {argument}")


@slash_command(
    "undo",
    "Undo cells",
    "Undo what the last cell or answer did to variables, or everything from a cell on",
    "Session",
    slash="undo",
    argument="CELL",
)
def undo(context: CommandContext, cell: str) -> None:
    number = cell_number(cell)
    if number is None:
        context.refuse("Name a cell by its number, as in /undo 12", f"/undo {cell}")
    else:
        ask_to_undo(context.app, context.session, number or None)


def cell_number(typed: str) -> int | None:
    """Parse a typed cell number, such as ``12`` or ``In [12]``; 0 if nothing was typed, None if it
    is no cell."""
    number = typed.strip().removeprefix("In").strip(" []")
    return int(number or 0) if not number or (number.isdecimal() and len(number) < 10) else None


def ask_to_undo(app: App[int], session: Session, cell: int | None) -> None:
    """Show what an undo would do, and ask for confirmation. cell: None for what ran last."""
    from mahtab_tui.kernel.base import KernelError
    from mahtab_tui.tui.screens.session_info import UndoScreen

    try:
        first = session.undo.last_step() if cell is None else cell
        cells = session.undo.cells_from(first)
    except KernelError as error:
        app.notify(str(error))
    else:
        app.push_screen(
            UndoScreen(
                cells,
                partial(session.kernel.preview_undo, first),
                partial(session.undo.undo, first),
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
def redo(context: CommandContext) -> None:
    context.session.kernel_control.redo()


@command(
    "reset",
    "f9",
    "Reset kernel",
    "Start a new kernel with an empty namespace; the transcript stays",
    "Session",
    slash="reset",
)
def reset(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.dialog import confirm

    confirm(
        context.app,
        "Start over with an empty namespace? The transcript stays.",
        context.session.kernel_control.reset,
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
def kill_kernel(context: CommandContext) -> None:
    context.interrupter.ask_to_kill()


@slash_command(
    "model",
    "Model",
    "Choose the model that answers; the conversation stays",
    "Session",
    slash="model",
    argument="NAME",
)
def choose_model(context: CommandContext, name: str) -> None:
    context.settings.choose_model(name)


@slash_command(
    "python",
    "Interpreter",
    "Choose the kernel's Python: a file or a virtual environment",
    "Session",
    slash="python",
    argument="PATH",
)
def choose_python(context: CommandContext, path: str) -> None:
    context.with_value(
        path,
        "Interpreter or virtual environment",
        context.session.kernel_control.activate,
        context.session.kernel.info().executable,
    )


@slash_command(
    "kernel",
    "Kernel…",
    "Choose where the kernel runs: here, over ssh, in a container; its variables stay there",
    "Session",
    slash="kernel",
    argument="ADDRESS",
)
def choose_kernel(context: CommandContext, address: str) -> None:
    from mahtab_tui.tui.screens.listing import choose_kernel

    choose_kernel(context, address)


@slash_command(
    "directory",
    "Working directory",
    "Change the kernel's working directory",
    "Session",
    slash="cd",
    argument="PATH",
)
def change_directory(context: CommandContext, path: str) -> None:
    context.with_value(
        path,
        "Working directory",
        context.session.kernel_control.change_directory,
        context.session.kernel.info().cwd,
    )


@command("agents", "", "Agents", "List the agents in the session", "Session", slash="agents")
def agents(context: CommandContext) -> None:
    context.session.notice(context.session.joined_agents.sentence())


@slash_command(
    "pause",
    "Pause agent",
    "Pause an agent, or let it continue",
    "Session",
    slash="pause",
    argument="NAME",
)
def pause_agent(context: CommandContext, name: str) -> None:
    context.session.notice(context.session.joined_agents.pause(name))


@slash_command(
    "disconnect",
    "Disconnect agent",
    "Disconnect an agent from the session",
    "Session",
    slash="disconnect",
    argument="NAME",
)
def disconnect_agent(context: CommandContext, name: str) -> None:
    context.session.notice(context.session.joined_agents.disconnect(name))
