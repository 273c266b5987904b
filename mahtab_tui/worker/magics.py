"""IPython's syntax and names at the prompt."""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Callable, ClassVar, NamedTuple

from .expansion import Names, expand_arguments, expand_command
from .stdlib import own_module

HISTORY = 1_000
"""Values of cells that are remembered."""


class CellHistory:
    """`In`, `Out`, and IPython's other names for earlier inputs and values, in builtins, so that
    the user's names can hide them."""

    def __init__(self) -> None:
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}
        builtins.__dict__.update(
            {"In": self.inputs, "Out": self.outputs, "_ih": self.inputs, "_oh": self.outputs}
        )
        builtins.__dict__.setdefault("_dh", [os.getcwd()])

    def add_source(self, cell: int, source: str) -> None:
        """Record a cell's code. Earlier cells may belong to an earlier kernel; cell 0 is ours."""
        if type(self.inputs) is list and cell > 0:
            self.inputs.extend([""] * (cell + 1 - len(self.inputs)))
            self.inputs[cell] = source
            self._name_inputs(cell, source)

    def _name_inputs(self, cell: int, source: str) -> None:
        earlier = ["", "", *self.inputs[max(0, cell - 3) : cell]]
        builtins.__dict__.update(
            {f"_i{cell}": source, "_i": earlier[-1], "_ii": earlier[-2], "_iii": earlier[-3]}
        )

    def add_result(self, cell: int, value: Any) -> None:
        names = builtins.__dict__
        names["___"] = names.get("__")
        names["__"] = names.get("_")
        names["_"] = value
        if value is self.outputs:
            return
        self.outputs[cell] = value
        names[f"_{cell}"] = value
        while len(self.outputs) > HISTORY:
            oldest = next(iter(self.outputs))
            del self.outputs[oldest]
            names.pop(f"_{oldest}", None)


SHELL = "__mahtab_shell__"
LINES = "__mahtab_lines__"
MAGIC = "__mahtab_magic__"
HELP = "__mahtab_help__"
"""Builtins that replace lines that are not Python."""

_CHARACTERS = frozenset("!%?")

_SHELL = re.compile(r"^([ \t]*)!(?![!=])[ \t]*(\S.*)$")
_SHELL_LINES = re.compile(r"^([ \t]*)!!(?!=)[ \t]*(\S.*)$")
_TARGETS = r"^([ \t]*[^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)*[ \t]*=[ \t]*)"
_ASSIGNED = re.compile(_TARGETS + r"!!?(?!=)[ \t]*(\S.*)$")
_ASSIGNED_MAGIC = re.compile(_TARGETS + r"%([^\W\d]\w*)[ \t]*(.*)$")
_MAGIC = re.compile(r"^([ \t]*)%(%?[^\W\d]\w*)[ \t]*(.*)$")
_HELP = re.compile(r"^([ \t]*)([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*(\?\??)[ \t]*$")
_HELP_BEFORE = re.compile(r"^([ \t]*)(\?\??)[ \t]*([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*$")


def transform(source: str) -> str:
    """Replace lines that are not Python by calls, keeping the number of lines."""
    if _CHARACTERS.isdisjoint(source) or parse_python(source):
        return source
    lines = source.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = _MAGIC.match(lines[first])
    if magic is not None and magic[2].startswith("%"):
        body = "\n".join([magic[3], *lines[first + 1 :]])
        lines[first:] = [f"{MAGIC}({magic[2]!r}, {body!r})", *[""] * (len(lines) - first - 1)]
    else:
        _replace_lines(source, lines)
    return "\n".join(lines)


def _replace_lines(source: str, lines: list[str]) -> None:
    """Replace those of a cell's lines that are not Python, in place."""
    from .completion.complete import next_line_start

    index = 0
    start: int | None = 0
    while start is not None:
        call = _call(lines[index])
        if call is None:
            # What is inside a string or brackets is not looked at.
            next_start = next_line_start(source, start)
            index += source.count("\n", start, next_start)
            start = next_start
            continue

        end = _last_continued_line(lines, index) + 1
        continued_lines = lines[index:end]
        blank_lines = [""] * (len(continued_lines) - 1)
        lines[index:end] = [_call(_join_continued(continued_lines)) or call, *blank_lines]
        start += sum(len(line) + 1 for line in continued_lines)
        index = end
        if index == len(lines):
            return


