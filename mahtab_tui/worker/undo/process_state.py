"""State outside of objects: of the process, of files, and effects that no undo can reverse.

A fork shares the position in a file. Polars never changes the data of a column that two tables
share, so a second table keeps all of the first.

Not included, because it cannot be read cheaply or cannot be set back: trace and profile functions,
the priority, file locks, loaded modules, and state that libraries keep in their own variables.
"""

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
from collections.abc import Iterable
from functools import partial
from typing import Any, Callable, NamedTuple

from ..objects import (
    MISSING,
    address_of,
    as_library_type,
    get_if_loaded,
    is_one_of,
    is_subclass,
    own_dict,
)
from .reach import ATOMS, Apply
from .tables import DECIMAL_FIELDS

MAX_SIDE_EFFECTS = 20
"""Maximum number of side effects to record for one cell."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM_FOLDERS = ("/dev/", "/proc/", "/sys/")
_CACHES = ("__pycache__", f"{os.sep}.cache{os.sep}")


class NotRestored(NamedTuple):
    """Something that an undo does not restore."""

    name: str
    reason: str


class SideEffectLog:
    """Effects outside the kernel since a cell started, from the interpreter's audit events."""

    def __init__(self) -> None:
        self.effects: dict[NotRestored, None] = {}

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle an audit event. This runs wherever the event happens, so it does little and never
        raises."""
        read = _EVENTS.get(event)
        if read is None or len(self.effects) > MAX_SIDE_EFFECTS:
            return
        try:
            effect = read(args)
        except Exception:  # arguments of the user's own classes
            return
        if effect is not None:
            self.effects[effect] = None


def _on_open(args: tuple[Any, ...]) -> NotRestored | None:
    path, mode, flags = args
    writes = any(sign in mode for sign in "wax+") if type(mode) is str else flags & _WRITES
    return (
        None
        if type(path) is int or not writes
        else _file(path, "this file was opened for writing; it stays as it is now")
    )


def _file(path: Any, reason: str) -> NotRestored | None:
    name = os.fsdecode(path)
    return (
        None
        if name.startswith(_SYSTEM_FOLDERS) or any(part in name for part in _CACHES)
        else NotRestored(name, reason)
    )


def _file_event(reason: str) -> Callable[[tuple[Any, ...]], NotRestored | None]:
    return lambda args: None if type(args[0]) is int else _file(args[0], reason)


def _on_connect(args: tuple[Any, ...]) -> NotRestored:
    address = args[1]
    name = ":".join(map(str, address[:2])) if type(address) is tuple else str(address)
    return NotRestored(name, "what was sent over this connection cannot be undone")


def _on_program(args: tuple[Any, ...]) -> NotRestored:
    command = args[1] if len(args) > 1 else args[0]
    words = command if type(command) in (list, tuple) else [command]
    return NotRestored(
        " ".join(map(os.fsdecode, words))[:80], "this program was started; what it has done stays"
    )


_EVENTS: dict[str, Callable[[tuple[Any, ...]], NotRestored | None]] = {
    "open": _on_open,
    "os.remove": _file_event("this file was removed and is not restored"),
    "os.rename": _file_event("this was renamed and keeps its new name"),
    "os.mkdir": _file_event("this folder was created and stays"),
    "os.rmdir": _file_event("this folder was removed and is not restored"),
    "os.truncate": _file_event("this file was truncated and stays that way"),
    "socket.connect": _on_connect,
    "subprocess.Popen": _on_program,
    "os.system": _on_program,
}

AUDIT_EVENTS = frozenset(_EVENTS)
"""Names of the relevant audit events."""


class RestoreAction(NamedTuple):
    """Restores one object."""

    value: Any
    """The object."""
    apply: Apply
    revert: Apply


class SideState:
    """The state of such objects at one time."""

    def __init__(self, values: Iterable[Any], files: bool = True) -> None:
        """files: whether to also record files."""
        self._files: list[tuple[weakref.ref[Any], Any]] = []
        self._tables: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[Any, Any]] = []
        self._threads = set(_threads())
        streams = _streams() if files else []
        tensor = get_if_loaded("torch", "Tensor")
        kinds: dict[int, str] = {}
        for value in values:
            cls = type(value)
            if (kind := kinds.get(address_of(cls))) is None:
                is_file = any(is_subclass(cls, base) for base in streams)
                kind = (
                    "table"
                    if is_one_of(value, "polars", "DataFrame", "Series")
                    else "tensor"
                    if is_subclass(cls, tensor)
                    else "file"
                    if is_file
                    else ""
                )
                kinds[address_of(cls)] = kind
            if kind == "table":
                self._tables.append((value, value.clone()))
            elif kind == "tensor":
                self._tensors.append((value, as_library_type(value).detach()))
            elif kind == "file":
                self._files.append((weakref.ref(value), _position(value)))
        items = [
            *(reference() for reference, _ in self._files),
            *(value for value, _ in (*self._tables, *self._tensors)),
        ]
        self.addresses = frozenset(map(address_of, items))
        """The addresses of the objects."""

    def find_too_large(self, most: int) -> frozenset[int]:
        """Return the addresses of tables that are too large to be compared within this number of
        bytes in total, starting with the smallest."""
        found = set()
        for size, value in sorted(
            ((value.estimated_size(), address_of(value)) for value, _ in self._tables)
        ):
            most -= size
            if most < 0:
                found.add(value)
        return frozenset(found)

    def compare(
        self, without: frozenset[int] = frozenset()
    ) -> tuple[list[RestoreAction], list[tuple[Any, str]], list[NotRestored]]:
        """Return what can be restored, objects that cannot be restored (with reasons), and threads
        that are still running. without: tables to leave out."""
        tables = [(value, then) for value, then in self._tables if address_of(value) not in without]
        back = [
            found
            for found in (_restore_table(value, then) for value, then in tables)
            if found is not None
        ]
        moved = [(value, then) for value, then in self._tensors if not _same_memory(value, then)]
        back += [
            RestoreAction(
                value,
                partial(setattr, value, "data", then),
                partial(setattr, value, "data", value.data),
            )
            for value, then in moved
        ]
        unrestored = []
        files = [
            (value, then) for reference, then in self._files if (value := reference()) is not None
        ]
        for value, then in files:
            now = _position(value)
            if now == then:
                continue
            if then is None or now is None or then[0] != now[0]:
                unrestored.append(
                    (
                        value,
                        "it was closed"
                        if now is not None and not now[0]
                        else "its position cannot be restored",
                    )
                )
            elif then[1] is not None and now[1] is not None:
                back.append(RestoreAction(value, _seek(value, then[1]), _seek(value, now[1])))
            else:
                unrestored.append((value, "what was written to a file stays"))
        started = [thread for number, thread in _threads().items() if number not in self._threads]
        return (
            back,
            unrestored,
            [
                NotRestored(thread.name, "this thread was started and is still running")
                for thread in started
            ],
        )


def _threads() -> dict[int, Any]:
    threading = sys.modules.get("threading")
    if threading is None:
        return {}
    return {
        thread.ident: thread
        for thread in threading.enumerate()
        if thread.ident is not None and not _is_ours(thread)
    }


def _is_ours(thread: Any) -> bool:
    """Return whether a thread belongs to the program itself."""
    target = own_dict(thread).get("_target")
    function = target.__func__ if type(target) is types.MethodType else target
    package = __package__.rpartition(".")[0]
    found = (
        function.__globals__.get("__package__") if type(function) is types.FunctionType else None
    )
    return type(found) is str and f"{found}.".startswith(f"{package}.")


def _streams() -> list[Any]:
    return [
        get_if_loaded("_io", name)
        for name in (
            "TextIOWrapper",
            "BufferedReader",
            "BufferedWriter",
            "BufferedRandom",
            "FileIO",
        )
    ]


def _position(value: Any) -> Any:
    """Return whether a file is open, its position if that can be set, and for a file being written
    its progress; None if unknown."""
    # The base class's methods are used, whatever a derived class defines.
    cls = next(cls for cls in _streams() if is_subclass(type(value), cls))
    try:
        if cls.closed.__get__(value):
            return (False, None, None)
        if not cls.seekable(value):
            return (True, None, None)
        if cls.writable(value):
            return (
                True,
                None,
                cls.buffer.__get__(value).tell() if hasattr(cls, "buffer") else cls.tell(value),
            )
        return (True, cls.tell(value), None)
    except (OSError, ValueError, AttributeError):
        return None


def _seek(value: Any, position: Any) -> Apply:
    return lambda: value.seek(position)


def _same_memory(tensor: Any, then: Any) -> bool:
    now, before = (
        (each.data_ptr(), each.shape, each.stride(), each.dtype) for each in (tensor, then)
    )
    return now == before


def _restore_table(value: Any, then: Any) -> RestoreAction | None:
    field = "_df" if hasattr(value, "_df") else "_s"
    if _same_table(value, then):
        return None
    now = getattr(value, field)
    return RestoreAction(
        value,
        lambda: setattr(value, field, getattr(then.clone(), field)),
        lambda: setattr(value, field, now),
    )


def _same_table(value: Any, then: Any) -> bool:
    polars = sys.modules["polars"]
    try:
        if isinstance(value, polars.Series):
            return bool(
                value.dtype == then.dtype
                and value.name == then.name
                and value.equals(then, check_names=True, null_equal=True)
            )
        return bool(
            value.schema == then.schema
            and list(value.columns) == list(then.columns)
            and value.equals(then, null_equal=True)
        )
    except Exception:  # columns of Python objects cannot be compared
        return False


class Setting(NamedTuple):
    """A part of the process's state that code can set."""

    label: str
    read: Callable[[], Any]
    """Reads it as plain values that can be compared. May raise anything if it does not exist."""
    write: Callable[[Any], object]


