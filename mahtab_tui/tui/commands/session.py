"""Commands on the session: the model's context, usage, files, other sessions, the notebook."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.settings.sources import SettingsError, project_folder
from mahtab_tui.tui.commands.command import CommandContext, command, slash_command
from mahtab_tui.tui.commands.kernel import cell_number

if TYPE_CHECKING:
    from textual.app import App

    from mahtab_tui.session import Session
    from mahtab_tui.session.notebooks import Notebook

NO_NOTEBOOK = "This session has no notebook: mahtab-tui FILE.ipynb opens one, and /export FILE.ipynb makes one from this session."


@command(
    "skills", "", "Skills", "Find, read, load, edit and create skills", "Session", slash="skills"
)
def skills(context: CommandContext) -> None:
    from mahtab_tui.tui.external import open_in_editor
    from mahtab_tui.tui.screens.skills import SkillsScreen

    knowledge = context.session.knowledge
    try:
        screen = SkillsScreen(
            knowledge.skills,
            knowledge.loaded,
            project_folder(),
            lambda file: open_in_editor(context.app, str(file), 0),
        )
    except SettingsError as error:
        context.app.notify(str(error), "error")
    else:
        context.app.push_screen(screen)


@slash_command(
    "unload-skill",
    "Unload skill",
    "Stop giving a loaded skill to the model",
    "Session",
    slash="unload",
    argument="NAME",
)
def unload_skill(context: CommandContext, name: str) -> None:
    from mahtab_tui.knowledge.library import SkillNotFound
    from mahtab_tui.tui.screens.dialog import ask
    from mahtab_tui.tui.screens.listing import ChooseOne

    loaded = context.session.knowledge.loaded
    if not name and (names := loaded.names):
        ask(context.app, ChooseOne("Unload a skill", names, ""), partial(unload_skill.run, context))
        return
    try:
        loaded.unload(name)
    except SkillNotFound as error:
        context.app.notify(str(error) if name else "No skill is loaded.", "warning")


@command(
    "instructions",
    "",
    "Instructions",
    "Show the instructions that the model gets with every question, and trust a project's",
    "Session",
    slash="instructions",
)
def instructions(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.session_info import InstructionsScreen

    context.app.push_screen(InstructionsScreen(context.session.knowledge.read_instructions))


@command(
    "mcp",
    "",
    "MCP servers",
    "List MCP servers with their state, tools and messages, and start one again",
    "Session",
    slash="mcp",
)
def mcp(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.output import PagerScreen
    from mahtab_tui.tui.screens.session_info import ServersScreen

    session = context.session

    def show(title: str, text: str) -> None:
        context.app.push_screen(
            PagerScreen(
                title,
                "messages.txt",
                lambda: text,
                session.open_inspector(),
                Path(session.kernel.info().local_folder),
            )
        )

    context.app.push_screen(ServersScreen(session.knowledge.servers, session.secrets.mask, show))


@command(
    "usage",
    "",
    "Usage",
    "Show what the session, each question and each search have used and cost",
    "Session",
    slash="usage",
)
def usage(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.session_info import UsageScreen

    context.app.push_screen(UsageScreen(context.session.spending.table))


@command(
    "context",
    "",
    "Context",
    "Show what fills the model's window, and what shortens it",
    "Session",
    slash="context",
)
def context(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.session_info import ContextScreen

    context.app.push_screen(ContextScreen(context.session.context_use))


@slash_command(
    "compact",
    "Compact",
    "Let the model summarise the conversation before the last question; you may say what to keep",
    "Session",
    slash="compact",
    argument="WHAT TO KEEP",
)
def compact(context: CommandContext, keep: str) -> None:
    context.session.compact(keep)


@slash_command(
    "export",
    "Export",
    "Export the session as a notebook, script, Markdown or page",
    "Session",
    slash="export",
    argument="[FILE] [shown] [whole]",
)
def export(context: CommandContext, typed: str) -> None:
    from mahtab_tui.session import notebooks
    from mahtab_tui.tui.screens.dialog import confirm

    session = context.session
    try:
        order = notebooks.parse_export(typed, session.info.name, project_folder())
    except notebooks.ExportError as error:
        context.refuse(str(error), f"/export {typed}")
        return

    if os.path.lexists(order.path) and not os.path.isdir(order.path):
        confirm(
            context.app,
            f"{order.file} already exists. Replace it?",
            lambda: notebooks.export(session, order),
            yes="Replace",
            no="Keep",
        )
    else:
        notebooks.export(session, order)


@command(
    "sessions",
    "",
    "Sessions",
    "Search the conversations and cells of all sessions; read, resume, rename or delete one",
    "Session",
    slash="sessions",
)
def sessions(context: CommandContext) -> None:
    from mahtab_tui.tui.screens.dialog import ask
    from mahtab_tui.tui.screens.sessions import sessions_screen

    ask(
        context.app,
        sessions_screen(context.session, context.commands),
        partial(context.quit_flow.switch_to, back="/sessions"),
    )


@slash_command(
    "rename",
    "Rename session",
    "Change the title of this session in lists of sessions",
    "Session",
    slash="rename",
    argument="TITLE",
)
def rename(context: CommandContext, title: str) -> None:
    from mahtab_tui.session.inbox import rename_session

    context.with_value(title, "Title of this session", partial(rename_session, context.session), "")


@slash_command(
    "run",
    "Run notebook",
    "Run all cells of the notebook until one fails, those up to a cell, or a single one",
    "Session",
    slash="run",
    argument="[CELL | to CELL]",
)
def run(context: CommandContext, typed: str) -> None:
    to, number = typed.startswith("to "), cell_number(typed.removeprefix("to "))
    if number is None or (to and not number):
        context.refuse(
            "Name a cell of the notebook by its number, as in /run 3 or /run to 3", f"/run {typed}"
        )
    elif number and not to:
        run_notebook(context.app, context.session, lambda notebook: notebook.run(number))
    else:
        run_notebook(
            context.app, context.session, lambda notebook: notebook.run_up_to(number or None)
        )


def run_notebook(app: App[int], session: Session, start: Callable[[Notebook], None]) -> None:
    """Run cells of the notebook; if that is impossible, say why."""
    if session.notebook is None:
        app.notify(NO_NOTEBOOK, severity="warning")
        return
    from mahtab_tui.session.notebooks import CellNotFound

    try:
        start(session.notebook)
    except CellNotFound as error:
        app.notify(str(error), severity="warning")


@slash_command(
    "save",
    "Save notebook",
    "Write the notebook back to its file, or a copy to another one",
    "Session",
    slash="save",
    argument="[FILE]",
)
def save(context: CommandContext, typed: str) -> None:
    if context.session.notebook is None:
        context.app.notify(NO_NOTEBOOK, "warning")
    else:
        context.panes.transcript.action_scroll_end()
        threading.Thread(
            target=_save_notebook,
            args=(context.session, context.session.notebook, typed),
            name="notebook",
            daemon=True,
        ).start()


def _save_notebook(session: Session, notebook: Notebook, typed: str) -> None:
    """Save a notebook, and report it. typed: the file for a copy; empty for its own file."""
    copy = project_folder() / os.path.expanduser(typed)
    if typed and copy.suffix.lower() != notebook.path.suffix.lower():
        session.notice(
            f"A copy of {notebook.label} must end in {notebook.path.suffix}; /export writes other formats.",
            "warning",
        )
    elif typed and os.path.lexists(copy):
        session.notice(f"{one_line(typed)} already exists. Give the copy another name.", "warning")
    else:
        try:
            if typed:
                notebook.save_copy(copy)
                session.notice(f"Saved a copy as {one_line(str(copy))}.")
            else:
                session.notice(notebook.save() or f"{notebook.label} is already up to date.")
        except OSError as error:
            session.notice(
                f"The notebook cannot be written: {error.strerror}. Nothing was changed.", "error"
            )


@command(
    "clear",
    "ctrl+l",
    "Clear transcript",
    "Empty the transcript; nothing else is lost",
    "Session",
    slash="clear",
    over_screens=False,
)
def clear(context: CommandContext) -> None:
    context.panes.transcript.clear()
