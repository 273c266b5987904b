"""Resources and prompts: the session to look at, and the skills to work by."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.told import told
from mahtab_tui.knowledge.loader import SkillsLoader, skill_folders
from mahtab_tui.knowledge.skills import Skill
from mahtab_tui.mcp import information
from mahtab_tui.mcp.handlers import ToolHandlers
from mahtab_tui.mcp.journal import log_file

if TYPE_CHECKING:
    import mcp_types as types

LOG_TAIL = 50_000
"""Characters of the log's end that are given."""

VARIABLE = "mahtab://variable/"


class NotThere(Exception):
    """There is no such resource or prompt; the message is a sentence."""


def resources() -> list[types.Resource]:
    """The resources that are always there."""
    import mcp_types as types

    listed = [
        ("variables", "Variables", "The namespace: names, types, sizes"),
        ("info", "Session", "What the session runs on and holds"),
        ("log", "Log", "The end of the log of what was evaluated, where log_viewer is on"),
    ]
    return [
        types.Resource(uri=f"mahtab://session/{name}", name=name, title=title, description=description, mime_type="text/plain")
        for name, title, description in listed
    ]


def templates() -> list[types.ResourceTemplate]:
    """One resource for each variable."""
    import mcp_types as types

    description = "A look inside one variable: its representation, attributes, source"
    return [
        types.ResourceTemplate(uri_template=VARIABLE + "{name}", name="variable", title="Variable", description=description, mime_type="text/plain")
    ]


async def read(handlers: ToolHandlers, uri: str) -> str:
    """A resource's text. Raises `NotThere`, `PlaceError`."""
    if uri.startswith(VARIABLE):
        detail = await (await handlers.place()).inspect(unquote(uri.removeprefix(VARIABLE)))
        parts = [f"{detail.name}: {detail.type} {detail.summary}".rstrip(), detail.text, detail.doc, detail.source, detail.error]
        return told("\n\n".join(part for part in parts if part))
    if uri == "mahtab://session/log":
        return told(log_tail())
    if uri in ("mahtab://session/variables", "mahtab://session/info"):
        inside = await (await handlers.place()).inside(seen=False)
        return "\n".join(information.variables(inside)) if uri.endswith("variables") else information.text(inside, handlers.mode)
    raise NotThere(f"There is no resource {uri}.")


def log_tail() -> str:
    """The end of the log. Raises `NotThere`."""
    try:
        with log_file().open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        raise NotThere("There is no log yet: log_viewer switches it on.") from None


class Skills:
    """The skills as prompts."""

    def __init__(self, project: Path, extra: Sequence[Path], *, of_project: bool = False) -> None:
        self._loader = SkillsLoader(*skill_folders(project, extra, of_project=of_project))
        self._told: frozenset[str] = frozenset()
        """What was wrong when they were last read, which stderr has been told."""

    def _found(self, handlers: ToolHandlers) -> dict[str, Skill]:
        """Those that suit where code runs: a worker without a person has no model to ask, and no functions of a session."""
        found = {skill.name: skill for skill in self._loader.load_all() if handlers.mode == "shared" or skill.metadata.get("needs") != "session"}
        for problem in self._loader.problems:
            if problem not in self._told:
                print(plain(f"mahtab-tui: {problem}"), file=sys.stderr, flush=True)
        self._told = frozenset(self._loader.problems)
        return found

    def prompts(self, handlers: ToolHandlers) -> list[types.Prompt]:
        import mcp_types as types

        task = types.PromptArgument(name="task", description="What to do by it", required=False)
        return [
            types.Prompt(name=skill.name, title=skill.name, description=skill.description, arguments=[task])
            for skill in self._found(handlers).values()
        ]

    def prompt(self, handlers: ToolHandlers, name: str, arguments: dict[str, str]) -> types.GetPromptResult:
        """A skill's instructions as a message. Raises `NotThere`."""
        import mcp_types as types

        skills = self._found(handlers)
        if name not in skills:
            raise NotThere(f"There is no prompt {name!r}. Prompts: {', '.join(sorted(skills)) or 'none'}.")
        task = f"\n\nTask: {arguments['task']}" if arguments.get("task") else ""
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=skills[name].content + task))
        return types.GetPromptResult(description=skills[name].description, messages=[message])
