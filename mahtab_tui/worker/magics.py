"""IPython's syntax and names at the prompt."""

from __future__ import annotations

import ast
import builtins
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Callable, ClassVar, NamedTuple

from .stdlib import own_module

HISTORY = 1_000


class CellHistory:
    """`In` and `Out`, in builtins, so that the user's names can hide them."""

    def __init__(self) -> None:
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}
        builtins.__dict__.update({"In": self.inputs, "Out": self.outputs})

    def add_source(self, cell: int, source: str) -> None:
        """Record a cell's code. Earlier cells may belong to an earlier kernel; cell 0 is ours."""
        if type(self.inputs) is list and cell > 0:
            self.inputs.extend([""] * (cell + 1 - len(self.inputs)))
            self.inputs[cell] = source

    def add_result(self, cell: int, value: Any) -> None:
        names = builtins.__dict__
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
        if value is self.outputs:
            return
        self.outputs[cell] = value
        while len(self.outputs) > HISTORY:
            del self.outputs[next(iter(self.outputs))]


SHELL = "__mahtab_shell__"
LINES = "__mahtab_lines__"
MAGIC = "__mahtab_magic__"
HELP = "__mahtab_help__"
"""Builtins that replace lines that are not Python."""

_CHARACTERS = frozenset("!%?")

_SHELL = re.compile(r"^([ \t]*)!(?!=)[ \t]*(\S.*)$")
_ASSIGNED = re.compile(
    r"^([ \t]*[^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)*[ \t]*=[ \t]*)!(?!=)[ \t]*(\S.*)$"
)
_MAGIC = re.compile(r"^([ \t]*)%(%?[^\W\d]\w*)[ \t]*(.*)$")
_HELP = re.compile(r"^([ \t]*)([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*(\?\??)[ \t]*$")
_HELP_BEFORE = re.compile(r"^([ \t]*)(\?\??)[ \t]*([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*$")


def transform(source: str) -> str:
    """Replace lines that are not Python by calls, keeping the number of lines."""
    if _CHARACTERS.isdisjoint(source) or parse_python(source):
        return source
    lines = source.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    whole = _MAGIC.match(lines[first])
    if whole is not None and whole[2].startswith("%"):
        body = "\n".join([whole[3], *lines[first + 1 :]])
        lines[first:] = [f"{MAGIC}({whole[2]!r}, {body!r})", *[""] * (len(lines) - first - 1)]
        return "\n".join(lines)
    for index, line in enumerate(lines):
        call = _call(line)
        if call is not None and not _ends_inside(lines[:index]):
            lines[index] = call
    return "\n".join(lines)


def _call(line: str) -> str | None:
    for pattern, function in ((_SHELL, SHELL), (_ASSIGNED, LINES)):
        if found := pattern.match(line):
            return f"{found[1]}{function}({found[2].rstrip()!r})"
    if found := _MAGIC.match(line):
        return f"{found[1]}{MAGIC}({found[2]!r}, {found[3].rstrip()!r})"
    if found := _HELP.match(line):
        return f"{found[1]}{HELP}({found[2]!r}, {len(found[3])})"
    if found := _HELP_BEFORE.match(line):
        return f"{found[1]}{HELP}({found[3]!r}, {len(found[2])})"
    return None


def _ends_inside(lines: list[str]) -> bool:
    from .completion.complete import tokenize

    text = "\n".join(lines)
    tokens = tokenize(text)
    return (
        bool(tokens.open)
        or text.endswith("\\")
        or (bool(tokens.all) and tokens.all[-1].quote[-3:] in ('"""', "'''"))
    )


def parse_python(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


BARE_COMMANDS = frozenset(
    (
        *("cat", "cd", "cp", "debug", "env", "hist", "history", "less", "ll", "ls", "lsmagic"),
        *("man", "mkdir", "more", "mv", "pip", "prun", "pwd", "rm", "rmdir", "run", "save"),
        *("time", "timeit", "who", "who_ls", "whos"),
    )
)
"""They work without ``%`` unless a variable has their name, as in IPython."""

_BARE = re.compile(r"([a-z_]+)(?:[ \t]+([^=(\[,:\s].*))?")
_LIKE_A_PATH = re.compile(r"[-/~*.]\S")
"""Arguments that Python would read as an operator and a name: ``ls -l``, ``cat /etc/hosts``."""


def add_percent_sign(source: str, names: Mapping[str, Any]) -> str:
    """Write a cell of one line that is a magic command without ``%`` with it.

    Args:
        source: the cell's code.
        names: the namespace, whose names hide magic commands.
    """
    bare = _BARE.fullmatch(source.strip())
    if bare is None or bare[1] not in BARE_COMMANDS:
        return source
    if bare[1] in names or bare[1] in builtins.__dict__:
        return source
    is_python = bare[2] and not _LIKE_A_PATH.match(bare[2]) and parse_python(source)
    return source if is_python else f"%{source.strip()}"


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
    "prun": "%prun CODE: run it and show which functions took the time (%%prun: the whole cell)",
    "cat": "%cat FILE, %mkdir, %cp, %mv, %rm, %rmdir, %less, %more, %man, %ll: as in the shell",
    "pylab": "%pylab: import numpy as np, matplotlib.pyplot as plt, and their names",
    "writefile": "%%writefile FILE: write the cell to a file (-a: append it)",
    "save": "%save FILE 1-3 7: write the inputs of cells to a file (-f: replace it; -a: add to it)",
    "reset": "%reset: delete all names, after a question (-f: without)",
    "lsmagic": "%lsmagic: this list",
}


class MagicContext(NamedTuple):
    namespace: dict[str, Any]
    await_: Callable[[Any], Any]


class Reloading:
    reloader: ClassVar[Any] = None


class UnknownMagicError(Exception):
    __module__ = "builtins"


def _show_help(expression: str, level: int) -> None:
    frame = sys._getframe(1)
    try:
        value = eval(expression, frame.f_globals, dict(frame.f_locals))
    except (NameError, AttributeError, LookupError) as error:
        print(f"There is no {expression}: {error}")
        return
    about = own_module("completion.signatures").explain(value, expression)
    parts = [about["signature"], about["doc"] or "It has no docstring.", about["where"]]
    if level > 1:
        parts.append(about["source"] or "Its source is unknown.")
    own_module("displays").show_help("\n\n".join(part.rstrip() for part in parts if part))


def install_magics(await_: Callable[[Any], Any]) -> None:
    def magic(command: str, rest: str) -> Any:
        commands = own_module("magic_commands")
        table = commands.CELL_COMMANDS if command.startswith("%") else commands.LINE_COMMANDS
        work = table.get(command.lstrip("%"))
        if work is None:
            tables = commands.LINE_COMMANDS, commands.CELL_COMMANDS
            raise UnknownMagicError(own_module("session_magics").unknown_magic(command, *tables))
        return work(rest, MagicContext(sys._getframe(1).f_globals, await_))

    builtins.__dict__.update({MAGIC: magic, HELP: _show_help})
