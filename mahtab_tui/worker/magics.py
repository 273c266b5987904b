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
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
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
    whole = _MAGIC.match(lines[first])
    if whole is not None and whole[2].startswith("%"):
        body = "\n".join([whole[3], *lines[first + 1 :]])
        lines[first:] = [f"{MAGIC}({whole[2]!r}, {body!r})", *[""] * (len(lines) - first - 1)]
        return "\n".join(lines)
    index = 0
    while index < len(lines):
        end = index
        call = _call(lines[index])
        if call is not None and not _ends_inside(lines[:index]):
            end = _last_continued_line(lines, index)
            joined = _join_continued(lines[index : end + 1])
            lines[index : end + 1] = [_call(joined) or call, *[""] * (end - index)]
        index = end + 1
    return "\n".join(lines)


def _last_continued_line(lines: list[str], first: int) -> int:
    """Return the index of the line that ends a line continued by backslashes."""
    last = first
    while last + 1 < len(lines) and lines[last].endswith("\\"):
        last += 1
    return last


def _join_continued(lines: list[str]) -> str:
    return " ".join([*(line[:-1].rstrip() for line in lines[:-1]), lines[-1]])


def _call(line: str) -> str | None:
    # Python says of a backslash at the end that the input is incomplete.
    unfinished = " \\" if line.endswith("\\") else ""
    line = line.removesuffix("\\")
    for pattern, function in ((_SHELL, SHELL), (_SHELL_LINES, LINES), (_ASSIGNED, LINES)):
        if found := pattern.match(line):
            return f"{found[1]}{function}({found[2].rstrip()!r}){unfinished}"
    for pattern in (_MAGIC, _ASSIGNED_MAGIC):
        if found := pattern.match(line):
            return f"{found[1]}{MAGIC}({found[2]!r}, {found[3].rstrip()!r}){unfinished}"
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
        command: its name; with a percent sign before it if it is a cell's.
        rest: its arguments, and the lines below it, if any.
        names: the names of the code that runs it.

    Raises:
        UnknownMagicError: there is no such magic.
        UnknownNameError: the arguments have a `$name` that nothing sets.
    """
    commands = own_module("magic_commands")
    table = commands.CELL_COMMANDS if command.startswith("%") else commands.LINE_COMMANDS
    name = command.lstrip("%")
    work = table.get(name)
    if work is None:
        tables = commands.LINE_COMMANDS, commands.CELL_COMMANDS
        raise UnknownMagicError(own_module("session_magics").unknown_magic(command, *tables))
    if name not in commands.TAKES_CODE:
        arguments, line_break, body = rest.partition("\n")
        expand = expand_command if name in commands.SHELL_COMMANDS else expand_arguments
        rest = f"{expand(arguments, names)}{line_break}{body}"
    return work(rest, MagicContext(names.namespace, await_))
