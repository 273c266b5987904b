"""What we add to a Jupyter kernel for Python, from its first request to the last.

In such a kernel IPython runs the cells, and this module adds what our own kernels do: it tells which
variables a cell has changed (`UserNamespaceTracker`), lets code call the host (`JupyterHostCalls`),
and answers the host's requests (`KernelExtension`).

The host (`kernel.jupyter.conversation`) evaluates `begin` and, after each cell, `ended`. A kernel may
have kept this module of an earlier version, so both must keep their names and parameters.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
import threading
from contextlib import suppress
from typing import Any, Callable

from .cells.attribution import CellAttribution
from .cells.parts import read_parts
from .cells.tracker import NamespaceTracker
from .former_names import install_finder
from .link.frames import Frame
from .link.host import Host
from .link.process_facts import describe_process, working_directory
from .link.responder import Responder
from .stdlib import own_module
from .tools import toolbox
from .tools.text_tools import forget_short_texts, text_form

TARGET = "mahtab-tui"
"""The name of the comm by which the host asks the kernel."""
_FAILED_CALL_MESSAGE = "mahtab_tui"
"""The type of the message that tells the host that a call of it has ended without an answer."""

_NUMBERED_NAME = re.compile(r"_(?:i{0,3}|i?\d+|__?|[iod]h)")
"""IPython's names for earlier inputs and values, such as ``_``, ``_12``, ``_i3`` and ``_oh``."""
_MISSING = object()

Changes = list[dict[str, Any]]
"""What a cell has done to variables, as `NamespaceTracker.changes` returns it."""


class JupyterHostCalls:
    """Calls to the host, as questions on the channel on which a kernel asks for input."""

    def __init__(self, kernel: Any, token: str, session: str) -> None:
        """Ask the host through a kernel.

        Args:
            kernel: IPython's kernel.
            token: Begins each question, so that the host can tell it from one of `input`.
            session: The id of the host's session with the kernel.
        """
        self._kernel = kernel
        self._token = token
        self._session = session

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a function of the host, and wait for its result.

        Raises:
            RuntimeError: The function fails, or cannot be called from here.
        """
        self._check_caller(name)
        question = {"op": "call", "name": name, "args": args}
        try:
            answer = json.loads(self._kernel.raw_input(self._token + json.dumps(question)))
        except (KeyboardInterrupt, EOFError):
            self._report_failed_call()
            raise
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def _check_caller(self, name: str) -> None:
        """Raise `RuntimeError` for code whose questions do not reach the host."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                f"In a Jupyter kernel {name}() can only be called by the cell itself, not by a thread or a task."
            )
        # A cell of another client, such as a notebook that is open beside the session, would ask
        # that client.
        header = (self._kernel.get_parent() or {}).get("header", {})
        if header.get("session") != self._session or not self._kernel._allow_stdin:
            raise RuntimeError(
                f"{name}() can only be called in a cell of the session that offers it."
            )

    def _report_failed_call(self) -> None:
        self._kernel.session.send(
            self._kernel.iopub_socket,
            _FAILED_CALL_MESSAGE,
            {"token": self._token},
            parent=self._kernel.get_parent(),
        )


class UserNamespaceTracker(NamespaceTracker):
    """Tracks the user's variables, without IPython's own."""

    def __init__(self, shell: Any) -> None:
        """Note the variables that there are.

        Args:
            shell: IPython's.
        """
        self._shell = shell
        super().__init__(shell.user_ns)

    def _comparable_shape(self, value: Any) -> object:
        # IPython runs the cells, so nothing else finds what they change in place.
        return read_parts(value)

    def _items(self) -> list[tuple[str, Any]]:
        hidden_values = self._shell.user_ns_hidden
        return [
            (name, value)
            for name, value in super()._items()
            # A hidden name is the user's once it has another value.
            if not _NUMBERED_NAME.fullmatch(name) and hidden_values.get(name, _MISSING) is not value
        ]


class Reply:
    """A value whose repr is JSON: the host evaluates an expression, and reads its repr."""

    def __init__(self, value: Any) -> None:
        self._text = json.dumps(value)

    def __repr__(self) -> str:
        return self._text


