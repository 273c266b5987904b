"""State besides that of objects: settings, attributes of libraries, and what a fork does not keep.

A fork shares the position in a file. Trace functions, priority, file locks, loaded modules and
state inside libraries are not included."""

from __future__ import annotations

import functools
import gc
import os
import resource
import signal
import sys
import types
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Callable, NamedTuple

from ..objects import (
    ATOMS,
    MISSING,
    address_of,
    as_library_type,
    class_dict,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    is_subclass,
    name_of,
    own_dict,
)
from .library_parts import dump_plain, load_plain
from .parts import file_class
from .registries import (
    Descriptors,
    ModuleTable,
    read_accessors,
    read_decimal_contexts,
    read_environment,
    read_registered,
    read_source_cache,
    write_accessors,
    write_decimal_contexts,
    write_environment,
    write_modules,
    write_registered,
    write_source_cache,
)


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
    values: dict[str, Any]
    registered: tuple[weakref.ref[type], ...] = ()
    """The classes registered with an abstract class."""

    def registry_action(self) -> Action | None:
        """Return how to register the same classes as before; None if they are registered."""
        if not is_class(self.holder):
            return None
        now = read_registered(self.holder)
        then = [cls for reference in self.registered if (cls := reference()) is not None]
        if list(map(address_of, now)) == list(map(address_of, then)):
            return None
        write = partial(write_registered, self.holder)
        return Action(partial(write, then), partial(write, now))

    def iter_changes(self, mentioned: Collection[str]) -> Iterator[tuple[str, Any, Any]]:
        """Yield the replaced attributes with their values then and now. mentioned: names in the
        code that ran; of others only public ones count."""
        attributes = _attributes(self.holder)
        for name in dict.fromkeys((*self.values, *attributes)):
            then = self.values.get(name, MISSING)
            now = attributes.get(name, MISSING)
            if type(then) is ReleasedObject:
                is_same = address_of(now) == then.address and not then.ended
            else:
                is_same = now is then
            if (
                not is_same
                and not is_module(then)
                and not is_module(now)
                and type(name) is str
                and (name in mentioned or not name.startswith("_"))
                and f"{self.label}.{name}" not in _KERNEL_ATTRIBUTES
            ):
                yield name, then, now

    def set_attribute(self, name: str, value: Any) -> None:
        if is_class(self.holder):
            if value is MISSING:
                type.__delattr__(self.holder, name)
            else:
                type.__setattr__(self.holder, name, value)
        elif value is MISSING:
            own_dict(self.holder).pop(name, None)
        else:
            own_dict(self.holder)[name] = value


_ALWAYS = ("builtins", "sys")
_MAX_LIBRARIES = 60
_MAX_ITEMS = 1_000
_KERNEL_ATTRIBUTES = frozenset(
    "sys.stdin sys.stdout sys.stderr sys.path sys.modules sys.last_exc sys.last_type sys.last_value"
    " sys.last_traceback sys.breakpointhook warnings.filters builtins.exit builtins.help"
    " builtins.input builtins.quit".split()
)
"""The kernel itself sets these, or they are restored as settings."""
_WITHOUT_FINALIZER = ATOMS.union(
    map(address_of, (type, property, classmethod, staticmethod, dict, type(os.environ))),
    map(address_of, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)),
    map(address_of, (types.MethodDescriptorType, types.WrapperDescriptorType)),
    map(address_of, (types.GetSetDescriptorType,)),
)
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
        if module or _FLAGS(value) & _CHANGEABLE:
            found[address_of(value)] = value
    return [take_library_snapshot(value) for value in found.values()]


def take_library_snapshot(holder: Any) -> LibrarySnapshot:
    """Keep no object alive that may have to end."""
    values = {
        name: value if _has_no_finalizer(value) else ReleasedObject(value)
        for name, value in _attributes(holder).items()
    }
    if is_class(holder):
        label = f"{class_module(holder)}.{name_of(holder)}"
    else:
        label = str(own_dict(holder).get("__name__"))
    registered = read_registered(holder) if is_class(holder) else []
    return LibrarySnapshot(holder, label, values, tuple(map(weakref.ref, registered)))


