"""Process-wide state that undo compares with what it was, and functions whose effects undo misses."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from ..values.objects import (
    ATOMS,
    MISSING,
    address_of,
    class_module,
    get_if_loaded,
    is_module,
    own_dict,
)
from .actions import Action, Unrestored
from .descriptor_states import DescriptorStates
from .registries import ModuleTable, write_modules
from .settings import SETTINGS, Setting


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
        names: Separated by spaces.
        reason: Why undo does not restore what they have done.
    """
    return [_LastingCall(module, name, reason) for name in names.split()]


def _methods(module: str, names: str, reason: str) -> list[_LastingCall]:
    """Return the rows of methods of a module's objects.

    Args:
        names: Separated by spaces.
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
    _LastingCall("asyncio", "create_server", "the server goes on", True, namesake_module="socket"),
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

_DESCRIPTOR_FUNCTIONS = frozenset(
    "read readv readinto readline readlines write writev pwrite pwritev truncate ftruncate lseek"
    " posix_fallocate copy_file_range sendfile splice dup2 closerange recv recv_into recvfrom recvmsg"
    " send sendall sendto sendmsg set_blocking set_inheritable fdopen fileno fromfd".split()
)
"""Code without any of these names leaves the descriptors as they are, unless it calls `os.close`."""

_STANDARD_MODULES: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
"""Empty in Python 3.9, which does not list them: there, each new module counts as a library's."""


class _Mentions:
    """What code mentions: names, and the values of the variables among these."""

    def __init__(self, names: Collection[str], values: Collection[object]) -> None:
        self._names = names
        self._addresses = {address_of(value) for value in values}
        self._class_packages = {_package(class_module(type(value))) for value in values}
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
        if not call.is_method:
            return False
        return call.namesake_module not in self._names or call.module in self._class_packages


