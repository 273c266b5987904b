"""Functions that a model can call, and what packages need to provide one.

A tool is a function and the schema of its arguments. The description for models and the function in
the namespace are made from these two::

    class CountLines(BaseModel):
        path: str = Field(description="A file of the project")

    def count_lines(context: ToolContext, arguments: CountLines) -> str:
        '''Return how many lines a file of the project has.'''
        return str(len(context.code.read_file(arguments.path).splitlines()))

    tool = Tool(count_lines, CountLines)

A package provides a tool with an entry point of the group ``mahtab_tui.tools`` that names ``tool``.
"""

from __future__ import annotations

import warnings
from typing import Any

from mahtab_tui.tools.tool import Tool, ToolContext, ToolError

__all__ = ["Tool", "ToolContext", "ToolError"]


def __getattr__(name: str) -> Any:
    """Return a public name of version 0.1."""
    if name == "Workplace":
        warnings.warn("Workplace is now ToolContext", DeprecationWarning, stacklevel=2)
        return ToolContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
