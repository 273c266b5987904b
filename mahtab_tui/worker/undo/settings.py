"""State of the process and of libraries that code sets by functions, such as signal handlers,
warning filters and options of pandas.

Undo reads each `Setting` before and after a cell, and writes the earlier values back. The functions
that read and write are here, or in `registries` if the state is something that code adds to.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import warnings
from functools import partial
from typing import Any, Callable, NamedTuple

from ..values.objects import loaded_module
from .library_parts import dump_plain, load_plain
from .registries import (
    read_accessors,
    read_decimal_contexts,
    read_dialects,
    read_environment,
    read_event_loop,
    read_extension_types,
    read_source_cache,
    write_accessors,
    write_decimal_contexts,
    write_dialects,
    write_environment,
    write_event_loop,
    write_extension_types,
    write_faulthandler,
    write_source_cache,
    write_tracemalloc,
)

_SIGNALS: tuple[int, ...] = tuple(
    number
    for number in map(int, signal.valid_signals())
    if number not in (signal.SIGINT, signal.SIGKILL, signal.SIGSTOP)
)
"""The numbers of the signals whose handlers are compared. SIGINT is not among them, because it
interrupts cells; SIGKILL and SIGSTOP have no handlers."""

_LIMITS = tuple(
    sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
)
"""The numbers of the resources that the system can limit."""

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

_NEW_LOGGER: tuple[int, list[Any], bool, bool] = (0, [], True, False)
"""What a logger has that nobody has changed: its level, its handlers, whether it passes records on,
and whether it is disabled."""

_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""The function behind `signal.getsignal`, which is quicker, because it creates no enum members."""


class Setting(NamedTuple):
    """State of the process or of a library that code sets by a function."""

    label: str
    """What the user sees."""
    read: Callable[[], Any]
    """Returns plain values to compare. May raise anything if the library is not loaded."""
    write: Callable[[Any], object] | None = None
    """Puts back what `read` returned. None if this is impossible."""
    set_by: tuple[str, ...] = ()
    """Names, one of which occurs in any code that changes the setting; of a dotted name, all parts
    occur. Empty unless libraries also change the setting when they are loaded: then only the names
    tell whether a cell has changed it or an import."""
    is_cache: bool = False
    """Whether all imports change it, so that only the code that mentions it counts."""
    set_by_libraries: bool = False
    """Whether libraries may add to it when they are loaded. A change is then left as it is, because
    they would not add to it again."""


# Settings that are an object of a module, or a pair of its functions. The module is looked up by its
# name each time, because it may not be loaded yet.


def _list_setting(
    module: str,
    name: str,
    *,
    on_written: Callable[[], object] = lambda: None,
    set_by: tuple[str, ...] = (),
    set_by_libraries: bool = False,
) -> Setting:
    """Return the setting for a list of a module: which list it is, and its items.

    Args:
        module: The module, which may not be loaded.
        name: The name of the list in the module.
        on_written: Called when the list was put back.
        set_by: See `Setting`.
        set_by_libraries: See `Setting`.
    """

    def read() -> tuple[list[Any], list[Any]]:
        value = getattr(loaded_module(module), name)
        return value, list(value)

    def write(state: tuple[list[Any], list[Any]]) -> None:
        value, items = state
        setattr(loaded_module(module), name, value)
        value[:] = items
        on_written()

    return Setting(
        f"{module}.{name}", read, write, set_by=set_by, set_by_libraries=set_by_libraries
    )


def _dict_setting(
    module: str, name: str, set_by: tuple[str, ...] = (), is_cache: bool = False
) -> Setting:
    """Return the setting for the items of a dict of a module, which stays the same dict.

    Args:
        module: The module, which may not be loaded.
        name: The name of the dict in the module.
        set_by: See `Setting`.
        is_cache: See `Setting`.
    """

    def read() -> dict[Any, Any]:
        return dict(getattr(loaded_module(module), name))

    def write(items: dict[Any, Any]) -> None:
        mapping = getattr(loaded_module(module), name)
        mapping.clear()
        mapping.update(items)

    return Setting(f"{module}.{name}", read, write, set_by, is_cache)


