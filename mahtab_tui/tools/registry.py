"""Which tools there are: what is built in, and what packages bring by an entry point."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from mahtab_tui.tools.builtin import BUILTIN
from mahtab_tui.tools.definition import Tool, in_words

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

ENTRY_POINTS = "mahtab_tui.tools"


def load_tools(on_problem: Callable[[str], None]) -> list[Tool]:
    """All tools, each name once. on_problem: told of each plug-in that cannot be used, in a sentence."""
    from mahtab_tui.kernel.worker.toolbox import NAMES

    tools = list(BUILTIN)
    # What a session in this process has put there is no name of Python's own.
    pythons = {name for name, value in vars(builtins).items() if not isinstance(value, FunctionType)}
    taken = {*pythons, *NAMES, *(name for tool in tools for name in tool.names)}
    for entry in sorted(entry_points(group=ENTRY_POINTS)):
        try:
            tool = entry.load()
            problem = tool.problem() if isinstance(tool, Tool) else "it is no mahtab_tui.tools.Tool"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in's own code
            on_problem(f"The tool {entry.name} ({entry.value}) cannot be loaded: {in_words(error)}")
            continue
        if not problem and (twice := taken.intersection(tool.names)):
            problem = f"there is a function {min(twice)} already"
        if problem:
            on_problem(f"The tool {entry.name} ({entry.value}) cannot be used: {problem}.")
            continue
        taken.update(tool.names)
        tools.append(tool)
    return tools


def get_all_tools(code_dir: Path | str | None = None, skills_dir: Path | str | None = None) -> list[BaseTool]:
    """The tools as LangChain's, over a folder of source and one of skills; by default those that a session here would have.

    Errors come back as text. What cannot be used of skills and plug-ins is left out.
    """
    from mahtab_tui.knowledge.library import skill_library
    from mahtab_tui.knowledge.loaded import LoadedSkills
    from mahtab_tui.settings import load_settings
    from mahtab_tui.tools.toolset import Toolset

    skills = skill_library(skills_dir)
    settings = load_settings()
    loaded = LoadedSkills(lambda: skills, settings.skills_budget)
    return Toolset(Path(code_dir or settings.code_dir), skills, loaded, lambda problem: None).structured
