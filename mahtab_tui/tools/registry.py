"""Which tools there are: what is built in, and what packages bring by an entry point."""

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
"""Seconds in which a plug-in has to be there."""


def load_tools(on_problem: Callable[[str], None]) -> list[Tool]:
    """All tools, each name once; waits `PATIENCE` for a plug-in at the most. on_problem: told of each that cannot be used, in a sentence."""
    from mahtab_tui.kernel.worker.toolbox import NAMES

    tools = list(BUILTIN)
    # What a session in this process has put there is no name of Python's own.
    pythons = {name for name, value in vars(builtins).items() if not isinstance(value, FunctionType)}
    taken = {*pythons, *NAMES, *(name for tool in tools for name in tool.names)}
    for entry in sorted(entry_points(group=ENTRY_POINTS)):
        loaded = _loaded(entry)
        if isinstance(loaded, Tool) and (twice := taken.intersection(loaded.names)):
            loaded = f"cannot be used: there is a function {min(twice)} already."
        if isinstance(loaded, str):
            on_problem(f"The tool {entry.name} ({entry.value}) {loaded}")
            continue
        taken.update(loaded.names)
        tools.append(loaded)
    return tools


def _loaded(entry: EntryPoint) -> Tool | str:
    """The tool of a plug-in, or the end of a sentence that says why there is none."""
    found: list[Tool | str] = []

    def load() -> None:
        try:
            tool = entry.load()
            problem = tool.problem() if isinstance(tool, Tool) else "it is no mahtab_tui.tools.Tool"
            found.append(f"cannot be used: {problem}." if problem else tool)
        except BaseException as error:  # a plug-in's own code
            found.append(f"cannot be loaded: {in_words(error)}")

    # Nothing can end its code; whoever waits for it need not.
    thread = threading.Thread(target=load, name=f"plug-in {entry.name}", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return found[0] if found else f"does not answer: it was not loaded within {PATIENCE:g} seconds, and this session goes on without it."
