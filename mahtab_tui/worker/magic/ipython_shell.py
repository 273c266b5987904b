"""What `get_ipython()` returns, for cells that call IPython's shell."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable, ClassVar

from ..cells.compiling import compile_callable
from ..tools import shell_commands
from .dispatch import run_magic
from .expansion import Names, expand_command
from .syntax import transform


class _Events:
    """The shell's `events`, which accepts callbacks and never calls them."""

    def register(self, event: str, function: Callable[..., object]) -> None: ...

    def unregister(self, event: str, function: Callable[..., object]) -> None: ...


class InteractiveShell:
    """The methods of IPython's shell that cells call. One per kernel."""

    instances: ClassVar[list[InteractiveShell]] = []

    def __init__(self, namespace: dict[str, object], await_: Callable[[Any], object]) -> None:
        self.user_ns = namespace
        self.user_global_ns = namespace
        self.config: dict[str, Any] = {}
        self.events = _Events()
        self._await = await_

    def __repr__(self) -> str:
        return "<get_ipython() of mahtab-tui: run_line_magic, run_cell_magic, system, getoutput, run_cell, ev, ex, push, user_ns>"

    @property
    def execution_count(self) -> int:
        return len(builtins.__dict__["In"]) - 1

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> object:
        names = Names.of_frame(sys._getframe(_stack_depth))
        return run_magic(magic_name, line, names, self._await)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        names = Names.of_frame(sys._getframe(1))
        return run_magic(f"%{magic_name}", f"{line}\n{cell}", names, self._await)

    def magic(self, arg_s: str) -> Any:
        name, _, line = arg_s.lstrip("%").partition(" ")
        return self.run_line_magic(name, line, _stack_depth=2)

    def system(self, cmd: str) -> None:
        shell_commands.run_command(expand_command(cmd, Names.of_frame(sys._getframe(1))))

    def getoutput(self, cmd: str, split: bool = True) -> list[str] | str:
        lines = shell_commands.read_command(expand_command(cmd, Names.of_frame(sys._getframe(1))))
        return lines if split else "\n".join(lines)

    def run_cell(self, raw_cell: str, **options: object) -> object:
        source = transform(raw_cell)
        return compile_callable(source, "<run_cell>", self.user_ns, self._await)()

    def ev(self, expr: str) -> object:
        return eval(expr, self.user_ns)

    def ex(self, cmd: str) -> None:
        exec(cmd, self.user_ns)

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: figures are shown in the transcript."""

    def push(self, variables: dict[str, object], interactive: bool = True) -> None:
        self.user_ns.update(variables)


def get_shell(namespace: dict[str, object], await_: Callable[[Any], object]) -> InteractiveShell:
    """Return the kernel's only shell; the first call makes it."""
    if not InteractiveShell.instances:
        InteractiveShell.instances.append(InteractiveShell(namespace, await_))
    return InteractiveShell.instances[0]