_SIZE = ("COLUMNS", "LINES")
"""Variables that the program sets itself when the screen's size changes."""


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name not in _SIZE}


def _write_environment(wanted: dict[str, str]) -> None:
    for name in [name for name in _environment() if name not in wanted]:
        del os.environ[name]
    for name, text in wanted.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


def _list_setting(module: str, name: str) -> Setting:
    """Create the setting for a list in a module: which list it is, and its items."""

    def read() -> Any:
        value = getattr(sys.modules[module], name)
        return value, list(value)

    def write(wanted: Any) -> None:
        setattr(sys.modules[module], name, wanted[0])
        wanted[0][:] = wanted[1]

    return Setting(f"{module}.{name}", read, write)


def _write_filters(wanted: tuple[Any, list[Any]]) -> None:
    warnings.filters = wanted[0]
    wanted[0][:] = wanted[1]
    mutated = getattr(warnings, "_filters_mutated", None) or getattr(
        warnings, "_filters_mutated_lock_held", None
    )
    if mutated is not None:
        mutated()


def _numpy_random() -> Any:
    name, keys, *rest = sys.modules["numpy.random"].get_state()
    return (name, keys.tobytes(), *rest)


def _write_numpy_random(wanted: Any) -> None:
    numpy = sys.modules["numpy"]
    numpy.random.set_state((wanted[0], numpy.frombuffer(wanted[1], dtype="uint32"), *wanted[2:]))


