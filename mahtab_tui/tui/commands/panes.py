"""Commands that arrange the panes, and those of the whole screen.

Each is declared by two texts, which `command` splits. In ``"help f1 /help TOPIC"`` and
``"Help: Show every key and the manual"``, the command's id is ``help``, its key ``f1``, its slash
command ``/help`` with the argument ``TOPIC``, its title ``Help``, and the rest is what it does. A
command may lack a key or a slash command.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mahtab_tui.settings.model import SettingsError
from mahtab_tui.tui.commands.command import Command, CommandContext, command

if TYPE_CHECKING:
    from mahtab_tui.tui.pane_layout import Direction

_pane = partial(command, group="Panes")
_screen = partial(command, group="Screen")


@_pane(
    "page-up pageup",
    "Page up: Scroll the transcript up by a page, also from the editor",
    priority=False,
)
def page_up(context: CommandContext) -> None:
    context.panes.transcript.action_page_up()


@_pane("page-down pagedown", "Page down: Scroll the transcript down by a page", priority=False)
def page_down(context: CommandContext) -> None:
    context.panes.transcript.action_page_down()


@_pane("jump ctrl+o", "Jump: Focus any pane by one letter; u rewinds the session", footer=True)
def jump(context: CommandContext) -> None:
    context.navigation.jump(context.panes.jump_targets(), context.panes.go_to)


@_pane("toggle-side f3", "Side: Hide or show namespace and recursion", footer=True)
def toggle_side(context: CommandContext) -> None:
    context.panes.toggle_side()


@_pane("maximize f5", "Maximise: Give the focused pane the whole screen, or restore the layout")
def maximize(context: CommandContext) -> None:
    context.panes.maximize_focused()


def _declare_resize(direction: Direction, key: str, text: str, *, priority: bool = True) -> Command:
    declare = _pane(f"{direction} {key}", text, priority=priority)
    return declare(lambda context: context.panes.resize(direction))


wider = _declare_resize("wider", "alt+left", "Wider side: Give the side panes more room")
narrower = _declare_resize("narrower", "alt+right", "Narrower side: Give the side panes less room")
# Without priority, because the editor uses these keys to move lines.
taller = _declare_resize(
    "taller", "alt+down", "Taller namespace: Give the namespace more room", priority=False
)
shorter = _declare_resize(
    "shorter", "alt+up", "Shorter namespace: Give the namespace less room", priority=False
)


@_screen(
    "settings f12 /settings", "Settings: See all settings, where each comes from, and change them"
)
def settings(context: CommandContext) -> None:
    try:
        context.navigation.open_settings(context.settings)
    except SettingsError as error:
        context.app.notify(str(error), "error")


@_screen("theme /theme NAME", "Theme: Choose a theme; the choice is saved")
def choose_theme(context: CommandContext, name: str) -> None:
    if not name:
        context.navigation.choose_theme()
    elif name in context.app.available_themes:
        context.app.theme = name
    else:
        context.refuse(f"There is no theme {name}; /theme lists them.", f"/theme {name}")


@_screen(
    "dark-light f10",
    "Dark / light: Switch between the dark and the light theme",
    over_questions=True,
)
def dark_light(context: CommandContext) -> None:
    context.app.action_dark_light()


@_screen(
    "linear /linear",
    "Line by line: Go on in the terminal's own scrollback, where Ctrl+G comes back here",
)
def go_to_lines(context: CommandContext) -> None:
    is_plain = context.settings.session.settings.screen_reader
    context.app.next_interface = "plain" if is_plain else "linear"
    context.app.exit(0)


@_screen("copy ctrl+shift+c", "Copy: Copy what is selected", priority=False, over_questions=True)
def copy(context: CommandContext) -> None:
    if not context.copy_selection():
        context.app.notify("Nothing is selected.")


@_screen("palette ctrl+p", "Palette: Find any command by typing", footer=True)
def palette(context: CommandContext) -> None:
    context.navigation.open_palette()


@_screen("help f1 /help TOPIC", "Help: Show every key and the manual", footer=True)
def help(context: CommandContext, topic: str) -> None:
    from mahtab_tui.manual import TopicNotFound

    try:
        context.navigation.open_help(topic, context.settings.keymap)
    except TopicNotFound as error:
        context.refuse(str(error), f"/help {topic}")


@_screen(
    "quit ctrl+q /quit",
    "Leave: Leave; press it again if something would be lost",
    over_questions=True,
)
def leave(context: CommandContext) -> None:
    context.quit_flow.leave()
