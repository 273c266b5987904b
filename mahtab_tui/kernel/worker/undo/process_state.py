"""State of the process that is undone too and needs no fork: environment, working directory, import path, random numbers, warning filters."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable, NamedTuple


class Setting(NamedTuple):
    """One part of the process's state that code can set."""

    label: str
    read: Callable[[], Any]
    """Reads it as plain values that can be compared. Raises whatever it likes if it does not exist."""
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


def _write_import_path(wanted: tuple[Any, list[str]]) -> None:
    sys.path = wanted[0]
    sys.path[:] = wanted[1]


def _write_filters(wanted: tuple[Any, list[Any]]) -> None:
    warnings.filters = wanted[0]
    wanted[0][:] = wanted[1]
    mutated = getattr(warnings, "_filters_mutated", None) or getattr(warnings, "_filters_mutated_lock_held", None)
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


_SETTINGS = (
    Setting("os.environ", _environment, _write_environment),
    Setting("working directory", os.getcwd, os.chdir),
    Setting("sys.path", lambda: (sys.path, list(sys.path)), _write_import_path),
    Setting("warnings.filters", lambda: (warnings.filters, list(warnings.filters)), _write_filters),
    Setting("random", lambda: sys.modules["random"].getstate(), lambda wanted: sys.modules["random"].setstate(wanted)),
    Setting("numpy.random", _numpy_random, _write_numpy_random),
    Setting("torch.random", lambda: bytes(sys.modules["torch"].get_rng_state().numpy()), _write_torch_random),
)


class ProcessState:
    """All settings at one time."""

    def __init__(self) -> None:
        self._values = [_read(setting) for setting in _SETTINGS]
        self._modules = len(_libraries())

    def different(self) -> list[tuple[Setting, Any, Any]]:
        """Return each setting that differs now, its value then, and its value now."""
        found = zip(_SETTINGS, self._values, map(_read, _SETTINGS))
        different = [(setting, then, now) for setting, then, now in found if then is not None and then != now]
        if len(_libraries()) != self._modules:  # libraries that were loaded have set some, and will not do so again
            different = [each for each in different if each[0].label != "warnings.filters"]
        return different


def _libraries() -> set[str]:
    """Return the loaded packages that do not belong to the standard library."""
    standard: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
    return {name.partition(".")[0] for name in list(sys.modules)} - standard


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except Exception:  # a library that is not loaded, in the middle of its import, or one of the user's by that name
        return None