def _has_no_finalizer(value: Any) -> bool:
    if type(value) in (list, tuple, set, frozenset):
        return len(value) < _MAX_ITEMS and ATOMS.issuperset(map(address_of, map(type, value)))
    return address_of(type(value)) in _WITHOUT_FINALIZER


def _attributes(holder: Any) -> dict[str, Any]:
    return dict(class_dict(holder) if is_class(holder) else own_dict(holder))


class _SideKind(NamedTuple):
    """Objects whose state a fork does not keep, or does not show."""

    read: Callable[[Any], Any]
    is_same: Callable[[Any, Any], bool]
    write: Callable[[Any, Any], object] | None


class SideState:
    """The state of files, polars tables, tensors and threads at one time."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._entries: list[tuple[Callable[[], Any], _SideKind, Any]] = []
        addresses = []
        self._threads = set(_threads())
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
        tables = sorted(
            (then.estimated_size(), address_of(reference()))
            for reference, kind, then in self._entries
            if kind is _TABLE
        )
        totals = accumulate(size for size, _ in tables)
        return frozenset(address for (_, address), total in zip(tables, totals) if total > most)

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

    def file_descriptors(self) -> set[int]:
        """Return the descriptors of the files that are compared here."""
        descriptors: set[int] = set()
        for reference, kind, _ in self._entries:
            if kind is _FILE and (value := reference()) is not None:
                with suppress(OSError, ValueError):  # closed, or in memory
                    descriptors.add(file_class(type(value)).fileno(value))
        return descriptors

    def find_unknown_files(self) -> Iterator[Any]:
        """Yield the open files that do not tell how far they are read or written."""
        for reference, kind, position in self._entries:
            if kind is _FILE and position is None and (value := reference()) is not None:
                yield value

    def find_started_threads(self) -> list[NotRestored]:
        return [
            NotRestored(thread.name, "this thread was started and is still running")
            for number, thread in _threads().items()
            if number not in self._threads
        ]


def _reference(value: Any) -> Callable[[], Any]:
    return weakref.ref(value) if _REFERENCES(type(value)) else lambda: value


def _find_side_kind(cls: type) -> _SideKind | None:
    if any(cls is get_if_loaded("polars", name) for name in ("DataFrame", "Series")):
        return _TABLE
    if is_subclass(cls, get_if_loaded("torch", "Tensor")):
        return _TENSOR
    return None if file_class(cls) is None else _FILE


def _threads() -> dict[int, Any]:
    threading = sys.modules.get("threading")
    if threading is None:
        return {}
    running = (each for each in threading.enumerate() if each.ident is not None)
    return {thread.ident: thread for thread in running if not _is_ours(thread)}


def _is_ours(thread: Any) -> bool:
    target = own_dict(thread).get("_target")
    function = target.__func__ if type(target) is types.MethodType else target
    if type(function) is not types.FunctionType:
        return False
    found, package = function.__globals__.get("__package__"), __package__.rpartition(".")[0]
    return type(found) is str and f"{found}.".startswith(f"{package}.")


_KERNEL_PID = os.getpid()


def _read_position(value: Any) -> int | None:
    """Return how far a file is read or written; -1 if it is closed; None if this is unknown, as for
    pipes and for compressed files that are written."""
    cls = file_class(type(value))  # whose methods are used, whatever a derived class says
    try:
        if cls.closed.__get__(value):
            return -1
        if not cls.seekable(value):
            return None
        if not hasattr(cls, "buffer") or not cls.writable(value):
            return int(cls.tell(value))
        buffer = cls.buffer.__get__(value)
        buffer_class = file_class(type(buffer))
        if buffer_class is None:
            return None
        # Nothing tells how much text waits in the file, so it is written; in a fork of the kernel it
        # would be written twice.
        if os.getpid() == _KERNEL_PID:
            cls.flush(value)
        return int(buffer_class.tell(buffer))
    except (OSError, ValueError, AttributeError):
        return None


def _layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


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
_TENSOR = _SideKind(
    lambda tensor: as_library_type(tensor).detach(),
    lambda then, now: _layout(then) == _layout(now),
    lambda tensor, data: setattr(tensor, "data", data),
)
_FILE = _SideKind(_read_position, lambda then, now: bool(then == now), None)


class Setting(NamedTuple):
    label: str
    read: Callable[[], Any]
    """Returns plain values to compare. May raise anything if the library is not loaded."""
    write: Callable[[Any], object] | None = None
    """None if it is not put back."""
    set_by: tuple[str, ...] = ()
    """If libraries also change it when they are loaded: names of which code that changes it mentions
    one. Otherwise empty."""


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


def _function_setting(
    module: str, read: str, write: str, named: bool = False, label: str = ""
) -> Setting:
    def write_setting(wanted: Any) -> None:
        function = getattr(sys.modules[module], write)
        function(**wanted) if named else function(wanted)

    label = label or f"{module}.{read}"
    return Setting(label, lambda: getattr(sys.modules[module], read)(), write_setting)


_SIGNALS = tuple(
    number
    for number in map(int, signal.valid_signals())
    if number not in (signal.SIGINT, signal.SIGKILL, signal.SIGSTOP)
)
_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Quicker, because it does not create enum members."""


