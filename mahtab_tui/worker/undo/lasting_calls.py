"""Functions whose effect undo can neither detect nor reverse.

An undo names those that the code may have called, judged by the names in it and by the values of its
variables.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import NamedTuple

from ..values.objects import address_of, class_module, get_if_loaded
from .actions import Unrestored


class _LastingCall(NamedTuple):
    """A function whose effect undo can neither detect nor reverse."""

    module: str
    name: str
    reason: str
    """Why undo does not restore what the function has done, as the user reads it."""
    is_method: bool = False
    """Whether the function is called on objects, so that code need not name the module."""
    namesake_module: str = ""
    """A module that has another function of this name; empty if there is none."""


def _functions(module: str, names: str, reason: str) -> list[_LastingCall]:
    """Return the rows of functions that stand in a module.

    Args:
        module: The module.
        names: The functions, separated by spaces.
        reason: Why undo does not restore what they have done.
    """
    return [_LastingCall(module, name, reason) for name in names.split()]


def _methods(module: str, names: str, reason: str) -> list[_LastingCall]:
    """Return the rows of methods of a module's objects.

    Args:
        module: The module of their classes.
        names: The methods, separated by spaces.
        reason: Why undo does not restore what they have done.
    """
    return [_LastingCall(module, name, reason, is_method=True) for name in names.split()]


_LASTING_CALLS = (
    *_functions("sys", "addaudithook", "an audit hook stays until the kernel ends"),
    *_functions("sys", "set_asyncgen_hooks", "undo does not compare these hooks"),
    *_functions("os", "register_at_fork", "what was registered stays until the kernel ends"),
    *_functions("os", "eventfd_read", "a number that was read is not put back"),
    *_functions("os", "eventfd_write", "a number that was written stays"),
    *_functions(
        "signal",
        "raise_signal pthread_kill pidfd_send_signal",
        "a signal that was sent cannot be taken back",
    ),
    *_functions("os", "mkfifo mknod", "the file that was created is not removed"),
    *_functions("os", "lockf", "undo does not compare locks of files"),
    *_functions("fcntl", "flock lockf", "undo does not compare locks of files"),
    *_functions("signal", "set_wakeup_fd", "undo does not compare this descriptor"),
    *_functions("gc", "freeze", "frozen objects stay frozen"),
    *_functions("codecs", "register register_error", "what was registered stays"),
    *_functions("atexit", "unregister", "a function that was unregistered does not come back"),
    *_functions("asyncio", "to_thread", "what was started goes on"),
    *_methods("asyncio", "run_in_executor", "what was started goes on"),
    *_methods(
        "asyncio",
        "add_reader add_writer remove_reader remove_writer",
        "undo does not compare what the event loop waits for",
    ),
    *_functions("asyncio", "start_server start_unix_server", "the server goes on"),
    _LastingCall(
        "asyncio",
        "create_server",
        "the server goes on",
        is_method=True,
        namesake_module="socket",
    ),
    *_methods("asyncio", "create_unix_server", "the server goes on"),
    *_functions(
        "ctypes",
        "CDLL PyDLL cdll pydll pythonapi",
        "undo does not compare what native functions change",
    ),
    *_methods("ctypes", "LoadLibrary", "undo does not compare what native functions change"),
    *_methods("ctypes", "prctl", "undo does not compare what this call sets"),
    *_functions("ctypes", "set_errno", "undo does not compare this number"),
    *_methods(
        "sqlite3",
        "create_function create_aggregate create_window_function create_collation",
        "what was registered with a connection stays",
    ),
    *_methods(
        "sqlite3",
        "set_authorizer set_progress_handler set_trace_callback",
        "what was registered with a connection stays",
    ),
    *_methods("sqlite3", "enable_load_extension setconfig", "undo does not compare this setting"),
    *_functions("sqlite3", "enable_callback_tracebacks", "undo does not compare this setting"),
)
"""An undo names these functions if the code that it undoes may call them."""


def find_lasting_calls(
    mentioned_names: Collection[str], mentioned_values: Collection[object]
) -> list[Unrestored]:
    """Return the functions that code may have called and whose effects undo misses.

    Args:
        mentioned_names: Names in the code.
        mentioned_values: The values of the variables among these names.
    """
    mentions = _Mentions(mentioned_names, mentioned_values)
    return [
        Unrestored(f"{call.module}.{call.name}", call.reason)
        for call in _LASTING_CALLS
        if mentions.may_call(call)
    ]


class _Mentions:
    """What code mentions: names, and the values of the variables among these."""

    def __init__(self, names: Collection[str], values: Collection[object]) -> None:
        """Note what code mentions.

        Args:
            names: Names in the code.
            values: The values of the variables among these names.
        """
        self._names = names
        self._addresses = {address_of(value) for value in values}
        self._class_packages = {class_module(type(value)).partition(".")[0] for value in values}
        """The packages that define the classes of the values."""

    def may_call(self, call: _LastingCall) -> bool:
        """Return whether the code may call a function."""
        module = sys.modules.get(call.module)
        if module is None:
            return False
        if address_of(get_if_loaded(call.module, call.name)) in self._addresses:
            return True
        if call.name not in self._names:
            return False
        if call.module in self._names or address_of(module) in self._addresses:
            return True
        # A method is called on an object, so the code need not name the module. If another module has
        # a function of the same name and is named, only an object of this one's tells which is meant.
        if not call.is_method:
            return False
        return call.namesake_module not in self._names or call.module in self._class_packages
