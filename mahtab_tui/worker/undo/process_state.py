"""State besides that of objects: settings, attributes of libraries, and what a fork does not keep.

A fork shares the position in a file. Threads, signal handlers, limits, priority, trace functions, file
locks, loaded modules and state inside libraries are not included."""

from __future__ import annotations

import functools
import os
import sys
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, Callable, NamedTuple

from ..objects import (
    ATOMS,
    MISSING,
    address_of,
    class_dict,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    name_of,
    own_dict,
)
from .library_parts import dump_plain, load_plain
from .parts import file_class


class NotRestored(NamedTuple):
    name: str
    reason: str


class Action(NamedTuple):
    apply: Callable[[], object]
    revert: Callable[[], object]


class ReleasedObject:
    """An object that a step does not keep alive, because something happens when it ends."""

    def __init__(self, value: Any) -> None:
        self.address = address_of(value)
        self._reference = weakref.ref(value) if _REFERENCES(type(value)) else None

    @property
    def ended(self) -> bool:
        return self._reference is not None and self._reference() is None

    def value(self, now: Any) -> Any:
        """Return the object; `MISSING` if it ended or is unknown. now: what may be the same
        object."""
        if self._reference is None:
            return now if address_of(now) == self.address else MISSING
        found = self._reference()
        return MISSING if found is None else found


_REFERENCES: Any = type.__dict__["__weakrefoffset__"].__get__


class LibrarySnapshot(NamedTuple):
    """The attributes of a library's module or class, which code can replace."""

    holder: Any
    label: str
    values: dict[str, int]
    """Addresses of the attributes by name."""

    def find_changes(self, mentioned: Collection[str]) -> Iterator[str]:
        """Yield the replaced attributes. mentioned: names in the code that ran; of others only
        public ones count."""
        now = _attributes(self.holder)
        for name in dict.fromkeys((*self.values, *now)):
            if (
                self.values.get(name) != now.get(name)
                and type(name) is str
                and (name in mentioned or not name.startswith("_"))
                and f"{self.label}.{name}" not in _KERNEL_ATTRIBUTES
            ):
                yield f"{self.label}.{name}"


_ALWAYS = ("builtins", "sys")
_MAX_LIBRARIES = 60
_KERNEL_ATTRIBUTES = frozenset(
    "sys.stdin sys.stdout sys.stderr sys.path sys.modules sys.last_exc sys.last_type sys.last_value"
    " sys.last_traceback sys.breakpointhook warnings.filters builtins.exit builtins.help"
    " builtins.input builtins.quit".split()
)
"""The kernel itself sets these, or they are restored as settings."""
_FLAGS: Any = type.__dict__["__flags__"].__get__
_CHANGEABLE = 1 << 9
"""The flag of classes whose attributes can be set."""


def take_library_snapshots(
    mentioned: Iterable[str], namespace: dict[str, Any], is_own: Callable[[Any], bool]
) -> list[LibrarySnapshot]:
    names = tuple(mentioned)
    pending = [
        *(sys.modules.get(name) for name in _ALWAYS),
        *(namespace.get(name) for name in names),
    ]
    found: dict[int, Any] = {}
    for value in pending:
        if len(found) == _MAX_LIBRARIES:
            break
        module = is_module(value)
        if address_of(value) in found or not (module or is_class(value)) or is_own(value):
            continue
        if module:
            module_names = own_dict(value)
            pending += [module_names[name] for name in names if name in module_names]
            found[address_of(value)] = value
        elif _FLAGS(value) & _CHANGEABLE:
            found[address_of(value)] = value
    return [take_library_snapshot(value) for value in found.values()]


def take_library_snapshot(holder: Any) -> LibrarySnapshot:
    label = (
        f"{class_module(holder)}.{name_of(holder)}"
        if is_class(holder)
        else str(own_dict(holder).get("__name__"))
    )
    return LibrarySnapshot(holder, label, _attributes(holder))


def _attributes(holder: Any) -> dict[str, int]:
    found = dict(class_dict(holder)) if is_class(holder) else dict(own_dict(holder))
    return {name: address_of(value) for name, value in found.items() if not is_module(value)}


class _SideKind(NamedTuple):
    """Objects whose state a fork does not keep, or does not show."""

    read: Callable[[Any], Any]
    is_same: Callable[[Any, Any], bool]
    write: Callable[[Any, Any], object] | None


