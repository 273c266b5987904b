"""Loads the tools of packages."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from types import FunctionType
from typing import cast

from mahtab_tui.kernel.host import OWN_CALLS
from mahtab_tui.tools.builtin import BUILTIN
from mahtab_tui.tools.tool import Tool, ToolError, _format_error
from mahtab_tui.worker.tools.toolbox import NAMES

PLUGIN_GROUP = "mahtab_tui.tools"


def load_tools(on_problem: Callable[[str], None]) -> dict[str, Tool]:
    """Load all tools. on_problem: called with a sentence for each unusable plug-in."""
    tools = {tool.name: tool for tool in BUILTIN}
    # A session in this process adds functions to builtins, which do not count.
    used_names = {
        name for name, value in vars(builtins).items() if not isinstance(value, FunctionType)
    }
    used_names.update(NAMES)
    # The kernel calls the host by these names.
    used_names.update(OWN_CALLS)
    for tool in BUILTIN:
        used_names.update(tool.names)

    for entry in sorted(entry_points(group=PLUGIN_GROUP)):
        try:
            plugin = _load_plugin(entry)
            duplicates = used_names.intersection(plugin.names)
            if duplicates:
                raise ToolError(f"cannot be used: the name {min(duplicates)} is already in use.")
        except ToolError as error:
            on_problem(f"The tool {entry.name} ({entry.value}) {error}")
        else:
            used_names.update(plugin.names)
            tools[plugin.name] = plugin
    return tools


def _load_plugin(entry: EntryPoint) -> Tool:
    """Load the tool of a plug-in. Raises `ToolError` with the end of a sentence."""
    try:
        tool = entry.load()
        problem = tool.problem() if isinstance(tool, Tool) else "it is not a mahtab_tui.tools.Tool"
    except BaseException as error:  # a plug-in's code
        raise ToolError(f"cannot be loaded: {_format_error(error)}") from None
    if problem:
        raise ToolError(f"cannot be used: {problem}.")
    return cast(Tool, tool)
