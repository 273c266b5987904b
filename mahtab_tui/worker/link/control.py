"""Calls of the host by code in cells."""

from __future__ import annotations
import __future__

import itertools
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable

from ..cells.tracebacks import OUR_FOLDER
from ..tools.text_tools import mark_as_text
from .frames import Frame

if TYPE_CHECKING:
    CallHost = Callable[[str, dict[str, Any]], Any]

_JSON = (str, int, float, bool, list, tuple, dict, type(None))
"""Types that frames can carry."""


def _no_host(name: str, args: dict[str, object]) -> object:
    raise RuntimeError("There is no host to call")


class Host:
    """What code in a cell needs of the host. There is one for the process."""

    call: CallHost = staticmethod(_no_host)
    """Calls a function of the host by name, and waits for its result."""
    is_remote = False
    """Whether the host and this process exchange no files."""


def define_function(
    name: str, signature: str, arguments: str, names: dict[str, Any]
) -> Callable[..., Any]:
    """Define a function whose body calls `__call__`. signature: source text, with annotations."""
    # A file name in our folder, so that tracebacks hide it.
    code = compile(
        f"def {name}{signature}:\n    return __call__({arguments})",
        f"{OUR_FOLDER}/functions/{name}",
        "exec",
        __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    exec(code, names)
    function: Callable[..., Any] = names[name]
    return function


def make_host_function(described: dict[str, Any]) -> Callable[..., str]:
    """Create the function of a `kernel.host.HostFunction`, which may raise `RuntimeError` with the
    host's message."""
    name = described["name"]
    parameters = described["parameters"]
    signature = ", ".join(
        f"{parameter_name}: {annotation}" + (f" = {default}" if default else "")
        for parameter_name, annotation, default in parameters
    )
    arguments_code = ", ".join(
        f"{parameter_name!r}: {parameter_name}" for parameter_name, _, _ in parameters
    )

    def call(arguments: dict[str, Any]) -> str:
        plain = {key: _plain(value) for key, value in arguments.items()}
        return mark_as_text(str(Host.call(described["called"], plain)))

    names: dict[str, Any] = {"__call__": call, "__name__": __name__}
    function = define_function(name, f"({signature}) -> str", f"{{{arguments_code}}}", names)
    function.__doc__ = described["doc"]
    return function


def _plain(value: Any) -> object:
    """Return an argument as a type that frames can carry: an int, or else its text."""
    if type(value) in _JSON:
        return value
    try:
        return value.__index__()
    except Exception:
        return str(value)


class HostCalls:
    """Calls of the host. Nested cells run on the main thread while it waits. Any thread may call."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        serve: Callable[[Frame, str | None], None] = lambda frame, refusal: None,
        error: type[Exception] = RuntimeError,
    ) -> None:
        """Create it on the main thread.

        Args:
            send: sends a frame to the host.
            serve: runs a nested cell, or refuses it, with the reason.
            error: what a call raises with the host's message.
        """
        self._send = send
        self._serve = serve
        self._error = error
        self._main = threading.get_ident()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[int, queue.SimpleQueue[Frame]] = {}
        self._waiting: list[queue.SimpleQueue[Frame]] = []
        self.fork_handler: Callable[[str, dict[str, Any]], object] | None = None
        """Serves the calls in a locked fork, which has no host."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host and wait for the result. Raises the error with the host's message."""
        if self.fork_handler is not None:
            return self.fork_handler(name, args)
        if name == "terminal":
            sys.audit("mahtab_tui.terminal", args["argv"])
        number = next(self._ids)
        inbox = queue.SimpleQueue[Frame]()
        with self._lock:
            self._open[number] = inbox
            if threading.get_ident() == self._main:
                self._waiting.append(inbox)
        try:
            self._send({"op": "call", "id": number, "name": name, "args": args})
            while True:
                frame = inbox.get()
                if frame["op"] == "execute":
                    self._serve(frame, None)
                elif frame["op"] == "interrupt":
                    raise KeyboardInterrupt
                elif "error" in frame:
                    raise self._error(frame["error"])
                else:
                    return frame["value"]
        except KeyboardInterrupt:
            self._send({"op": "cancelled", "id": number})
            raise
        finally:
            self._close_call(number, inbox)

    @property
    def waiting(self) -> int:
        """The number of calls for which the main thread waits."""
        return len(self._waiting)

    def interrupt(self) -> None:
        """End the call for which the main thread waits, with `KeyboardInterrupt`."""
        self.deliver({"op": "interrupt"})

    def deliver(self, frame: Frame) -> bool:
        """Hand an answer, or a nested cell, to the call that waits for it; return whether one
        does."""
        with self._lock:
            waiting = self._waiting[-1] if self._waiting else None
            inbox = waiting
            if frame["op"] == "answer":
                inbox = self._open.get(frame["id"])
            if inbox is not None:
                inbox.put(frame)
            return inbox is not None

    def _close_call(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        with self._lock:
            del self._open[number]
            if inbox in self._waiting:
                self._waiting.remove(inbox)
        while not inbox.empty():
            frame = inbox.get()
            if frame["op"] == "execute":
                self._serve(frame, "the cell that asked for it no longer waits")