def _write_torch_random(wanted: bytes) -> None:
    torch = sys.modules["torch"]
    torch.set_rng_state(torch.tensor(list(wanted), dtype=torch.uint8))


def _write_gc(wanted: Any) -> None:
    (gc.enable if wanted[0] else gc.disable)()
    gc.set_threshold(*wanted[1])
    gc.set_debug(wanted[2])


_SIGNALS = tuple(
    number
    for number in map(int, signal.valid_signals())
    if number not in (signal.SIGINT, signal.SIGKILL, signal.SIGSTOP)
)


_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Quicker, because it does not create enum members."""


def _handlers() -> list[Any]:
    return list(map(_getsignal, _SIGNALS))


def _write_handlers(wanted: list[Any]) -> None:
    for number, handler in zip(_SIGNALS, wanted):
        if handler is not None and _getsignal(number) is not handler:
            signal.signal(number, handler)


_LIMITS = tuple(
    sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
)


def _write_limits(wanted: list[tuple[int, int]]) -> None:
    for number, (soft, _) in zip(_LIMITS, wanted):
        now, hard = resource.getrlimit(number)
        if now != soft:
            resource.setrlimit(number, (soft, hard))


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask"))


def _decimal() -> Any:
    context = sys.modules["decimal"].getcontext()
    signals = (tuple(map(bool, found.values())) for found in (context.flags, context.traps))
    return [getattr(context, name) for name in DECIMAL_FIELDS] + list(signals)


def _write_decimal(wanted: Any) -> None:
    context = sys.modules["decimal"].getcontext()
    for name, value in zip(DECIMAL_FIELDS, wanted):
        setattr(context, name, value)
    for found, values in zip((context.flags, context.traps), wanted[len(DECIMAL_FIELDS) :]):
        for name, value in zip(found, values):
            found[name] = value


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


def _function_setting(module: str, read: str, write: Callable[[Any, Any], object]) -> Setting:
    """Create the setting that a module's function reads."""
    return Setting(
        f"{module}.{read}",
        lambda: getattr(sys.modules[module], read)(),
        lambda wanted: write(sys.modules[module], wanted),
    )


