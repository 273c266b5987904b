"""Functions of the standard library that limited code must not use to act unheard: some raise no audit event, others call something later."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable

from .stdlib import late_import

# As in `limited`: a cell that replaces builtins does not replace these.
globals()["__builtins__"] = dict(builtins.__dict__)

Carry = Callable[[Callable[..., Any]], Callable[..., Any]]

_SILENT = (
    ("posix", "mkfifo", "os.mkfifo", ("os.mkfifo",)),
    ("posix", "mknod", "os.mknod", ("os.mknod",)),
    ("_posixsubprocess", "fork_exec", "posix.fork_exec", ("subprocess._fork_exec",)),
    ("_thread", "start_new_thread", "_thread.start_new_thread", ("_thread.start_new", "threading._start_new_thread")),
)
"""Functions that raise no audit event, not in every Python: where they are, the event that they raise from then on, and their other names."""
_LATER = (
    ("atexit", "register", 0, "func"),
    ("signal", "signal", 1, "handler"),
    ("weakref", "finalize.__init__", 2, "func"),
    ("concurrent.futures.thread", "ThreadPoolExecutor.submit", 1, "fn"),
)
"""Functions that take one which is called later: its place among the arguments, and its name."""


def wrap_functions(carry: Carry) -> None:
    """Replace these functions. carry: returns a function with the limits of the code that hands it on now."""
    for module_name, name, event, others in _SILENT:
        module = late_import(module_name)
        wrapped = _announced(getattr(module, name), event)
        setattr(module, name, wrapped)
        for other in others:
            place, _, other_name = other.rpartition(".")
            if hasattr(late_import(place), other_name):
                setattr(late_import(place), other_name, wrapped)
    for module_name, name, position, keyword in _LATER:
        owner: Any = late_import(module_name)
        *path, last = name.split(".")
        for each in path:
            owner = getattr(owner, each)
        setattr(owner, last, _carrying(getattr(owner, last), position, keyword, carry))


def _carrying(function: Callable[..., Any], position: int, keyword: str, carry: Carry) -> Callable[..., Any]:
    """Return a function that gives another one's argument the limits of the code that calls it."""

    def call(*args: Any, **named: Any) -> Any:
        if len(args) > position and callable(args[position]):
            args = (*args[:position], carry(args[position]), *args[position + 1 :])
        elif callable(named.get(keyword)):
            named[keyword] = carry(named[keyword])
        return function(*args, **named)

    late_import("functools").update_wrapper(call, function)
    return call


def _announced(function: Callable[..., Any], event: str) -> Callable[..., Any]:
    """Return a function that raises an audit event before it calls another one."""

    def call(*args: Any, **named: Any) -> Any:
        sys.audit(event, *args)
        return function(*args, **named)

    late_import("functools").update_wrapper(call, function)
    return call
