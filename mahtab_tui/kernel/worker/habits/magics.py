"""The ``%magic`` commands."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable, ClassVar, NamedTuple

from ..stdlib import late_import
from . import HELP, MAGIC

SUMMARIES = {
    "time": "%time CODE: run it once and show how long it took (%%time: the whole cell)",
    "timeit": "%timeit CODE: run it many times and show how long one run takes (-n LOOPS, -r REPEATS; %%timeit: the whole cell)",
    "cd": "%cd FOLDER: change the working directory",
    "run": "%run FILE.py ARGUMENTS: run a script, and keep its names in the namespace (%run FILE.ipynb: a notebook's cells)",
    "debug": "%debug: inspect the place where the last exception was raised",
    "pip": "%pip install PACKAGE: into the environment of this interpreter",
    "who": "%who: the names of the variables (%whos: with types and summaries; %who_ls: as a list)",
    "autoreload": "%autoreload 2: reload changed modules before each cell (0: off; without a number: now)",
    "env": "%env: the environment; %env NAME, or %env NAME=VALUE",
    "history": "%history: earlier inputs (-n: numbered)",
    "pwd": "%pwd: the working directory",
    "ls": "%ls: list the working directory",
    "capture": "%%capture NAME: run the cell without showing its output; NAME, if given, gets it (NAME.stdout, NAME.stderr)",
    "bash": "%%bash: run the cell as a shell script (%%sh, too)",
    "script": "%%script PROGRAM ARGUMENTS: pass the cell to a program as its input (also %%perl, %%ruby, %%python)",
    "html": "%%html: show the cell as HTML (%%markdown: as Markdown; %%latex: as a formula; %%svg, %%javascript: as text)",
    "prun": "%prun CODE: run it and show which functions took the time (%%prun: the whole cell; -l ROWS, -s SORT)",
    "cat": "%cat FILE, %mkdir, %cp, %mv, %rm, %rmdir, %less, %more, %man, %ll: as in the shell",
    "pylab": "%pylab: import numpy as np, matplotlib.pyplot as plt, and their names",
    "writefile": "%%writefile FILE: write the cell to a file (-a: append it)",
    "lsmagic": "%lsmagic: this list",
}
"""The listed commands; the others are mentioned in these lines, or not needed."""

_WHOLE_CELL_ONLY = frozenset(
    "capture bash sh writefile file script perl ruby python python3 html HTML markdown latex svg SVG javascript js".split()
)
_WHOLE_CELL = _WHOLE_CELL_ONLY | {"time", "timeit", "prun"}
# A command is the function of its name in its module.
_MODULES = {
    "timing": ("time", "timeit", "prun"),
    "documents": (
        "html",
        "HTML",
        "markdown",
        "latex",
        "svg",
        "SVG",
        "javascript",
        "js",
        "script",
        "perl",
        "ruby",
        "python",
        "python3",
    ),
    "shell": (
        "cat",
        "mkdir",
        "cp",
        "mv",
        "rm",
        "rmdir",
        "less",
        "more",
        "man",
        "ll",
        "system",
        "sx",
    ),
    "capturing": ("capture",),
    "running": ("cd", "run", "debug", "pip", "ls", "bash", "sh", "writefile", "file", "pylab"),
    "listing": ("who", "whos", "who_ls", "env", "set_env", "history", "hist", "pwd", "lsmagic"),
    "notebooks": (
        *("autosave", "colors", "config", "gui", "matplotlib"),
        *("pdb", "precision", "reset", "store", "unload_ext", "xmode"),
    ),
    "reloading": ("autoreload", "load_ext", "reload_ext", "aimport"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


Await = Callable[[Any], Any]


class Caller(NamedTuple):
    """The context of a magic command."""

    namespace: dict[str, Any]
    await_: Await


class Reloading:
    """The reloader of this kernel: the setting `reload` and %autoreload choose it."""

    reloader: ClassVar[Any] = None


class UnknownMagicError(Exception):
    """A magic command does not exist."""

    __module__ = "builtins"  # a traceback names it without the path to this file


def run(command: str, rest: str, caller: Caller) -> Any:
    """Run a magic command and return its value, which is shown. command: without its first percent
    sign."""
    name = command.lstrip("%")
    if name not in _MODULE_OF or name not in (
        _WHOLE_CELL if command.startswith("%") else _MODULE_OF.keys() - _WHOLE_CELL_ONLY
    ):
        raise UnknownMagicError(
            f"There is no %{command}. Available:\n"
            + "\n".join(f"  {summary}" for summary in SUMMARIES.values())
        )
    work: Callable[[str, Caller], Any] = getattr(
        late_import(f"{__package__}.{_MODULE_OF[name]}"), name
    )
    return work(rest, caller)


def show_help(expression: str, level: int) -> None:
    """Show signature and docstring of an expression's value (``object?``), and from level 2 on its
    source (``object??``)."""
    frame = sys._getframe(1)
    try:
        value = eval(expression, frame.f_globals, dict(frame.f_locals))
    except (NameError, AttributeError, LookupError) as error:
        print(f"There is no {expression}: {error}")
        return
    worker = __package__.rpartition(".")[0]
    about = late_import(f"{worker}.completion.explaining").explain(
        value, expression, with_source=level > 1
    )
    parts = [about.signature, about.doc or "It has no docstring.", about.where]
    if level > 1:
        parts.append(about.source or "Its source is unknown.")
    late_import(f"{worker}.showing.displays").show_help(
        "\n\n".join(part.rstrip() for part in parts if part)
    )


def install(await_: Await) -> None:
    """Put the functions that `lines.transform` calls into builtins. await_: runs a coroutine to its
    end."""

    def magic(command: str, rest: str) -> Any:
        return run(command, rest, Caller(sys._getframe(1).f_globals, await_))

    builtins.__dict__.update({MAGIC: magic, HELP: show_help})
