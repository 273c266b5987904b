"""Loads the built-in tools and those that packages provide."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection
from importlib.metadata import EntryPoint, entry_points
from types import FunctionType

from mahtab_tui.kernel.host import OWN_CALLS
from mahtab_tui.tools.builtin import BUILTIN_TOOLS
from mahtab_tui.tools.tool import InvalidTool, Tool, format_error
from mahtab_tui.worker.tools.toolbox import NAMES

PLUGIN_GROUP = "mahtab_tui.tools"
"""The group of entry points by which packages provide tools."""


def load_tools(on_problem: Callable[[str], None]) -> dict[str, Tool]:
    """Load all tools, and return them by their names.

    Args:
        on_problem: Called with a sentence for each tool of a package that cannot be used.
    """
    tools = {tool.name: tool for tool in BUILTIN_TOOLS}
    used_names = _reserved_names()
    for tool in BUILTIN_TOOLS:
        used_names.update(tool.names)

    for entry in sorted(entry_points(group=PLUGIN_GROUP)):
        try:
            tool = _load_plugin(entry, used_names)
        except InvalidTool as error:
            on_problem(f"The tool {entry.name} ({entry.value}) cannot be used: {error}.")
            continue
        used_names.update(tool.names)
        tools[tool.name] = tool
    return tools


def _reserved_names() -> set[str]:
    """Return the names that no tool may have."""
    # A session in this process adds its functions to builtins. They are the functions of tools, or
    # are among the other names.
    python_names = {
        name for name, value in vars(builtins).items() if not isinstance(value, FunctionType)
    }
    return python_names | NAMES | OWN_CALLS


def _load_plugin(entry: EntryPoint, used_names: Collection[str]) -> Tool:
    """Load and check the tool of an entry point. Raises `InvalidTool`."""
    try:
        tool = entry.load()
        if not isinstance(tool, Tool):
            raise InvalidTool("it is not a mahtab_tui.tools.Tool")
        tool.validate()
    except (KeyboardInterrupt, InvalidTool):
        raise
    except BaseException as error:  # a package's code
        raise InvalidTool(f"it cannot be loaded: {format_error(error)}") from None
    for name in tool.names:
        if name in used_names:
            raise InvalidTool(f"the name {name} is already in use")
    return tool
