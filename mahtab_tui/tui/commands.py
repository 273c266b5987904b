"""The one registry of what a person can do: key bindings, footer, help, palette and slash commands are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.binding import Binding


class Command(NamedTuple):
    """Something that a key, the palette or a slash command does."""

    id: str
    """Under this name a person's keymap changes its key."""
    action: str
    """The application's action, as in ``action_…``."""
    keys: str
    """Default keys, separated by commas; empty: palette and slash only."""
    title: str
    help: str
    group: str
    footer: bool = False
    slash: str = ""
    """The name under which Ask mode knows it."""
    argument: str = ""
    """What may follow a slash command."""
    menu: bool = False
    """Its key acts in the menu of an entry or a call only. Elsewhere letters go to the editor."""
    confirm: bool = False
    """In the menu its key only chooses it, and Enter does it."""


COMMANDS: tuple[Command, ...] = (
    Command(
        "focus-approval",
        "focus_approval",
        "f7",
        "Answer",
        "Go to what waits for you: code, a search, or the line that code asks for",
        "Session",
        True,
    ),
    Command("toggle-mode", "toggle_mode", "f2", "Python / Ask", "Go from Python to Ask or back; the draft stays", "Input", True),
    Command("history-search", "history_search", "ctrl+r", "Search history", "Search what was entered in all sessions", "Input", slash="history"),
    Command("edit-input", "edit_input", "f4,ctrl+g", "Open in $EDITOR", "Write the input in your editor; what it saves comes back", "Input"),
    Command("explain", "explain", "alt+h", "Explain", "Show signature and docstring of the call that the cursor stands in", "Input"),
    Command("suggest", "suggest", "alt+s", "Suggest", "Let the model that was chosen for it say how the input may go on", "Input"),
    Command(
        "find-input", "find_input", "ctrl+f", "Find", "Find a text in the input; where the transcript or the namespace has the keys, there", "Input"
    ),
    Command("take-offer", "take_offer", "alt+i", "Take offer", "Put the line that is offered into the input: an install, another Python", "Input"),
    Command("explain-error", "explain_last_error", "alt+x", "Explain error", "Begin a question about the last error; Enter sends it", "Input"),
    Command("stop", "stop", "escape", "Stop", "Stop the model or the running cell; once more offers to kill the kernel", "Session", True),
    Command(
        "interrupt-or-copy",
        "interrupt_or_copy",
        "ctrl+c",
        "Stop, copy or clear",
        "Stop what goes on; else copy the selection; else clear the editor",
        "Session",
    ),
    Command(
        "cycle-approval", "cycle_approval", "f8", "Approval", "Ask before the model's code runs, or run it at once", "Session", True, slash="approval"
    ),
    Command("reset", "reset", "f9", "Reset kernel", "A fresh kernel with an empty namespace; the transcript stays", "Session", slash="reset"),
    Command("kill-kernel", "kill_kernel", "", "Kill kernel", "Kill a kernel that does not react, and start a new one", "Session", slash="kill"),
    Command("model", "choose_model", "", "Model", "Choose who answers; the conversation stays", "Session", slash="model", argument="NAME"),
    Command(
        "python",
        "choose_python",
        "",
        "Interpreter",
        "Choose the kernel's Python: a file or a virtual environment",
        "Session",
        slash="python",
        argument="PATH",
    ),
    Command(
        "directory", "change_directory", "", "Working directory", "Change the kernel's working directory", "Session", slash="cd", argument="PATH"
    ),
    Command("agents", "agents", "", "Agents", "Say which agents are in the session", "Session", slash="agents"),
    Command("pause", "pause_agent", "", "Pause agent", "Hold an agent's code back, or let it go on", "Session", slash="pause", argument="NAME"),
    Command("disconnect", "disconnect_agent", "", "Disconnect agent", "Send an agent away", "Session", slash="disconnect", argument="NAME"),
    Command("skills", "skills", "", "Skills", "Find a skill, read it, load or unload it, edit it, begin one", "Session", slash="skills"),
    Command(
        "unload-skill",
        "unload_skill",
        "",
        "Unload skill",
        "The model is told a loaded skill no longer",
        "Session",
        slash="unload",
        argument="NAME",
    ),
    Command("usage", "usage", "", "Usage", "What the session, each question and each search have used and cost", "Session", slash="usage"),
    Command("clear", "clear", "ctrl+l", "Clear transcript", "Empty the transcript; nothing else is lost", "Session", slash="clear"),
    Command("page-up", "page_transcript(-1)", "pageup", "Page up", "Scroll the transcript up by a page, also from the editor", "Panes"),
    Command("page-down", "page_transcript(1)", "pagedown", "Page down", "Scroll the transcript down by a page", "Panes"),
    Command("jump", "jump", "ctrl+o", "Jump", "Focus any pane by one letter", "Panes", True),
    Command("next-pane", "next_pane", "f6", "Next pane", "Focus the next pane", "Panes"),
    Command("previous-pane", "previous_pane", "shift+f6", "Previous pane", "Focus the pane before", "Panes"),
    Command("toggle-side", "toggle_side", "f3", "Side", "Hide or show namespace and recursion", "Panes", True),
    Command("toggle-namespace", "toggle_namespace", "", "Namespace pane", "Hide or show the namespace", "Panes"),
    Command(
        "changes",
        "toggle_changes",
        "alt+d",
        "Changes",
        "Show in the namespace what the model's last cell changed, or all of it",
        "Panes",
        slash="changes",
    ),
    Command("toggle-recursion", "toggle_recursion", "", "Recursion pane", "Hide or show the recursion tree", "Panes"),
    Command("maximize", "maximize_pane", "f5", "Maximise", "Give the focused pane the whole screen, or take it back", "Panes"),
    Command("wider", "resize_pane('wider')", "alt+left", "Wider side", "Give the side panes more room", "Panes"),
    Command("narrower", "resize_pane('narrower')", "alt+right", "Narrower side", "Give the side panes less room", "Panes"),
    Command("taller", "resize_pane('taller')", "alt+down", "Taller namespace", "Give the namespace more room", "Panes"),
    Command("shorter", "resize_pane('shorter')", "alt+up", "Shorter namespace", "Give the namespace less room", "Panes"),
    Command("settings", "settings", "f12", "Settings", "See all settings, where each comes from, and change them", "Screen", slash="settings"),
    Command("theme", "change_theme", "", "Theme", "Choose a theme; the choice is kept", "Screen", slash="theme", argument="NAME"),
    Command("dark-light", "dark_light", "f10", "Dark / light", "Go from the dark theme to the light one or back", "Screen"),
    Command("copy", "copy", "ctrl+shift+c", "Copy", "Copy what is selected", "Screen"),
    Command("palette", "command_palette", "ctrl+p", "Palette", "Find any command by typing", "Screen", True),
    Command("help", "help", "f1", "Help", "Show every key and the manual", "Screen", True, slash="help", argument="TOPIC"),
    Command("quit", "quit", "ctrl+q", "Leave", "Leave; once more where something would be lost", "Screen", slash="quit"),
)

