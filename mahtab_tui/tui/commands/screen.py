"""Commands on the screen as a whole: settings, themes, help, leaving."""

from __future__ import annotations

from mahtab_tui.tui.commands.command import command, slash_command
from mahtab_tui.tui.commands.context import CommandContext


@command(
    "settings",
    "f12",
    "Settings",
    "See all settings, where each comes from, and change them",
    "Screen",
    slash="settings",
)
def settings(work: CommandContext) -> None:
    work.settings.show()


@slash_command(
    "theme",
    "Theme",
    "Choose a theme; the choice is saved",
    "Screen",
    slash="theme",
    argument="NAME",
)
def choose_theme(work: CommandContext, name: str) -> None:
    if name in work.app.available_themes:
        work.app.theme = name
    else:
        work.app.search_themes()


@command(
    "dark-light",
    "f10",
    "Dark / light",
    "Switch between the dark and the light theme",
    "Screen",
    over_questions=True,
)
def dark_light(work: CommandContext) -> None:
    work.app.action_dark_light()


@command(
    "copy",
    "ctrl+shift+c",
    "Copy",
    "Copy what is selected",
    "Screen",
    priority=False,
    over_questions=True,
)
def copy(work: CommandContext) -> None:
    if not work.copy_selection():
        work.tell("Nothing is selected.")


@command("palette", "ctrl+p", "Palette", "Find any command by typing", "Screen", footer=True)
def palette(work: CommandContext) -> None:
    work.app.action_command_palette()


@slash_command(
    "help",
    "Help",
    "Show every key and the manual",
    "Screen",
    slash="help",
    argument="TOPIC",
    keys="f1",
    footer=True,
)
def help(work: CommandContext, topic: str) -> None:
    from mahtab_tui.manual.pages import NoTopic, page
    from mahtab_tui.tui.screens.help import KEYS, HelpScreen, help_rows

    try:
        work.app.push_screen(
            HelpScreen(help_rows(work.commands, work.settings.keymap), page(topic or KEYS).topic)
        )
    except NoTopic as error:
        work.refuse(str(error), f"/help {topic}")


@command(
    "quit",
    "ctrl+q",
    "Leave",
    "Leave; press it again if something would be lost",
    "Screen",
    slash="quit",
    over_questions=True,
)
def leave(work: CommandContext) -> None:
    work.leaving.leave()
