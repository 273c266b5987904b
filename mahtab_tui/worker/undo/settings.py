"""Settings of the process and of libraries: each with the functions that read and write it."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import warnings
from functools import partial
from typing import Any, Callable, NamedTuple

from .library_parts import dump_plain, load_plain
from .registries import (
    read_accessors,
    read_decimal_contexts,
    read_dialects,
    read_environment,
    read_source_cache,
    write_accessors,
    write_decimal_contexts,
    write_dialects,
    write_environment,
    write_faulthandler,
    write_source_cache,
    write_tracemalloc,
)

_SIGNALS = tuple(
    number
    for number in map(int, signal.valid_signals())
    if number not in (signal.SIGINT, signal.SIGKILL, signal.SIGSTOP)
)

_LIMITS = tuple(
    sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
)

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

_NEW_LOGGER: tuple[int, list[Any], bool, bool] = (0, [], True, False)
"""Level, handlers, whether it passes records on, whether it is disabled."""

_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Quicker, because it does not create enum members."""


class Setting(NamedTuple):
    """State of the process or of a library that code sets by a function."""

    label: str
    """What the user sees."""
    read: Callable[[], Any]
    """Returns plain values to compare. May raise anything if the library is not loaded."""
    write: Callable[[Any], object] | None = None
    """Puts back what `read` returned. None if this is impossible."""
    set_by: tuple[str, ...] = ()
    """For a setting that libraries also change when they are loaded: names, one of which occurs in
    any code that changes it. Empty for all others."""
    is_cache: bool = False
    """Whether all imports change it, so that only the code that mentions it counts."""


def _list_setting(
    module: str, name: str, on_written: Callable[[], object] = lambda: None
) -> Setting:
    """Return the setting for a list of a module: which list it is, and its items."""

    def read() -> Any:
        value = getattr(sys.modules[module], name)
        return value, list(value)

    def write(state: Any) -> None:
        value, items = state
        setattr(sys.modules[module], name, value)
        value[:] = items
        on_written()

    return Setting(f"{module}.{name}", read, write)


def _function_setting(
    module: str, read: str, write: str, named: bool = False, label: str = ""
) -> Setting:
    """Return a setting that two functions of a module read and write.

    Args:
        module: The module, which may not be loaded.
        read: The name of the function that returns the setting.
        write: The name of the function that takes it.
        named: Whether `read` returns a dict of the keyword arguments of `write`.
        label: What the user sees; empty for the name of `read`.
    """

    def read_setting() -> object:
        return getattr(sys.modules[module], read)()

    def write_setting(value: Any) -> None:
        function = getattr(sys.modules[module], write)
        if named:
            function(**value)
        else:
            function(value)

    return Setting(label or f"{module}.{read}", read_setting, write_setting)


def _note_new_filters() -> None:
    """Let `warnings` know that its filters have changed; the name of this function depends on the
    version of Python."""
    for name in ("_filters_mutated", "_filters_mutated_lock_held"):
        if hasattr(warnings, name):
            getattr(warnings, name)()
            return


def _blocked_signals() -> list[int]:
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))


def _read_timers() -> list[bool]:
    """Return which timers run."""
    return [signal.getitimer(timer)[0] > 0 for timer in _TIMERS]


def _stop_timers(are_running: list[bool]) -> None:
    """Stop the timers that did not run. One that ran and has ended is not started again."""
    for timer, runs in zip(_TIMERS, are_running):
        if not runs:
            signal.setitimer(timer, 0)


def _read_umask() -> int:
    # `os.umask` can only read it by setting it, which other threads would notice.
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask"))


def _read_pandas_options() -> dict[str, object]:
    """Return the options of pandas by their full names."""
    options: dict[str, Any] = {}
    pending = [("", sys.modules["pandas._config.config"]._global_config)]
    for prefix, table in pending:  # which grows meanwhile
        for name, value in table.items():
            if type(value) is dict:
                pending.append((f"{prefix}{name}.", value))
            else:
                options[prefix + name] = value
    return options


def _write_pandas_options(options: dict[str, object]) -> None:
    current_options = _read_pandas_options()
    for name, value in options.items():
        if name not in current_options:
            continue
        current_value = current_options[name]
        if current_value is not value and current_value != value:
            sys.modules["pandas"].set_option(name, value)


def _loggers() -> dict[str, Any]:
    """Return the loggers by their names, without the places of loggers that nobody has made."""
    logging = sys.modules["logging"]
    loggers = dict(logging.root.manager.loggerDict)
    named_loggers = {name: logger for name, logger in loggers.items() if hasattr(logger, "level")}
    return {"": logging.root, **named_loggers}


def _read_logging() -> dict[str, object]:
    """Return what code has set of each logger, by its name."""
    logging = sys.modules["logging"]
    states: dict[str, Any] = {
        name: (logger.level, list(logger.handlers), logger.propagate, logger.disabled)
        for name, logger in _loggers().items()
    }
    # A logger that was made and not changed since is as if nobody had made it.
    states = {name: state for name, state in states.items() if state != _NEW_LOGGER}
    return {**states, "disable": logging.root.manager.disable}


def _write_logging(states: dict[str, Any]) -> None:
    manager = sys.modules["logging"].root.manager
    for name, logger in _loggers().items():
        level, handlers, propagates, is_disabled = states.get(name, _NEW_LOGGER)
        logger.level = level
        logger.handlers[:] = handlers
        logger.propagate = propagates
        logger.disabled = is_disabled
    manager.disable = states["disable"]
    manager._clear_cache()


