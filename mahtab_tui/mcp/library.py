"""The server's resources (the session's contents) and prompts (the skills)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mahtab_tui.bus.escaping import escape_for_model
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.knowledge.loader import SkillsLoader, skill_folders
from mahtab_tui.knowledge.skills import Skill
from mahtab_tui.mcp.handlers import ToolHandlers
from mahtab_tui.mcp.information import describe_contents, variable_lines
from mahtab_tui.mcp.journal import log_file

if TYPE_CHECKING:
    import mcp_types as types

LOG_TAIL = 50_000
"""Characters at the end of the log that are returned."""

VARIABLE = "mahtab://variable/"


class NotFoundError(Exception):
    """A resource or prompt does not exist; the message is a sentence."""


def resources() -> list[types.Resource]:
    import mcp_types as types

    listed = [
        ("variables", "Variables", "The namespace: names, types, sizes"),
        ("info", "Session", "What the session runs on and contains"),
        ("log", "Log", "The end of the log of evaluated code, if log_viewer is on"),
    ]
    return [
        types.Resource(
            uri=f"mahtab://session/{name}",
            name=name,
            title=title,
            description=description,
            mime_type="text/plain",
        )
        for name, title, description in listed
    ]


def templates() -> list[types.ResourceTemplate]:
    import mcp_types as types

    description = "A look inside one variable: its representation, attributes, source"
    return [
        types.ResourceTemplate(
            uri_template=VARIABLE + "{name}",
            name="variable",
            title="Variable",
            description=description,
            mime_type="text/plain",
        )
    ]


async def read(handlers: ToolHandlers, uri: str) -> str:
    """Read a resource. Raises `NotFoundError`, `McpToolError`."""
    if uri.startswith(VARIABLE):
        detail = await (await handlers.session()).inspect(unquote(uri.removeprefix(VARIABLE)))
        parts = [
            f"{detail.name}: {detail.type} {detail.summary}".rstrip(),
            detail.text,
            detail.doc,
            detail.source,
            detail.error,
        ]
        return escape_for_model("\n\n".join(part for part in parts if part))
    if uri == "mahtab://session/log":
        return escape_for_model(log_tail())
    if uri in ("mahtab://session/variables", "mahtab://session/info"):
        contents = await (await handlers.session()).contents(seen=False)
        return (
            "\n".join(variable_lines(contents))
            if uri.endswith("variables")
            else describe_contents(contents, handlers.mode)
        )
    raise NotFoundError(f"There is no resource {uri}.")


def log_tail() -> str:
    """Read the end of the log. Raises `NotFoundError`."""
    try:
        with log_file().open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        raise NotFoundError("There is no log yet; log_viewer turns it on.") from None


class SkillPrompts:
    """Serves the skills as prompts."""

    def __init__(self, project: Path, extra: Sequence[Path], *, of_project: bool = False) -> None:
        self._loader = SkillsLoader(*skill_folders(project, extra, of_project=of_project))
        self._told: frozenset[str] = frozenset()
        """Problems that were already printed to stderr."""

    def _found(self) -> dict[str, Skill]:
        found = {skill.name: skill for skill in self._loader.load_all()}
        for problem in self._loader.warnings:
            if problem not in self._told:
                print(plain(f"mahtab-tui: {problem}"), file=sys.stderr, flush=True)
        self._told = frozenset(self._loader.warnings)
        return found

    def prompts(self) -> list[types.Prompt]:
        import mcp_types as types

        task = types.PromptArgument(name="task", description="What to use it for", required=False)
        return [
            types.Prompt(
                name=skill.name, title=skill.name, description=skill.description, arguments=[task]
            )
            for skill in self._found().values()
        ]

    def prompt(self, name: str, arguments: dict[str, str]) -> types.GetPromptResult:
        """Return a skill's instructions as a message. Raises `NotFoundError`."""
        import mcp_types as types

        skills = self._found()
        if name not in skills:
            raise NotFoundError(
                f"There is no prompt {name!r}. Prompts: {', '.join(sorted(skills)) or 'none'}."
            )
        task = f"\n\nTask: {arguments['task']}" if arguments.get("task") else ""
        message = types.PromptMessage(
            role="user", content=types.TextContent(type="text", text=skills[name].content + task)
        )
        return types.GetPromptResult(description=skills[name].description, messages=[message])
