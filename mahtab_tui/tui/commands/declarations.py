"""What the commands of panes and screens are called, and their keys.

A pane or screen has the action of each of its commands. Commands of the application, which are
functions, are in the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from textual.binding import Binding, BindingType


@dataclass(frozen=True)
class PaneCommand:
    """A command of a pane or screen, which is one of its actions."""

    id: str
    """The name that it has in the user's key map."""
    action: str
    """The action as Textual writes it, such as ``walk(-1)``."""
    keys: str
    """Its keys by Textual's names, separated by commas; empty for none."""
    title: str
    """What the footer, menus and the palette call it."""
    help: str
    """A phrase that says what it does."""
    group: str
    """The heading under which help lists it."""
    footer: bool = False
    """Whether the footer shows it."""
    menu: bool = False
    """Whether its key works only in a menu, because letters elsewhere go to the editor."""
    confirm: bool = False
    """Whether its key in a menu only selects it, so that Enter is needed."""
    priority: bool = False
    """Whether its key works before those of the focused widget."""
    slash: str = ""
    """How it is typed, without the slash; empty for a command of a pane."""
    argument: str = ""
    """What is typed after it, as help names it; empty for nothing."""


def pane_commands(group: str, rows: Mapping[str, str]) -> tuple[PaneCommand, ...]:
    """Declare the commands of a pane.

    Args:
        group: The heading under which help lists them.
        rows: "Title: help" of each, by "id action keys". The flags ``footer``, ``menu`` and
            ``confirm`` may follow the keys, and set the field of this name.
    """
    commands = []
    for declaration, description in rows.items():
        id, action, keys, *flags = declaration.split()
        title, _, help = description.partition(": ")
        command = PaneCommand(
            id,
            action,
            keys,
            title,
            help,
            group,
            footer="footer" in flags,
            menu="menu" in flags,
            confirm="confirm" in flags,
        )
        commands.append(command)
    return tuple(commands)


def bindings(commands: Iterable[PaneCommand], *hidden: BindingType) -> list[BindingType]:
    """Return the bindings of commands whose keys work outside menus.

    Args:
        hidden: More bindings, which the footer does not show.
    """
    command_bindings: list[BindingType] = []
    for command in commands:
        if not command.keys or command.menu:
            continue
        binding = Binding(
            command.keys,
            command.action,
            command.title,
            show=command.footer,
            priority=command.priority,
            id=command.id,
        )
        command_bindings.append(binding)
    return [*command_bindings, *hidden]


TRANSCRIPT_COMMANDS = pane_commands(
    "Transcript",
    {
        "entry-up walk(-1) up": "Up: Go to the previous entry; scroll a long one line by line",
        "entry-down walk(1) down": "Down: Go to the next entry",
        "entry-menu menu enter footer": "Actions: Show the actions on the entry; so does a right click",
        "entry-fold fold_entry space footer": "Collapse: Show the beginning only, or all of it again",
        "entry-find find ctrl+f footer": "Find: Search the whole transcript",
        "entry-left scroll_table(-1) left": "Columns left: Show columns of a wide table further left",
        "entry-right scroll_table(1) right": "Columns right: Show columns of a wide table further right",
        "entry-open open_entry o menu": "Open: Look inside the cell's table, or show its pictures, the frames of its error, all its output, or the whole of a long text",
        "entry-copy copy_entry y menu": "Copy: Copy the code, the answer's text or the question",
        "entry-copy-output copy_output Y,shift+y menu": "Copy output: Copy the output of the cell",
        "entry-edit edit e menu": "Edit: Put the code or the question into the editor",
        "entry-again run r menu confirm": "Run again: Run the code again, or ask the question again",
        "entry-run run alt+r,ctrl+enter": "Run: Run the code of the entry, or ask the question again",
        "entry-replace rewind R,shift+r menu confirm": "Rewind: See what would go back to before the question or cell; then edit it",
        "entry-explain explain_error x menu confirm": "Explain error: Ask the model about the cell's error",
        "entry-frames open_frames f menu": "Frames: Show the frames of the cell's error, with their source",
        "entry-mention mention a menu": "Ask about picture: Ask about the cell's pictures, which are sent with the question",
        "entry-undo undo_entry ctrl+z": "Undo: Undo what the cell or answer, and everything after it, did to variables",
        "entry-hide hide_entry m menu": "Hide: Hide it from the model, or show it again",
    },
)

