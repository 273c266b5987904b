"""The ``%magic`` commands."""

from __future__ import annotations

import builtins
import re
import sys
from functools import partial
from typing import Any, Callable

from ..cells import debugger
from ..cells.suggestions import nearest
from ..cells.tracebacks import describe_safely
from . import (
    aliases,
    capturing,
    environment,
    files,
    folders,
    input_commands,
    listings,
    name_commands,
    programs,
    reloading,
    scripts,
    showing,
    timing,
    without_effect,
)

# Pickles of earlier versions look for them here.
from .capturing import CapturedOutput as CapturedOutput
from .dispatch import show_help_about
from .expansion import Names
from .state import MagicContext
from .summaries import SUMMARIES
from .timing import TimeitResult as TimeitResult

_HELP_LEVELS = {"pinfo": 1, "pdoc": 1, "pdef": 1, "pfile": 1, "pinfo2": 2, "psource": 2}
"""Magics that show what `name?` (1) and `name??` (2) show."""


def _lsmagic(text: str, caller: MagicContext) -> None:
    """`%lsmagic`: list the magic commands, or only the lines about one of them."""
    name = text.strip().lstrip("%")
    if not name:
        print("\n".join(SUMMARIES.values()))
        return
    mention = re.compile(rf"%{re.escape(name)}(?!\w)")
    lines = [line for line in SUMMARIES.values() if mention.search(line)]
    if lines:
        print("\n".join(lines))
    elif name in without_effect.INSTEAD:
        print(f"%{name} has no effect here: {without_effect.INSTEAD[name]}.")
    elif name in LINE_COMMANDS or name in CELL_COMMANDS:
        print(f"%{name} is a magic command. %lsmagic lists all.")
    else:
        print(f"There is no %{name}. %lsmagic lists all.")


def _quickref(text: str, caller: MagicContext) -> None:
    """`%quickref`, and `?` alone: say what cells can contain besides Python."""
    print(
        "name? shows help about an object, name?? its source, pd.*csv*? names that match. !command runs a shell command.\n"
        "%lsmagic lists the magic commands, %time? explains one. F1 opens the manual."
    )


def _pylab(text: str, caller: MagicContext) -> None:
    """`%pylab`: import what plots need."""
    names: dict[str, Any] = {}
    exec("from matplotlib.pylab import *\nimport numpy as np, matplotlib.pyplot as plt", names)
    for name, value in names.items():
        # pylab has functions such as `sum` and `max`, which would replace Python's.
        if name != "__builtins__" and name not in builtins.__dict__:
            caller.namespace[name] = value


def _tb(text: str, caller: MagicContext) -> None:
    """`%tb`: print the last traceback."""
    error = getattr(sys, "last_value", None)
    if error is None:
        print("No cell has raised an exception yet.")
    else:
        print(describe_safely(error).text, end="")


def _debug(text: str, caller: MagicContext) -> None:
    """`%debug`: inspect the place where the last exception was raised."""
    if text.strip():
        raise ValueError("%debug takes no code: write breakpoint() before what you want to debug")
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None:
        raise RuntimeError("There is nothing to debug: no cell has raised an exception yet.")
    debugger.post_mortem(traceback)


def _show_help(level: int, expression: str, caller: MagicContext) -> None:
    """`%pinfo` and the like: show help about a name.

    Args:
        level: As in `_HELP_LEVELS`.
    """
    names = Names(caller.namespace, {})
    show_help_about(expression.strip(), level, names)


Command = Callable[[str, MagicContext], Any]
"""Takes what follows the name, and returns the value that the cell shows."""

_LINE_AND_CELL_COMMANDS: dict[str, Command] = {
    "time": timing.time_code,
    "prun": timing.profile_code,
}

_FILE_COMMANDS: dict[str, Command] = {
    **{name: partial(programs.run_command, name) for name in "cat cp mkdir mv rm rmdir".split()},
    # In columns and with marks, as in IPython; later options have precedence.
    "ls": partial(programs.run_command, "ls -CF"),
    # A pager would wait for keys.
    "less": partial(programs.run_command, "cat"),
    "ll": partial(programs.run_command, "ls -lF"),
    **{
        name: partial(programs.list_matching, pattern)
        for name, pattern in (("ldir", "/$"), ("lf", "^-"), ("lk", "^l"), ("lx", "^-..x"))
    },
    **{name: partial(programs.run_command, name) for name in ("conda", "mamba", "micromamba")},
    "man": partial(programs.run_command, "man -P cat"),
    "more": partial(programs.run_command, "cat"),
}


