"""Our addition to a Jupyter kernel for Python."""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

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

_NUMBERED = re.compile(r"_(?:i{0,3}|i?\d+|__?|[iod]h)")
"""IPython's names for earlier inputs and values."""
_MISSING = object()


class JupyterHostCalls:
    """Calls to the host, as questions on the channel on which a kernel asks for input."""

    def __init__(self, kernel: Any, token: str, session: str) -> None:
        """Take over from the kernel.

        Args:
            kernel: IPython's.
            token: Begins each question, so that the host can tell it from one of `input`.
            session: The host's session with the kernel.
        """
        self._kernel = kernel
        self._token = token
        self._session = session

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a function of the host, and wait for its result. Raises `RuntimeError`."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                f"In a Jupyter kernel {name}() can only be called by the cell itself, not by a thread or a task."
            )
        header = (self._kernel.get_parent() or {}).get("header", {})
        if header.get("session") != self._session or not self._kernel._allow_stdin:
            raise RuntimeError(
                f"{name}() can only be called in a cell of the session that offers it."
            )
        question = {"op": "call", "name": name, "args": args}
        try:
            answer = json.loads(self._kernel.raw_input(self._token + json.dumps(question)))
        except (KeyboardInterrupt, EOFError):
            self._kernel.session.send(
                self._kernel.iopub_socket,
                "mahtab_tui",
                {"token": self._token},
                parent=self._kernel.get_parent(),
            )
            raise
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]


