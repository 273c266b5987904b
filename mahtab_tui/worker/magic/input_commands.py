"""Magic commands on the inputs of earlier cells: `%history`, `%rerun`, `%macro` and `%save`."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from ..cells.compiling import compile_callable
from ..stdlib import late_import
from ..values.pretty import pretty_repr
from .state import Macro, MagicContext
from .syntax import transform

_CELL_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_DEFAULT_LAST_COUNT = 10
"""Inputs that `%history -l` shows."""


class _HistoryOptions(NamedTuple):
    """The arguments of `%history`."""

    has_numbers: bool
    """Whether each input has the number of its cell before it."""
    has_values: bool
    """Whether each input has its value after it."""
    path: str
    """The file to write; empty for the screen."""
    pattern: str
    """What the inputs contain; `*` is for any text. Empty for all."""
    last_count: int
    """How many inputs to show, the last ones; 0 for all."""
    numbers: list[int]
    """The numbers of the cells to show; those without an input are left out."""


def show_history(rest: str, caller: MagicContext) -> None:
    """Print earlier inputs: ``%history -n 1-5 7``."""
    options = _parse_history_options(rest)
    numbers = [
        number for number in options.numbers if _contains(_inputs()[number], options.pattern)
    ]
    if options.last_count:
        numbers = numbers[-options.last_count :]
    lines = [line for number in numbers for line in _history_lines(number, options)]

    if options.path:
        with open(os.path.expanduser(options.path), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        print(f"wrote {options.path}")
    elif lines:
        print("\n".join(lines))


def _history_lines(number: int, options: _HistoryOptions) -> list[str]:
    """Return the input of a cell, and its value if there is one."""
    source = _inputs()[number]
    lines = [source]
    if options.has_numbers:
        separator = "\n" if "\n" in source.strip("\n") else " "
        lines = [f"{number}:{separator}{source}"]
    values: dict[int, object] = builtins.__dict__["Out"]
    if options.has_values and number in values:
        lines.append(pretty_repr(values[number]))
    return lines


def _parse_history_options(rest: str) -> _HistoryOptions:
    """Parse what follows `%history`. Raises `ValueError` for options that it does not take."""
    words: list[str] = late_import("shlex").split(rest)
    letters: set[str] = set()
    ranges: list[str] = []
    path = ""
    pattern = ""
    last_count = 0
    while words:
        word = words.pop(0)
        if word == "-f" and words:
            path = words.pop(0)
        elif word == "-g":
            pattern = " ".join(words)
            words.clear()
        elif word == "-l":
            last_count = _DEFAULT_LAST_COUNT
            if words and words[0].isdecimal():
                last_count = int(words.pop(0))
        elif re.fullmatch(r"-[not]+", word):
            letters.update(word[1:])
        elif word.startswith("-"):
            raise ValueError(
                f"%history does not take {word}, only -n, -o, -t, -l COUNT, -g TEXT and -f FILE"
            )
        else:
            ranges.append(word)

    numbers = _cell_numbers(ranges) if ranges else list(range(1, len(_inputs())))
    return _HistoryOptions(
        has_numbers="n" in letters,
        has_values="o" in letters,
        path=path,
        pattern=pattern,
        last_count=last_count,
        numbers=[number for number in numbers if _inputs()[number]],
    )


def _contains(source: str, pattern: str) -> bool:
    """Return whether a text contains the parts of a pattern, separated by `*`, one after the other."""
    position = 0
    for part in pattern.split("*"):
        start = source.find(part, position)
        if start < 0:
            return False
        position = start + len(part)
    return True


def rerun_inputs(rest: str, caller: MagicContext) -> object:
    """Run inputs again, and return the value of the last: ``%rerun 1-5 7``, or the name of a macro."""
    macro = caller.namespace.get(rest.strip())
    if type(macro) is Macro:
        source = macro.value
    else:
        words = rest.split() or [str(_last_number())]
        source = "\n".join(_find_inputs(words))
    run = compile_callable(transform(source), "<%rerun>", *caller)
    return run()


def _last_number() -> int:
    """Return the number of the last input before the running cell. Raises `LookupError`."""
    for number in range(len(_inputs()) - 2, 0, -1):
        if _inputs()[number]:
            return number
    raise LookupError("%rerun has nothing to run: no cell ran before this one")


def make_macro(rest: str, caller: MagicContext) -> list[str] | None:
    """Give inputs a name: ``%macro NAME 1-5 7``. Without arguments, return the names."""
    words = [word for word in rest.split() if word not in ("-r", "-q")]
    if not words:
        return [name for name, value in caller.namespace.items() if type(value) is Macro]
    if len(words) < 2 or not words[0].isidentifier():
        raise ValueError("%macro needs a name and the numbers of cells, as in %macro load 1-3 7")
    macro = Macro("\n".join(_find_inputs(words[1:])))
    caller.namespace[words[0]] = macro
    print(f"{words[0]} runs:\n{macro}")
    return None


def save_inputs(text: str, caller: MagicContext) -> None:
    """Write inputs to a file: ``%save FILE 1-3 7``."""
    words = late_import("shlex").split(text)
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
    print(f"wrote {len(sources):,} {cells} to {path}")


def _inputs() -> list[str]:
    """Return the inputs by their cells' numbers; empty where there is none."""
    inputs: list[str] = builtins.__dict__["In"]
    return inputs


def _find_inputs(words: Iterable[str]) -> list[str]:
    """Return the inputs of cells by their numbers, as in ``1-3`` and ``7``."""
    return [source for number in _cell_numbers(words) if (source := _inputs()[number])]


def _cell_numbers(words: Iterable[str]) -> list[int]:
    """Return the numbers of cells in ranges such as ``1-3`` and ``7``."""
    numbers: list[int] = []
    for word in words:
        cell_range = _CELL_RANGE.fullmatch(word)
        if word.startswith("~"):
            raise ValueError(
                f"{word} is a cell of an earlier session: Ctrl+R searches their inputs"
            )
        if cell_range is None:
            raise ValueError(f"{word} is not the number of a cell, as in 3, or 3-7")
        first = int(cell_range[1])
        last = int(cell_range[2] or first)
        if last >= len(_inputs()):
            raise LookupError(f"this kernel has run no cell {last:,}")
        numbers += range(first, last + 1)
    return numbers