TRANSCRIPT_COMMANDS: tuple[Command, ...] = (
    Command("entry-up", "walk(-1)", "up", "Up", "Go to the entry before; through a long one line by line", "Transcript"),
    Command("entry-down", "walk(1)", "down", "Down", "Go to the next entry", "Transcript"),
    Command("entry-menu", "menu", "enter", "Actions", "Show what can be done with the entry; so does a right click", "Transcript", True),
    Command("entry-fold", "fold_entry", "space", "Fold", "Show the beginning only, or all of it again", "Transcript", True),
    Command("entry-find", "find", "ctrl+f", "Find", "Search the whole transcript", "Transcript", True),
    Command(
        "entry-open", "open_entry", "o", "Open", "Show all that the cell has printed, its pictures, or where its error was", "Transcript", menu=True
    ),
    Command("entry-copy", "copy_entry", "y", "Copy", "Copy the code, the words or the question", "Transcript", menu=True),
    Command("entry-copy-output", "copy_output", "Y,shift+y", "Copy output", "Copy what the cell has printed", "Transcript", menu=True),
    Command("entry-edit", "again(True)", "e", "Edit", "Bring the code or the question into the editor", "Transcript", menu=True),
    Command("entry-again", "again(False)", "r", "Run again", "Run the code again, or ask the question again", "Transcript", menu=True, confirm=True),
    Command(
        "entry-replace",
        "replace_entry",
        "R,shift+r",
        "Replace",
        "Edit your question or code and enter it anew; what came after leaves the model's conversation",
        "Transcript",
        menu=True,
        confirm=True,
    ),
    Command("entry-explain", "explain_error", "x", "Explain error", "Ask the model about the cell's error", "Transcript", menu=True, confirm=True),
    Command(
        "entry-frames", "open_frames", "f", "Frames", "Show where the cell's error was, frame by frame, with the source", "Transcript", menu=True
    ),
    Command("entry-traceback", "whole_traceback", "t", "Traceback", "Show all of a long traceback, or its end only", "Transcript", menu=True),
    Command(
        "entry-mention",
        "mention",
        "a",
        "Ask about picture",
        "Ask about what the cell has shown: its pictures go with the question",
        "Transcript",
        menu=True,
    ),
    Command("entry-hide", "hide_entry", "m", "Hide", "Take it out of what the model is told, or bring it back", "Transcript", menu=True),
    Command("entry-pin", "pin_entry", "p", "Pin", "Keep it at the top of the transcript, or no longer", "Transcript", menu=True),
    Command("entry-pinned", "go_to_pinned", "P,shift+p", "Go to pinned", "Go to what is pinned, one after the other", "Transcript", menu=True),
)
"""What can be done to an entry of the transcript."""

