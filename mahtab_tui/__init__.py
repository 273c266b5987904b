"""A person and a language model at work in one live Python namespace."""

# Nothing is imported here, `__future__` neither: `python -m mahtab_tui` would take it from the
# working directory.
TYPE_CHECKING = False
"""Replaces the constant of `typing`. That module is not imported, because an interrupt of an import
before the entry point would show a traceback."""
if TYPE_CHECKING:
    from typing import Any

    from mahtab_tui.agent.repl_agent import ReplAgent, create_repl_agent
    from mahtab_tui.bus.usage import UsageStats
    from mahtab_tui.cli.python_session import run_repl
    from mahtab_tui.knowledge.code import CodeSearcher, search_code
    from mahtab_tui.knowledge.library import (
        iter_skills,
        load_skill_content,
        load_skill_descriptions,
    )
    from mahtab_tui.knowledge.skills_index import SkillsIndex
    from mahtab_tui.knowledge.skills_loader import SkillsLoader
    from mahtab_tui.llm.base import ModelError
    from mahtab_tui.llm.providers import get_llm
    from mahtab_tui.mcp import start_server
    from mahtab_tui.search.api import Searcher, arlm, rlm
    from mahtab_tui.session import Session
    from mahtab_tui.session.api import SessionState, execute_code
    from mahtab_tui.tools.toolset import get_all_tools
    from mahtab_tui.version import __version__ as __version__
    from mahtab_tui.worker.cells.capture import LimitedOutput
    from mahtab_tui.worker.rlm.answers import Answer
    from mahtab_tui.worker.rlm.search import SearchFailed

_MODULES = {
    "agent.repl_agent": "ReplAgent create_repl_agent",
    "bus.usage": "UsageStats",
    "cli.python_session": "run_repl",
    "knowledge.code": "CodeSearcher search_code",
    "knowledge.library": "iter_skills load_skill_content load_skill_descriptions",
    "knowledge.skills_index": "SkillsIndex",
    "knowledge.skills_loader": "SkillsLoader",
    "llm.base": "ModelError",
    "llm.providers": "get_llm",
    "mcp": "start_server",
    "search.api": "Searcher arlm rlm",
    "session": "Session",
    "session.api": "SessionState execute_code",
    "tools.toolset": "get_all_tools",
    "version": "__version__",
    "worker.rlm.answers": "Answer",
    "worker.cells.capture": "LimitedOutput",
    "worker.rlm.search": "SearchFailed",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
"""The module that defines each public name."""

__all__ = [
    "Answer",
    "CodeSearcher",
    "LimitedOutput",
    "ModelError",
    "ReplAgent",
    "SearchFailed",
    "Searcher",
    "Session",
    "SessionState",
    "SkillsIndex",
    "SkillsLoader",
    "UsageStats",
    "arlm",
    "create_repl_agent",
    "execute_code",
    "get_all_tools",
    "get_llm",
    "iter_skills",
    "load_skill_content",
    "load_skill_descriptions",
    "rlm",
    "run_repl",
    "search_code",
    "start_server",
]


def __getattr__(name: str) -> "Any":
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
