"""What a kernel has in place of functions that need a terminal: input, passwords, help and exit."""

from __future__ import annotations

import builtins
import getpass
import io
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, TextIO

from ..link.host import Host
from ..stdlib import late_import, own_module
from .debugger import set_trace


class Replacement(NamedTuple):
    """A name of a module, and what it means in a kernel."""

    module: ModuleType
    name: str
    value: object


class CellExit(SystemExit):
    """The user called `exit()`: the cell ends, and the session asks whether to quit."""


class Console:
    """Asks the user through the host, in place of functions that read a terminal."""

    def __init__(self) -> None:
        self.hidden_lines: list[str] = []
        """Lines that were typed hidden, which are not saved."""

    def input(self, prompt: object = "", /) -> str:
        """Ask the user for a line, in place of the builtin `input`."""
        return self._require_line(str(prompt), password=False)

    def getpass(
        self, prompt: str = "Password: ", stream: TextIO | None = None, **options: object
    ) -> str:
        """Ask the user for a line that is not shown, in place of `getpass.getpass`."""
        answer = self._require_line(str(prompt), password=True)
        if answer not in self.hidden_lines:
            self.hidden_lines.append(answer)
        return answer

    def readline(self) -> str | None:
        """Return a line of the standard input; None at its end."""
        answer = self._line("", password=False)
        if answer is not None:
            print(answer)
        return answer

    def leave(self, code: object = None) -> NoReturn:
        """End the cell, and let the session ask whether to quit."""
        Host.call("quit", {})
        raise CellExit(code)

    def replacements(self) -> list[Replacement]:
        """Return what a kernel has in place of Python's own."""
        replacements = [
            Replacement(builtins, "input", self.input),
            Replacement(getpass, "getpass", self.getpass),
            Replacement(sys, "stdin", HostInput(self.readline)),
            Replacement(builtins, "exit", _Quitter("exit", self.leave)),
            Replacement(builtins, "quit", _Quitter("quit", self.leave)),
            Replacement(builtins, "help", _Help()),
        ]
        if "PYTHONBREAKPOINT" not in os.environ:
            replacements.append(Replacement(sys, "breakpointhook", set_trace))
        return replacements

    def _require_line(self, prompt: str, password: bool) -> str:
        """Ask for a line, and write it after its prompt as a terminal does. Raises `EOFError`."""
        answer = self._line(prompt, password)
        print(prompt if password or answer is None else prompt + answer)
        if answer is None:
            raise EOFError("no more input")
        return answer

    def _line(self, prompt: str, password: bool) -> str | None:
        sys.stdout.flush()
        answer = Host.call("input", {"prompt": prompt, "password": password})
        return None if answer is None else str(answer)


class HostInput(io.TextIOBase):
    """A standard input whose lines the user types when they are read."""

    encoding = "utf-8"

    def __init__(self, ask_line: Callable[[], str | None]) -> None:
        """
        Args:
            ask_line: Returns a line without its end; None at the end of the input.
        """
        super().__init__()
        self._ask_line = ask_line
        self._unread = ""
        """The part of the last line that was not read yet."""

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        if not self._unread:
            line = self._ask_line()
            if line is None:
                return ""
            self._unread = line + "\n"
        end = self._unread.index("\n") + 1
        if size is not None and size >= 0:
            end = min(end, size)
        text = self._unread[:end]
        self._unread = self._unread[end:]
        return text

    def read(self, size: int | None = -1, /) -> str:
        if size is None or size < 0:
            return "".join(iter(self.readline, ""))
        text = ""
        while len(text) < size and (part := self.readline(size - len(text))):
            text += part
        return text


class _Quitter:
    """Leave the session, as `exit()` or `quit()`."""

    def __init__(self, name: str, leave: Callable[[object], NoReturn]) -> None:
        self._name = name
        self._leave = leave

    def __repr__(self) -> str:
        return f"Use {self._name}() to leave."

    def __call__(self, code: object = None) -> NoReturn:
        self._leave(code)


class _Help:
    """`help`, whose pages the host shows."""

    def __repr__(self) -> str:
        return "Type help(object) for help about object, or object?."

    def __call__(self, *args: object, **named: object) -> None:
        pydoc: Any = late_import("pydoc")

        def show_page(text: str, title: str = "") -> None:
            own_module("values.displays").show_help(pydoc.plain(text))

        pager = pydoc.pager
        pydoc.pager = show_page
        try:
            pydoc.help(*args, **named)
        finally:
            pydoc.pager = pager