NODE_COMMANDS: tuple[Command, ...] = (
    Command("node-menu", "menu", "enter", "Actions", "Show what can be done with the call; so does a right click", "Recursion", True),
    Command("node-open", "open_node", "o", "Open", "Open the call: its turns, its text, its answer", "Recursion", menu=True),
    Command("node-copy", "copy_answer", "y", "Copy", "Copy the call's answer", "Recursion", menu=True),
    Command("node-parent", "go_to_parent", "p", "Parent", "Go to the call that made this one", "Recursion", menu=True),
    Command("node-follow", "follow", "f", "Follow", "Stay with the newest call, or no longer", "Recursion", menu=True),
    Command("node-edit", "edit_node", "e", "Edit", "Edit the call's query, and run it again", "Recursion", menu=True),
    Command("node-retry", "retry_node", "r", "Retry", "Run the call again", "Recursion", menu=True, confirm=True),
    Command("node-stop", "stop_node", "s", "Stop", "Stop the call and all below it; the others go on", "Recursion", menu=True, confirm=True),
)
"""What can be done to a call of a recursive search, in the tree and where it is open."""

VARIABLE_COMMANDS: tuple[Command, ...] = (
    Command("variable-open", "open", "enter", "Look inside", "Look inside the variable", "Namespace", True),
    Command("variable-filter", "filter", "ctrl+f", "Filter", "Filter by name; Escape ends it", "Namespace", True),
    Command("variable-watch", "watch_variable", "space", "Watch", "Keep the variable on top, or no longer", "Namespace", True),
    Command("variable-rename", "rename", "ctrl+n", "Rename", "Give the variable another name", "Namespace"),
    Command("variable-delete", "delete", "delete", "Delete", "Delete the variable, after a question", "Namespace"),
    Command("variable-copy", "copy_name", "ctrl+y", "Copy name", "Copy the variable's name", "Namespace"),
)
"""What can be done to the variable that is chosen in the namespace."""

INSPECTOR_COMMANDS: tuple[Command, ...] = (
    Command("inspect-back", "back", "escape", "Back", "Go back to where the object stands, in the end to the session", "Inspector", True),
    Command("inspect-view", "next_view", "tab", "View", "See the object in its next view; also by its number", "Inspector", True),
    Command("inspect-again", "look_again", "r", "Look again", "Show what the object is now", "Inspector", True),
    Command("inspect-copy", "copy_expression", "y", "Copy name", "Copy how the object is written in code", "Inspector"),
    Command("inspect-copy-text", "copy_text", "ctrl+y", "Copy text", "Copy the object as text, as its repr says it", "Inspector"),
    Command("inspect-export", "export", "ctrl+s", "Export", "Write the object to a new file: .csv, .json, .txt or .pkl, by its ending", "Inspector"),
    Command("inspect-close", "close", "q", "Close", "Close all that is open of the object", "Inspector"),
)
"""What can be done wherever an object is looked into."""

TABLE_COMMANDS: tuple[Command, ...] = (
    Command("table-open", "open_cell", "enter", "Open", "Look inside the value at the cursor", "Inspector: table", True),
    Command("table-column", "open_column", "o", "Column", "Look at the column alone", "Inspector: table"),
    Command("table-sort", "sort", "s", "Sort", "Sort by the column: upwards, downwards, not", "Inspector: table", True),
    Command("table-filter", "filter", "slash", "Filter", "Filter by the column: > 5, = berlin, missing, or a text", "Inspector: table", True),
    Command("table-all", "all_rows", "x", "All rows", "End sorting and filtering", "Inspector: table"),
    Command("table-variable", "make_variable", "v", "Variable", "Make a variable of the rows as they are seen: a cell runs", "Inspector: table"),
    Command("table-figures", "figures", "i", "Figures", "Show or hide what the header says of each column", "Inspector: table"),
)

