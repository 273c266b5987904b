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

from ..stdlib import own_module
from .expansion import Names, expand_arguments, expand_command

MAX_REMEMBERED_VALUES = 1_000
"""Values of cells that are remembered."""

SHELL = "__mahtab_shell__"
LINES = "__mahtab_lines__"
MAGIC = "__mahtab_magic__"
HELP = "__mahtab_help__"
"""Builtins that replace lines that are not Python."""

_MAY_BE_OURS = re.compile(r"[!%?]|^[ \t]*[,;/]", re.MULTILINE)
"""What is in every cell with a line that `transform` replaces, and in many others."""

_SHELL = re.compile(r"^([ \t]*)!(?![!=])[ \t]*(\S.*)$")
_SHELL_LINES = re.compile(r"^([ \t]*)!!(?!=)[ \t]*(\S.*)$")
_TARGETS = r"^([ \t]*[^\W\d][\w.]*(?:[ \t]*,[ \t]*[^\W\d][\w.]*)*[ \t]*=[ \t]*)"
_ASSIGNED = re.compile(_TARGETS + r"!!?(?!=)[ \t]*(\S.*)$")
_ASSIGNED_MAGIC = re.compile(_TARGETS + r"%([^\W\d]\w*)[ \t]*(.*)$")
_MAGIC = re.compile(r"^([ \t]*)%(%?[^\W\d]\w*|%!)[ \t]*(.*)$")
_HELP = re.compile(r"^([ \t]*)([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*(\?\??)[ \t]*$")
_HELP_BEFORE = re.compile(r"^([ \t]*)(\?\??)[ \t]*([^\W\d][\w.]*(?:\[[^\]]*\])*)[ \t]*$")
_HELP_FOR_MAGIC = re.compile(r"^([ \t]*)(?:\?\??[ \t]*(%%?\w+)|(%%?\w+)[ \t]*\?\??)[ \t]*$")
_GENERAL_HELP = re.compile(r"^([ \t]*)\?\??[ \t]*$")
_WILDCARDS = re.compile(r"^([ \t]*)(?:\?\??[ \t]*([\w.*]+)|([\w.*]+)[ \t]*\?\??)[ \t]*$")
"""Help for names that contain `*`. The others are those of `_HELP`."""
_QUOTED_CALL = re.compile(r"^([ \t]*)([,;/])[ \t]*([^\W\d][\w.]*)[ \t]*(.*)$")
"""IPython's calls without parentheses: `,f a b`, `;f a b` and `/f a, b`."""

BARE_COMMANDS = frozenset(
    (
        "alias autoreload cat cd conda cp debug dhist dirs env hist history ldir less lf lk ll"
        " load_ext ls lsmagic lx macro man mamba matplotlib mkdir more mv pdef pdoc pfile pinfo"
        " pinfo2 pip popd precision prun psearch psource pushd pwd pycat quickref recall rerun rm"
        " rmdir run save tb time timeit unalias uv who who_ls whos xdel xmode"
    ).split()
)
"""They work without ``%`` unless a variable has their name, as in IPython."""

LEAVING_NAMES = ("exit", "quit")
"""A cell that is one of these calls it."""

_BARE = re.compile(r"([^\W\d]\w*)(?:[ \t]+([^=(\[,:\s].*))?")
_LIKE_A_PATH = re.compile(r"[-/~*.]\S")
"""Arguments that Python would read as an operator and a name: ``ls -l``, ``cat /etc/hosts``."""

