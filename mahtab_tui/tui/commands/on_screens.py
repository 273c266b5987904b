"""Commands of the inspector, of the screens that show the output of a cell, and of a recording that is played."""

from __future__ import annotations

from mahtab_tui.tui.commands.in_panes import NODE_COMMANDS, TRANSCRIPT_COMMANDS, VARIABLE_COMMANDS
from mahtab_tui.tui.commands.pane_command import PaneCommand

INSPECTOR_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("inspect-back", "back", "escape", "Back", "Go back to the object before, and in the end to the session", "Inspector", True),
    PaneCommand(
        "inspect-view", "step_view(1)", "tab", "View", "Show the next view of the object; a digit shows a view by its number", "Inspector", True
    ),
    PaneCommand("inspect-again", "look_again", "r", "Look again", "Fetch the object again, to show what it is now", "Inspector", True),
    PaneCommand("inspect-copy", "copy_expression", "y", "Copy name", "Copy the expression that leads to the object", "Inspector"),
    PaneCommand("inspect-copy-text", "copy_text", "ctrl+y", "Copy text", "Copy the repr of the object", "Inspector"),
    PaneCommand(
        "inspect-export", "export", "ctrl+s", "Export", "Write the object to a new file: .csv, .json, .txt or .pkl, by its ending", "Inspector"
    ),
    PaneCommand("inspect-close", "leave", "q", "Close", "Close the inspector", "Inspector"),
)

TABLE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("table-open", "open_cell", "enter", "Open", "Look inside the value at the cursor", "Inspector: table", True),
    PaneCommand("table-column", "open_column", "o", "Column", "Show the column alone", "Inspector: table"),
    PaneCommand("table-sort", "sort", "s", "Sort", "Sort by the column: ascending, descending, not at all", "Inspector: table", True),
    PaneCommand("table-filter", "filter", "slash", "Filter", "Filter by the column: > 5, = berlin, missing, or a text", "Inspector: table", True),
    PaneCommand("table-all", "all_rows", "x", "All rows", "End sorting and filtering", "Inspector: table"),
    PaneCommand("table-variable", "make_variable", "v", "Variable", "Assign the rows as they are shown to a variable, by a cell", "Inspector: table"),
    PaneCommand("table-figures", "figures", "i", "Figures", "Show or hide the figures of each column in the header", "Inspector: table"),
)

TEXT_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("text-search", "search", "slash", "Search", "Search the text", "Inspector: text", True),
    PaneCommand("text-next", "next(False)", "n", "Next", "Go to the next match", "Inspector: text", True),
    PaneCommand("text-previous", "next(True)", "N,shift+n", "Previous", "Go to the previous match", "Inspector: text"),
    PaneCommand("text-regex", "regex", "x", "By pattern", "Search for regular expressions, or for plain words", "Inspector: text"),
    PaneCommand("text-ask", "ask", "ctrl+a", "Ask about this", "Ask about the text, by a recursive search over it", "Inspector: text", True),
    PaneCommand("text-wrap", "wrap", "w", "Wrap", "Wrap long lines, or scroll them sideways", "Inspector: text", True),
)

TREE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand(
        "tree-open", "open_row", "enter", "Open", "Look inside the object at the cursor; a property is evaluated first", "Inspector: tree", True
    ),
    PaneCommand("tree-unfold", "unfold", "right,space", "Expand", "Show what is inside, below it", "Inspector: tree", True),
    PaneCommand("tree-search", "search", "slash", "Search", "Search the names, types and values of what is expanded", "Inspector: tree", True),
    PaneCommand("tree-next", "find(1)", "n", "Next", "Go to the next line that has it", "Inspector: tree"),
    PaneCommand("tree-previous", "find(-1)", "N,shift+n", "Previous", "Go to the line before that has it", "Inspector: tree"),
    PaneCommand("tree-fold", "fold", "left", "Collapse", "Hide what is inside; then go to the object around it", "Inspector: tree", True),
)

ARRAY_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("array-next", "step_slice(1)", "full_stop", "Next slice", "Of an array of many dimensions: the next slice", "Inspector: array"),
    PaneCommand("array-previous", "step_slice(-1)", "comma", "Slice before", "The slice before", "Inspector: array"),
    PaneCommand("array-dimension", "dimension", "d", "Dimension", "Choose the dimension to step along", "Inspector: array"),
    PaneCommand("array-slice", "enter_slice", "g", "Slice", "Enter a slice, as in 3, :, :", "Inspector: array", True),
)

PLOT_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand(
        "plot-histogram", "histogram", "h", "Histogram", "Show a histogram of the values, or the values by position", "Inspector: array", True
    ),
)

OUTPUT_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("output-back", "back", "escape,q", "Back", "Go back to the session", "Output", True),
    PaneCommand("output-save", "save", "ctrl+s", "Save", "Save it to a file", "Output", True),
)

PAGER_COMMANDS: tuple[PaneCommand, ...] = (PaneCommand("output-copy", "copy_all", "y", "Copy", "Copy all of it", "Output", True),)

PICTURE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("picture-open", "open_outside", "o", "Open", "Open the picture in the system's viewer; also in the inspector", "Output", True),
)

PICTURES_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("picture-next", "step(1)", "right", "Next", "The next picture of the cell", "Output"),
    PaneCommand("picture-previous", "step(-1)", "left", "Previous", "The picture before", "Output"),
)

FRAMES_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("frame-source", "source", "enter", "Source", "Of an error: go from the frames to the source", "Output", True),
    PaneCommand("frame-locals", "locals", "v", "Variables", "Of an error: go to the variables of the frame; Escape goes back", "Output", True),
    PaneCommand("frame-edit", "edit", "e", "Edit", "Open the file at the line in $EDITOR, or bring the cell's code into the input", "Output", True),
    PaneCommand("frame-output", "whole_output", "o", "Output", "Show all output of the cell", "Output", True),
)

PLAYER_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("replay-pause", "pause", "space", "Pause", "Stop playing, or go on", "Replay", True, priority=True),
    PaneCommand("replay-finish", "finish", "greater_than_sign", "To the end", "Show the rest at once", "Replay", True, priority=True),
)

PACE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("replay-faster", "pace(1)", "plus,equals_sign", "Faster", "Play faster", "Replay", True, priority=True),
    PaneCommand("replay-slower", "pace(-1)", "minus", "Slower", "Play slower", "Replay", True, priority=True),
)

SESSION_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("replay-step", "step", "right", "Step", "Show the session's next record, and pause", "Replay", True, priority=True),
    PaneCommand(
        "replay-take-over", "take_over", "t", "Take over", "Begin a new session with what is shown, and go on with it", "Replay", True, priority=True
    ),
)

PANE_COMMANDS: tuple[PaneCommand, ...] = (
    *(*TRANSCRIPT_COMMANDS, *NODE_COMMANDS),
    *(*OUTPUT_COMMANDS, *PAGER_COMMANDS, *PICTURE_COMMANDS, *PICTURES_COMMANDS, *FRAMES_COMMANDS),
    *(*INSPECTOR_COMMANDS, *TABLE_COMMANDS, *TREE_COMMANDS, *TEXT_COMMANDS, *ARRAY_COMMANDS, *PLOT_COMMANDS),
    *(*VARIABLE_COMMANDS, *PLAYER_COMMANDS, *PACE_COMMANDS, *SESSION_COMMANDS),
)
"""All commands of single panes and screens. A user can change their keys, as those of the application's commands."""
