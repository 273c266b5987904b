"""What a user can do in the inspector."""

from __future__ import annotations

from mahtab_tui.tui.commands.pane_command import PaneCommand

INSPECTOR_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("inspect-back", "back", "escape", "Back", "Go back to where the object stands, in the end to the session", "Inspector", True),
    PaneCommand("inspect-view", "next_view", "tab", "View", "See the object in its next view; also by its number", "Inspector", True),
    PaneCommand("inspect-again", "look_again", "r", "Look again", "Show what the object is now", "Inspector", True),
    PaneCommand("inspect-copy", "copy_expression", "y", "Copy name", "Copy how the object is written in code", "Inspector"),
    PaneCommand("inspect-copy-text", "copy_text", "ctrl+y", "Copy text", "Copy the object as text, as its repr says it", "Inspector"),
    PaneCommand(
        "inspect-export", "export", "ctrl+s", "Export", "Write the object to a new file: .csv, .json, .txt or .pkl, by its ending", "Inspector"
    ),
    PaneCommand("inspect-close", "close", "q", "Close", "Close all that is open of the object", "Inspector"),
)
"""What can be done wherever an object is looked into."""

TABLE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("table-open", "open_cell", "enter", "Open", "Look inside the value at the cursor", "Inspector: table", True),
    PaneCommand("table-column", "open_column", "o", "Column", "Look at the column alone", "Inspector: table"),
    PaneCommand("table-sort", "sort", "s", "Sort", "Sort by the column: upwards, downwards, not", "Inspector: table", True),
    PaneCommand("table-filter", "filter", "slash", "Filter", "Filter by the column: > 5, = berlin, missing, or a text", "Inspector: table", True),
    PaneCommand("table-all", "all_rows", "x", "All rows", "End sorting and filtering", "Inspector: table"),
    PaneCommand("table-variable", "make_variable", "v", "Variable", "Make a variable of the rows as they are seen: a cell runs", "Inspector: table"),
    PaneCommand("table-figures", "figures", "i", "Figures", "Show or hide what the header says of each column", "Inspector: table"),
)

TEXT_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("text-search", "search", "slash", "Search", "Search the text; in bytes also 0x and digits of hex", "Inspector: text", True),
    PaneCommand("text-next", "next(False)", "n", "Next", "Go to the next place that was found", "Inspector: text", True),
    PaneCommand("text-previous", "next(True)", "N,shift+n", "Previous", "Go to the place before", "Inspector: text"),
    PaneCommand("text-regex", "regex", "x", "By pattern", "Search by regular expressions, or for words as they are", "Inspector: text"),
    PaneCommand("text-ask", "ask", "ctrl+a", "Ask about this", "Ask about the text: a recursive search over it begins", "Inspector: text", True),
    PaneCommand("text-wrap", "wrap", "w", "Wrap", "Wrap long lines, or scroll them sideways", "Inspector: text", True),
)

TREE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("tree-open", "open_row", "enter", "Open", "Look inside what is at the cursor; a property is asked first", "Inspector: tree", True),
    PaneCommand("tree-unfold", "unfold", "right,space", "Unfold", "Show what is inside, in its place", "Inspector: tree", True),
    PaneCommand("tree-search", "search", "slash", "Search", "Search the names, types and values of what is unfolded", "Inspector: tree", True),
    PaneCommand("tree-next", "find(1)", "n", "Next", "Go to the next line that has it", "Inspector: tree"),
    PaneCommand("tree-previous", "find(-1)", "N,shift+n", "Previous", "Go to the line before that has it", "Inspector: tree"),
    PaneCommand("tree-fold", "fold", "left", "Fold", "Hide it again; then go to what it stands in", "Inspector: tree", True),
)

ARRAY_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("array-next", "step_slice(1)", "full_stop", "Next slice", "Of an array of many dimensions: the next slice", "Inspector: array"),
    PaneCommand("array-previous", "step_slice(-1)", "comma", "Slice before", "The slice before", "Inspector: array"),
    PaneCommand("array-dimension", "dimension", "d", "Dimension", "Choose along which dimension the slices are", "Inspector: array"),
    PaneCommand("array-slice", "enter_slice", "g", "Slice", "Enter a slice, as in 3, :, :", "Inspector: array", True),
)

PLOT_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("plot-histogram", "histogram", "h", "Histogram", "Show how often values are how large, or the values", "Inspector: array", True),
)

INSPECTOR: tuple[PaneCommand, ...] = (*INSPECTOR_COMMANDS, *TABLE_COMMANDS, *TREE_COMMANDS, *TEXT_COMMANDS, *ARRAY_COMMANDS, *PLOT_COMMANDS)
"""All of the inspector's."""
