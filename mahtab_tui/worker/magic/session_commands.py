"""Magic commands on the session's inputs and names."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..cells.compiling import compile_callable
from ..cells.suggestions import nearest
from ..stdlib import late_import
from ..tools import shell_commands
from ..values.pretty import pretty_repr
from ..values.variables import HIDDEN_NAMES
from .expansion import Names
from .state import Macro, MagicContext
from .syntax import transform

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
    suggestion = ""
    if candidates:
        suggestion = f"Did you mean {' or '.join(candidates)}? "
    return f"There is no %{command}. {suggestion}%lsmagic lists all."


class _HistoryOptions(NamedTuple):
    """The arguments of `%history`."""

    letters: frozenset[str]
    """n: with numbers. o: with values."""
    path: str
    """The file to write; empty for the screen."""
    pattern: str
    """What the inputs contain; `*` is for any text. Empty for all."""
    last_count: int
    """Number of the last inputs to show; 0 for all."""
    numbers: list[int]
    """The numbers of the cells to show; empty for all that were run."""


def show_history(rest: str, caller: MagicContext) -> None:
    """Print earlier inputs: ``%history -n 1-5 7``."""
    options = _parse_history_options(rest)
    numbers = [
        number for number in options.numbers if _contains(_inputs()[number], options.pattern)
    ]
    lines: list[str] = []
    for number in numbers[-options.last_count :]:
        lines += _history_lines(number, options.letters)

    if options.path:
        with open(os.path.expanduser(options.path), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        print(f"wrote {options.path}")
    elif lines:
        print("\n".join(lines))


def _history_lines(number: int, letters: frozenset[str]) -> list[str]:
    """Return an input, and its value if there is one.

    Args:
        number: The cell.
        letters: As in `_HistoryOptions`.
    """
    source = _inputs()[number]
    outputs: dict[int, object] = builtins.__dict__["Out"]
    lines = [source]
    if "n" in letters:
        separator = "\n" if "\n" in source.strip("\n") else " "
        lines = [f"{number}:{separator}{source}"]
    if "o" in letters and number in outputs:
        lines.append(pretty_repr(outputs[number]))
    return lines


def _parse_history_options(rest: str) -> _HistoryOptions:
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
            last_count = 10
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
    if ranges:
        numbers = _cell_numbers(ranges)
    else:
        numbers = list(range(1, len(_inputs())))
    numbers = [number for number in numbers if _inputs()[number]]
    return _HistoryOptions(frozenset(letters), path, pattern, last_count, numbers)


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


def search_names(rest: str, caller: MagicContext) -> None:
    """Print the names that match a pattern: ``%psearch pd.*csv*``. Those that begin with an
    underscore match only a pattern that does."""
    words = rest.strip().rstrip("?").split()
    if not words:
        raise ValueError(
            "%psearch needs a pattern, as in %psearch pd.*csv*, which pd.*csv*? is too"
        )
    pattern = words[0]
    path, dot, last = pattern.rpartition(".")
    if "*" in path or "?" in path:
        raise ValueError(f"a * may only be in the last name of {pattern}")

    if dot:
        names = set(dir(Names(caller.namespace, {}).evaluate(path)))
    else:
        names = {*caller.namespace, *builtins.__dict__} - HIDDEN_NAMES
    matcher = re.compile(late_import("fnmatch").translate(last))
    matches = sorted(
        f"{path}{dot}{name}"
        for name in names
        if matcher.match(name) and name.startswith("_") <= last.startswith("_")
    )
    print("\n".join(matches) or f"No name matches {pattern}.")


def delete_name(rest: str, caller: MagicContext) -> None:
    """Delete a name: ``%xdel NAME``."""
    name = rest.removeprefix("-n ").strip()
    if name not in caller.namespace:
        raise NameError(f"name {name!r} is not defined")
    del caller.namespace[name]


def reset_matching_names(rest: str, caller: MagicContext) -> None:
    """Delete the names that contain a pattern: ``%reset_selective [-f] PATTERN``."""
    words = rest.split()
    pattern = None
    if words and words[-1] != "-f":
        pattern = re.compile(words[-1])
    if pattern is None or words[:-1] not in ([], ["-f"]):
        raise ValueError("%reset_selective needs a regular expression, as in %reset_selective ^tmp")
    names = [name for name in _own_names(caller) if pattern.search(name)]
    if not names:
        print(f"No name matches {words[-1]}.")
    elif "-f" in words or _confirm(f"Delete {', '.join(names)}? (y/[n]) "):
        for name in names:
            caller.namespace.pop(name, None)


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


def reset_names(text: str, caller: MagicContext) -> None:
    """Delete all names of the namespace, after a question unless the argument is ``-f``."""
    words = text.split()
    if words not in ([], ["-f"]):
        raise ValueError("%reset takes -f (do not ask) or nothing; F9 starts a new kernel")
    names = _own_names(caller)
    names_words = "the only name" if len(names) == 1 else f"all {len(names):,} names"
    if not words and not _confirm(f"Delete {names_words}? (y/[n]) "):
        print("Nothing was deleted.")
        return
    for name in names:
        caller.namespace.pop(name, None)


def _own_names(caller: MagicContext) -> list[str]:
    """Return the names that cells have set."""
    return [
        name
        for name in list(caller.namespace)
        if type(name) is str and name not in HIDDEN_NAMES and not name.startswith("__")
    ]


def _confirm(question: str) -> bool:
    answer: str = builtins.__dict__["input"](question)
    return answer.strip().lower() in ("y", "yes")


def edit_file(text: str, caller: MagicContext) -> None:
    """Open a file in the user's editor: ``%edit FILE``."""
    path = text.strip().strip("'\"")
    if path:
        shell_commands.open_in_editor(os.path.expanduser(path))
    else:
        print("%edit FILE opens a file in your editor. F4 opens the input there.")
