"""Calls the caller's functions for the model's code of a search."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ..stdlib import late_import, own_module

if TYPE_CHECKING:
    from ..sandbox.caller_tools import DescribedTool

_MAX_DOC_CHARS = 2_000
"""Characters of a name, a signature or a docstring that a model gets."""
_MAX_ERROR_CHARS = 1_000
_MAX_TOOLS = 50
_MAX_THREAD_NAME_CHARS = 60

OnResult = Callable[[Mapping[str, object]], None]
"""Gets the result of a call: its `value`, or an `error` as a sentence."""


class ToolStopped(BaseException):
    """Raised in the thread of a tool that takes too long, or whose search has ended."""


class _ToolCall(NamedTuple):
    """A call of a tool, with arguments that hostile code may have chosen."""

    name: str
    args: Sequence[object]
    kwargs: Mapping[str, object]
    on_result: OnResult


class CallerTools:
    """Functions that a search may call, each call on a thread of its own."""

    def __init__(self, functions: Iterable[Callable[..., object]]) -> None:
        """Describe the functions. Raises `ValueError` for one that cannot be a tool, or for too many."""
        self._functions: dict[str, Callable[..., object]] = {}
        self.described: list[DescribedTool] = []
        self._lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        """The running calls, by number."""
        self._has_ended = False
        for function in functions:
            self._add(function)
        if len(self._functions) > _MAX_TOOLS:
            raise ValueError(f"A search may have at most {_MAX_TOOLS} tools.")

    def start(
        self,
        number: int,
        name: str,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        on_result: OnResult,
    ) -> None:
        """Call a tool on its own thread, unless the search has ended.

        Args:
            number: Identifies the call.
            name: The tool.
            args: Its arguments, which hostile code may have chosen.
            kwargs: Its arguments by name, likewise.
            on_result: Called on this thread, unless the call is stopped.
        """
        call = _ToolCall(name, args, kwargs, on_result)
        thread = threading.Thread(
            target=self._run,
            args=(number, call),
            name=f"tool-{name}"[:_MAX_THREAD_NAME_CHARS],
            daemon=True,
        )
        with self._lock:
            if not self._has_ended:
                self._threads[number] = thread
                thread.start()

    def stop(self, number: int) -> None:
        """Raise `ToolStopped` in the thread of a call, if it still runs."""
        with self._lock:
            thread = self._threads.pop(number, None)
            if thread is not None and thread.ident is not None:
                thread_id = ctypes.c_ulong(thread.ident)
                stopped = ctypes.py_object(ToolStopped)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, stopped)

    def end(self) -> None:
        """Stop all calls, and start no others."""
        with self._lock:
            self._has_ended = True
        for number in list(self._threads):
            self.stop(number)

    def _add(self, function: Any) -> None:
        name = getattr(function, "__name__", "")
        if not callable(function) or not isinstance(name, str):
            raise ValueError(f"tools: {function!r} is not a function.")
        if problem := own_module("sandbox.names").name_problem(name):
            raise ValueError(f"tools: a tool cannot be named {name!r}: {problem}.")
        if name in self._functions:
            raise ValueError(f"tools: there are two tools named {name!r}.")
        self._functions[name] = function
        self.described.append(_describe(name, function))

    def _run(self, number: int, call: _ToolCall) -> None:
        """Run a call on its thread."""
        try:
            result = self._make_result(call)
            with self._lock:  # from here on, nothing is raised in this thread
                is_wanted = self._threads.pop(number, None) is not None
            if is_wanted:
                call.on_result(result)
        except ToolStopped:
            pass

    def _make_result(self, call: _ToolCall) -> dict[str, object]:
        """Return a call's value, or its error as a sentence."""
        try:
            return {"value": self._call_function(call)}
        except BaseException as error:  # of the caller's function, perhaps an exit
            try:
                message = str(error)
            except Exception:  # raised by the tool's own code
                message = ""
            reason = f"{type(error).__name__}: {message}"[:_MAX_ERROR_CHARS]
            return {"error": f"{call.name} failed: {reason}"}

    def _call_function(self, call: _ToolCall) -> Any:
        """Return what a tool returns, as plain data. May raise anything."""
        if call.name not in self._functions:
            raise LookupError("There is no such tool.")
        plain_data = own_module("sandbox.caller_tools").plain_data
        args = plain_data(list(call.args), "An argument")
        kwargs = plain_data(dict(call.kwargs), "An argument")
        value = self._functions[call.name](*args, **kwargs)
        if isinstance(value, CoroutineType):
            value = late_import("asyncio").run(value)
        return plain_data(value, f"What {call.name} returned")


def _describe(name: str, function: Callable[..., object]) -> DescribedTool:
    """Describe a tool for models: its name, signature and docstring, cut to a length."""
    inspect = late_import("inspect")
    try:
        signature = str(inspect.signature(function)).replace("'", "")
    except (TypeError, ValueError):
        signature = "(...)"
    docstring = inspect.getdoc(function) or ""
    described: DescribedTool = own_module("sandbox.caller_tools").DescribedTool(
        name[:_MAX_DOC_CHARS], signature[:_MAX_DOC_CHARS], docstring[:_MAX_DOC_CHARS]
    )
    return described
