"""State of the whole process that undo compares with what it was, and writes back: the settings of
`settings`, the entries of `sys.modules`, and how far open descriptors are read and written.

`lasting_calls` names the effects that no comparison finds.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

from ..values.objects import (
    ATOMS,
    MISSING,
    address_of,
    is_module,
    own_dict,
)
from .actions import Action, Unrestored
from .descriptor_states import DescriptorStates
from .registries import ModuleTable, write_modules
from .settings import SETTINGS, Setting

_DESCRIPTOR_FUNCTIONS = frozenset(
    "read readv readinto readline readlines write writev pwrite pwritev truncate ftruncate lseek"
    " posix_fallocate copy_file_range sendfile splice dup2 closerange recv recv_into recvfrom recvmsg"
    " send sendall sendto sendmsg set_blocking set_inheritable fdopen fileno fromfd".split()
)
"""Code without any of these names leaves the descriptors as they are, unless it calls `os.close`."""

_STANDARD_MODULES: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
"""Empty in Python 3.9, which does not list them: there, each new module counts as a library's."""


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
        """Also record the state that code with these names may change.

        Args:
            mentioned_names: Names in code that has not run yet.
        """
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
        """Describe the descriptors that were read, written, closed or replaced.

        Args:
            ignored_descriptors: Descriptors of files that are compared in another way.
            mentioned_descriptors: Descriptors that the code may mean (`DescriptorStates.find_changes`).
        """
        if self._descriptors is None:
            return []
        changes = self._descriptors.find_changes(ignored_descriptors, mentioned_descriptors)
        return [Unrestored(label, reason) for label, reason in changes]

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
            is_mentioned = _is_mentioned(setting, mentioned)
            if setting.is_cache and not is_mentioned:
                continue
            new_value = _read(setting)
            if old_value is MISSING or new_value is MISSING or _equal(old_value, new_value):
                continue
            may_be_set_by_imports = bool(new_modules and setting.set_by and not setting.is_cache)
            if setting.set_by_libraries:
                may_be_set_by_imports = has_new_libraries
            if not may_be_set_by_imports:
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


def _is_mentioned(setting: Setting, mentioned: frozenset[str]) -> bool:
    """Return whether code mentions what sets a setting."""
    return any(mentioned.issuperset(name.split(".")) for name in setting.set_by)


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
    if left is right:
        return True
    if cls is not type(right):
        return False
    if cls in (list, tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if cls is dict:
        return left.keys() == right.keys() and all(
            _equal(value, right[name]) for name, value in left.items()
        )
    return address_of(cls) in ATOMS and bool(left == right)
