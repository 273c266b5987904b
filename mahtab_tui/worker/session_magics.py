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

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


def unknown_magic(
    command: str, line_commands: Collection[str], cell_commands: Collection[str]
) -> str:
    """Return a sentence that names the magic commands that are spelt most like one.

    Args:
        command: its name; with a percent sign before it if it is a cell's.
        line_commands: names of magic commands for a line; so are `cell_commands` for a cell.
    """
    name = command.lstrip("%")
    is_cell = command != name
    commands, others = (cell_commands, line_commands) if is_cell else (line_commands, cell_commands)
    sign, other_sign = ("%%", "%") if is_cell else ("%", "%%")
    if name in others:
        near = [f"{other_sign}{name}"]
    else:
        near = [f"{sign}{each}" for each in nearest(name, commands)]
    suggestion = f"Did you mean {' or '.join(near)}? " if near else ""
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
    with open(path, "a" if "-a" in options else "w", encoding="utf-8") as file:
        file.writelines(source.rstrip("\n") + "\n" for source in sources)
    print(f"wrote {len(sources)} {'cell' if len(sources) == 1 else 'cells'} to {path}")


def _find_inputs(words: Iterable[str]) -> list[str]:
    """Return the inputs of cells by their numbers, as in ``1-3`` and ``7``."""
    inputs: list[str] = builtins.__dict__["In"]
    sources: list[str] = []
    for word in words:
        numbers = _NUMBERS.fullmatch(word)
        if numbers is None:
            raise ValueError(f"{word} is not the number of a cell, as in 3, or 3-7")
        first = int(numbers[1])
        last = int(numbers[2] or first)
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
    if not words and not _agrees(f"Delete all {len(names):,} names? (y/[n]) "):
        print("Nothing was deleted.")
        return
    for name in names:
        caller.namespace.pop(name, None)


def _agrees(question: str) -> bool:
    answer: str = builtins.__dict__["input"](question)
    return answer.strip().lower() in ("y", "yes")


def edit_file(rest: str, caller: MagicContext) -> None:
    path = rest.strip().strip("'\"")
    if path:
        toolbox.open_in_editor(os.path.expanduser(path))
    else:
        print("%edit FILE opens a file in your editor. F4 opens the input there.")