def _last_continued_line(lines: list[str], first: int) -> int:
    """Return the index of the line that ends a line continued by backslashes."""
    last = first
    while last + 1 < len(lines) and lines[last].endswith("\\"):
        last += 1
    return last


def _join_continued(lines: list[str]) -> str:
    return " ".join([*(line[:-1].rstrip() for line in lines[:-1]), lines[-1]])


def _call(line: str) -> str | None:
    """Return the call that replaces a line; None if the line may be Python."""
    # A backslash at the end is kept: Python then reports that the input is incomplete.
    unfinished = " \\" if line.endswith("\\") else ""
    line = line.removesuffix("\\")
    for pattern, function in ((_SHELL, SHELL), (_SHELL_LINES, LINES), (_ASSIGNED, LINES)):
        if match := pattern.match(line):
            return f"{match[1]}{function}({match[2].rstrip()!r}){unfinished}"
    for pattern in (_MAGIC, _ASSIGNED_MAGIC):
        if match := pattern.match(line):
            return f"{match[1]}{MAGIC}({match[2]!r}, {match[3].rstrip()!r}){unfinished}"
    if match := _HELP.match(line):
        return f"{match[1]}{HELP}({match[2]!r}, {len(match[3])})"
    if match := _HELP_BEFORE.match(line):
        return f"{match[1]}{HELP}({match[3]!r}, {len(match[2])})"
    return None


def parse_python(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is not Python."""
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
    """Add the ``%`` to a cell of one line that is a magic command without it.

    Args:
        source: the cell's code.
        names: the namespace, whose names hide magic commands.
    """
    line = source.strip()
    match = _BARE.fullmatch(line)
    if match is None:
        return source
    command = match[1]
    arguments = match[2] or ""
    if command not in BARE_COMMANDS or command in names or command in builtins.__dict__:
        return source
    may_be_python = arguments and not _LIKE_A_PATH.match(arguments)
    if may_be_python and parse_python(source):
        return source
    return f"%{line}"


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
    """What a magic command needs of the cell that calls it."""

    namespace: dict[str, Any]
    await_: Callable[[Any], Any]
    """Waits for an awaitable value, and returns its result."""


class Reloading:
    """Holds the one `Reloader`, once a cell has asked for it."""

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


def install_magics(namespace: dict[str, Any], await_: Callable[[Any], Any]) -> None:
    def magic(command: str, rest: str) -> Any:
        return run_magic(command, rest, Names.of_frame(sys._getframe(1)), await_)

    def get_ipython() -> Any:
        """Return an object with the methods of IPython's shell that cells call."""
        return own_module("ipython").get_shell(namespace, await_)

    builtins.__dict__.update({MAGIC: magic, HELP: _show_help, "get_ipython": get_ipython})


def run_magic(command: str, rest: str, names: Names, await_: Callable[[Any], Any]) -> Any:
    """Run a magic, and return its value.

    Args:
        command: its name; with a percent sign before it if it is one for a whole cell.
        rest: its arguments, and the lines below it, if any.
        names: the names that its caller sees.
        await_: waits for an awaitable value, and returns its result.

    Raises:
        UnknownMagicError: there is no such magic.
        UnknownNameError: a `$name` in the arguments is not a name that anything sets.
    """
    commands = own_module("magic_commands")
    table = commands.CELL_COMMANDS if command.startswith("%") else commands.LINE_COMMANDS
    name = command.lstrip("%")
    run = table.get(name)
    if run is None:
        tables = commands.LINE_COMMANDS, commands.CELL_COMMANDS
        raise UnknownMagicError(own_module("session_magics").unknown_magic(command, *tables))
    if name not in commands.TAKES_CODE:
        arguments, line_break, body = rest.partition("\n")
        expand = expand_command if name in commands.SHELL_COMMANDS else expand_arguments
        rest = f"{expand(arguments, names)}{line_break}{body}"
    return run(rest, MagicContext(names.namespace, await_))