TEXT_COMMANDS: tuple[Command, ...] = (
    Command("text-search", "search", "slash", "Search", "Search the text; in bytes also 0x and digits of hex", "Inspector: text", True),
    Command("text-next", "next(False)", "n", "Next", "Go to the next place that was found", "Inspector: text", True),
    Command("text-previous", "next(True)", "N,shift+n", "Previous", "Go to the place before", "Inspector: text"),
    Command("text-regex", "regex", "x", "By pattern", "Search by regular expressions, or for words as they are", "Inspector: text"),
    Command("text-ask", "ask", "ctrl+a", "Ask about this", "Ask about the text: a recursive search over it begins", "Inspector: text", True),
    Command("text-wrap", "wrap", "w", "Wrap", "Wrap long lines, or scroll them sideways", "Inspector: text", True),
)

TREE_COMMANDS: tuple[Command, ...] = (
    Command("tree-open", "open_row", "enter", "Open", "Look inside what is at the cursor; a property is asked first", "Inspector: tree", True),
    Command("tree-unfold", "unfold", "right,space", "Unfold", "Show what is inside, in its place", "Inspector: tree", True),
    Command("tree-search", "search", "slash", "Search", "Search the names, types and values of what is unfolded", "Inspector: tree", True),
    Command("tree-next", "find(1)", "n", "Next", "Go to the next line that has it", "Inspector: tree"),
    Command("tree-previous", "find(-1)", "N,shift+n", "Previous", "Go to the line before that has it", "Inspector: tree"),
    Command("tree-fold", "fold", "left", "Fold", "Hide it again; then go to what it stands in", "Inspector: tree", True),
)


_OVER_QUESTIONS = frozenset({"interrupt-or-copy", "copy", "dark-light", "quit"})
_OF_WHAT_IS_SEEN = frozenset({"focus-approval", "clear"})


def acts_above(action: str, *, asks: bool) -> bool:
    """Whether an action may be done where a screen covers the panes. asks: and waits for an answer. One that is no command may."""
    commands = [command for command in COMMANDS if command.action == action]
    if asks:
        return all(command.id in _OVER_QUESTIONS for command in commands)
    return all(command.group in ("Session", "Screen") and command.id not in _OF_WHAT_IS_SEEN for command in commands)


OUTPUT_COMMANDS: tuple[Command, ...] = (
    Command("output-back", "back", "escape,q", "Back", "Go back to the session", "Output", True),
    Command("output-save", "save", "ctrl+s", "Save", "Save it to a file", "Output", True),
)
PAGER_COMMANDS: tuple[Command, ...] = (Command("output-copy", "copy_all", "y", "Copy", "Copy all of it", "Output", True),)
PICTURE_COMMANDS: tuple[Command, ...] = (
    Command("picture-open", "open_outside", "o", "Open", "Open the picture in the system's viewer; in the inspector, too", "Output", True),
)
PICTURES_COMMANDS: tuple[Command, ...] = (
    Command("picture-next", "step(1)", "right", "Next", "The next picture of the cell", "Output"),
    Command("picture-previous", "step(-1)", "left", "Previous", "The picture before", "Output"),
)
FRAMES_COMMANDS: tuple[Command, ...] = (
    Command("frame-source", "source", "enter", "Source", "Of an error: go from the frames to the source, to read on there", "Output", True),
    Command(
        "frame-locals", "locals", "v", "Variables", "Of an error: go to the variables of the frame, to unfold them; Escape goes back", "Output", True
    ),
    Command("frame-edit", "edit", "e", "Edit", "Open the file at the line in $EDITOR, or bring the cell's code into the input", "Output", True),
    Command("frame-output", "whole_output", "o", "Output", "Show all that the cell has printed", "Output", True),
)
OUTPUT: tuple[Command, ...] = (*OUTPUT_COMMANDS, *PAGER_COMMANDS, *PICTURE_COMMANDS, *PICTURES_COMMANDS, *FRAMES_COMMANDS)
"""Where the output of a cell has the whole screen."""

ARRAY_COMMANDS: tuple[Command, ...] = (
    Command("array-next", "step_slice(1)", "full_stop", "Next slice", "Of an array of many dimensions: the next slice", "Inspector: array"),
    Command("array-previous", "step_slice(-1)", "comma", "Slice before", "The slice before", "Inspector: array"),
    Command("array-dimension", "dimension", "d", "Dimension", "Choose along which dimension the slices are", "Inspector: array"),
    Command("array-slice", "enter_slice", "g", "Slice", "Enter a slice, as in 3, :, :", "Inspector: array", True),
)

PLOT_COMMANDS: tuple[Command, ...] = (
    Command("plot-histogram", "histogram", "h", "Histogram", "Show how often values are how large, or the values", "Inspector: array", True),
)