_LIMITS = tuple(
    sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
)


def _blocked_signals() -> list[int]:
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))


_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def _timers() -> list[bool]:
    """Return which timers run."""
    return [signal.getitimer(timer)[0] > 0 for timer in _TIMERS]


def _stop_timers(wanted: list[bool]) -> None:
    for timer, runs in zip(_TIMERS, wanted):
        if not runs:
            signal.setitimer(timer, 0)


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask"))


def _pandas() -> dict[str, Any]:
    found: dict[str, Any] = {}
    pending = [("", sys.modules["pandas._config.config"]._global_config)]
    for prefix, tables in pending:
        for name, value in tables.items():
            if type(value) is dict:
                pending.append((f"{prefix}{name}.", value))
            else:
                found[prefix + name] = value
    return found


def _write_pandas(wanted: dict[str, Any]) -> None:
    now = _pandas()
    for name, value in wanted.items():
        if name in now and now[name] is not value and now[name] != value:
            sys.modules["pandas"].set_option(name, value)


def _logging() -> Any:
    root = sys.modules["logging"].root
    return root.level, list(root.handlers), root.manager.disable


_SETTINGS = (
    Setting("os.environ", read_environment, write_environment),
    Setting("working directory", os.getcwd, os.chdir),
    *(_list_setting("sys", name) for name in ("path", "argv", "meta_path", "path_hooks")),
    _list_setting("warnings", "filters", _note_new_filters),
    _function_setting("random", "getstate", "setstate", label="random"),
    Setting(
        "numpy.random",
        lambda: dump_plain(sys.modules["numpy.random"].get_state()),
        lambda wanted: sys.modules["numpy.random"].set_state(load_plain(wanted)),
    ),
    Setting(
        "decimal context",
        lambda: sys.modules["decimal"].getcontext().__reduce__()[1],
        lambda wanted: sys.modules["decimal"].setcontext(sys.modules["decimal"].Context(*wanted)),
    ),
    Setting("decimal's own contexts", read_decimal_contexts, write_decimal_contexts),
    _function_setting("sys", "getrecursionlimit", "setrecursionlimit"),
    _function_setting("sys", "getswitchinterval", "setswitchinterval"),
    _function_setting("sys", "get_int_max_str_digits", "set_int_max_str_digits"),
    _function_setting("threading", "stack_size", "stack_size"),
    _function_setting("socket", "getdefaulttimeout", "setdefaulttimeout"),
    _function_setting("csv", "field_size_limit", "field_size_limit"),
    _function_setting("numpy", "getbufsize", "setbufsize"),
    _function_setting("numpy", "get_printoptions", "set_printoptions", named=True),
    _function_setting("numpy", "geterr", "seterr", named=True),
    Setting("gc", lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug())),
    Setting("signal handlers", lambda: list(map(_getsignal, _SIGNALS))),
    Setting(
        "blocked signals", _blocked_signals, partial(signal.pthread_sigmask, signal.SIG_SETMASK)
    ),
    Setting("timers", _timers, _stop_timers),
    Setting(
        "processors",
        lambda: sorted(os.sched_getaffinity(0)),
        lambda wanted: os.sched_setaffinity(0, wanted),
    ),
    Setting("limits of the process", lambda: list(map(resource.getrlimit, _LIMITS))),
    Setting("umask", _umask),
    Setting("pandas options", _pandas, _write_pandas),
    Setting("logging", _logging),
    Setting("locale", lambda: sys.modules["locale"].setlocale(sys.modules["locale"].LC_ALL)),
    Setting(
        "torch.random",
        lambda: bytes(sys.modules["torch"].get_rng_state().numpy()),
        lambda wanted: sys.modules["torch"].set_rng_state(
            sys.modules["torch"].frombuffer(bytearray(wanted), dtype=sys.modules["torch"].uint8)
        ),
    ),
    Setting(
        "copyreg.dispatch_table",
        lambda: dict(sys.modules["copyreg"].dispatch_table),
        lambda wanted: _put_dict(sys.modules["copyreg"].dispatch_table, wanted),
        set_by=("copyreg",),
    ),
    Setting(
        "gc.callbacks",
        lambda: list(gc.callbacks),
        lambda wanted: list.__setitem__(gc.callbacks, slice(None), wanted),
        set_by=("callbacks",),
    ),
    Setting("atexit", lambda: sys.modules["atexit"]._ncallbacks(), set_by=("atexit",)),
    Setting(
        "pandas accessors",
        read_accessors,
        write_accessors,
        set_by=tuple(f"register_{name}_accessor" for name in ("dataframe", "series", "index")),
    ),
    Setting("linecache.cache", read_source_cache, write_source_cache, set_by=("linecache",)),
)
_DESCRIPTOR_FUNCTIONS = frozenset("read readv readinto write writev lseek sendfile splice".split())


