"""All tools: the built-in ones, and those that packages provide with an entry point."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from types import FunctionType

from mahtab_tui.tools.builtin import BUILTIN
from mahtab_tui.tools.definition import Tool, in_words

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
