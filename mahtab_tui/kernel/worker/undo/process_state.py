"""The table of the process's state that is undone too, and needs no fork.

Not in it, because it cannot be read cheaply, or not be set back: trace and profile functions, the
priority, the locks of files, modules that were loaded, what libraries remember in their own
variables.
"""

from __future__ import annotations

import functools
import gc
import os
import resource
import signal
import sys
import warnings
from typing import Any, Callable, NamedTuple

from ..statics import MISSING, address_of
from .part import ATOMS
from .tables import CONTEXT


class Setting(NamedTuple):
    """One part of the process's state that code can set."""

    label: str
    read: Callable[[], Any]
    """Reads it as plain values that can be compared. Raises whatever it likes if it does not
    exist."""
    write: Callable[[Any], object]


_SIZE = ("COLUMNS", "LINES")
"""Variables that the program sets itself, when the screen gets another size."""


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name not in _SIZE}


def _write_environment(wanted: dict[str, str]) -> None:
    for name in [name for name in _environment() if name not in wanted]:
        del os.environ[name]
    for name, text in wanted.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


def _list_of(module: str, name: str) -> Setting:
    """Make the setting that is a list of a module: which list it is, and its items."""

    def read() -> Any:
        held = getattr(sys.modules[module], name)
        return held, list(held)

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
"""Quicker, because it makes no members of an enumeration."""


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
    return [getattr(context, name) for name in CONTEXT] + list(signals)


def _write_decimal(wanted: Any) -> None:
    context = sys.modules["decimal"].getcontext()
    for name, value in zip(CONTEXT, wanted):
        setattr(context, name, value)
    for found, values in zip((context.flags, context.traps), wanted[len(CONTEXT) :]):
        for name, value in zip(found, values):
            found[name] = value


def _pandas() -> dict[str, Any]:
    found: dict[str, Any] = {}
    pending = [("", sys.modules["pandas._config.config"]._global_config)]
    for prefix, held in pending:
        for name, value in held.items():
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


def _library(module: str, read: str, write: Callable[[Any, Any], object]) -> Setting:
    """Make the setting that a module reads with a function."""
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
    *(_list_of("sys", name) for name in ("path", "argv", "meta_path", "path_hooks")),
    Setting("warnings.filters", lambda: (warnings.filters, list(warnings.filters)), _write_filters),
    Setting(
        "random",
        lambda: sys.modules["random"].getstate(),
        lambda wanted: sys.modules["random"].setstate(wanted),
    ),
    Setting("numpy.random", _numpy_random, _write_numpy_random),
    _library("sys", "getrecursionlimit", lambda sys, wanted: sys.setrecursionlimit(wanted)),
    _library("sys", "getswitchinterval", lambda sys, wanted: sys.setswitchinterval(wanted)),
    _library(
        "sys", "get_int_max_str_digits", lambda sys, wanted: sys.set_int_max_str_digits(wanted)
    ),
    _library("threading", "stack_size", lambda threading, wanted: threading.stack_size(wanted)),
    _library(
        "socket", "getdefaulttimeout", lambda socket, wanted: socket.setdefaulttimeout(wanted)
    ),
    _library("numpy", "get_printoptions", lambda numpy, wanted: numpy.set_printoptions(**wanted)),
    _library("numpy", "geterr", lambda numpy, wanted: numpy.seterr(**wanted)),
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

    def different(self) -> list[tuple[Setting, Any, Any]]:
        """Return each setting that differs now, its value then, and its value now."""
        found = zip(_SETTINGS, self._values, map(_read, _SETTINGS))
        different = [
            (setting, then, now)
            for setting, then, now in found
            if then is not MISSING and now is not MISSING and not _equal(then, now)
        ]
        if (
            _count_libraries(len(sys.modules)) != self._libraries
        ):  # libraries that were loaded have set some, and will not do so again
            different = [each for each in different if each[0].label != "warnings.filters"]
        return different


@functools.lru_cache(maxsize=1)
def _count_libraries(modules: int) -> int:
    """Count the loaded packages that do not belong to the standard library.

    modules: the number of all modules. While it is the same, none of their names is read: after
    a fork, Linux copies each page that is touched, and the names lie on hundreds of pages.
    """
    standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
    return len({name.partition(".")[0] for name in list(sys.modules)} - standard)


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except Exception:  # a library that is not loaded, in the middle of its import, or one of the user's by that name
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
