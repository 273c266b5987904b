"""Commands on the chosen variable of the namespace."""

from __future__ import annotations

from mahtab_tui.tui.commands.pane_command import PaneCommand

VARIABLE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("variable-open", "open", "enter", "Look inside", "Look inside the variable", "Namespace", True),
    PaneCommand("variable-filter", "filter", "ctrl+f", "Filter", "Filter by name; Escape ends it", "Namespace", True),
    PaneCommand("variable-watch", "watch_variable", "space", "Watch", "Keep the variable at the top, or no longer", "Namespace", True),
    PaneCommand("variable-rename", "rename", "ctrl+n", "Rename", "Give the variable another name", "Namespace"),
    PaneCommand("variable-private", "mark_private", "alt+p", "Private", "Tell no model what is in the variable, or tell it again", "Namespace"),
    PaneCommand("variable-delete", "delete", "delete", "Delete", "Delete the variable, after a confirmation", "Namespace"),
    PaneCommand("variable-copy", "copy_name", "ctrl+y", "Copy name", "Copy the variable's name", "Namespace"),
)
