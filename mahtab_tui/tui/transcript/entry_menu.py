"""Which commands an entry of the transcript has, and why it lacks the others."""

from __future__ import annotations

from collections.abc import Iterator

from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Question
from mahtab_tui.tui.commands.declarations import TRANSCRIPT_COMMANDS, PaneCommand
from mahtab_tui.tui.transcript.layout import is_text_drawn_whole

MAX_FIGURES = 4
"""The menu of an answer has at most this many figures."""
MAX_FIGURE_CHARS = 24


def entry_menu(entry: Entry, conversation: Conversation) -> list[PaneCommand]:
    """Return the commands of an entry's menu."""
    commands = []
    for command in TRANSCRIPT_COMMANDS:
        # Undo has a key of its own, too.
        is_listed = command.menu or command.id == "entry-undo"
        if is_listed and not unavailable_reason(command.id, entry, conversation):
            commands.append(command)
    return [*commands, *_figure_commands(entry)]


def unavailable_reason(command_id: str, entry: Entry, conversation: Conversation) -> str:
    """Say why a command cannot do anything with an entry.

    Args:
        command_id: The `id` of a command in `TRANSCRIPT_COMMANDS`.
        entry: The entry.
        conversation: What the entry is part of.

    Returns:
        A sentence for the user; empty if the entry has the command.
    """
    match command_id:
        case "entry-open" if not _has_more_to_show(entry):
            return "This entry has no output."
        case "entry-copy-output" if not _has_printed(entry):
            return "This entry has no output."
        case "entry-edit" | "entry-again" | "entry-run" if not _has_input(entry):
            return "Only code and questions can be run again."
        case "entry-replace" if entry.removed == "replaced":
            return "This entry was already rewound."
        case "entry-replace" if not _is_point(entry):
            return "Only a question or a cell that ran can be gone back to."
        case "entry-explain" if not _has_failed(entry):
            return "This entry has no error."
        case "entry-frames" if not isinstance(entry, Cell) or not entry.frames:
            return "This entry has no error with known frames."
        case "entry-mention" if not _has_pictures(entry):
            return "This entry has no picture."
        case "entry-undo":
            cell = conversation.cell_to_undo(entry)
            if cell is None:
                return "Nothing has run here."
            if cell.undone:
                return "It was undone already."
    return ""


def _has_more_to_show(entry: Entry) -> bool:
    if isinstance(entry, Cell):
        return len(entry.output) > 0
    return not is_text_drawn_whole(entry)


def _has_printed(entry: Entry) -> bool:
    return isinstance(entry, Cell) and bool(len(entry.output) or entry.late_output)


def _has_input(entry: Entry) -> bool:
    if isinstance(entry, Cell):
        return bool(entry.code.strip())
    return isinstance(entry, Question)


def _is_point(entry: Entry) -> bool:
    """Return whether the session can go back to before an entry."""
    if isinstance(entry, Cell):
        return entry.number is not None
    return isinstance(entry, Question) and bool(entry.key)


def _has_failed(entry: Entry) -> bool:
    return isinstance(entry, Cell) and entry.status == "error" and entry.number is not None


def _has_pictures(entry: Entry) -> bool:
    return isinstance(entry, Cell) and entry.number is not None and bool(entry.pictures)


def _figure_commands(entry: Entry) -> Iterator[PaneCommand]:
    """Yield commands that lead from an answer's figures to the cells that printed them."""
    figures = entry.own_figures if isinstance(entry, AnswerText) else []
    computed_figures = [figure for figure in figures if figure.cell is not None]
    for number, figure in enumerate(computed_figures[:MAX_FIGURES], 1):
        text = figure.text
        if len(text) > MAX_FIGURE_CHARS:
            text = f"{text[: MAX_FIGURE_CHARS - 1]}…"
        title = f"Go to where {text} comes from (cell {figure.cell})"
        id = f"entry-figure-{number}"
        action = f"go_to_cell({figure.cell})"
        yield PaneCommand(id, action, "", title, "", "Transcript", menu=True)
