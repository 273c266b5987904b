"""The tools of a session: the built-in ones, and those that packages provide with an entry point."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from mahtab_tui.kernel.base import HostFunction
from mahtab_tui.knowledge.code import CodeSearcher
from mahtab_tui.knowledge.library import SkillLibrary
from mahtab_tui.knowledge.loaded import LoadedSkills
from mahtab_tui.tools.builtin import BUILTIN, BY_MEANING
from mahtab_tui.tools.definition import Tool, ToolError, Workplace, in_words

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from mahtab_tui.knowledge.code_parts import CodeParts
    from mahtab_tui.knowledge.meaning import Meaning
    from mahtab_tui.llm.prompts import ListedServer

ENTRY_POINTS = "mahtab_tui.tools"

PATIENCE = 5.0
"""Seconds to wait for a plug-in to load."""


def load_tools(on_problem: Callable[[str], None]) -> list[Tool]:
    """Load all tools, each name once, waiting at most `PATIENCE` for each plug-in. on_problem: called with a sentence for each unusable one."""
    from mahtab_tui.kernel.worker.toolbox import NAMES

    tools = list(BUILTIN)
    # A session in this process adds functions to builtins, which do not count.
    pythons = {name for name, value in vars(builtins).items() if not isinstance(value, FunctionType)}
    taken = {*pythons, *NAMES, *(name for tool in tools for name in tool.names)}
    for entry in sorted(entry_points(group=ENTRY_POINTS)):
        loaded = _loaded(entry)
        if isinstance(loaded, Tool) and (twice := taken.intersection(loaded.names)):
            loaded = f"cannot be used: a function {min(twice)} already exists."
        if isinstance(loaded, str):
            on_problem(f"The tool {entry.name} ({entry.value}) {loaded}")
            continue
        taken.update(loaded.names)
        tools.append(loaded)
    return tools


def _loaded(entry: EntryPoint) -> Tool | str:
    """Load the tool of a plug-in, or return why that failed, as the end of a sentence."""
    found: list[Tool | str] = []

    def load() -> None:
        try:
            tool = entry.load()
            problem = tool.problem() if isinstance(tool, Tool) else "it is not a mahtab_tui.tools.Tool"
            found.append(f"cannot be used: {problem}." if problem else tool)
        except BaseException as error:  # a plug-in's code
            found.append(f"cannot be loaded: {in_words(error)}")

    # Its code cannot be stopped, but nobody has to wait for it.
    thread = threading.Thread(target=load, name=f"plug-in {entry.name}", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return found[0] if found else f"did not load within {PATIENCE:g} seconds; this session continues without it."


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
        meaning: Meaning | None = None,
    ) -> None:
        """on_problem: called with a sentence for each unusable plug-in. instructions: returns what the model is always told, by file.

        servers: returns what the model is told of MCP servers. meaning: None to search by words alone.
        """
        self.skills = skills
        self.loaded = loaded
        self.instructions = instructions
        self.servers = servers
        self._code = CodeSearcher(code_dir)
        self._parts: CodeParts | None = None
        if meaning is not None:
            from mahtab_tui.knowledge.code_parts import CodeParts

            self._parts = CodeParts(code_dir, meaning)
        self._on_problem = on_problem
        self._loading = threading.Lock()
        self._tools: dict[str, Tool] | None = None

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name; waits while they are loaded."""
        with self._loading:
            if self._tools is None:
                self._tools = {tool.name: tool for tool in load_tools(self._on_problem)}
                if self._parts is not None:
                    self._tools[BY_MEANING.name] = BY_MEANING
            return self._tools

    def run(self, name: str, arguments: Mapping[str, Any], cancelled: threading.Event | None = None) -> str:
        """Run a tool and return its result. cancelled: set when nobody waits for it. Raises `ToolError`."""
        tool = self.tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. Tools: {', '.join(self.tools)}.")
        return tool.call(Workplace(self._code, self.skills, self.loaded, cancelled or threading.Event(), self._parts), arguments)

    def functions(self) -> list[HostFunction]:
        """Return the functions for the namespace."""
        return [function for tool in self.tools.values() for function in tool.host_functions()]

    @cached_property
    def structured(self) -> list[BaseTool]:
        """The tools as LangChain tools, for models that call them. Errors are returned as text."""
        from langchain_core.tools import StructuredTool

        def runner(name: str) -> Callable[..., str]:
            def run(**arguments: Any) -> str:
                try:
                    return self.run(name, arguments)
                except ToolError as error:
                    return str(error)

            return run

        return [
            StructuredTool.from_function(
                runner(tool.name), name=tool.name, description=tool.description, args_schema=tool.arguments, handle_validation_error=True
            )
            for tool in self.tools.values()
        ]


def get_all_tools(code_dir: Path | str | None = None, skills_dir: Path | str | None = None) -> list[BaseTool]:
    """Return LangChain tools for a source folder and a skills folder; by default those of a session started here.

    Errors are returned as text. Unusable skills and plug-ins are left out.
    """
    from mahtab_tui.knowledge.library import skill_library
    from mahtab_tui.settings.model import load_settings

    skills = skill_library(skills_dir)
    settings = load_settings()
    loaded = LoadedSkills(lambda: skills, settings.skills_budget)
    return Toolset(Path(code_dir or settings.code_dir), skills, loaded, lambda problem: None).structured
