"""Functions that a model can call: each tool is a function and a schema."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahtab_tui.tools.definition import Tool, ToolError, Workplace
    from mahtab_tui.tools.toolset import get_all_tools

_HOMES = {
    "Tool": "mahtab_tui.tools.definition",
    "ToolError": "mahtab_tui.tools.definition",
    "Workplace": "mahtab_tui.tools.definition",
    "get_all_tools": "mahtab_tui.tools.toolset",
}

__all__ = ["Tool", "ToolError", "Workplace", "get_all_tools"]


def __getattr__(name: str) -> Any:
    """Load public names on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