def _function_setting(
    module: str, read: str, write: str, *, takes_keywords: bool = False, label: str = ""
) -> Setting:
    """Return a setting that two functions of a module read and write.

    Args:
        module: The module, which may not be loaded.
        read: The name of the function that returns the setting.
        write: The name of the function that takes it.
        takes_keywords: Whether `read` returns a dict of the keyword arguments of `write`.
        label: What the user sees; empty for the name of `read`.
    """

    def read_setting() -> object:
        return getattr(loaded_module(module), read)()

    def write_setting(value: Any) -> None:
        function = getattr(loaded_module(module), write)
        if takes_keywords:
            function(**value)
        else:
            function(value)

    return Setting(label or f"{module}.{read}", read_setting, write_setting)


# The process and its signals


def _read_umask() -> int:
    # `os.umask` can only read it by setting it, which other threads would notice.
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask"))


def _read_processors() -> list[int]:
    """Return the numbers of the processors that the kernel may use."""
    return sorted(os.sched_getaffinity(0))


def _write_processors(numbers: list[int]) -> None:
    os.sched_setaffinity(0, numbers)


def _read_process_limits() -> list[tuple[int, int]]:
    """Return the soft and the hard limit of each of `_LIMITS`."""
    return [resource.getrlimit(number) for number in _LIMITS]


def _read_signal_handlers() -> list[Any]:
    """Return the handlers of `_SIGNALS`, in that order."""
    return [_getsignal(number) for number in _SIGNALS]


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


# The interpreter


def _read_collector() -> tuple[bool, tuple[int, int, int], int]:
    """Return whether the garbage collector is on, its thresholds and its debugging flags."""
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _read_gc_callbacks() -> list[Any]:
    return list(gc.callbacks)


def _write_gc_callbacks(callbacks: list[Any]) -> None:
    gc.callbacks[:] = callbacks


def _note_new_filters() -> None:
    """Let `warnings` forget which warnings it has shown under the earlier filters."""
    # The name of this function depends on the version of Python.
    for name in ("_filters_mutated", "_filters_mutated_lock_held"):
        if hasattr(warnings, name):
            getattr(warnings, name)()
            return


def _read_thread_name() -> str:
    name = loaded_module("threading").main_thread().__dict__["_name"]
    return name if type(name) is str else ""


def _write_thread_name(name: str) -> None:
    loaded_module("threading").main_thread().name = name


def _read_locale() -> str:
    """Return the locale of all categories, as `locale.setlocale` takes it."""
    locale = loaded_module("locale")
    locale_name: str = locale.setlocale(locale.LC_ALL)
    return locale_name


def _read_decimal_context() -> tuple[Any, ...]:
    """Return the arguments that make the decimal context of this thread."""
    arguments: tuple[Any, ...] = loaded_module("decimal").getcontext().__reduce__()[1]
    return arguments


def _write_decimal_context(arguments: tuple[Any, ...]) -> None:
    decimal = loaded_module("decimal")
    decimal.setcontext(decimal.Context(*arguments))


# Logging


def _loggers() -> dict[str, Any]:
    """Return the loggers that somebody has made, by their names; the root's is empty."""
    logging = loaded_module("logging")
    entries = dict(logging.root.manager.loggerDict)
    # "a" is only a place if somebody has made the logger "a.b"; it has no level then.
    named_loggers = {name: entry for name, entry in entries.items() if hasattr(entry, "level")}
    return {"": logging.root, **named_loggers}


