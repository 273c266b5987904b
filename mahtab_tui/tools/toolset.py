"""The tools of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from mahtab_tui.kernel.host import HostFunction
from mahtab_tui.knowledge.code import CodeSearcher
from mahtab_tui.knowledge.library import SkillLibrary, skill_library
from mahtab_tui.knowledge.loaded_skills import LoadedSkills
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import Lazy
from mahtab_tui.tools.loading import load_tools
from mahtab_tui.tools.tool import Tool, ToolError, Workplace

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from mahtab_tui.llm.background import ListedServer

SKILL_TOOLS = ("search_skills", "load_skill")


class Toolset:
    """Loads and runs tools. Any thread may call it."""

    def __init__(
        self,
        code_dir: Path,
        skills: SkillLibrary,
        loaded: LoadedSkills,
        on_problem: Callable[[str], None],
        instructions: Callable[[], Mapping[str, str]] = dict,
        servers: Callable[[], Sequence[ListedServer]] = tuple,
    ) -> None:
        """
        Args:
            code_dir: The folder of the project's source.
            skills: The skills of the session.
            loaded: The skills that stay loaded in the session.
            on_problem: Called with a sentence for each unusable plug-in.
            instructions: Returns the standing instructions by file.
            servers: Describes the MCP servers for the model.
        """
        self.skills = skills
        self.loaded = loaded
        self.instructions = instructions
        self.servers = servers
        self._code = CodeSearcher(code_dir)
        self._tools = Lazy(lambda: load_tools(on_problem))

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name; waits while they are loaded."""
        return self._tools.get()

    def run(
        self, name: str, arguments: Mapping[str, Any], cancelled: threading.Event | None = None
    ) -> str:
        """Run a tool and return its result. Raises `ToolError`."""
        tool = self.tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. Tools: {', '.join(self.tools)}.")
        cancelled = cancelled or threading.Event()
        workplace = Workplace(self._code, self.skills, self.loaded, cancelled)
        return tool.call(workplace, arguments)

    def functions(self) -> list[HostFunction]:
        """Return the functions of all tools for the namespace of cells."""
        return [function for tool in self.tools.values() for function in tool.host_functions()]

    @cached_property
    def offered(self) -> list[BaseTool]:
        """The tools that a model is offered, with short schemas: those for skills only if there are
        others than the program's own. They stay the same in a session, because a prompt begins with
        them."""
        has_own_skills = bool(self.skills.descriptions(bundled=False))
        return [
            self.structured(tool, short=True)
            for tool in self.tools.values()
            if has_own_skills or tool.name not in SKILL_TOOLS
        ]

    def structured(self, tool: Tool, *, short: bool = False) -> BaseTool:
        """Return a LangChain tool, which returns errors as text. short: with less about it."""
        from langchain_core.tools import StructuredTool

        def run(**arguments: Any) -> str:
            try:
                return self.run(tool.name, arguments)
            except ToolError as error:
                return str(error)

        description = tool.description
        schema: type[BaseModel] | dict[str, Any] = tool.arguments
        if short:
            description, *_ = description.split("\n\n")
            schema = _short_schema(tool.arguments)
        return StructuredTool.from_function(
            run,
            name=tool.name,
            description=description,
            args_schema=schema,
            handle_validation_error=True,
        )


def _short_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the part of the JSON schema that a model needs to call the tool, because it goes with
    every request."""
    schema = arguments.model_json_schema()
    required = schema.get("required", [])
    properties: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        keys = {"type", "anyOf", "$ref", "items", "enum"}
        if name in required:
            keys.add("description")
        properties[name] = {key: value for key, value in field.items() if key in keys}
    short_schema = {"type": "object", "properties": properties, "required": required}
    if "$defs" in schema:
        short_schema["$defs"] = schema["$defs"]
    return short_schema


def get_all_tools(
    code_dir: Path | str | None = None, skills_dir: Path | str | None = None
) -> list[BaseTool]:
    """Return LangChain tools, which return errors as text. Unusable skills and plug-ins are left
    out.

    Args:
        code_dir: The folder of the source; by default that of a session started here.
        skills_dir: The folder of the skills; by default those of a session started here.
    """
    skills = skill_library(skills_dir)
    settings = load_settings()
    loaded = LoadedSkills(lambda: skills, settings.skills_budget)
    code = Path(code_dir or settings.code_dir)
    tools = Toolset(code, skills, loaded, lambda problem: None)
    return [tools.structured(tool) for tool in tools.tools.values()]
