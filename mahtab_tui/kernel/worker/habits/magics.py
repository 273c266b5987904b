"""The few ``%magic`` commands that there are."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable, NamedTuple

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


Await = Callable[[Any], Any]


class Caller(NamedTuple):
    """Where a magic command was given."""

    namespace: dict[str, Any]
    await_: Await


class UnknownMagicError(Exception):
    """There is no such command."""

    __module__ = "builtins"  # a traceback names it without the path to this file


def run(command: str, rest: str, caller: Caller) -> Any:
    """Run a magic command; `command` without its first percent sign. What it returns is shown."""
    name = command.lstrip("%")
    if name not in SUMMARIES or (command.startswith("%") and name not in _WHOLE_CELL):
        raise UnknownMagicError(f"There is no %{command}. There is:\n" + "\n".join(f"  {summary}" for summary in SUMMARIES.values()))
    module = late_import(f"{__package__}.{_MODULES[name]}")
    work: Callable[[str, Caller], Any] = module.COMMANDS[name]
    return work(rest, caller)


def show_help(expression: str, level: int) -> None:
    """``object?`` (1) and ``object??`` (2)."""
    frame = sys._getframe(1)
    late_import(f"{__package__}.helping").show(expression, level, frame.f_globals, frame.f_locals)


def install(await_: Await) -> None:
    """Put what the calls of `lines.transform` name into builtins. await_: runs a coroutine to its end."""

    def magic(command: str, rest: str) -> Any:
        return run(command, rest, Caller(sys._getframe(1).f_globals, await_))

    builtins.__dict__.update({MAGIC: magic, HELP: show_help})