def _read_logging() -> tuple[dict[str, object], int]:
    """Return what code has set of each logger, by its name, and the level up to which all are
    disabled."""
    logging = loaded_module("logging")
    states: dict[str, Any] = {
        name: (logger.level, list(logger.handlers), logger.propagate, logger.disabled)
        for name, logger in _loggers().items()
    }
    # A logger that was made and not changed since is as if nobody had made it.
    states = {name: state for name, state in states.items() if state != _NEW_LOGGER}
    return states, logging.root.manager.disable


def _write_logging(state: tuple[dict[str, Any], int]) -> None:
    logger_states, disabled_level = state
    manager = loaded_module("logging").root.manager
    for name, logger in _loggers().items():
        level, handlers, propagates, is_disabled = logger_states.get(name, _NEW_LOGGER)
        logger.level = level
        logger.handlers[:] = handlers
        logger.propagate = propagates
        logger.disabled = is_disabled
    manager.disable = disabled_level
    # Loggers remember for which levels they are enabled.
    manager._clear_cache()


def _read_line_history() -> tuple[int, str | None]:
    """Return how many lines `readline` remembers, and the last one."""
    readline = loaded_module("readline")
    length: int = readline.get_current_history_length()
    return length, readline.get_history_item(length)


def _read_warnings_capture() -> bool:
    """Return whether warnings go to the logging library."""
    return loaded_module("logging")._warnings_showwarning is not None


# Libraries


def _read_pandas_options() -> dict[str, object]:
    """Return the options of pandas by their full names."""
    options: dict[str, object] = {}
    # pandas nests them in dicts: "display.max_rows" is `["display"]["max_rows"]`.
    pending = [("", loaded_module("pandas._config.config")._global_config)]
    while pending:
        prefix, table = pending.pop()
        for name, value in table.items():
            if type(value) is dict:
                pending.append((f"{prefix}{name}.", value))
            else:
                options[prefix + name] = value
    return options


def _write_pandas_options(options: dict[str, Any]) -> None:
    current_options = _read_pandas_options()
    for name, value in options.items():
        if name not in current_options:
            continue
        # Setting an option may have an effect of its own, so one that is as before is left alone.
        current_value = current_options[name]
        if current_value is not value and current_value != value:
            loaded_module("pandas").set_option(name, value)


def _read_numpy_random() -> Any:
    """Return the state of numpy's own generator, its array as plain values."""
    return dump_plain(loaded_module("numpy.random").get_state())


def _write_numpy_random(state: Any) -> None:
    loaded_module("numpy.random").set_state(load_plain(state))


def _read_torch_random() -> bytes:
    """Return the state of torch's own generator."""
    return bytes(loaded_module("torch").get_rng_state().numpy())


def _write_torch_random(state: bytes) -> None:
    torch = loaded_module("torch")
    # From a bytearray, because torch warns about memory that it cannot write.
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


_PROCESS_SETTINGS = (
    Setting("os.environ", read_environment, write_environment),
    Setting("working directory", os.getcwd, os.chdir),
    Setting("umask", _read_umask),
    Setting("priority", lambda: os.getpriority(os.PRIO_PROCESS, 0)),
    Setting("processors", _read_processors, _write_processors),
    Setting("limits of the process", _read_process_limits),
    Setting("signal handlers", _read_signal_handlers),
    Setting(
        "blocked signals", _blocked_signals, partial(signal.pthread_sigmask, signal.SIG_SETMASK)
    ),
    Setting("timers", _read_timers, _stop_timers),
)

