"""Commands of the inspector and other screens, and keys of panes for the help."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mahtab_tui.tui.commands.command import PaneCommand, pane_command
from mahtab_tui.tui.commands.panes import NODE_COMMANDS, TRANSCRIPT_COMMANDS, VARIABLE_COMMANDS


class KeyHelp(NamedTuple):
    keys: str
    help: str
    group: str


PANE_KEYS: tuple[KeyHelp, ...] = (
    KeyHelp(
        "enter", "Run complete code or send a question; in incomplete code, open a line", "Editor"
    ),
    KeyHelp(
        "tab",
        "Accept the chosen completion; after a word, complete it; otherwise indent. Shift+Tab dedents",
        "Editor",
    ),
    KeyHelp(
        "`", "At the very start of the editor: Python or Ask. Elsewhere it is a backtick", "Editor"
    ),
    KeyHelp("+  ~  −", "A cell added, changed or deleted this name", "Signs"),
    KeyHelp(
        "?",
        "A cell may have changed this object, which is too large to compare or cannot be inspected. The author stays",
        "Signs",
    ),
    KeyHelp(
        "ctrl+j", "Open a line; also Shift+Enter and Alt+Enter if the terminal sends them", "Editor"
    ),
    KeyHelp("ctrl+enter", "Run from anywhere in the text, if the terminal sends it", "Editor"),
    KeyHelp("up, down", "At the first and last line: earlier and later inputs", "Editor"),
    KeyHelp("right, tab", "Accept the grey suggestion behind the cursor", "Editor"),
    KeyHelp(
        "up, down, enter, escape",
        "In the list of completions: choose, accept (after Tab or an arrow), close",
        "Editor",
    ),
    KeyHelp(
        "alt+e",
        "Show a large pasted text in place of [Pasted 312 lines]; undo brings the short form back",
        "Editor",
    ),
    KeyHelp(
        "alt+q",
        "Make the curly quotes of a pasted text straight; undo makes them curly again",
        "Editor",
    ),
    KeyHelp(
        "enter, down, up, escape", "While finding in the input: next, previous, close", "Editor"
    ),
    KeyHelp(
        "alt+r",
        "While finding in the input or the transcript: switch between regular expression and plain words",
        "Editor",
    ),
    KeyHelp("ctrl+z, ctrl+y", "Undo, redo", "Editor"),
    KeyHelp(
        "ctrl+d",
        "Leave, if the editor is empty; press it again if something would be lost",
        "Editor",
    ),
    KeyHelp(
        "y, e, n, a, escape",
        "While code waits: run, edit, skip, run all from now on, stop",
        "Approval",
    ),
    KeyHelp(
        "f5, ctrl+enter",
        "While waiting code is edited: run it from anywhere; Enter runs it at its end",
        "Approval",
    ),
    KeyHelp(
        "up, down, pageup, pagedown, home, end",
        "While long code waits: scroll it. Until you have seen its end, y must be pressed twice",
        "Approval",
    ),
    KeyHelp("y, n", "When a search asks to make many calls: run them, or don't", "Approval"),
    KeyHelp("delete", "Remove the chosen input from the queue", "Queue"),
    KeyHelp("ctrl+s", "Sort by name, type or recency", "Namespace"),
    KeyHelp("ctrl+t", "Show modules, functions and names with _", "Namespace"),
    KeyHelp("left, right", "Collapse, expand", "Recursion"),
    KeyHelp(
        "ctrl+f", "Search the questions and answers of all calls, collapsed ones too", "Recursion"
    ),
    KeyHelp("t", "In an open call: its text, or its turns", "Recursion"),
    KeyHelp(
        "tab",
        "In an open call: go to the next call or place that its answer rests on; Enter opens it",
        "Recursion",
    ),
    KeyHelp("/, n, N", "In its text: search, next, previous", "Recursion"),
    KeyHelp("[, ]", "In its text: previous and next match", "Recursion"),
    KeyHelp("letters", "From any pane, typing goes to the editor", "Panes"),
    KeyHelp("pageup, pagedown, home, end", "Scroll", "Transcript"),
    KeyHelp(
        "enter, f4, ctrl+t, tab",
        "Load or unload the skill; open it in $EDITOR; create one from a template; go to its text",
        "Skills",
    ),
    KeyHelp("enter", "Switch from this session to the one at the cursor", "Sessions"),
    KeyHelp(
        "f2, f5, f6, f7, f8",
        "Change its title; copy it; export it to a file; stop its kernel; delete it, after a confirmation",
        "Sessions",
    ),
    KeyHelp("ctrl+t", "List the sessions of this folder, or of all", "Sessions"),
    KeyHelp(
        "tab", "Go to its text: the arrows mark an entry; F5 copies what came before it", "Sessions"
    ),
    KeyHelp(
        "enter, tab, ctrl+r",
        "Change the setting; choose your file or the project's; remove it from the file",
        "Settings",
    ),
)


_inspector = partial(pane_command, group="Inspector")
_table = partial(pane_command, group="Inspector: table")
_text = partial(pane_command, group="Inspector: text")
_tree = partial(pane_command, group="Inspector: tree")
_array = partial(pane_command, group="Inspector: array")
_output = partial(pane_command, group="Output")

INSPECTOR_COMMANDS: tuple[PaneCommand, ...] = (
    _inspector(
        "inspect-back back escape",
        "Back: Go back to the previous object, and finally to the session",
        footer=True,
    ),
    _inspector(
        "inspect-view step_view(1) tab",
        "View: Show the next view of the object; a digit shows a view by its number",
        footer=True,
    ),
    _inspector(
        "inspect-again look_again r",
        "Reload: Reload the object to show what it is now",
        footer=True,
    ),
    _inspector(
        "inspect-copy copy_expression y", "Copy name: Copy the expression that leads to the object"
    ),
    _inspector("inspect-copy-text copy_text ctrl+y", "Copy text: Copy the repr of the object"),
    _inspector(
        "inspect-export export ctrl+s",
        "Export: Write the object to a new .csv, .json, .txt or .pkl file",
    ),
    _inspector("inspect-close leave q", "Close: Close the inspector"),
)

TABLE_COMMANDS: tuple[PaneCommand, ...] = (
    _table("table-open open_cell enter", "Open: Look inside the value at the cursor", footer=True),
    _table("table-column open_column o", "Column: Show the column alone"),
    _table(
        "table-sort sort s",
        "Sort: Sort by the column: ascending, descending, not at all",
        footer=True,
    ),
    _table(
        "table-filter filter slash",
        "Filter: Filter by the column: > 5, = berlin, missing, or a text",
        footer=True,
    ),
    _table("table-all all_rows x", "All rows: Clear sorting and filters"),
    _table(
        "table-variable make_variable v",
        "Variable: Assign the rows to a variable as shown, in a cell",
    ),
    _table(
        "table-figures figures i", "Figures: Show or hide the figures of each column in the header"
    ),
)

TEXT_COMMANDS: tuple[PaneCommand, ...] = (
    _text("text-search search slash", "Search: Search the text", footer=True),
    _text("text-next next(False) n", "Next: Go to the next match", footer=True),
    _text("text-previous next(True) N,shift+n", "Previous: Go to the previous match"),
    _text("text-regex regex x", "By pattern: Search for regular expressions, or for plain words"),
    _text(
        "text-ask ask ctrl+a",
        "Ask about this: Ask about the text, by a recursive search over it",
        footer=True,
    ),
    _text("text-wrap wrap w", "Wrap: Wrap long lines, or scroll them sideways", footer=True),
)

TREE_COMMANDS: tuple[PaneCommand, ...] = (
    _tree(
        "tree-open open_row enter",
        "Open: Look inside the object at the cursor; a property is evaluated first",
        footer=True,
    ),
    _tree("tree-unfold unfold right,space", "Expand: Show what is inside", footer=True),
    _tree(
        "tree-search search slash",
        "Search: Search the names, types and values of what is expanded",
        footer=True,
    ),
    _tree("tree-next find(1) n", "Next: Go to the next match"),
    _tree("tree-previous find(-1) N,shift+n", "Previous: Go to the previous match"),
    _tree(
        "tree-fold fold left",
        "Collapse: Collapse it, then go to the object that contains it",
        footer=True,
    ),
)

ARRAY_COMMANDS: tuple[PaneCommand, ...] = (
    _array(
        "array-next step_slice(1) full_stop",
        "Next slice: Next slice of an array of many dimensions",
    ),
    _array(
        "array-previous step_slice(-1) comma",
        "Previous slice: Previous slice of an array of many dimensions",
    ),
    _array("array-dimension dimension d", "Dimension: Choose the dimension to step along"),
    _array("array-slice enter_slice g", "Slice: Enter a slice, as in 3, :, :", footer=True),
)

PLOT_COMMANDS: tuple[PaneCommand, ...] = (
    _array(
        "plot-histogram histogram h",
        "Histogram: Show a histogram of the values, or the values by position",
        footer=True,
    ),
)

OUTPUT_COMMANDS: tuple[PaneCommand, ...] = (
    _output("output-back back escape,q", "Back: Go back to the session", footer=True),
    _output("output-save save ctrl+s", "Save: Save it to a file", footer=True),
)

PAGER_COMMANDS: tuple[PaneCommand, ...] = (
    _output("output-copy copy_all y", "Copy: Copy all of it", footer=True),
)

PICTURE_COMMANDS: tuple[PaneCommand, ...] = (
    _output(
        "picture-open open_outside o",
        "Open: Open the picture in the system's viewer; also in the inspector",
        footer=True,
    ),
)

PICTURES_COMMANDS: tuple[PaneCommand, ...] = (
    _output("picture-next step(1) right", "Next: Next picture of the cell"),
    _output("picture-previous step(-1) left", "Previous: Previous picture"),
)

FRAMES_COMMANDS: tuple[PaneCommand, ...] = (
    _output(
        "frame-source source enter",
        "Source: In an error: go from the frames to the source",
        footer=True,
    ),
    _output(
        "frame-locals locals v",
        "Variables: In an error: go to the variables of the frame; Escape goes back",
        footer=True,
    ),
    _output(
        "frame-edit edit e",
        "Edit: Open the file at the line in $EDITOR, or put the cell's code into the input",
        footer=True,
    ),
    _output("frame-output whole_output o", "Output: Show all output of the cell", footer=True),
)

PANE_COMMANDS: tuple[PaneCommand, ...] = (
    *TRANSCRIPT_COMMANDS,
    *NODE_COMMANDS,
    *OUTPUT_COMMANDS,
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
"""All commands of single panes and screens. The user's keymap can change their keys, too."""
