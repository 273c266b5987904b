"""The settings of the process and of libraries at one time, and what differs later."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection
from functools import partial
from typing import Any

from ..values.objects import ATOMS, MISSING, address_of
from .actions import Action, Unrestored
from .registries import Descriptors, ModuleTable, write_modules
from .settings import SETTINGS, Setting

_LASTING_CALLS = {
    "addaudithook": ("sys", "an audit hook stays until the kernel ends"),
    "set_asyncgen_hooks": ("sys", "these hooks are not compared"),
    "register_at_fork": ("os", "what it registers stays until the kernel ends"),
    "register_error": ("codecs", "what it registers stays"),
    "set_wakeup_fd": ("signal", "the descriptor is not compared"),
    "flock": ("fcntl", "locks of files are not compared"),
    "lockf": ("fcntl", "locks of files are not compared"),
    "eventfd_read": ("os", "what it reads does not come back"),
    "eventfd_write": ("os", "what it writes stays"),
    **dict.fromkeys(("run_in_executor", "to_thread"), ("asyncio", "what it runs goes on")),
    **dict.fromkeys(
        ("add_reader", "add_writer", "remove_reader", "remove_writer"),
        ("asyncio", "what the event loop waits for is not compared"),
    ),
    **dict.fromkeys(
        ("start_server", "start_unix_server", "create_server", "create_unix_server"),
        ("asyncio", "the server goes on"),
    ),
    **dict.fromkeys(("kill", "killpg"), ("os", "a signal cannot be taken back")),
    "fork": ("os", "the process that it starts goes on"),
    "mkfifo": ("os", "what it makes stays"),
    "mknod": ("os", "what it makes stays"),
    **dict.fromkeys(
        ("CDLL", "PyDLL", "cdll", "pydll", "pythonapi", "LoadLibrary"),
        ("ctypes", "what native functions do is not compared"),
    ),
    "set_errno": ("ctypes", "its errno is not compared"),
    "prctl": ("ctypes", "what it sets is not compared"),
    "freeze": ("gc", "the frozen objects stay frozen"),
    **dict.fromkeys(
        (
            *("create_function", "create_aggregate", "create_window_function"),
            *("create_collation", "set_authorizer", "set_progress_handler", "set_trace_callback"),
            *("enable_load_extension", "enable_callback_tracebacks"),
        ),
        ("sqlite3", "what it registers stays"),
    ),
    "setconfig": ("sqlite3", "what it sets is not compared"),
}
"""Functions whose effect cannot be seen, by name: their modules, and the reason that is given for
cells that mention them."""

_DESCRIPTOR_FUNCTIONS = frozenset(
    "read readv readinto readline readlines write writev pwrite pwritev truncate ftruncate lseek"
    " posix_fallocate copy_file_range sendfile splice dup2 closerange recv recv_into recvfrom recvmsg"
    " send sendall sendto sendmsg set_blocking set_inheritable fdopen fileno fromfd".split()
)


class ProcessState:
    """The settings at one time."""

    def __init__(self, mentioned: Collection[str] = ()) -> None:
        """Note the present state. mentioned: names in the code that will run; what few cells change
        is only noted for cells that mention it."""
        self._values = [_read(setting) for setting in SETTINGS]
        self._libraries = _count_libraries(len(sys.modules))
        self._module_count = len(sys.modules)
        self._modules: ModuleTable | None = None
        self._descriptors: Descriptors | None = None
        self.note_mentioned(mentioned)

    def note_mentioned(self, mentioned: Collection[str]) -> None:
        """Note what else code may change that has these names and has not run yet."""
        if self._modules is None and "modules" in mentioned:
            self._modules = ModuleTable()
        uses_descriptors = not _DESCRIPTOR_FUNCTIONS.isdisjoint(mentioned)
        # Nearly everything has a method `close`.
        uses_descriptors |= "os" in mentioned and "close" in mentioned
        if self._descriptors is None and uses_descriptors:
            self._descriptors = Descriptors()

    def note_loaded_libraries(self) -> None:
        """Note the settings of libraries that have been loaded since."""
        for index, value in enumerate(self._values):
            if value is not MISSING:
                continue
            present_value = _read(SETTINGS[index])
            # Another thread may have noted it meanwhile, whose code has changed it since.
            if self._values[index] is MISSING:
                self._values[index] = present_value

    def find_descriptor_changes(
        self, without: Collection[int], mentioned: Collection[int]
    ) -> list[Unrestored]:
        """Name the descriptors that were read or written. without, mentioned: see
        `Descriptors.find_changes`."""
        if self._descriptors is None:
            return []
        changes = self._descriptors.find_changes(without, mentioned)
        return [Unrestored(label, reason) for label, reason in changes]

    def find_lasting_calls(self, mentioned: Collection[str]) -> list[Unrestored]:
        """Name the functions that the code mentions and whose effect is not compared."""
        calls = [
            Unrestored(f"{module}.{name}", reason)
            for name, (module, reason) in _LASTING_CALLS.items()
            if name in mentioned and module in sys.modules
            # Objects of others have methods with these names.
            if name not in ("kill", "fork") or "os" in mentioned
        ]
        if "codecs" in mentioned and "register" in mentioned:
            calls.append(Unrestored("codecs.register", "what it registers stays"))
        if "atexit" in mentioned and "unregister" in mentioned:
            calls.append(Unrestored("atexit.unregister", "it does not come back"))
        return calls

    def find_changes(self, mentioned: Collection[str] = ()) -> dict[str, Action | None]:
        """Return the settings that differ by their labels, with how to put them back; None for one
        that cannot be put back. mentioned: names in the code that ran."""
        changes: dict[str, Action | None] = {}
        if (modules_action := self._modules_action()) is not None:
            changes["sys.modules"] = modules_action

        has_new_libraries = _count_libraries(len(sys.modules)) != self._libraries
        has_new_modules = len(sys.modules) != self._module_count
        for setting, old_value in zip(SETTINGS, self._values):
            if setting.is_cache and set(setting.set_by).isdisjoint(mentioned):
                continue
            new_value = _read(setting)
            if old_value is MISSING or new_value is MISSING or _equal(old_value, new_value):
                continue
            if has_new_libraries and setting.label == "warnings.filters":
                continue  # libraries that were loaded have set some, and will not do so again
            if has_new_modules and setting.set_by and not setting.is_cache:
                # A part of the change is that of the loaded modules, and must stay.
                if not set(setting.set_by).isdisjoint(mentioned):
                    changes[setting.label] = None
                continue
            write = setting.write
            action = None
            if write is not None:
                action = Action(partial(write, old_value), partial(write, new_value))
            changes[setting.label] = action
        return changes

    def _modules_action(self) -> Action | None:
        """Return how to put back the entries of `sys.modules`; None if they are as they were."""
        if self._modules is None:
            return None
        changes = self._modules.find_changes()
        if not changes:
            return None
        present = {name: sys.modules.get(name, MISSING) for name in changes}
        return Action(partial(write_modules, changes), partial(write_modules, present))


@functools.lru_cache(maxsize=1)
def _count_libraries(modules: int) -> int:
    """Count the loaded packages outside the standard library.

    modules: the number of loaded modules. While it stays the same, the count comes from the cache,
    because reading the names would make Linux copy their memory after a fork."""
    standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
    return len({name.partition(".")[0] for name in list(sys.modules)} - standard)


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
