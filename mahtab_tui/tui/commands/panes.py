"""Commands on panes, their contents, and the screen."""

from __future__ import annotations

from functools import partial

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
"""Commands of the search tree and of the screen of one call."""

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
    from mahtab_tui.tui.palette import JumpScreen

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