INSPECTOR: tuple[Command, ...] = (*INSPECTOR_COMMANDS, *TABLE_COMMANDS, *TREE_COMMANDS, *TEXT_COMMANDS, *ARRAY_COMMANDS, *PLOT_COMMANDS)
"""All of the inspector's."""


ALL: tuple[Command, ...] = (*COMMANDS, *TRANSCRIPT_COMMANDS, *NODE_COMMANDS, *OUTPUT, *INSPECTOR, *VARIABLE_COMMANDS)
"""Everything whose key a keymap can change."""


class Row(NamedTuple):
    """A key that a pane handles itself, for the help."""

    keys: str
    help: str
    group: str


PANE_KEYS: tuple[Row, ...] = (
    Row("enter", "Run what is complete, send a question; opens a line in what is not complete", "Editor"),
    Row("tab", "Take the completion that is chosen; behind something: complete it; else indent. Shift+Tab dedents", "Editor"),
    Row("`", "At the very start of the editor: Python or Ask. Elsewhere it is a backtick", "Editor"),
    Row("+  ~  −", "A cell added, changed or deleted this name", "Signs"),
    Row("?", "A cell may have changed what this name holds: the object does not show it. The author stays", "Signs"),
    Row("ctrl+j", "Open a line; also Shift+Enter and Alt+Enter where the terminal sends them", "Editor"),
    Row("ctrl+enter", "Run from anywhere in the text, where the terminal sends it", "Editor"),
    Row("up, down", "At the first and last line: earlier and later inputs", "Editor"),
    Row("right, tab", "Take the grey suggestion behind the cursor", "Editor"),
    Row("up, down, enter, escape", "In the list of completions: choose, take (after Tab or an arrow), close", "Editor"),
    Row("alt+e", "Show a large pasted text in full, where [Pasted 312 lines] stands for it; undo folds it again", "Editor"),
    Row("alt+q", "Make curly quotes straight, as a pasted text may have them; undo makes them curly again", "Editor"),
    Row("enter, down, up, escape", "While finding in the input: next, previous, close", "Editor"),
    Row("alt+r", "While finding in the input or in the transcript: by a regular expression, or words as they are", "Editor"),
    Row("ctrl+z, ctrl+y", "Undo, redo", "Editor"),
    Row("ctrl+d", "Leave, when the editor is empty; once more where something would be lost", "Editor"),
    Row("y, e, n, a, escape", "Where code waits: run, edit, skip, run all from now on, stop", "Approval"),
    Row("f5, ctrl+enter", "Where code that waits is edited: run it from anywhere in it; Enter does at its end", "Approval"),
    Row(
        "up, down, pageup, pagedown, home, end",
        "Where long code waits: scroll it. Before its end was seen, y counts only when it comes twice",
        "Approval",
    ),
    Row("y, n", "Where a search wants to make many calls: run them, or don't", "Approval"),
    Row("delete", "Take back the chosen input", "Queue"),
    Row("ctrl+s", "Sort by name, type or recency", "Namespace"),
    Row("ctrl+t", "Show modules, functions and private names", "Namespace"),
    Row("left, right", "Fold, unfold", "Recursion"),
    Row("ctrl+f", "Search the questions and answers of all calls, folded ones too", "Recursion"),
    Row("t", "Of an open call: its text, or its turns", "Recursion"),
    Row("tab", "Of an open call: the next call, or place that its answer rests on; enter goes there", "Recursion"),
    Row("/, n, N", "In its text: search, next, previous", "Recursion"),
    Row("[, ]", "In its text: the places that were found", "Recursion"),
    Row("enter, 1 … 9", "Bring that code block of the last answer into the editor", "Transcript"),
    Row("letters", "Go to the editor, and the cursor with them, from every pane", "Panes"),
    Row("pageup, pagedown, home, end", "Scroll", "Transcript"),
    Row("enter, f4, ctrl+t, tab", "Load or unload the skill; open it in $EDITOR; begin one from a template; go to its text", "Skills"),
    Row("enter, tab, ctrl+r", "Change the setting; write to your file or the project's; take it out of the file", "Settings"),
)


def bindings(commands: Sequence[Command] = COMMANDS) -> list[Binding]:
    """A binding for each command that has a key. Those of the whole application come first, whatever has the focus, but for those that a pane may
    need for itself."""
    return [
        Binding(
            command.keys,
            command.action,
            command.title,
            show=command.footer,
            priority=command in COMMANDS and command.id not in ("copy", "stop", "page-up", "page-down"),
            id=command.id,
            tooltip=command.help,
        )
        for command in commands
        if command.keys and not command.menu
    ]