def _put_dict(mapping: dict[Any, Any], content: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(content)


SETTINGS = (
    Setting("os.environ", read_environment, write_environment),
    Setting("working directory", os.getcwd, os.chdir),
    *(_list_setting("sys", name) for name in ("path", "argv", "meta_path", "path_hooks")),
    Setting(
        "sys.path_importer_cache",
        lambda: dict(sys.path_importer_cache),
        lambda state: _put_dict(sys.path_importer_cache, state),
        set_by=("path_importer_cache", "invalidate_caches"),
        is_cache=True,
    ),
    _list_setting("warnings", "filters", _note_new_filters),
    _function_setting("random", "getstate", "setstate", label="random"),
    Setting(
        "numpy.random",
        lambda: dump_plain(sys.modules["numpy.random"].get_state()),
        lambda state: sys.modules["numpy.random"].set_state(load_plain(state)),
    ),
    Setting(
        "decimal context",
        lambda: sys.modules["decimal"].getcontext().__reduce__()[1],
        lambda state: sys.modules["decimal"].setcontext(sys.modules["decimal"].Context(*state)),
    ),
    Setting("decimal's own contexts", read_decimal_contexts, write_decimal_contexts),
    _function_setting("sys", "getrecursionlimit", "setrecursionlimit"),
    _function_setting("sys", "getswitchinterval", "setswitchinterval"),
    _function_setting("sys", "get_int_max_str_digits", "set_int_max_str_digits"),
    _function_setting("threading", "stack_size", "stack_size"),
    _function_setting("socket", "getdefaulttimeout", "setdefaulttimeout"),
    _function_setting("csv", "field_size_limit", "field_size_limit"),
    Setting("csv dialects", read_dialects, write_dialects),
    _function_setting("sys", "getprofile", "setprofile", label="sys.setprofile"),
    _function_setting("sys", "gettrace", "settrace", label="sys.settrace"),
    Setting(
        "threading.setprofile",
        lambda: sys.modules["threading"]._profile_hook,
        lambda state: sys.modules["threading"].setprofile(state),
    ),
    Setting(
        "threading.settrace",
        lambda: sys.modules["threading"]._trace_hook,
        lambda state: sys.modules["threading"].settrace(state),
    ),
    _function_setting("sys", "getdlopenflags", "setdlopenflags"),
    _function_setting(
        "sys", "get_coroutine_origin_tracking_depth", "set_coroutine_origin_tracking_depth"
    ),
    Setting("faulthandler", lambda: sys.modules["faulthandler"].is_enabled(), write_faulthandler),
    Setting("tracemalloc", lambda: sys.modules["tracemalloc"].is_tracing(), write_tracemalloc),
    Setting("priority", lambda: os.getpriority(os.PRIO_PROCESS, 0)),
    _function_setting("numpy", "geterrcall", "seterrcall"),
    _function_setting("numpy", "getbufsize", "setbufsize"),
    _function_setting("numpy", "get_printoptions", "set_printoptions", named=True),
    _function_setting("numpy", "geterr", "seterr", named=True),
    Setting("gc", lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug())),
    Setting("signal handlers", lambda: list(map(_getsignal, _SIGNALS))),
    Setting(
        "blocked signals", _blocked_signals, partial(signal.pthread_sigmask, signal.SIG_SETMASK)
    ),
    Setting("timers", _read_timers, _stop_timers),
    Setting(
        "processors",
        lambda: sorted(os.sched_getaffinity(0)),
        lambda state: os.sched_setaffinity(0, state),
    ),
    Setting("limits of the process", lambda: list(map(resource.getrlimit, _LIMITS))),
    Setting("umask", _read_umask),
    Setting("pandas options", _read_pandas_options, _write_pandas_options),
    Setting("logging", _read_logging, _write_logging, set_by=("logging",)),
    Setting(
        "logging.captureWarnings",
        lambda: sys.modules["logging"]._warnings_showwarning is not None,
        lambda state: sys.modules["logging"].captureWarnings(state),
    ),
    Setting("locale", lambda: sys.modules["locale"].setlocale(sys.modules["locale"].LC_ALL)),
    Setting(
        "torch.random",
        lambda: bytes(sys.modules["torch"].get_rng_state().numpy()),
        lambda state: sys.modules["torch"].set_rng_state(
            sys.modules["torch"].frombuffer(bytearray(state), dtype=sys.modules["torch"].uint8)
        ),
    ),
    Setting(
        "copyreg.dispatch_table",
        lambda: dict(sys.modules["copyreg"].dispatch_table),
        lambda state: _put_dict(sys.modules["copyreg"].dispatch_table, state),
        set_by=("copyreg",),
    ),
    Setting(
        "gc.callbacks",
        lambda: list(gc.callbacks),
        lambda state: list.__setitem__(gc.callbacks, slice(None), state),
        set_by=("callbacks",),
    ),
    Setting("atexit", lambda: sys.modules["atexit"]._ncallbacks(), set_by=("atexit",)),
    Setting(
        "pandas accessors",
        read_accessors,
        write_accessors,
        set_by=tuple(f"register_{name}_accessor" for name in ("dataframe", "series", "index")),
    ),
    Setting(
        "matplotlib.units.registry",
        lambda: dict(sys.modules["matplotlib.units"].registry),
        lambda state: _put_dict(sys.modules["matplotlib.units"].registry, state),
        set_by=("registry", "register_matplotlib_converters"),
    ),
    Setting("linecache.cache", read_source_cache, write_source_cache, set_by=("linecache",)),
)
