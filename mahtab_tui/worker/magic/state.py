"""What magic commands get of the cell that calls them, and what they keep from cell to cell."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, NamedTuple


class MagicContext(NamedTuple):
    """What a magic command needs of the cell that calls it."""

    namespace: dict[str, Any]
    run_awaitable: Callable[[Any], Any]
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
    """Holds the one `Reloader`."""

    reloader: ClassVar[Any] = None
    """None until a cell or the host has asked for it: in most sessions neither does, and its module is
    loaded only then."""
