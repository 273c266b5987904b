"""Commands of the shell that IPython has as magics: %cat, %mkdir and so on."""

from __future__ import annotations

import builtins
from typing import Callable

from . import LINES, SHELL
from .magics import Caller

_COMMANDS = {"less": "cat", "more": "cat", "ll": "ls -l", "man": "man -P cat"}
"""Program that runs instead: a pager would wait for keys."""


def _shell(name: str) -> Callable[[str, Caller], None]:
    def run(rest: str, caller: Caller) -> None:
        builtins.__dict__[SHELL](f"{_COMMANDS.get(name, name)} {rest}", caller.namespace)

    return run


globals().update(
    {name: _shell(name) for name in ("cat", "mkdir", "cp", "mv", "rm", "rmdir", *_COMMANDS)}
)


def system(rest: str, caller: Caller) -> object:
    """Return the lines that a command prints."""
    return builtins.__dict__[LINES](rest, caller.namespace)


sx = system
