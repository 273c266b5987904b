"""Commands on a call of a search, in the tree and on its own screen."""

from __future__ import annotations

from mahtab_tui.tui.commands.pane_command import PaneCommand

NODE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("node-menu", "menu", "enter", "Actions", "Show the actions on the call; so does a right click", "Recursion", True),
    PaneCommand("node-open", "open_node", "o", "Open", "Open the call: its turns, its text, its answer", "Recursion", menu=True),
    PaneCommand("node-copy", "copy_answer", "y", "Copy", "Copy the call's answer", "Recursion", menu=True),
    PaneCommand(
        "node-variable", "make_variable", "v", "Variable", "Make the call's answer a variable, by a cell of your own", "Recursion", menu=True
    ),
    PaneCommand("node-parent", "go_to_parent", "p", "Parent", "Go to the call that made this one", "Recursion", menu=True),
    PaneCommand("node-follow", "follow", "f", "Follow", "Follow the newest call, or stop following", "Recursion", menu=True),
    PaneCommand("node-edit", "edit_node", "e", "Edit", "Edit the call's query, and run it again", "Recursion", menu=True),
    PaneCommand("node-retry", "retry_node", "r", "Retry", "Run the call again", "Recursion", menu=True, confirm=True),
    PaneCommand("node-stop", "stop_node", "s", "Stop", "Stop the call and all below it; the others go on", "Recursion", menu=True, confirm=True),
)
