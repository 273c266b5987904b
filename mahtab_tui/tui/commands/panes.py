"""Commands on the layout and the focus of the panes."""

from __future__ import annotations

from mahtab_tui.tui.commands.command import command
from mahtab_tui.tui.commands.context import CommandContext


@command(
    "page-up",
    "pageup",
    "Page up",
    "Scroll the transcript up by a page, also from the editor",
    "Panes",
    priority=False,
)
def page_up(work: CommandContext) -> None:
    work.panes.transcript.action_page_up()


@command(
    "page-down",
    "pagedown",
    "Page down",
    "Scroll the transcript down by a page",
    "Panes",
    priority=False,
)
def page_down(work: CommandContext) -> None:
    work.panes.transcript.action_page_down()


@command("jump", "ctrl+o", "Jump", "Focus any pane by one letter", "Panes", footer=True)
def jump(work: CommandContext) -> None:
    from mahtab_tui.tui.jumper import JumpScreen

    work.app.push_screen(JumpScreen(work.panes.jump_targets()), work.panes.go_to)


@command("next-pane", "f6", "Next pane", "Focus the next pane", "Panes")
def next_pane(work: CommandContext) -> None:
    work.panes.step_focus(1)


@command("previous-pane", "shift+f6", "Previous pane", "Focus the previous pane", "Panes")
def previous_pane(work: CommandContext) -> None:
    work.panes.step_focus(-1)


@command("toggle-side", "f3", "Side", "Hide or show namespace and recursion", "Panes", footer=True)
def toggle_side(work: CommandContext) -> None:
    work.panes.toggle_side()


@command("toggle-namespace", "", "Namespace pane", "Hide or show the namespace", "Panes")
def toggle_namespace(work: CommandContext) -> None:
    work.panes.toggle("namespace")


@command(
    "changes",
    "alt+d",
    "Changes",
    "Show only the variables that the model's last cell changed, or all of them",
    "Panes",
    slash="changes",
)
def toggle_changes(work: CommandContext) -> None:
    work.panes.toggle_changes()


@command("toggle-recursion", "", "Recursion pane", "Hide or show the recursion tree", "Panes")
def toggle_recursion(work: CommandContext) -> None:
    work.panes.toggle("recursion")


@command(
    "maximize",
    "f5",
    "Maximise",
    "Give the focused pane the whole screen, or restore the layout",
    "Panes",
)
def maximize(work: CommandContext) -> None:
    work.panes.maximize_focused()


@command("wider", "alt+left", "Wider side", "Give the side panes more room", "Panes")
def wider(work: CommandContext) -> None:
    work.panes.resize("wider")


@command("narrower", "alt+right", "Narrower side", "Give the side panes less room", "Panes")
def narrower(work: CommandContext) -> None:
    work.panes.resize("narrower")


@command("taller", "alt+down", "Taller namespace", "Give the namespace more room", "Panes")
def taller(work: CommandContext) -> None:
    work.panes.resize("taller")


@command("shorter", "alt+up", "Shorter namespace", "Give the namespace less room", "Panes")
def shorter(work: CommandContext) -> None:
    work.panes.resize("shorter")
