"""Commands on skills, instructions and MCP servers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mahtab_tui.tui.commands.command import command, slash_command
from mahtab_tui.tui.commands.workspace import Workspace


@command("skills", "", "Skills", "Find, read, load, edit and create skills", "Session", slash="skills")
def skills(work: Workspace) -> None:
    from mahtab_tui.settings.sources import SettingsError, project_folder
    from mahtab_tui.tui.external_editor import open_in_editor
    from mahtab_tui.tui.screens.skills.screen import SkillsScreen

    knowledge = work.session.knowledge
    try:
        screen = SkillsScreen(knowledge.skills, knowledge.loaded, project_folder(), lambda file: open_in_editor(work.app, str(file), 0))
    except SettingsError as error:
        work.tell(str(error), "error")
    else:
        work.app.push_screen(screen)


@slash_command("unload-skill", "Unload skill", "No longer give a loaded skill to the model", "Session", slash="unload", argument="NAME")
def unload_skill(work: Workspace, name: str) -> None:
    from mahtab_tui.knowledge.library import NoSkill
    from mahtab_tui.tui.screens.dialog import ask
    from mahtab_tui.tui.screens.listing import ChooseOne

    loaded = work.session.knowledge.loaded
    if not name and (names := loaded.names):
        ask(work.app, ChooseOne("Unload a skill", names, ""), partial(unload_skill.run, work))
        return
    try:
        loaded.unload(name)
    except NoSkill as error:
        work.tell(str(error) if name else "No skill is loaded.", "warning")


@command(
    "instructions",
    "",
    "Instructions",
    "Show the instructions that the model gets with every question, and trust a project's",
    "Session",
    slash="instructions",
)
def instructions(work: Workspace) -> None:
    from mahtab_tui.tui.screens.instructions import InstructionsScreen

    work.app.push_screen(InstructionsScreen(work.session.knowledge.read_instructions))


@command("mcp", "", "MCP servers", "List MCP servers with their state, tools and messages, and start one again", "Session", slash="mcp")
def mcp(work: Workspace) -> None:
    from mahtab_tui.tui.screens.output import PagerScreen
    from mahtab_tui.tui.screens.servers import ServersScreen

    session = work.session

    def show(title: str, text: str) -> None:
        work.app.push_screen(PagerScreen(title, "messages.txt", lambda: text, session.look(), Path(session.kernel.info().folder_here)))

    work.app.push_screen(ServersScreen(session.knowledge.servers, session.secrets.mask, show))
