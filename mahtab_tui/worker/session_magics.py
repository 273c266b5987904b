"""Magic commands on the session's inputs and names."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Collection, Iterable

from . import toolbox
from .hints import nearest
from .magics import MagicContext
from .stdlib import late_import
from .variables import HIDDEN

_CELL_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def unknown_magic(
    command: str, line_commands: Collection[str], cell_commands: Collection[str]
) -> str:
    """Return a sentence that says which magic commands are spelt like an unknown one.

    Args:
        command: the unknown name; with a percent sign before it if it was used for a whole cell.
        line_commands: the names of the magic commands for a line.
        cell_commands: the names of the magic commands for a cell.
    """
    name = command.lstrip("%")
    is_for_cell = command.startswith("%")
    sign = "%%" if is_for_cell else "%"
    commands = cell_commands if is_for_cell else line_commands
    other_sign = "%" if is_for_cell else "%%"
    other_commands = line_commands if is_for_cell else cell_commands

    if name in other_commands:
        candidates = [f"{other_sign}{name}"]
    else:
        candidates = [f"{sign}{candidate}" for candidate in nearest(name, commands)]
    suggestion = f"Did you mean {' or '.join(candidates)}? " if candidates else ""
    return f"There is no %{command}. {suggestion}%lsmagic lists all."


def save_inputs(rest: str, caller: MagicContext) -> None:
    """Write inputs to a file: ``%save FILE 1-3 7``."""
    words = late_import("shlex").split(rest)
    options = {word for word in words if word in ("-a", "-f")}
    arguments = [word for word in words if word not in options]
    if len(arguments) < 2:
        raise ValueError("%save needs a file and the numbers of cells, as in %save work.py 1-3 7")

    path = os.path.expanduser(arguments[0])
    if not path.endswith((".py", ".ipy")):
        path += ".py"
    if os.path.exists(path) and not options:
        raise FileExistsError(f"{path} exists: %save -f replaces it, %save -a adds to it")

    sources = _find_inputs(arguments[1:])
    mode = "a" if "-a" in options else "w"
    with open(path, mode, encoding="utf-8") as file:
        file.writelines(source.rstrip("\n") + "\n" for source in sources)
    cells = "cell" if len(sources) == 1 else "cells"
    print(f"wrote {len(sources)} {cells} to {path}")


def _find_inputs(words: Iterable[str]) -> list[str]:
    """Return the inputs of cells by their numbers, as in ``1-3`` and ``7``."""
    inputs: list[str] = builtins.__dict__["In"]
    sources: list[str] = []
    for word in words:
        cell_range = _CELL_RANGE.fullmatch(word)
        if cell_range is None:
            raise ValueError(f"{word} is not the number of a cell, as in 3, or 3-7")
        first = int(cell_range[1])
        last = int(cell_range[2] or first)
        if last >= len(inputs):
            raise LookupError(f"this kernel has run no cell {last}")
        sources += filter(None, inputs[first : last + 1])
    return sources


def reset_names(rest: str, caller: MagicContext) -> None:
    """Delete all names of the namespace, after a question unless the argument is ``-f``."""
    words = rest.split()
    if words not in ([], ["-f"]):
        raise ValueError("%reset takes -f (do not ask) or nothing; F9 starts a new kernel")
    names = [
        name
        for name in list(caller.namespace)
        if type(name) is str and name not in HIDDEN and not name.startswith("__")
    ]
    if not words and not _confirm(f"Delete all {len(names):,} names? (y/[n]) "):
        print("Nothing was deleted.")
        return
    for name in names:
        caller.namespace.pop(name, None)


def _confirm(question: str) -> bool:
    answer: str = builtins.__dict__["input"](question)
    return answer.strip().lower() in ("y", "yes")


def edit_file(rest: str, caller: MagicContext) -> None:
    """Open a file in the user's editor: ``%edit FILE``."""
    path = rest.strip().strip("'\"")
    if path:
        toolbox.open_in_editor(os.path.expanduser(path))
    else:
        print("%edit FILE opens a file in your editor. F4 opens the input there.")