class Watch(NamespaceTracker):
    """The user's names, without IPython's own."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        super().__init__(shell.user_ns)

    def _shape(self, value: Any) -> object:
        # IPython runs the cells, so nothing else finds what they change in place.
        return read_parts(value)

    def _items(self) -> list[tuple[str, Any]]:
        hidden = self._shell.user_ns_hidden
        return [
            (name, value)
            for name, value in super()._items()
            if not _NUMBERED.fullmatch(name) and hidden.get(name, _MISSING) is not value
        ]


class Reply:
    """A value whose repr is JSON: the host evaluates an expression, and reads its repr."""

    def __init__(self, value: Any) -> None:
        self._text = json.dumps(value)

    def __repr__(self) -> str:
        return self._text


class Helper:
    """Watches the cells of a kernel, and answers the host's requests, until it is withdrawn."""

    def __init__(self, shell: Any, token: str, session: str) -> None:
        """Hook into the shell.

        Args:
            shell: IPython's.
            token: As for `JupyterHostCalls`.
            session: As for `JupyterHostCalls`.
        """
        self._shell = shell
        self._builtins = dict(builtins.__dict__)
        """The builtins as they were before."""
        self._watch = Watch(shell)
        self._tree: ast.Module | None = None
        """The code of the cell that runs."""
        self._depth = 0
        """How many cells run, one inside the other."""
        self._last_changes: list[dict[str, Any]] = []
        """What the last cell has changed, until the host asks."""
        self._comm: Any = None
        """The connection to the host."""
        self._responder = Responder(
            lambda frame: self._comm.send({"frame": json.dumps(frame)}),
            shell.user_ns,
            {
                "variables": lambda frame: self._watch.listing(),
                "ended": lambda frame: self.ended(),
                "functions": lambda frame: self._add(toolbox.add_functions(frame["functions"])),
                "servers": lambda frame: self._add(
                    toolbox.add_servers(frame["servers"], CellAttribution())
                ),
                "leave": self._leave,
            },
            {},
        )

        Host.is_remote = True  # the host and the kernel exchange no files
        toolbox.install(JupyterHostCalls(shell.kernel, token, session).call)
        if "display" in self._builtins:  # users know IPython's own `display`
            builtins.__dict__["display"] = self._builtins["display"]
        self._added = [
            name
            for name, value in builtins.__dict__.items()
            if self._builtins.get(name, _MISSING) is not value
        ]
        """Names that were added to builtins."""

        self._plain: Any = shell.display_formatter.formatters["text/plain"]
        self._plain_before = self._plain.for_type(str, self._print_text)
        self._show_error_before: Any = shell._showtraceback
        shell._showtraceback = self._show_error
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)
        shell.kernel.comm_manager.register_target(TARGET, self._opened)

    def ended(self) -> dict[str, Any]:
        """Return what the host wants to know after a cell."""
        changes = self._last_changes
        self._last_changes = []
        return {"changes": changes, "cwd": working_directory()}

    def _opened(self, comm: Any, message: Any) -> None:
        """Answer requests on a comm that the host has opened."""

        def answer(message: Any) -> None:
            self._responder.handle(json.loads(message["content"]["data"]["frame"]))

        self._comm = comm
        # Not `on_msg`, because IPython's events run around that, and would show and close the
        # figures of a running cell.
        comm.handle_msg = answer

    def _add(self, names: Iterable[str]) -> None:
        self._added += names

    def _leave(self, frame: Frame) -> None:
        """Remove everything of ours from the kernel."""
        global _helper
        self.withdraw()
        _helper = None
        sys.meta_path[:] = [
            finder
            for finder in sys.meta_path
            if not type(finder).__module__.startswith(f"{__package__}.")
        ]
        for name in [name for name in list(sys.modules) if name.partition(".")[0] == __package__]:
            del sys.modules[name]

    def withdraw(self) -> None:
        """Give the shell back what it had before."""
        for name in self._added:
            if name in self._builtins:
                builtins.__dict__[name] = self._builtins[name]
            else:
                builtins.__dict__.pop(name, None)
        self._plain.type_printers.pop(str, None)
        if self._plain_before is not None:
            self._plain.for_type(str, self._plain_before)
        self._shell._showtraceback = self._show_error_before
        with suppress(ValueError):
            self._shell.events.unregister("pre_run_cell", self._before)
            self._shell.events.unregister("post_run_cell", self._after)
        with suppress(KeyError):
            self._shell.kernel.comm_manager.unregister_target(TARGET, self._opened)

    def _print_text(self, value: str, printer: Any, cycle: bool) -> None:
        if text_form(value) is not None:
            printer.text(value.rstrip("\n"))
        elif self._plain_before is not None:
            self._plain_before(value, printer, cycle)
        else:
            printer.text(str.__repr__(value))

    def _show_error(self, kind: Any, error: Any, lines: Any) -> None:
        """Show an error as IPython does, with a hint after it."""
        if type(lines) is list:
            hint = own_module("cells.hints").hint_for(error, "\n".join(lines))
            if hint:
                lines = [*lines, hint]
        self._show_error_before(kind, error, lines)

    # Before and after a cell. IPython prints exceptions raised here, and continues.

    def _before(self, info: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # a cell of another client's subshell
        self._depth += 1
        if self._depth > 1:
            return
        tree = None
        code = None
        with suppress(Exception):  # of code that is not Python
            plain = self._shell.transform_cell(info.raw_cell)
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(plain, "cell", "exec", ast.PyCF_ONLY_AST | flags)
            code = compile(tree, "cell", "exec", flags)
        self._tree = tree if code else None
        if tree is not None and code is not None:
            self._watch.before_cell(tree, (code,))

    def _after(self, result: Any) -> None:
        if not self._depth or threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if not self._depth:
            self._last_changes = self._watch.changes(self._tree)
            forget_short_texts()


_helper: Helper | None = None


def begin(token: str, session: str) -> Reply:
    from IPython import get_ipython  # type: ignore[import-not-found,attr-defined,unused-ignore]

    global _helper
    install_finder()
    if _helper is not None:
        _helper.withdraw()
    _helper = Helper(get_ipython(), token, session)
    return Reply(describe_process())


def ended() -> Reply:
    return Reply({} if _helper is None else _helper.ended())