TAKES_CODE = frozenset(
    {
        *_LINE_AND_CELL_COMMANDS,
        *without_effect.INSTEAD,
        *_HELP_LEVELS,
        "alias",
        "alias_magic",
        "debug",
        "timeit",
    }
)
"""Magics whose arguments stay as they are, because they are code or have no effect."""
SHELL_COMMANDS = frozenset({*_FILE_COMMANDS, "alias_command", "sx", "system", "uv"})
"""Magics whose arguments are read by a shell."""

LINE_COMMANDS: dict[str, Command] = {
    **_LINE_AND_CELL_COMMANDS,
    **{
        name: partial(without_effect.explain, name, reason)
        for name, reason in without_effect.INSTEAD.items()
    },
    **{name: partial(_show_help, level) for name, level in _HELP_LEVELS.items()},
    **_FILE_COMMANDS,
    "aimport": reloading.import_and_reload,
    "alias": aliases.define_alias,
    "alias_command": aliases.run_alias,
    "autoreload": reloading.set_reloading,
    "cd": folders.change_folder,
    "config": without_effect.accept_notebook_settings,
    "debug": _debug,
    "dhist": folders.show_visited_folders,
    "dirs": folders.pushed_folders,
    "ed": files.edit_file,
    "edit": files.edit_file,
    "env": environment.show_or_set_variable,
    "hist": input_commands.show_history,
    "history": input_commands.show_history,
    "load_ext": without_effect.load_extension,
    "lsmagic": _lsmagic,
    "macro": input_commands.make_macro,
    "magic": _lsmagic,
    "matplotlib": without_effect.accept_inline_backend,
    "pip": programs.run_pip,
    "popd": folders.pop_folder,
    "precision": showing.set_precision,
    "psearch": name_commands.search_names,
    "pushd": folders.push_folder,
    "pwd": folders.working_folder,
    "pycat": files.show_file,
    "pylab": _pylab,
    "quickref": _quickref,
    "reload_ext": without_effect.load_extension,
    "rerun": input_commands.rerun_inputs,
    "reset": name_commands.reset_names,
    "reset_selective": name_commands.reset_matching_names,
    "run": scripts.run_script,
    "save": input_commands.save_inputs,
    "set_env": environment.show_or_set_variable,
    "sx": programs.read_command,
    "system": programs.read_command,
    "tb": _tb,
    "timeit": timing.time_line,
    "unalias": aliases.remove_alias,
    "uv": programs.run_uv,
    "who": listings.print_names,
    "who_ls": listings.list_names,
    "whos": listings.print_variables,
    "xdel": name_commands.delete_name,
}
"""Magics of one line."""

CELL_COMMANDS: dict[str, Command] = {
    **_LINE_AND_CELL_COMMANDS,
    **dict.fromkeys(("!", "sx", "system"), programs.read_command),
    "debug": partial(
        without_effect.explain,
        "%debug",
        "write breakpoint() before what you want to debug, and run the cell",
    ),
    "timeit": timing.time_cell,
    **{name: partial(programs.run_program, name) for name in "perl pypy python2 ruby".split()},
    **{
        name: partial(without_effect.explain, f"%{name}", "a terminal cannot run or draw it")
        for name in ("javascript", "js", "svg", "SVG")
    },
    **dict.fromkeys(("html", "HTML"), partial(showing.show_cell_as, "text/html", "", "")),
    **dict.fromkeys(("python", "python3"), partial(programs.run_program, f"'{sys.executable}' -")),
    "bash": partial(programs.run_shell_script, "bash"),
    "capture": capturing.capture_cell,
    "file": files.write_cell,
    "latex": partial(showing.show_cell_as, "text/markdown", "```latex\n", "\n```"),
    "markdown": partial(showing.show_cell_as, "text/markdown", "", ""),
    "script": partial(programs.run_program, ""),
    "sh": partial(programs.run_shell_script, "sh"),
    "writefile": files.write_cell,
}
"""Magics of a whole cell, by what follows `%%`."""

LINE_COMMANDS["alias_magic"] = partial(
    aliases.alias_magic, magic_names=frozenset({*LINE_COMMANDS, *CELL_COMMANDS})
)


def describe_unknown(name: str, *, is_for_cell: bool) -> str:
    """Return a sentence about a magic command that does not exist, with those that are spelt like it.

    Args:
        name: The name without its signs.
        is_for_cell: Whether it was used for a whole cell.
    """
    sign = "%%" if is_for_cell else "%"
    commands = CELL_COMMANDS if is_for_cell else LINE_COMMANDS
    other_sign = "%" if is_for_cell else "%%"
    other_commands = LINE_COMMANDS if is_for_cell else CELL_COMMANDS
    if name in other_commands:
        candidates = [f"{other_sign}{name}"]
    else:
        candidates = [f"{sign}{candidate}" for candidate in nearest(name, commands)]
    suggestion = f"Did you mean {' or '.join(candidates)}? " if candidates else ""
    return f"There is no {sign}{name}. {suggestion}%lsmagic lists all."
