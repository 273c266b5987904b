"""Commands of a recording that is played."""

from __future__ import annotations

from mahtab_tui.tui.commands.pane_command import PaneCommand

PLAYER_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("replay-pause", "pause", "space", "Pause", "Stop playing, or go on", "Replay", True, priority=True),
    PaneCommand("replay-faster", "pace(1)", "plus,equals_sign", "Faster", "Play faster", "Replay", True, priority=True),
    PaneCommand("replay-slower", "pace(-1)", "minus", "Slower", "Play slower", "Replay", True, priority=True),
    PaneCommand("replay-finish", "finish", "greater_than_sign", "To the end", "Show the rest at once", "Replay", True, priority=True),
)
SESSION_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("replay-step", "step", "right", "Step", "Show the session's next record, and pause", "Replay", True, priority=True),
    PaneCommand(
        "replay-take-over", "take_over", "t", "Take over", "Begin a new session with what is shown, and go on with it", "Replay", True, priority=True
    ),
)
REPLAY: tuple[PaneCommand, ...] = (*PLAYER_COMMANDS, *SESSION_COMMANDS)
