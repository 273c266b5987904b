"""A person and a language model at work in one live Python namespace."""

# Nothing is imported here, `__future__` neither: `python -m mahtab_tui` would take it from the
# working directory.
__version__ = "0.1.0"

TYPE_CHECKING = False
"""As `typing` has it, which is not loaded for this: what is loaded before the entry point can be
interrupted with a traceback."""
if TYPE_CHECKING:
    from typing import Any

    from mahtab_tui.agent.repl_agent import ReplAgent, create_repl_agent
    from mahtab_tui.cli.session_setup import run_repl
    from mahtab_tui.knowledge.code import CodeSearcher, search_code
    from mahtab_tui.knowledge.library import (
        SkillsIndex,
        load_skill_content,
        load_skill_descriptions,
    )
    from mahtab_tui.knowledge.skills import SkillsLoader
    from mahtab_tui.llm.base import ModelError
    from mahtab_tui.llm.providers import get_llm
    from mahtab_tui.llm.usage import UsageStats
    from mahtab_tui.mcp import start_server
    from mahtab_tui.search.api import Searcher, arlm, rlm
    from mahtab_tui.session import Session
    from mahtab_tui.session.api import SessionState, execute_code
    from mahtab_tui.tools import get_all_tools
    from mahtab_tui.worker.answers import Answer
    from mahtab_tui.worker.capture import LimitedOutput
    from mahtab_tui.worker.search import SearchFailed

_HOMES = {
    "CodeSearcher": "mahtab_tui.knowledge.code",
    "LimitedOutput": "mahtab_tui.worker.capture",
    "Answer": "mahtab_tui.worker.answers",
    "ModelError": "mahtab_tui.llm.base",
    "ReplAgent": "mahtab_tui.agent.repl_agent",
    "Session": "mahtab_tui.session",
    "Searcher": "mahtab_tui.search.api",
    "SearchFailed": "mahtab_tui.worker.search",
    "SessionState": "mahtab_tui.session.api",
    "SkillsIndex": "mahtab_tui.knowledge.library",
    "SkillsLoader": "mahtab_tui.knowledge.skills",
    "UsageStats": "mahtab_tui.llm.usage",
    "arlm": "mahtab_tui.search.api",
    "create_repl_agent": "mahtab_tui.agent.repl_agent",
    "execute_code": "mahtab_tui.session.api",
    "get_all_tools": "mahtab_tui.tools",
    "get_llm": "mahtab_tui.llm.providers",
    "load_skill_content": "mahtab_tui.knowledge.library",
    "load_skill_descriptions": "mahtab_tui.knowledge.library",
    "rlm": "mahtab_tui.search.api",
    "run_repl": "mahtab_tui.cli.session_setup",
    "search_code": "mahtab_tui.knowledge.code",
    "start_server": "mahtab_tui.mcp",
}
"""The public names, and where each is defined."""

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
    "load_skill_content",
    "load_skill_descriptions",
    "rlm",
    "run_repl",
    "search_code",
    "start_server",
]


def __getattr__(name: str) -> "Any":
    """The public names, loaded when they are first wanted."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