class SideState:
    """The state of files and polars tables at one time."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._entries: list[tuple[Callable[[], Any], _SideKind, Any]] = []
        addresses = []
        kinds: dict[int, _SideKind | None] = {}
        for value in values:
            address = address_of(type(value))
            if address not in kinds:
                kinds[address] = _find_side_kind(type(value))
            kind = kinds[address]
            if kind is not None:
                self._entries.append((_reference(value), kind, kind.read(value)))
                addresses.append(address_of(value))
        self.addresses = frozenset(addresses)

    def find_too_large(self, most: int) -> frozenset[int]:
        """Return the addresses of tables beyond so many bytes in total, smallest first."""
        found = set()
        tables = [
            (then.estimated_size(), address_of(reference()))
            for reference, kind, then in self._entries
            if kind is _TABLE
        ]
        for size, address in sorted(tables):
            most -= size
            if most < 0:
                found.add(address)
        return frozenset(found)

    def find_differences(
        self, without: frozenset[int] = frozenset()
    ) -> Iterator[tuple[Any, Action | None]]:
        """Yield the changed objects, and how to put them back, if possible. without: addresses of
        tables."""
        for reference, kind, then in self._entries:
            value = reference()
            if value is None or address_of(value) in without:
                continue
            now = kind.read(value)
            if kind.is_same(then, now):
                continue
            action = None
            if kind.write is not None:
                write = partial(kind.write, value)
                action = Action(partial(write, then), partial(write, now))
            yield value, action


def _reference(value: Any) -> Callable[[], Any]:
    return weakref.ref(value) if _REFERENCES(type(value)) else lambda: value


def _find_side_kind(cls: type) -> _SideKind | None:
    if any(cls is get_if_loaded("polars", name) for name in ("DataFrame", "Series")):
        return _TABLE
    return None if file_class(cls) is None else _FILE


def _read_position(value: Any) -> int | None:
    """Return how far a file is read or written; -1 if it is closed, None if unknown."""
    cls = file_class(type(value))  # whose methods are used, whatever a derived class says
    try:
        if cls.closed.__get__(value):
            return -1
        if not cls.seekable(value):
            return 0
        # Asking a text file that is written would write what waits in it.
        is_text = cls.writable(value) and hasattr(cls, "buffer")
        return int(cls.buffer.__get__(value).tell() if is_text else cls.tell(value))
    except (OSError, ValueError, AttributeError):
        return None


def _same_table(then: Any, now: Any) -> bool:
    then, now = (each.to_frame() if hasattr(each, "to_frame") else each for each in (then, now))
    try:
        return bool(
            list(now.schema.items()) == list(then.schema.items())
            and now.equals(then, null_equal=True)
        )
    except Exception:  # columns of Python objects cannot be compared
        return False


def _put_table(table: Any, state: Any) -> None:
    field = "_df" if hasattr(table, "_df") else "_s"
    setattr(table, field, getattr(state.clone(), field))


_TABLE = _SideKind(lambda table: table.clone(), _same_table, _put_table)
_FILE = _SideKind(_read_position, lambda then, now: bool(then == now), None)


class Setting(NamedTuple):
    label: str
    read: Callable[[], Any]
    """Returns plain values to compare. May raise anything if the library is not loaded."""
    write: Callable[[Any], object]


_SIZE = ("COLUMNS", "LINES")
"""The program sets these when the screen's size changes."""


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name not in _SIZE}


def _write_environment(wanted: dict[str, str]) -> None:
    for name in [name for name in _environment() if name not in wanted]:
        del os.environ[name]
    for name, text in wanted.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


def _list_setting(module: str, name: str, after: Callable[[], object] = lambda: None) -> Setting:
    def read() -> Any:
        value = getattr(sys.modules[module], name)
        return value, list(value)

    def write(wanted: Any) -> None:
        setattr(sys.modules[module], name, wanted[0])
        wanted[0][:] = wanted[1]
        after()

    return Setting(f"{module}.{name}", read, write)


def _note_new_filters() -> None:
    for name in ("_filters_mutated", "_filters_mutated_lock_held"):
        if hasattr(warnings, name):
            getattr(warnings, name)()
            return


_SETTINGS = (
    Setting("os.environ", _environment, _write_environment),
    Setting("working directory", os.getcwd, os.chdir),
    _list_setting("sys", "path"),
    _list_setting("warnings", "filters", _note_new_filters),
    Setting(
        "random",
        lambda: sys.modules["random"].getstate(),
        lambda wanted: sys.modules["random"].setstate(wanted),
    ),
    Setting(
        "numpy.random",
        lambda: dump_plain(sys.modules["numpy.random"].get_state()),
        lambda wanted: sys.modules["numpy.random"].set_state(load_plain(wanted)),
    ),
)


class ProcessState:
    def __init__(self) -> None:
        self._values = [_read(setting) for setting in _SETTINGS]
        self._libraries = _count_libraries(len(sys.modules))

    def find_changes(self) -> dict[str, Action]:
        """Return how to put back each setting that differs."""
        found: dict[str, Action] = {}
        new_libraries = _count_libraries(len(sys.modules)) != self._libraries
        for setting, then in zip(_SETTINGS, self._values):
            now, write = _read(setting), setting.write
            if then is MISSING or now is MISSING or _equal(then, now):
                continue
            if new_libraries and setting.label == "warnings.filters":
                continue  # libraries that were loaded have set some, and will not do so again
            found[setting.label] = Action(partial(write, then), partial(write, now))
        return found


@functools.lru_cache(maxsize=1)
def _count_libraries(modules: int) -> int:
    """Count the loaded packages outside the standard library. modules: their number; while it
    stays, no names are read, whose pages Linux would copy after a fork."""
    standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
    return len({name.partition(".")[0] for name in list(sys.modules)} - standard)


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except Exception:  # the library is not loaded, is being imported, or is a module of the user's
        return MISSING


def _equal(one: Any, other: Any) -> bool:
    """Compare plain values by value, and all others by identity."""
    cls = type(one)
    if one is other or cls is not type(other):
        return one is other
    if cls in (list, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if cls is dict:
        return one.keys() == other.keys() and all(
            _equal(value, other[name]) for name, value in one.items()
        )
    return address_of(cls) in ATOMS and bool(one == other)
