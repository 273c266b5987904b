"""The tools of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.kernel.host import HostFunction
from mahtab_tui.knowledge.code import CodeSearcher
from mahtab_tui.knowledge.library import SkillLibrary, skill_library
from mahtab_tui.knowledge.loaded_skills import LoadedSkills
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import Lazy
from mahtab_tui.tools.builtin import BUILTIN_TOOLS
from mahtab_tui.tools.langchain_tools import as_langchain_tool
from mahtab_tui.tools.loading import load_tools
from mahtab_tui.tools.tool import Tool, ToolContext, ToolError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from mahtab_tui.llm.background import ListedServer

_SKILL_TOOLS = frozenset({"search_skills", "load_skill"})


class Toolset:
    """Loads and runs the tools of a session, and has what a model is told besides: the skills, the
    standing instructions and the MCP servers. Any thread may call it."""

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
            on_problem: Called with a sentence for each tool of a package that cannot be used.
            instructions: Returns the standing instructions by file, for the model's prompt.
            servers: Returns descriptions of the MCP servers, for the model's prompt.
        """
        self.skills = skills
        self.loaded = loaded
        self.instructions = instructions
        self.servers = servers
        self._code = CodeSearcher(code_dir)
        self._tools = Lazy(lambda: load_tools(on_problem))
        self._offered = Lazy(self._choose_offered_tools)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name; waits while they are loaded."""
        return self._tools.get()

    def run(
        self, name: str, arguments: Mapping[str, Any], cancelled: threading.Event | None = None
    ) -> str:
        """Run a tool and return its result.

        Args:
            name: The tool's name.
            arguments: The arguments by name, which are not checked yet.
            cancelled: Set when nobody waits for the result any more; None if the call cannot be
                cancelled.

        Raises:
            ToolError: There is no such tool, or the tool cannot do its work.
        """
        tool = self.tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. Tools: {', '.join(self.tools)}.")
        cancelled = cancelled or threading.Event()
        context = ToolContext(self._code, self.skills, self.loaded, cancelled)
        return tool.call(context, arguments)

    def functions(self, *, without_builtin: bool = False) -> list[HostFunction]:
        """Return the functions of all tools for the namespace of cells.

        Args:
            without_builtin: Whether to leave out the tools that come with the program.
        """
        return [
            function
            for tool in self.tools.values()
            if not (without_builtin and tool in BUILTIN_TOOLS)
            for function in tool.host_functions()
        ]

    @property
    def offered(self) -> list[BaseTool]:
        """The tools that a model is offered, with short schemas.

        Skill tools are left out when only the bundled skills exist. The list stays the same in a
        session, because a prompt begins with it.
        """
        return self._offered.get()

    def _choose_offered_tools(self) -> list[BaseTool]:
        has_own_skills = bool(self.skills.descriptions(bundled=False))
        return [
            as_langchain_tool(tool, self.run, short=True)
            for tool in self.tools.values()
            if has_own_skills or tool.name not in _SKILL_TOOLS
        ]


def get_all_tools(
    code_dir: Path | str | None = None, skills_dir: Path | str | None = None
) -> list[BaseTool]:
    """Return all tools as LangChain tools, which return errors as text.

    Skills and plug-ins that cannot be used are left out.

    Args:
        code_dir: The folder of the source; by default that of a session started here.
        skills_dir: The folder of the skills; by default those of a session started here.
    """
    skills = skill_library(skills_dir)
    settings = load_settings()
    loaded = LoadedSkills(lambda: skills, settings.skills_budget)
    code = Path(code_dir or settings.code_dir)
    toolset = Toolset(code, skills, loaded, lambda problem: None)
    return [as_langchain_tool(tool, toolset.run) for tool in toolset.tools.values()]