def _put_dict(mapping: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(wanted)


class ProcessState:
    def __init__(self, mentioned: Collection[str] = ()) -> None:
        """Note the present state. mentioned: names in the code that will run; what few cells change
        is only noted for cells that mention it."""
        self._values = [_read(setting) for setting in _SETTINGS]
        self._libraries = _count_libraries(len(sys.modules))
        self._module_count = len(sys.modules)
        self._modules = ModuleTable() if "modules" in mentioned else None
        uses_descriptors = not _DESCRIPTOR_FUNCTIONS.isdisjoint(mentioned)
        self._descriptors = Descriptors() if uses_descriptors else None

    def find_descriptor_changes(self, without: Collection[int]) -> list[NotRestored]:
        """Name the descriptors that were read or written. without: those of files that are compared
        in another way."""
        if self._descriptors is None:
            return []
        changes = self._descriptors.find_changes(without)
        return [NotRestored(label, reason) for label, reason in changes]

    def find_changes(self, mentioned: Collection[str] = ()) -> dict[str, Action | None]:
        """Return how to put back each setting that differs, if possible. mentioned: names in the code
        that ran."""
        changes: dict[str, Action | None] = {}
        if (modules_action := self._modules_action()) is not None:
            changes["sys.modules"] = modules_action

        has_new_libraries = _count_libraries(len(sys.modules)) != self._libraries
        has_new_modules = len(sys.modules) != self._module_count
        for setting, then in zip(_SETTINGS, self._values):
            now = _read(setting)
            if then is MISSING or now is MISSING or _equal(then, now):
                continue
            if has_new_libraries and setting.label == "warnings.filters":
                continue  # libraries that were loaded have set some, and will not do so again
            if has_new_modules and setting.set_by:
                # A part of the change is that of the loaded modules, and must stay.
                if not set(setting.set_by).isdisjoint(mentioned):
                    changes[setting.label] = None
                continue
            write = setting.write
            changes[setting.label] = write and Action(partial(write, then), partial(write, now))
        return changes

    def _modules_action(self) -> Action | None:
        """Return how to put back the entries of `sys.modules`; None if they are as they were."""
        changes = {} if self._modules is None else self._modules.find_changes()
        if not changes:
            return None
        present = {name: sys.modules.get(name, MISSING) for name in changes}
        return Action(partial(write_modules, changes), partial(write_modules, present))


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
