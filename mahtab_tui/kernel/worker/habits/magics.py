"""The few ``%magic`` commands that there are."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable

from ..stdlib import late_import
from . import HELP, MAGIC

SUMMARIES = {
    "time": "%time CODE: run it once and say how long it took (%%time: the whole cell)",
    "timeit": "%timeit CODE: run it many times and say how long one run takes (-n LOOPS, -r REPEATS; %%timeit: the whole cell)",
    "cd": "%cd FOLDER: change the working directory",
    "run": "%run FILE.py ARGUMENTS: run a script, and take its names into the namespace",
    "debug": "%debug: look around where the last exception was raised",
    "pip": "%pip install PACKAGE: into the environment of this interpreter",
}
_WHOLE_CELL = ("time", "timeit")
_MODULES = {"time": "timing", "timeit": "timing", "cd": "running", "run": "running", "debug": "running", "pip": "running"}


class UnknownMagicError(Exception):
    """There is no such command."""

    __module__ = "builtins"  # a traceback names it without the path to this file


def run(command: str, rest: str) -> Any:
    """Run a magic command in the namespace of its caller; `command` without its first percent sign. What it returns is shown."""
    name = command.lstrip("%")
    if name not in SUMMARIES or (command.startswith("%") and name not in _WHOLE_CELL):
        raise UnknownMagicError(f"There is no %{command}. There is:\n" + "\n".join(f"  {summary}" for summary in SUMMARIES.values()))
    module = late_import(f"{__package__}.{_MODULES[name]}")
    work: Callable[[str, dict[str, Any]], Any] = module.COMMANDS[name]
    return work(rest, sys._getframe(1).f_globals)


def show_help(expression: str, level: int) -> None:
    """``object?`` (1) and ``object??`` (2)."""
    frame = sys._getframe(1)
    late_import(f"{__package__}.helping").show(expression, level, frame.f_globals, frame.f_locals)


def install() -> None:
    """Put what the calls of `lines.transform` name into builtins."""
    builtins.__dict__.update({MAGIC: run, HELP: show_help})