NODE_COMMANDS = pane_commands(
    "Recursion",
    {
        "node-menu menu enter footer": "Actions: Show the actions on the call; so does a right click",
        "node-open open_node o menu": "Open: Open the call: its turns, its text, its answer",
        "node-copy copy_answer y menu": "Copy: Copy the call's answer",
        "node-variable make_variable v menu": "Variable: Assign the call's answer to a variable, in a cell of your own",
        "node-stop stop_node s menu confirm": "Stop: Stop the call and all below it; the others continue",
    },
)

OUTPUT_COMMANDS = pane_commands(
    "Output", {"output-back back escape,q footer": "Back: Go back to the session"}
)

SAVE_COMMANDS = pane_commands(
    "Output", {"output-save save ctrl+s footer": "Save: Save it to a file"}
)

PAGER_COMMANDS = pane_commands("Output", {"output-copy copy_all y footer": "Copy: Copy all of it"})

PICTURE_COMMANDS = pane_commands(
    "Output",
    {
        "picture-open open_outside o footer": "Open: Open the picture in the system's viewer; also in the inspector"
    },
)

PICTURES_COMMANDS = pane_commands(
    "Output",
    {
        "picture-next step(1) right": "Next: Next picture of the cell",
        "picture-previous step(-1) left": "Previous: Previous picture",
    },
)

FRAMES_COMMANDS = pane_commands(
    "Output",
    {
        "frame-source source enter footer": "Source: In an error: go from the frames to the source",
        "frame-locals locals v footer": "Variables: In an error: go to the variables of the frame; Escape goes back",
    },
)

INSPECTOR_COMMANDS = pane_commands(
    "Inspector",
    {
        "inspect-back back escape footer": "Back: Go back to the previous object, and finally to the session",
        "inspect-view step_view(1) tab footer": "View: Show the next view of the object; a digit shows a view by its number",
        "inspect-again look_again r footer": "Reload: Reload the object to show what it is now",
        "inspect-copy copy_expression y": "Copy name: Copy the expression that leads to the object",
        "inspect-copy-text copy_text ctrl+y": "Copy text: Copy the repr of the object",
        "inspect-export export ctrl+s": "Export: Write the object to a new .csv, .json, .txt or .pkl file",
        "inspect-close leave q": "Close: Close the inspector",
    },
)

TABLE_COMMANDS = pane_commands(
    "Inspector: table",
    {
        "table-open open_cell enter footer": "Open: Look inside the value at the cursor",
        "table-column open_column o": "Column: Show the column alone",
        "table-sort sort s footer": "Sort: Sort by the column: ascending, descending, not at all",
        "table-filter filter slash footer": "Filter: Filter by the column: > 5, = berlin, missing, or a text",
        "table-all all_rows x": "All rows: Clear sorting and filters",
        "table-variable make_variable v": "Variable: Assign the rows to a variable as shown, in a cell",
    },
)

TREE_COMMANDS = pane_commands(
    "Inspector: tree",
    {
        "tree-open open_row enter footer": "Open: Look inside the object at the cursor; a property is evaluated first",
        "tree-unfold unfold right,space footer": "Expand: Show what is inside",
        "tree-search search slash footer": "Search: Search the names, types and values of what is expanded",
        "tree-next find(1) n": "Next: Go to the next match",
        "tree-previous find(-1) N,shift+n": "Previous: Go to the previous match",
        "tree-fold fold left footer": "Collapse: Collapse it, then go to the object that contains it",
    },
)

TEXT_COMMANDS = pane_commands(
    "Inspector: text",
    {
        "text-search search slash footer": "Search: Search the text",
        "text-next next(False) n footer": "Next: Go to the next match",
        "text-previous next(True) N,shift+n": "Previous: Go to the previous match",
        "text-ask ask ctrl+a footer": "Ask about this: Ask about the text, by a recursive search over it",
    },
)

ARRAY_COMMANDS = pane_commands(
    "Inspector: array",
    {
        "array-next step_slice(1) full_stop": "Next slice: Next slice of an array of many dimensions",
        "array-previous step_slice(-1) comma": "Previous slice: Previous slice of an array of many dimensions",
        "array-slice enter_slice g footer": "Slice: Enter a slice, as in 3, :, :",
    },
)

PLOT_COMMANDS = pane_commands(
    "Inspector: array",
    {
        "plot-histogram histogram h footer": "Histogram: Show a histogram of the values, or the values by position"
    },
)

VARIABLE_COMMANDS = pane_commands(
    "Namespace",
    {
        "variable-open open enter footer": "Look inside: Look inside the variable",
        "variable-filter filter ctrl+f footer": "Filter: Filter by name; Escape ends it",
        "variable-watch watch_variable space footer": "Watch: Pin the variable to the top, or unpin it",
        "variable-rename rename ctrl+n": "Rename: Rename the variable",
        "variable-private mark_private alt+p": "Private: Hide from models (toggle)",
        "variable-delete delete delete": "Delete: Delete the variable, after a confirmation",
        "variable-copy copy_name ctrl+y": "Copy name: Copy the variable's name",
    },
)

