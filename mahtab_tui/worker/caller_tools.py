"""The caller's functions that a search's code may call. They run here, in the caller's process, on
separate threads."""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from .sandbox.names import DescribedTool, name_problem, plain_data
from .stdlib import late_import

_LONGEST_DOC = 2_000
_LONGEST_ERROR = 1_000
_MOST_TOOLS = 50


class ToolStopped(BaseException):
    """Raised in the thread of a tool that takes too long, or whose search has ended."""


Done = Callable[[Mapping[str, Any]], None]
"""Called with {"value": …}, or with {"error": a sentence}."""


class CallerTools:
    """The tools of one search. Any thread may call it."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        """Raises `ValueError` with a sentence for anything that cannot be a tool."""
        self._functions: dict[str, Callable[..., Any]] = {}
        self.described: list[DescribedTool] = []
        self._lock = threading.Lock()
        self._running: dict[int, threading.Thread] = {}
        self._ended = False
        for function in functions:
            self._add(function)
        if len(self._functions) > _MOST_TOOLS:
            raise ValueError(f"A search may have at most {_MOST_TOOLS} tools.")

    def start(
        self, call: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], done: Done
    ) -> None:
        """Call a tool on a separate thread, with arguments that hostile code may have chosen."""
        thread = threading.Thread(
            target=self._run,
            args=(call, name, args, kwargs, done),
            name=f"tool-{name}"[:60],
            daemon=True,
        )
        with self._lock:
            if not self._ended:
                self._running[call] = thread
                thread.start()

    def stop(self, call: int) -> None:
        """Stop a call by an exception in its thread, which a function that waits outside Python notices later."""
        with self._lock:
            thread = self._running.pop(call, None)
            if thread is not None and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(ToolStopped)
                )

    def end(self) -> None:
        """Stop all calls; later ones do not start."""
        with self._lock:
            self._ended = True
        for call in list(self._running):
            self.stop(call)

    def _add(self, function: Any) -> None:
        name = getattr(function, "__name__", "")
        if not callable(function) or not isinstance(name, str):
            raise ValueError(f"tools: {function!r} is not a function.")
        if why := name_problem(name):
            raise ValueError(f"tools: a tool cannot be named {name!r}: {why}.")
        if name in self._functions:
            raise ValueError(f"tools: there are two tools named {name!r}.")
        try:
            signature = str(inspect.signature(function)).replace("'", "")
        except (TypeError, ValueError):
            signature = "(...)"
        self._functions[name] = function
        doc = inspect.getdoc(function) or ""
        self.described.append(DescribedTool(name, signature[:_LONGEST_DOC], doc[:_LONGEST_DOC]))

    def _run(
        self, call: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], done: Done
    ) -> None:
        try:
            try:
                result = {"value": self._result(name, args, kwargs)}
            except BaseException as error:  # of the caller's function, perhaps an exit
                try:
                    text = str(error)
                except Exception:  # raised by the tool's own code
                    text = ""
                why = f"{type(error).__name__}: {text}"[:_LONGEST_ERROR]
                result = {"error": f"{name} failed: {why}"}
            with self._lock:  # from here on, nothing is raised in this thread
                wanted = self._running.pop(call, None) is not None
            if wanted:
                done(result)
        except ToolStopped:  # it came too late
            pass

    def _result(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if name not in self._functions:
            raise LookupError("There is no such tool.")
        given = plain_data(list(args), "An argument")
        named = plain_data(dict(kwargs), "An argument")
        value = self._functions[name](*given, **named)
        if inspect.iscoroutine(value):
            value = late_import("asyncio").run(value)
        return plain_data(value, f"What {name} returned")
