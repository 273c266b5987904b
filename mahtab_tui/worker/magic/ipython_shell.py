"""What `get_ipython()` returns, for cells that call IPython's shell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable

from ..cells.compiling import compile_callable
from ..tools import shell_commands
from .dispatch import run_magic
from .expansion import Names, expand_command
from .syntax import transform

if TYPE_CHECKING:
    from .cell_history import CellHistory


class _Events:
    """The shell's `events`. It accepts callbacks, and never calls them."""

    def register(self, event: str, function: Callable[..., object]) -> None:
        """Do nothing."""

    def unregister(self, event: str, function: Callable[..., object]) -> None:
        """Do nothing."""


class InteractiveShell:
    """The methods of IPython's shell that cells call, for one kernel.

    A method does what IPython's does, except where its docstring names a difference. Names in
    commands and in the arguments of magics are those that the caller sees.

    Args:
        namespace: The kernel's namespace.
        run_awaitable: Waits for an awaitable value, and returns its result.
        history: The kernel's earlier inputs.
    """

    def __init__(
        self,
        namespace: dict[str, object],
        run_awaitable: Callable[[Any], object],
        history: CellHistory,
    ) -> None:
        self.user_ns = namespace
        self.user_global_ns = namespace
        self.config: dict[str, Any] = {}
        self.events = _Events()
        self._run_awaitable = run_awaitable
        self._history = history

    def __repr__(self) -> str:
        return "<get_ipython() of mahtab-tui>"

    @property
    def execution_count(self) -> int:
        """The number of the cell that runs."""
        return self._history.latest_cell

    def run_line_magic(self, magic_name: str, line: str) -> object:
        """Run a magic command of one line, and return its value."""
        return run_magic(magic_name, line, Names.of_caller(), self._run_awaitable)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        """Run a magic command of a cell. line: what follows its name; cell: the lines below it."""
        text = f"{line}\n{cell}"
        return run_magic(f"%{magic_name}", text, Names.of_caller(), self._run_awaitable)

    def magic(self, arg_s: str) -> Any:
        """Run a magic command of one line, with or without its sign.

        As in IPython, two signs count as one. Blanks before the sign are allowed.
        """
        name, _, line = arg_s.strip().lstrip("%").partition(" ")
        return run_magic(name, line, Names.of_caller(), self._run_awaitable)

    def system(self, cmd: str) -> None:
        """Run a shell command, and show its output. `_exit_code` is a builtin, not in `user_ns`."""
        shell_commands.run_command(expand_command(cmd, Names.of_caller()))

    def getoutput(self, cmd: str, split: bool = True) -> list[str] | str:
        """Run a shell command, and return its output: a list of lines, or one text."""
        lines = shell_commands.read_command(expand_command(cmd, Names.of_caller()))
        return lines if split else "\n".join(lines)

    def run_cell(
        self,
        raw_cell: str,
        store_history: bool = False,
        silent: bool = False,
        shell_futures: bool = True,
        cell_id: str | None = None,
    ) -> object:
        """Run code in the namespace, and return the value of its last expression.

        IPython shows this value, and returns an object with the outcome. Here an error is raised, and
        magic commands need their sign. All arguments but the code have no effect.
        """
        source = transform(raw_cell)
        return compile_callable(source, "<run_cell>", self.user_ns, self._run_awaitable)()

    def ev(self, expr: str) -> object:
        """Return the value of an expression in the namespace."""
        return eval(expr, self.user_ns)

    def ex(self, cmd: str) -> None:
        """Run statements in the namespace."""
        exec(cmd, self.user_ns)

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: figures are shown in the transcript."""

    def push(
        self, variables: dict[str, object] | str | Sequence[str], interactive: bool = True
    ) -> None:
        """Put variables into the namespace.

        Args:
            variables: Values by name, or names of variables that the caller sees: a list of names,
                or one text with blanks between them.
            interactive: Has no effect here: all variables are listed.

        Raises:
            NameError: The caller sees no such variable. IPython prints a sentence instead.
        """
        if isinstance(variables, dict):
            self.user_ns.update(variables)
            return
        names = variables.split() if isinstance(variables, str) else variables
        visible_names = Names.of_caller()
        self.user_ns.update({name: visible_names.find(name) for name in names})