_INTERPRETER_SETTINGS = (
    *(_list_setting("sys", name) for name in ("path", "argv", "meta_path", "path_hooks")),
    _dict_setting(
        "sys",
        "path_importer_cache",
        set_by=("path_importer_cache", "invalidate_caches"),
        is_cache=True,
    ),
    _function_setting("sys", "getrecursionlimit", "setrecursionlimit"),
    _function_setting("sys", "getswitchinterval", "setswitchinterval"),
    _function_setting("sys", "get_int_max_str_digits", "set_int_max_str_digits"),
    _function_setting("sys", "getdlopenflags", "setdlopenflags"),
    _function_setting(
        "sys", "get_coroutine_origin_tracking_depth", "set_coroutine_origin_tracking_depth"
    ),
    _function_setting("sys", "getprofile", "setprofile", label="sys.setprofile"),
    _function_setting("sys", "gettrace", "settrace", label="sys.settrace"),
    Setting(
        "threading.setprofile",
        lambda: loaded_module("threading")._profile_hook,
        lambda hook: loaded_module("threading").setprofile(hook),
    ),
    Setting(
        "threading.settrace",
        lambda: loaded_module("threading")._trace_hook,
        lambda hook: loaded_module("threading").settrace(hook),
    ),
    _function_setting("threading", "stack_size", "stack_size"),
    Setting("name of the main thread", _read_thread_name, _write_thread_name),
    Setting("gc", _read_collector),
    Setting("gc.callbacks", _read_gc_callbacks, _write_gc_callbacks, set_by=("callbacks",)),
    Setting("atexit", lambda: loaded_module("atexit")._ncallbacks(), set_by=("atexit",)),
    Setting("faulthandler", lambda: loaded_module("faulthandler").is_enabled(), write_faulthandler),
    Setting("tracemalloc", lambda: loaded_module("tracemalloc").is_tracing(), write_tracemalloc),
    Setting("linecache.cache", read_source_cache, write_source_cache, set_by=("linecache",)),
)

_STANDARD_LIBRARY_SETTINGS = (
    _list_setting(
        "warnings",
        "filters",
        on_written=_note_new_filters,
        set_by=("filterwarnings", "simplefilter", "warnings.filters", "resetwarnings"),
        set_by_libraries=True,
    ),
    Setting("readline history", _read_line_history),
    Setting("logging", _read_logging, _write_logging, set_by=("logging",)),
    Setting(
        "logging.captureWarnings",
        _read_warnings_capture,
        lambda is_capturing: loaded_module("logging").captureWarnings(is_capturing),
    ),
    Setting("locale", _read_locale),
    _function_setting("random", "getstate", "setstate", label="random"),
    Setting("decimal context", _read_decimal_context, _write_decimal_context),
    Setting("decimal's own contexts", read_decimal_contexts, write_decimal_contexts),
    _function_setting("socket", "getdefaulttimeout", "setdefaulttimeout"),
    _function_setting("csv", "field_size_limit", "field_size_limit"),
    Setting("csv dialects", read_dialects, write_dialects),
    _dict_setting("copyreg", "dispatch_table", set_by=("copyreg",)),
    Setting("asyncio's event loop", read_event_loop, write_event_loop),
)

_LIBRARY_SETTINGS = (
    Setting("numpy.random", _read_numpy_random, _write_numpy_random),
    _function_setting("numpy", "geterrcall", "seterrcall"),
    _function_setting("numpy", "getbufsize", "setbufsize"),
    _function_setting("numpy", "get_printoptions", "set_printoptions", takes_keywords=True),
    _function_setting("numpy", "geterr", "seterr", takes_keywords=True),
    Setting("pandas options", _read_pandas_options, _write_pandas_options),
    Setting(
        "pandas accessors",
        read_accessors,
        write_accessors,
        set_by=tuple(f"register_{name}_accessor" for name in ("dataframe", "series", "index")),
    ),
    Setting(
        "pandas extension types",
        read_extension_types,
        write_extension_types,
        set_by=("register_extension_dtype",),
    ),
    Setting("torch.random", _read_torch_random, _write_torch_random),
    _dict_setting(
        "matplotlib.units",
        "registry",
        set_by=("registry", "register_matplotlib_converters"),
    ),
)

SETTINGS: tuple[Setting, ...] = (
    *_PROCESS_SETTINGS,
    *_INTERPRETER_SETTINGS,
    *_STANDARD_LIBRARY_SETTINGS,
    *_LIBRARY_SETTINGS,
)
"""All settings whose changes by a cell are undone, or noted if they cannot be undone."""