def _write_logging(wanted: Any) -> None:
    root = sys.modules["logging"].root
    root.setLevel(wanted[0])
    root.handlers[:] = wanted[1]
    root.manager.disable = wanted[2]


def _logging() -> Any:
    root = sys.modules["logging"].root
    return root.level, list(root.handlers), root.manager.disable


def _locale() -> Any:
    locale = sys.modules["locale"]
    return locale.setlocale(locale.LC_ALL)


_SETTINGS = (
    Setting("os.environ", _environment, _write_environment),
    Setting("working directory", os.getcwd, os.chdir),
    *(_list_setting("sys", name) for name in ("path", "argv", "meta_path", "path_hooks")),
    Setting("warnings.filters", lambda: (warnings.filters, list(warnings.filters)), _write_filters),
    Setting(
        "random",
        lambda: sys.modules["random"].getstate(),
        lambda wanted: sys.modules["random"].setstate(wanted),
    ),
    Setting("numpy.random", _numpy_random, _write_numpy_random),
    _function_setting(
        "sys", "getrecursionlimit", lambda sys, wanted: sys.setrecursionlimit(wanted)
    ),
    _function_setting(
        "sys", "getswitchinterval", lambda sys, wanted: sys.setswitchinterval(wanted)
    ),
    _function_setting(
        "sys", "get_int_max_str_digits", lambda sys, wanted: sys.set_int_max_str_digits(wanted)
    ),
    _function_setting(
        "threading", "stack_size", lambda threading, wanted: threading.stack_size(wanted)
    ),
    _function_setting(
        "socket", "getdefaulttimeout", lambda socket, wanted: socket.setdefaulttimeout(wanted)
    ),
    _function_setting(
        "numpy", "get_printoptions", lambda numpy, wanted: numpy.set_printoptions(**wanted)
    ),
    _function_setting("numpy", "geterr", lambda numpy, wanted: numpy.seterr(**wanted)),
    Setting("gc", lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug()), _write_gc),
    Setting("signal handlers", _handlers, _write_handlers),
    Setting("limits of the process", lambda: list(map(resource.getrlimit, _LIMITS)), _write_limits),
    Setting("umask", _umask, os.umask),
    Setting("decimal context", _decimal, _write_decimal),
    Setting("pandas options", _pandas, _write_pandas),
    Setting("logging", _logging, _write_logging),
    Setting(
        "locale",
        _locale,
        lambda wanted: sys.modules["locale"].setlocale(sys.modules["locale"].LC_ALL, wanted),
    ),
    Setting(
        "torch.random",
        lambda: bytes(sys.modules["torch"].get_rng_state().numpy()),
        _write_torch_random,
    ),
)


class ProcessState:
    """All settings at one time."""

    def __init__(self) -> None:
        self._values = [_read(setting) for setting in _SETTINGS]
        self._libraries = _count_libraries(len(sys.modules))

    def changed_settings(self) -> list[tuple[Setting, Any, Any]]:
        """Return each setting that is different now, with its earlier and its current value."""
        found = zip(_SETTINGS, self._values, map(_read, _SETTINGS))
        different = [
            (setting, then, now)
            for setting, then, now in found
            if then is not MISSING and now is not MISSING and not _equal(then, now)
        ]
        # Newly loaded libraries have set some, and will not do so again.
        if _count_libraries(len(sys.modules)) != self._libraries:
            different = [each for each in different if each[0].label != "warnings.filters"]
        return different


@functools.lru_cache(maxsize=1)
def _count_libraries(modules: int) -> int:
    """Count the loaded packages that do not belong to the standard library.

    modules: the number of all modules. While it does not change, no names are read: after a fork,
    Linux copies each page that is touched, and the names are on hundreds of pages.
    """
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
