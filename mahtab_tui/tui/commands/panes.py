"""Commands of panes and screens."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mahtab_tui.tui.commands.command import CommandContext, PaneCommand, command, pane_command

_transcript = partial(pane_command, group="Transcript")
_entry = partial(_transcript, menu=True)
_node = partial(pane_command, group="Recursion")
_call = partial(_node, menu=True)
_variable = partial(pane_command, group="Namespace")

TRANSCRIPT_COMMANDS: tuple[PaneCommand, ...] = (
    _transcript(
        "entry-up walk(-1) up", "Up: Go to the previous entry; scroll a long one line by line"
    ),
    _transcript("entry-down walk(1) down", "Down: Go to the next entry"),
    _transcript(
        "entry-menu menu enter",
        "Actions: Show the actions on the entry; so does a right click",
        footer=True,
    ),
    _transcript(
        "entry-fold fold_entry space",
        "Collapse: Show the beginning only, or all of it again",
        footer=True,
    ),
    _transcript("entry-find find ctrl+f", "Find: Search the whole transcript", footer=True),
    _transcript(
        "entry-left scroll_table(-1) left",
        "Columns left: Show columns of a wide table further left",
    ),
    _transcript(
        "entry-right scroll_table(1) right",
        "Columns right: Show columns of a wide table further right",
    ),
    _entry(
        "entry-open open_entry o",
        "Open: Look inside the cell's table, or show its pictures, the frames of its error, or all its output",
    ),
    _entry("entry-copy copy_entry y", "Copy: Copy the code, the answer's text or the question"),
    _entry("entry-copy-output copy_output Y,shift+y", "Copy output: Copy the output of the cell"),
    _entry("entry-edit again(True) e", "Edit: Put the code or the question into the editor"),
    _entry(
        "entry-again again(False) r",
        "Run again: Run the code again, or ask the question again",
        confirm=True,
    ),
    _transcript(
        "entry-run again(False) alt+r,ctrl+enter",
        "Run: Run the code of the entry, or ask the question again",
    ),
    _entry(
        "entry-run-to run_up_to u",
        "Run up to here: Run the notebook's cells up to this one, until one fails",
        confirm=True,
    ),
    _entry(
        "entry-run-all run_all U,shift+u",
        "Run all: Run all cells of the notebook, until one fails",
        confirm=True,
    ),
    _entry(
        "entry-replace replace_entry R,shift+r",
        "Replace: Edit your question or code and enter it again; the model forgets what came after it",
        confirm=True,
    ),
    _entry(
        "entry-explain explain_error x",
        "Explain error: Ask the model about the cell's error",
        confirm=True,
    ),
    _entry(
        "entry-frames open_frames f",
        "Frames: Show the frames of the cell's error, with their source",
    ),
    _entry(
        "entry-mention mention a",
        "Ask about picture: Ask about the cell's pictures, which are sent with the question",
    ),
    _transcript(
        "entry-undo undo_entry ctrl+z",
        "Undo: Undo what the cell or answer, and everything after it, did to variables",
    ),
    _entry("entry-hide hide_entry m", "Hide: Hide it from the model, or show it again"),
    _entry("entry-pin pin_entry p", "Pin: Pin it to the top of the transcript, or unpin it"),
    _entry(
        "entry-pinned go_to_pinned P,shift+p",
        "Go to pinned: Go to the pinned entries, one after the other",
    ),
)

NODE_COMMANDS: tuple[PaneCommand, ...] = (
    _node(
        "node-menu menu enter",
        "Actions: Show the actions on the call; so does a right click",
        footer=True,
    ),
    _call("node-open open_node o", "Open: Open the call: its turns, its text, its answer"),
    _call("node-copy copy_answer y", "Copy: Copy the call's answer"),
    _call(
        "node-variable make_variable v",
        "Variable: Assign the call's answer to a variable, in a cell of your own",
    ),
    _call("node-parent go_to_parent p", "Parent: Go to the call that made this one"),
    _call("node-follow follow f", "Follow: Follow the newest call, or stop following"),
    _call("node-edit edit_node e", "Edit: Edit the call's query, and run it again"),
    _call("node-retry retry_node r", "Retry: Run the call again", confirm=True),
    _call(
        "node-stop stop_node s",
        "Stop: Stop the call and all below it; the others continue",
        confirm=True,
    ),
)
"""Of the search tree and of the screen of one call."""

VARIABLE_COMMANDS: tuple[PaneCommand, ...] = (
    _variable("variable-open open enter", "Look inside: Look inside the variable", footer=True),
    _variable(
        "variable-filter filter ctrl+f", "Filter: Filter by name; Escape ends it", footer=True
    ),
    _variable(
        "variable-watch watch_variable space",
        "Watch: Pin the variable to the top, or unpin it",
        footer=True,
    ),
    _variable("variable-rename rename ctrl+n", "Rename: Rename the variable"),
    _variable("variable-private mark_private alt+p", "Private: Hide from models (toggle)"),
    _variable("variable-delete delete delete", "Delete: Delete the variable, after a confirmation"),
    _variable("variable-copy copy_name ctrl+y", "Copy name: Copy the variable's name"),
)


class KeyHelp(NamedTuple):
    keys: str
    help: str
    group: str


_KEYS: dict[str, dict[str, str]] = {
    "Editor": {
        "enter": "Run complete code or send a question; in incomplete code, open a line",
        "tab": "Accept the chosen completion; after a word, complete it; otherwise indent. Shift+Tab dedents",
        "`": "At the very start of the editor: Python or Ask. Elsewhere it is a backtick",
        "ctrl+j": "Open a line; also Shift+Enter and Alt+Enter if the terminal sends them",
        "ctrl+enter": "Run from anywhere in the text, if the terminal sends it",
        "up, down": "At the first and last line: earlier and later inputs",
        "right, tab": "Accept the grey suggestion behind the cursor",
        "up, down, enter, escape": "In the list of completions: choose, accept (after Tab or an arrow), close",
        "alt+e": "Show a large pasted text in place of [Pasted 312 lines]; undo brings the short form back",
        "alt+q": "Make the curly quotes of a pasted text straight; undo makes them curly again",
        "enter, down, up, escape": "While finding in the input: next, previous, close",
        "alt+r": "While finding in the input or the transcript: switch between regular expression and plain words",
        "ctrl+z, ctrl+y": "Undo, redo",
        "ctrl+d": "Leave, if the editor is empty; press it again if something would be lost",
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
        "delete": "Remove the chosen input from the queue",
    },
    "Namespace": {
        "ctrl+s": "Sort by name, type or recency",
        "ctrl+t": "Show modules, functions and names with _",
    },
    "Recursion": {
        "left, right": "Collapse, expand",
        "ctrl+f": "Search the questions and answers of all calls, collapsed ones too",
        "t": "In an open call: its text, or its turns",
        "tab": "In an open call: go to the next call or place that its answer rests on; Enter opens it",
        "/, n, N": "In its text: search, next, previous",
        "[, ]": "In its text: previous and next match",
    },
    "Panes": {
        "letters": "From any pane, typing goes to the editor",
    },
    "Transcript": {
        "pageup, pagedown, home, end": "Scroll",
    },
    "Skills": {
        "enter, f4, ctrl+t, tab": "Load or unload the skill; open it in $EDITOR; create one from a template; go to its text",
    },
    "Sessions": {
        "enter": "Switch from this session to the one at the cursor",
        "f2, f5, f6, f7, f8": "Change its title; copy it; export it to a file; stop its kernel; delete it, after a confirmation",
        "ctrl+t": "List the sessions of this folder, or of all",
        "tab": "Go to its text: the arrows mark an entry; F5 copies what came before it",
    },
    "Settings": {
        "enter, tab, ctrl+r": "Change the setting; choose your file or the project's; remove it from the file",
    },
}
PANE_KEYS = tuple(
    KeyHelp(keys, help, group) for group, rows in _KEYS.items() for keys, help in rows.items()
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


@command(
    "page-up pageup",
    "Page up: Scroll the transcript up by a page, also from the editor",
    "Panes",
    priority=False,
)
def page_up(context: CommandContext) -> None:
    context.panes.transcript.action_page_up()


@command(
    "page-down pagedown", "Page down: Scroll the transcript down by a page", "Panes", priority=False
)
def page_down(context: CommandContext) -> None:
    context.panes.transcript.action_page_down()


@command("jump ctrl+o", "Jump: Focus any pane by one letter", "Panes", footer=True)
def jump(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.dialog import JumpScreen

    context.app.push_screen(JumpScreen(context.panes.jump_targets()), context.panes.go_to)


@command("next-pane f6", "Next pane: Focus the next pane", "Panes")
def next_pane(context: CommandContext) -> None:
    context.panes.step_focus(1)


@command("previous-pane shift+f6", "Previous pane: Focus the previous pane", "Panes")
def previous_pane(context: CommandContext) -> None:
    context.panes.step_focus(-1)


@command("toggle-side f3", "Side: Hide or show namespace and recursion", "Panes", footer=True)
def toggle_side(context: CommandContext) -> None:
    context.panes.toggle_side()


@command("toggle-namespace", "Namespace pane: Hide or show the namespace", "Panes")
def toggle_namespace(context: CommandContext) -> None:
    context.panes.toggle("namespace")


@command(
    "changes alt+d",
    "Changes: Show only the variables that the model's last cell changed, or all of them",
    "Panes",
    slash="changes",
)
def toggle_changes(context: CommandContext) -> None:
    context.panes.toggle_changes()


@command("toggle-recursion", "Recursion pane: Hide or show the recursion tree", "Panes")
def toggle_recursion(context: CommandContext) -> None:
    context.panes.toggle("recursion")


@command(
    "maximize f5",
    "Maximise: Give the focused pane the whole screen, or restore the layout",
    "Panes",
)
def maximize(context: CommandContext) -> None:
    context.panes.maximize_focused()


@command("wider alt+left", "Wider side: Give the side panes more room", "Panes")
def wider(context: CommandContext) -> None:
    context.panes.resize("wider")


@command("narrower alt+right", "Narrower side: Give the side panes less room", "Panes")
def narrower(context: CommandContext) -> None:
    context.panes.resize("narrower")


@command("taller alt+down", "Taller namespace: Give the namespace more room", "Panes")
def taller(context: CommandContext) -> None:
    context.panes.resize("taller")


@command("shorter alt+up", "Shorter namespace: Give the namespace less room", "Panes")
def shorter(context: CommandContext) -> None:
    context.panes.resize("shorter")


@command(
    "settings f12",
    "Settings: See all settings, where each comes from, and change them",
    "Screen",
    slash="settings",
)
def settings(context: CommandContext) -> None:
    context.settings.show()


@command(
    "theme", "Theme: Choose a theme; the choice is saved", "Screen", slash="theme", argument="NAME"
)
def choose_theme(context: CommandContext, name: str) -> None:
    if name in context.app.available_themes:
        context.app.theme = name
    else:
        context.app.search_themes()


@command(
    "dark-light f10",
    "Dark / light: Switch between the dark and the light theme",
    "Screen",
    over_questions=True,
)
def dark_light(context: CommandContext) -> None:
    context.app.action_dark_light()


@command(
    "copy ctrl+shift+c",
    "Copy: Copy what is selected",
    "Screen",
    priority=False,
    over_questions=True,
)
def copy(context: CommandContext) -> None:
    if not context.copy_selection():
        context.app.notify("Nothing is selected.")


@command("palette ctrl+p", "Palette: Find any command by typing", "Screen", footer=True)
def palette(context: CommandContext) -> None:
    context.app.action_command_palette()


@command(
    "help f1",
    "Help: Show every key and the manual",
    "Screen",
    slash="help",
    argument="TOPIC",
    footer=True,
)
def help(context: CommandContext, topic: str) -> None:
    from mahtab_tui.manual import TopicNotFound, page
    from mahtab_tui.tui.screens.help import KEYS, HelpScreen, help_rows

    try:
        context.app.push_screen(
            HelpScreen(help_rows(context.settings.keymap), page(topic or KEYS).topic)
        )
    except TopicNotFound as error:
        context.refuse(str(error), f"/help {topic}")


@command(
    "quit ctrl+q",
    "Leave: Leave; press it again if something would be lost",
    "Screen",
    slash="quit",
    over_questions=True,
)
def leave(context: CommandContext) -> None:
    context.quit_flow.leave()