class KernelExtension:
    """Watches the cells of a kernel, and answers the host's requests, until it is withdrawn."""

    def __init__(self, shell: Any, token: str, session: str) -> None:
        """Hook into the shell.

        Args:
            shell: IPython's.
            token: As for `JupyterHostCalls`.
            session: As for `JupyterHostCalls`.
        """
        self._shell = shell
        self._tracker = UserNamespaceTracker(shell)
        self._tree: ast.Module | None = None
        """The code of the cell that runs; None if it is not Python."""
        self._running_cells = 0
        """How many cells run, one inside the other."""
        self._last_changes: Changes = []
        """What the last cell has changed, until the host asks."""
        self._comm: Any = None
        """The connection to the host."""
        self._responder = Responder(self._send, shell.user_ns, self._request_handlers(), {})

        self._builtins_before = dict(builtins.__dict__)
        self._added_builtins = self._add_builtins(JupyterHostCalls(shell.kernel, token, session))
        self._text_formatter: Any = shell.display_formatter.formatters["text/plain"]
        self._print_text_before = self._text_formatter.for_type(str, self._print_text)
        self._show_error_before: Any = shell._showtraceback
        shell._showtraceback = self._show_error
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)
        shell.kernel.comm_manager.register_target(TARGET, self._on_comm_open)

    def withdraw(self) -> None:
        """Give the shell back what it had before."""
        for name in self._added_builtins:
            if name in self._builtins_before:
                builtins.__dict__[name] = self._builtins_before[name]
            else:
                builtins.__dict__.pop(name, None)
        self._text_formatter.type_printers.pop(str, None)
        if self._print_text_before is not None:
            self._text_formatter.for_type(str, self._print_text_before)
        self._shell._showtraceback = self._show_error_before
        with suppress(ValueError):
            self._shell.events.unregister("pre_run_cell", self._before_cell)
            self._shell.events.unregister("post_run_cell", self._after_cell)
        with suppress(KeyError):
            self._shell.kernel.comm_manager.unregister_target(TARGET, self._on_comm_open)

    def _add_builtins(self, host_calls: JupyterHostCalls) -> list[str]:
        """Add the functions of every namespace to builtins, and return their names."""
        Host.is_remote = True  # the host and the kernel exchange no files
        toolbox.install(host_calls.call)
        if "display" in self._builtins_before:  # users know IPython's own `display`
            builtins.__dict__["display"] = self._builtins_before["display"]
        return [
            name
            for name, value in builtins.__dict__.items()
            if self._builtins_before.get(name, _MISSING) is not value
        ]

    # Requests of the host

    def _request_handlers(self) -> dict[str, Callable[[Frame], Any]]:
        """Return what answers each request that only this kind of kernel answers in its own way."""
        return {
            "variables": lambda frame: self._tracker.listing(),
            "ended": lambda frame: self.pop_cell_end(),
            "functions": self._add_functions,
            "servers": self._add_servers,
            "leave": self._leave,
        }

    def pop_cell_end(self) -> dict[str, Any]:
        """Return what the host wants to know after a cell. A second call has no changes."""
        changes = self._last_changes
        self._last_changes = []
        return {"changes": changes, "cwd": working_directory()}

    def _add_functions(self, frame: Frame) -> None:
        self._added_builtins += toolbox.add_functions(frame["functions"])

    def _add_servers(self, frame: Frame) -> None:
        self._added_builtins += toolbox.add_servers(frame["servers"], CellAttribution())

    def _leave(self, frame: Frame) -> None:
        """Remove everything of ours from the kernel."""
        global _extension
        self.withdraw()
        _extension = None
        sys.meta_path[:] = [
            finder
            for finder in sys.meta_path
            if not type(finder).__module__.startswith(f"{__package__}.")
        ]
        for name in list(sys.modules):
            if name.partition(".")[0] == __package__:
                del sys.modules[name]

    def _on_comm_open(self, comm: Any, message: Any) -> None:
        """Answer requests on a comm that the host has opened."""

        def answer(message: Any) -> None:
            self._responder.handle(json.loads(message["content"]["data"]["frame"]))

        self._comm = comm
        # Not `on_msg`, because IPython's events run around that, and would show and close the
        # figures of a running cell.
        comm.handle_msg = answer

    def _send(self, frame: Frame) -> None:
        self._comm.send({"frame": json.dumps(frame)})

    # What a cell shows

    def _print_text(self, value: str, printer: Any, cycle: bool) -> None:
        """Print a str, which may be text that one of our functions wants to be shown as it is."""
        if text_form(value) is not None:
            printer.text(value.rstrip("\n"))
        elif self._print_text_before is not None:
            self._print_text_before(value, printer, cycle)
        else:
            printer.text(str.__repr__(value))

    def _show_error(self, error_class: Any, error: Any, lines: Any) -> None:
        """Show an error as IPython does, with a hint after it."""
        if type(lines) is list:
            hint = own_module("cells.hints").hint_for(error, "\n".join(lines))
            if hint:
                lines = [*lines, hint]
        self._show_error_before(error_class, error, lines)

    # Before and after a cell. IPython prints exceptions raised here, and continues.

    def _before_cell(self, info: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # a cell of another client's subshell
        self._running_cells += 1
        if self._running_cells > 1:
            return
        tree = None
        code = None
        with suppress(Exception):  # of code that is not Python
            plain_code = self._shell.transform_cell(info.raw_cell)
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(plain_code, "cell", "exec", ast.PyCF_ONLY_AST | flags)
            code = compile(tree, "cell", "exec", flags)
        self._tree = tree if code else None
        if tree is not None and code is not None:
            self._tracker.before_cell(tree, (code,))

    def _after_cell(self, result: Any) -> None:
        # A cell that began before this extension was not counted.
        if not self._running_cells or threading.current_thread() is not threading.main_thread():
            return
        self._running_cells -= 1
        if not self._running_cells:
            self._last_changes = self._tracker.changes(self._tree)
            forget_short_texts()


_extension: KernelExtension | None = None
"""The extension of this kernel. A host that connects anew replaces it."""


def begin(token: str, session: str) -> Reply:
    """Extend the kernel. Returns what the host wants to know of its process.

    Args:
        token: As for `JupyterHostCalls`.
        session: As for `JupyterHostCalls`.
    """
    from IPython import get_ipython  # type: ignore[import-not-found,attr-defined,unused-ignore]

    global _extension
    install_finder()
    if _extension is not None:
        _extension.withdraw()
    _extension = KernelExtension(get_ipython(), token, session)
    return Reply(describe_process())


def ended() -> Reply:
    """Return what the host wants to know after a cell; nothing after the last request."""
    return Reply({} if _extension is None else _extension.pop_cell_end())