class ProcessState:
    """A snapshot of process-wide state that undo can compare."""

    def __init__(self, mentioned_names: Collection[str] = ()) -> None:
        """Take a snapshot.

        Args:
            mentioned_names: Names in the code that will run. Rarely changed state is recorded only
                if the code mentions it.
        """
        self._values = [_read(setting) for setting in SETTINGS]
        self._module_names = _read_module_names()
        self._modules: ModuleTable | None = None
        self._descriptors: DescriptorStates | None = None
        self.note_mentioned(mentioned_names)

    def note_mentioned(self, mentioned_names: Collection[str]) -> None:
        """Also record state that code using these names could change. Call before the code runs."""
        if self._modules is None and "modules" in mentioned_names:
            self._modules = ModuleTable()
        uses_descriptors = not _DESCRIPTOR_FUNCTIONS.isdisjoint(mentioned_names)
        # `close` alone is too common, so require `os` as well.
        uses_descriptors |= "os" in mentioned_names and "close" in mentioned_names
        if self._descriptors is None and uses_descriptors:
            self._descriptors = DescriptorStates()

    def note_loaded_libraries(self) -> None:
        """Record the settings of libraries that were loaded after the snapshot."""
        for index, value in enumerate(self._values):
            if value is MISSING:
                self._values[index] = _read(SETTINGS[index])

    def find_descriptor_changes(
        self, ignored_descriptors: Collection[int], mentioned_descriptors: Collection[int]
    ) -> list[Unrestored]:
        """Describe descriptors that were read, written, closed or replaced.

        Args:
            ignored_descriptors: See `DescriptorStates.find_changes`.
            mentioned_descriptors: See `DescriptorStates.find_changes`.
        """
        if self._descriptors is None:
            return []
        changes = self._descriptors.find_changes(ignored_descriptors, mentioned_descriptors)
        return [Unrestored(label, reason) for label, reason in changes]

    @staticmethod
    def find_lasting_calls(
        mentioned_names: Collection[str], mentioned_values: Collection[object] = ()
    ) -> list[Unrestored]:
        """Return functions that code mentions, and whose effects undo can neither detect nor reverse.

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

    def find_changes(
        self, mentioned_names: Collection[str] = (), mentioned_values: Collection[object] = ()
    ) -> dict[str, Action | None]:
        """Return how to restore the settings that have changed.

        Args:
            mentioned_names: Names in the code that ran.
            mentioned_values: The values of the variables among these names.

        Returns:
            An action by the label of the setting; None if the setting cannot be restored.
        """
        mentioned = frozenset(mentioned_names).union(_own_names(mentioned_values))
        changes: dict[str, Action | None] = {}
        modules_action = self._make_modules_action()
        if modules_action is not None:
            changes["sys.modules"] = modules_action

        new_modules = _new_names(_read_module_names(), self._module_names)
        has_new_libraries = self._has_new_libraries(new_modules)
        for setting, old_value in zip(SETTINGS, self._values):
            is_mentioned = any(mentioned.issuperset(name.split(".")) for name in setting.set_by)
            if setting.is_cache and not is_mentioned:
                continue
            new_value = _read(setting)
            if old_value is MISSING or new_value is MISSING or _equal(old_value, new_value):
                continue
            if setting.set_by_libraries:
                is_set_by_imports = has_new_libraries
            else:
                is_set_by_imports = bool(new_modules and setting.set_by and not setting.is_cache)
            if not is_set_by_imports:
                changes[setting.label] = _make_action(setting, old_value, new_value)
            elif is_mentioned:
                # What the loaded modules have set must stay: they will not set it again.
                changes[setting.label] = None
        return changes

    def _has_new_libraries(self, new_modules: frozenset[str]) -> bool:
        """Return whether any of the modules that were loaded since the snapshot belongs to a library
        of which no module was loaded then."""
        if not new_modules:
            return False
        return not _library_names(new_modules) <= _library_names(self._module_names)

    def _make_modules_action(self) -> Action | None:
        """Return how to restore the entries of `sys.modules`; None if they have not changed."""
        if self._modules is None:
            return None
        old_entries = self._modules.find_changes()
        if not old_entries:
            return None
        current_entries = {name: sys.modules.get(name, MISSING) for name in old_entries}
        return Action(partial(write_modules, old_entries), partial(write_modules, current_entries))


def _read_module_names() -> frozenset[str]:
    """Return the names of the loaded modules."""
    newest_name = next(reversed(sys.modules), "")
    if type(newest_name) is not str:  # hashing it would run code
        newest_name = ""
    return _copy_module_names(len(sys.modules), newest_name)


@functools.lru_cache(maxsize=1)
def _copy_module_names(module_count: int, newest_name: str) -> frozenset[str]:
    """Return the names of the loaded modules.

    While their number and the name that was added last stay the same, the names come from the cache,
    because reading them would make Linux copy their memory after a fork.
    """
    return frozenset(name for name in list(sys.modules) if type(name) is str)


def _own_names(values: Iterable[object]) -> Iterator[str]:
    """Yield the names that modules and functions among these values were given by their own code."""
    for value in values:
        own_name: object = None
        if type(value) is FunctionType:
            own_name = value.__name__
        elif is_module(value):
            own_name = own_dict(value).get("__name__")
        # A subclass of `str` may run code when it is compared.
        if type(own_name) is str:
            yield from own_name.split(".")


def _new_names(names: frozenset[str], old_names: frozenset[str]) -> frozenset[str]:
    """Return the names that are not among old ones."""
    # The names themselves are not read if they come from the cache.
    return frozenset() if names is old_names else names - old_names


def _library_names(modules: Iterable[str]) -> set[str]:
    """Return the names of the packages outside the standard library to which modules belong."""
    return {_package(module) for module in modules} - _STANDARD_MODULES


def _package(module: str) -> str:
    return module.partition(".")[0]


def _make_action(setting: Setting, old_value: object, new_value: object) -> Action | None:
    """Return how to restore a setting; None if it cannot be restored."""
    write = setting.write
    if write is None:
        return None
    return Action(partial(write, old_value), partial(write, new_value))


def _read(setting: Setting) -> object:
    """Return a setting's state; `MISSING` if it cannot be read."""
    try:
        return setting.read()
    except Exception:  # the library is not loaded, is being imported, or is a module of the user's
        return MISSING


def _equal(left: Any, right: Any) -> bool:
    """Compare plain values by value, and all others by identity."""
    cls = type(left)
    if left is right or cls is not type(right):
        return left is right
    if cls in (list, tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if cls is dict:
        return left.keys() == right.keys() and all(
            _equal(value, right[name]) for name, value in left.items()
        )
    return address_of(cls) in ATOMS and bool(left == right)
