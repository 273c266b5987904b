"""Commands on an entry of the transcript."""

from __future__ import annotations

from mahtab_tui.tui.commands.pane_command import PaneCommand

TRANSCRIPT_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("entry-up", "walk(-1)", "up", "Up", "Go to the previous entry; through a long one line by line", "Transcript"),
    PaneCommand("entry-down", "walk(1)", "down", "Down", "Go to the next entry", "Transcript"),
    PaneCommand("entry-menu", "menu", "enter", "Actions", "Show the actions on the entry; so does a right click", "Transcript", True),
    PaneCommand("entry-fold", "fold_entry", "space", "Collapse", "Show the beginning only, or all of it again", "Transcript", True),
    PaneCommand("entry-find", "find", "ctrl+f", "Find", "Search the whole transcript", "Transcript", True),
    PaneCommand(
        "entry-open", "open_entry", "o", "Open", "Show all output of the cell, its pictures, or the frames of its error", "Transcript", menu=True
    ),
    PaneCommand("entry-copy", "copy_entry", "y", "Copy", "Copy the code, the words or the question", "Transcript", menu=True),
    PaneCommand("entry-copy-output", "copy_output", "Y,shift+y", "Copy output", "Copy the output of the cell", "Transcript", menu=True),
    PaneCommand("entry-edit", "again(True)", "e", "Edit", "Bring the code or the question into the editor", "Transcript", menu=True),
    PaneCommand(
        "entry-again", "again(False)", "r", "Run again", "Run the code again, or ask the question again", "Transcript", menu=True, confirm=True
    ),
    PaneCommand("entry-run", "again(False)", "alt+r,ctrl+enter", "Run", "Run the code of the entry, or ask the question again", "Transcript"),
    PaneCommand(
        "entry-run-to",
        "run_up_to",
        "u",
        "Run up to here",
        "Run the notebook's cells up to this one, until one fails",
        "Transcript",
        menu=True,
        confirm=True,
    ),
    PaneCommand(
        "entry-run-all", "run_all", "U,shift+u", "Run all", "Run all cells of the notebook, until one fails", "Transcript", menu=True, confirm=True
    ),
    PaneCommand(
        "entry-replace",
        "replace_entry",
        "R,shift+r",
        "Replace",
        "Edit your question or code and enter it again; the model forgets what came after it",
        "Transcript",
        menu=True,
        confirm=True,
    ),
    PaneCommand(
        "entry-explain", "explain_error", "x", "Explain error", "Ask the model about the cell's error", "Transcript", menu=True, confirm=True
    ),
    PaneCommand("entry-frames", "open_frames", "f", "Frames", "Show the frames of the cell's error, with their source", "Transcript", menu=True),
    PaneCommand("entry-traceback", "whole_traceback", "t", "Traceback", "Show all of a long traceback, or only its end", "Transcript", menu=True),
    PaneCommand(
        "entry-mention",
        "mention",
        "a",
        "Ask about picture",
        "Ask about the cell's pictures, which are sent with the question",
        "Transcript",
        menu=True,
    ),
    PaneCommand("entry-undo", "undo_entry", "ctrl+z", "Undo", "Take back what the cell or answer, and all after it, did to variables", "Transcript"),
    PaneCommand(
        "entry-branch",
        "branch_entry",
        "b",
        "Branch",
        "Go on from before the cell or the question, in a second session",
        "Transcript",
        menu=True,
    ),
    PaneCommand("entry-hide", "hide_entry", "m", "Hide", "Leave it out of what the model gets, or bring it back", "Transcript", menu=True),
    PaneCommand("entry-pin", "pin_entry", "p", "Pin", "Keep it at the top of the transcript, or no longer", "Transcript", menu=True),
    PaneCommand(
        "entry-pinned", "go_to_pinned", "P,shift+p", "Go to pinned", "Go to the pinned entries, one after the other", "Transcript", menu=True
    ),
)
