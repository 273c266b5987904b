"""Functions that ask the user by host calls: `input`, `getpass`, `sys.stdin`, `breakpoint` and
`exit`."""

from __future__ import annotations

import builtins
import getpass
import io
import os
import sys
from collections.abc import Callable
from types import FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple, NoReturn, TextIO

from .stdlib import late_import
from .tracebacks import CELL, HERE

Ask = Callable[[str, dict[str, Any]], Any]


class Replacement(NamedTuple):
    """A name in a module, and its replacement."""

    module: ModuleType
    name: str
    value: Any


class Leave(SystemExit):
    """The user called `exit()`: the cell ends, and the session asks whether to leave."""


class Console:
    """Reads lines from the user. ask: `HostCalls.call`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.hidden_lines: list[str] = []
        """Lines that were typed hidden."""

    def input(self, prompt: object = "", /) -> str:
        """Read a line from the user, like Python's `input`."""
        text = str(prompt)
        answer = self._line(text, password=False)
        print(f"{text}{'' if answer is None else answer}")
        if answer is None:
            raise EOFError("no more input")
        return answer

    def getpass(
        self, prompt: str = "Password: ", stream: TextIO | None = None, **options: Any
    ) -> str:
        """Read a hidden line, like Python's `getpass.getpass`."""
        answer = self._line(str(prompt), password=True)
        print(prompt)
        if answer is None:
            raise EOFError("no more input")
        if answer not in self.hidden_lines:
            self.hidden_lines.append(answer)
        return answer

    def readline(self) -> str | None:
        """Read a line for `sys.stdin` without its line break; None at the end of the input."""
        answer = self._line("", password=False)
        if answer is not None:
            print(answer)
        return answer

    def leave(self, code: object = None) -> NoReturn:
        self._ask("quit", {})
        raise Leave(code)

    def replacements(self) -> list[Replacement]:
        """Return the replacements of Python's own names."""
        found = [
            Replacement(builtins, "input", self.input),
            Replacement(getpass, "getpass", self.getpass),
            Replacement(sys, "stdin", HostInput(self.readline)),
            Replacement(builtins, "exit", _Quitter("exit", self.leave)),
            Replacement(builtins, "quit", _Quitter("quit", self.leave)),
            Replacement(builtins, "help", _Help()),
        ]
        if "PYTHONBREAKPOINT" not in os.environ:
            found.append(Replacement(sys, "breakpointhook", set_trace))
        return found

    def _line(self, prompt: str, password: bool) -> str | None:
        sys.stdout.flush()
        answer = self._ask("input", {"prompt": prompt, "password": password})
        return None if answer is None else str(answer)


class HostInput(io.TextIOBase):
    """`sys.stdin`, which asks the user for each line."""

    def __init__(self, ask_line: Callable[[], str | None]) -> None:
        super().__init__()
        self._ask_line = ask_line
        self._rest = ""

    encoding = "utf-8"

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        if not self._rest:
            line = self._ask_line()
            if line is None:
                return ""
            self._rest = line + "\n"
        end = self._rest.index("\n") + 1
        if size is not None and size >= 0:
            end = min(end, size)
        line, self._rest = self._rest[:end], self._rest[end:]
        return line

    def read(self, size: int | None = -1, /) -> str:
        text = ""
        while size is None or size < 0 or len(text) < size:
            line = self.readline(-1 if size is None or size < 0 else size - len(text))
            if not line:
                break
            text += line
        return text


class _Quitter:
    """`exit` and `quit`, which can be called or displayed, like Python's own."""

    def __init__(self, name: str, leave: Callable[[object], NoReturn]) -> None:
        self._name = name
        self._leave = leave

    def __repr__(self) -> str:
        return f"Use {self._name}() or Ctrl+D in an empty editor to leave."

    def __call__(self, code: object = None) -> NoReturn:
        self._leave(code)


class _Help:
    """`help`, like Python's own, but its text is shown from the start, as in a pager."""

    def __repr__(self) -> str:
        return "Type help(object) for help about object, or object?."

    def __call__(self, *args: object, **named: object) -> None:
        pydoc: Any = late_import("pydoc")
        pager = pydoc.pager
        pydoc.pager = _show_page
        try:
            pydoc.help(*args, **named)
        finally:
            pydoc.pager = pager


def _show_page(text: str, title: str = "") -> None:
    """Replace `pydoc.pager`. Removes bold by overstriking: each letter, a backspace, the letter
    again."""
    late_import(f"{__package__}.showing.displays").show_help(late_import("pydoc").plain(text))


def set_trace(*_: Any, header: str | None = None, **__: Any) -> None:
    """Start Python's debugger in the cell's code; `sys.breakpointhook` and `pdb.set_trace`."""
    debugger = _debugger()
    if header is not None:
        debugger.message(header)
    debugger.set_trace(sys._getframe().f_back)


def loaded_pdb() -> Any:
    """Import pdb with our `set_trace`."""
    pdb: Any = late_import("pdb")
    pdb.set_trace = set_trace
    return pdb


def post_mortem(traceback: TracebackType) -> None:
    """Start Python's debugger where an exception was raised."""
    debugger = _debugger()
    debugger.reset()
    debugger.interaction(None, traceback)


def _debugger() -> Any:
    pdb: Any = loaded_pdb()

    class Debugger(pdb.Pdb):  # type: ignore[misc]
        """pdb that hides the frames below the cell, and finds the source of cells."""

        def canonic(self, filename: str) -> str:
            return filename if filename.startswith(CELL) else str(super().canonic(filename))

        def get_stack(
            self, frame: FrameType | None, tb: TracebackType | None
        ) -> tuple[list[tuple[FrameType, int]], int]:
            stack, current = super().get_stack(frame, tb)
            chosen = stack[current]
            ours = [entry[0].f_code.co_filename.startswith(HERE) for entry in stack]
            below = ours.index(True) if True in ours else 0
            kept = [
                entry for place, entry in enumerate(stack) if place >= below and not ours[place]
            ]
            return kept, kept.index(chosen) if chosen in kept else len(kept) - 1

    return Debugger(nosigint=True, skip=[f"{__package__}.*"])
