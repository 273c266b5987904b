"""Commands on what the user enters: answers, the editor, the history, offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mahtab_tui.tui.commands.command import command
from mahtab_tui.tui.commands.context import CommandContext

if TYPE_CHECKING:
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
    from mahtab_tui.tui.screens.history_search import HistorySearch

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
    from mahtab_tui.tui.external_editor import edited

    editor = work.panes.editor
    try:
        editor.text = edited(work.app, editor.text, ".py" if editor.mode == "python" else ".md")
    except RuntimeError as error:
        work.tell(str(error), "warning")
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
        work.tell("No suggestion model is set: set suggestion_model in the settings (F12).")


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
        work.tell("There is no error to explain: no cell has failed.")