SUMMARIES = {
    "time": "%time CODE: run it once and show how long it took (%%time: the whole cell)",
    "timeit": "%timeit CODE: run it many times and show how long one run takes (-n LOOPS, -r REPEATS; %%timeit: the whole cell)",
    "cd": "%cd FOLDER: change the working directory",
    "run": "%run FILE.py ARGUMENTS: run a script, and keep its names in the namespace (-i: in the namespace, -n: as an import, -m: a module by name, -t: with its time, -p: with a profile; %run FILE.ipynb: a notebook's cells)",
    "debug": "%debug: inspect the place where the last exception was raised",
    "pip": "%pip install PACKAGE: into the environment of this interpreter",
    "who": "%who: the names of the variables (%whos: with types and summaries; %who_ls: as a list)",
    "autoreload": "%autoreload 2: reload changed modules before each cell (0: off; without a number: now)",
    "env": "%env: the environment; %env NAME, or %env NAME=VALUE",
    "history": "%history 1-5 7: earlier inputs, without numbers all (-n: numbered, -o: with values, -g TEXT: those that contain it, -f FILE: to a file)",
    "rerun": "%rerun 1-5 7: run inputs again (without a number, the last one)",
    "macro": "%macro NAME 1-5 7: give inputs a name, which runs them",
    "alias": "%alias NAME COMMAND: a new name for a shell command (%s: an argument, %l: all of them; %unalias NAME; %alias_magic NAME MAGIC)",
    "psearch": "%psearch pd.*csv*: names that match, as pd.*csv*? does",
    "pinfo": "%pinfo NAME: help, as NAME? (%pinfo2, NAME??: with the source; %pdoc, %pdef, %psource, %pfile)",
    "pycat": "%pycat FILE: show Python code in colours",
    "tb": "%tb: the last traceback",
    "xdel": "%xdel NAME: delete a name (%reset_selective PATTERN: those that contain it)",
    "pushd": "%pushd FOLDER, %popd, %dirs: folders to return to",
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

    def add_result(self, cell: int, value: object) -> None:
        names = builtins.__dict__
        names["___"] = names.get("__")
        names["__"] = names.get("_")
        names["_"] = value
        if value is self.outputs:
            return
        self.outputs[cell] = value
        names[f"_{cell}"] = value
        while len(self.outputs) > MAX_REMEMBERED_VALUES:
            oldest = next(iter(self.outputs))
            del self.outputs[oldest]
            names.pop(f"_{oldest}", None)


def transform(source: str) -> str:
    """Replace lines that are not Python by calls, keeping the number of lines."""
    source = dedent(source)
    if not _MAY_BE_OURS.search(source) or parse_python(source):
        return source
    lines = source.split("\n")
    first_index = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = _MAGIC.match(lines[first_index])
    is_help = _HELP_FOR_MAGIC.match(lines[first_index])
    if magic is not None and magic[2].startswith("%") and not is_help:
        body = "\n".join([magic[3], *lines[first_index + 1 :]])
        lines[first_index:] = [
            f"{MAGIC}({magic[2]!r}, {body!r})",
            *[""] * (len(lines) - first_index - 1),
        ]
    else:
        _replace_lines(source, lines)
    return "\n".join(lines)


def dedent(source: str) -> str:
    """Remove the indentation of a cell that was copied from inside a block, as IPython does."""
    if source[:1] not in (" ", "\t", "\n"):
        return source
    lines = source.split("\n")
    # Not a comment: Python lets those stand anywhere.
    code_lines = (line for line in lines if line.strip() and line.lstrip()[0] != "#")
    first_line = next(code_lines, "")
    indent = first_line[: len(first_line) - len(first_line.lstrip(" \t"))]
    if not indent:
        return source
    return "\n".join(line.removeprefix(indent) for line in lines)


def _replace_lines(source: str, lines: list[str]) -> None:
    """Replace those of a cell's lines that are not Python, in place."""
    from ..completion.tokens import next_line_start

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


def _last_continued_line(lines: list[str], first_index: int) -> int:
    """Return the index of the line that ends a line continued by backslashes."""
    last_index = first_index
    while last_index + 1 < len(lines) and lines[last_index].endswith("\\"):
        last_index += 1
    return last_index


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
    if help_call := _help_call(line):
        return help_call
    for pattern in (_MAGIC, _ASSIGNED_MAGIC):
        if match := pattern.match(line):
            return f"{match[1]}{MAGIC}({match[2]!r}, {match[3].rstrip()!r}){unfinished}"
    if match := _QUOTED_CALL.match(line):
        return f"{match[1]}{match[3]}({_quoted_arguments(match[2], match[4])}){unfinished}"
    return None


def _help_call(line: str) -> str | None:
    """Return the call for a line that asks for help, as in `name?`; None if it does not."""
    if "?" not in line:
        return None
    if match := _HELP.match(line):
        return f"{match[1]}{HELP}({match[2]!r}, {len(match[3])})"
    if match := _HELP_BEFORE.match(line):
        return f"{match[1]}{HELP}({match[3]!r}, {len(match[2])})"
    if match := _HELP_FOR_MAGIC.match(line):
        return f"{match[1]}{MAGIC}('lsmagic', {match[2] or match[3]!r})"
    if match := _GENERAL_HELP.match(line):
        return f"{match[1]}{MAGIC}('quickref', '')"
    match = _WILDCARDS.match(line)
    if match is None or "*" not in line:
        return None
    return f"{match[1]}{MAGIC}('psearch', {match[2] or match[3]!r})"


def _quoted_arguments(mark: str, text: str) -> str:
    """Return the arguments of a call without parentheses.

    Args:
        mark: `,` if each word is a string, `;` if the whole text is one, `/` if they are Python's.
        text: what is after the function's name.
    """
    if mark == ";":
        return repr(text.strip())
    words = text.split()
    return ", ".join(map(repr, words) if mark == "," else words)


def parse_python(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def complete_command(source: str, names: Mapping[str, object]) -> str:
    """Add the ``%`` to a cell of one line that is a magic command without it, and the parentheses
    to `exit` and `quit`, as IPython does.

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
    if type(names.get(line)) is Macro:
        return f"%rerun {line}"
    if line in LEAVING_NAMES and line not in names:
        return f"{line}()"
    is_command = command in BARE_COMMANDS or command in Aliases.commands
    if not is_command or command in names or command in builtins.__dict__:
        return source
    may_be_python = arguments and not _LIKE_A_PATH.match(arguments)
    if may_be_python and parse_python(source):
        return source
    return f"%{line}"


class MagicContext(NamedTuple):
    """What a magic command needs of the cell that calls it."""

    namespace: dict[str, Any]
    await_: Callable[[Any], Any]
    """Waits for an awaitable value, and returns its result."""


class Macro:
    """Inputs to which `%macro` gave a name; a cell that is this name runs them."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"<macro of {len(self.value.splitlines()):,} lines: type its name to run it>"


class Aliases:
    """Names for shell commands and for other magic commands."""

    commands: ClassVar[dict[str, str]] = {}
    """Shell commands, by the names that `%alias` gave them."""
    magics: ClassVar[dict[str, str]] = {}
    """Names of magic commands, by those that `%alias_magic` gave them."""


class Reloading:
    """Holds the one `Reloader`, once a cell has asked for it."""

    reloader: ClassVar[Any] = None


class UnknownMagicError(Exception):
    __module__ = "builtins"


def _show_help(expression: str, level: int) -> None:
    show_help_about(expression, level, Names.of_frame(sys._getframe(1)))


def show_help_about(expression: str, level: int, names: Names) -> None:
    """Show help about a value. level: 1, or 2 with its source."""
    try:
        value = names.evaluate(expression)
    except (NameError, AttributeError, LookupError) as error:
        print(f"There is no {expression}: {error}")
        return
    about = own_module("completion.explanations").explain(value, expression)
    parts = [about["signature"], about["doc"] or "It has no docstring.", about["where"]]
    if level > 1:
        parts.append(about["source"] or "Its source is unknown.")
    own_module("values.displays").show_help("\n\n".join(part.rstrip() for part in parts if part))


def install_magics(namespace: dict[str, object], await_: Callable[[Any], object]) -> None:
    def magic(command: str, text: str) -> Any:
        return run_magic(command, text, Names.of_frame(sys._getframe(1)), await_)

    def get_ipython() -> Any:
        """Return an object with the methods of IPython's shell that cells call."""
        return own_module("magic.ipython_shell").get_shell(namespace, await_)

    builtins.__dict__.update({MAGIC: magic, HELP: _show_help, "get_ipython": get_ipython})


def run_magic(command: str, text: str, names: Names, await_: Callable[[Any], object]) -> object:
    """Run a magic, and return its value.

    Args:
        command: its name; with a percent sign before it if it is one for a whole cell.
        text: its arguments, and the lines below it, if any.
        names: the names that its caller sees.
        await_: waits for an awaitable value, and returns its result.

    Raises:
        UnknownMagicError: there is no such magic.
        UnknownNameError: a `$name` in the arguments is not a name that anything sets.
    """
    commands = own_module("magic.commands")
    if command.startswith("%"):
        table = commands.CELL_COMMANDS
    else:
        table = commands.LINE_COMMANDS
    name = command.lstrip("%")
    name = Aliases.magics.get(name, name)
    if name in Aliases.commands and table is commands.LINE_COMMANDS:
        text = own_module("magic.aliases").fill_alias(name, text)
        name = "alias_command"
    run = table.get(name)
    if run is None:
        tables = commands.LINE_COMMANDS, commands.CELL_COMMANDS
        raise UnknownMagicError(
            own_module("magic.session_commands").unknown_magic(command, *tables)
        )
    if name not in commands.TAKES_CODE:
        arguments, line_break, body = text.partition("\n")
        if name in commands.SHELL_COMMANDS:
            expanded = expand_command(arguments, names)
        else:
            expanded = expand_arguments(arguments, names)
        text = f"{expanded}{line_break}{body}"
    return run(text, MagicContext(names.namespace, await_))