PANE_COMMANDS: tuple[PaneCommand, ...] = (
    *TRANSCRIPT_COMMANDS,
    *NODE_COMMANDS,
    *OUTPUT_COMMANDS,
    *SAVE_COMMANDS,
    *PAGER_COMMANDS,
    *PICTURE_COMMANDS,
    *PICTURES_COMMANDS,
    *FRAMES_COMMANDS,
    *INSPECTOR_COMMANDS,
    *TABLE_COMMANDS,
    *TREE_COMMANDS,
    *TEXT_COMMANDS,
    *ARRAY_COMMANDS,
    *PLOT_COMMANDS,
    *VARIABLE_COMMANDS,
)

# Keys and signs that belong to no command, by the group of help in which they are listed.
_OTHER_KEYS: dict[str, dict[str, str]] = {
    "Editor": {
        "enter": "Run complete code or send a question; in incomplete code, open a line",
        "tab": "Accept the chosen completion; after a word, complete it; otherwise indent. Shift+Tab dedents",
        "`": "At the very start of the editor: Python or Ask. Elsewhere it is a backtick",
        "ctrl+j": "Open a line; also Shift+Enter and Alt+Enter if the terminal sends them",
        "ctrl+enter": "Run from anywhere in the text, if the terminal sends it",
        "up, down": "At the first and last line: earlier and later inputs",
        "up, down, enter, escape": "In the list of completions: choose, accept (after Tab or an arrow), close",
        "alt+e": "Show a large pasted text in place of [Pasted 312 lines]; undo brings the short form back",
        "ctrl+z, alt+z": "Undo, redo; redo is also Ctrl+Shift+Z if the terminal sends it",
        "alt+b, alt+f": "Word left, word right",
        "ctrl+w, alt+backspace, alt+d": "Cut back to a blank, the word before the cursor, the word after it",
        "ctrl+u, ctrl+k, ctrl+y": "Cut to the line's start, to its end; insert what was cut",
        "ctrl+/": "Comment the line or the selected lines, or undo that",
        "alt+up, alt+down": "In a text of several lines: move the line or the selected lines",
        "ctrl+d": "Leave, if the editor is empty; press it again if something would be lost",
        "escape": "With the setting keys = vim: go to normal mode, for Vi's commands",
    },
    "Signs": {
        "+  ~  −": "A cell added, changed or deleted this name",
        "?": "A cell may have changed this object, which is too large to compare or cannot be inspected. The author stays",
    },
    "Approval": {
        "y, e, n, a, escape": "While code waits: run, edit, skip, run all from now on, stop",
        "f5, ctrl+enter": "While waiting code is edited: run it from anywhere; Enter runs it at its end",
        "up, down, pageup, pagedown, home, end": "While long code waits: scroll it. Until you have seen its end, y must be pressed twice",
        "y, n": "When a search asks to make many calls: run them, or don't",
    },
    "Queue": {
        "enter": "Give a waiting question to the running one at its next step, or ask it after the answer",
        "delete": "Remove the chosen input from the queue",
    },
    "Namespace": {
        "ctrl+s": "Sort by name, type or recency",
        "ctrl+t": "Show modules, functions and names with _",
    },
    "Recursion": {
        "left, right": "Collapse, expand",
        "t": "In an open call: its text, or its turns",
        "tab": "In an open call: go to the next call or place that its answer rests on; Enter opens it",
        "/, n, N": "In its text: search, next, previous",
    },
    "Panes": {"letters": "From any pane, typing goes to the editor"},
    "Transcript": {"pageup, pagedown, home, end": "Scroll"},
    "Skills": {"enter, tab": "Load or unload the skill; go to its text"},
    "Sessions": {
        "enter": "Switch from this session to the one at the cursor",
        "f2, f5, f7, f8": "Change its title; copy it; stop its kernel; delete it, after a confirmation",
        "ctrl+t": "List the sessions of this folder, or of all",
        "tab": "Go to its text: the arrows mark an entry; F5 copies what came before it",
    },
    "Settings": {"enter": "Change the setting; an empty value removes it from your file"},
}


class KeyHelp(NamedTuple):
    """A line of help."""

    keys: str
    help: str
    group: str


PANE_KEYS = tuple(
    KeyHelp(keys, help, group) for group, rows in _OTHER_KEYS.items() for keys, help in rows.items()
)
