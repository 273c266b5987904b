"""Commands of the screens that show the output of a cell."""

from __future__ import annotations

from mahtab_tui.tui.commands.pane_command import PaneCommand

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
OUTPUT: tuple[PaneCommand, ...] = (*OUTPUT_COMMANDS, *PAGER_COMMANDS, *PICTURE_COMMANDS, *PICTURES_COMMANDS, *FRAMES_COMMANDS)
