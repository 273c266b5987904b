"""Prepares the interpreter that all sandboxes are forks of: they find the harmless modules of the
standard library in memory, and nothing of the machine.

It takes time once, when the fork server starts, so that each sandbox starts at once.
"""

from __future__ import annotations

import _sitebuiltins
import builtins
import encodings
import importlib
import io
import os
import pkgutil
import platform
import sys
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from types import ModuleType
from typing import Any, BinaryIO, NoReturn
from zoneinfo import _common

from .harmless_modules import HARMLESS_MODULES

_ZONE_FILE_START = b"TZif"
_COPIED_ZONE_FOLDERS = ("posix", "right")
"""Folders with the same zones once more, without leap seconds and with them."""


def prepare_interpreter() -> None:
    """Load what code in a sandbox may use, and let nothing else be found."""
    _load_modules()
    _load_zones()
    _close_imports()
    _hide_machine()


def _load_modules() -> None:
    """Load the modules that this version of Python has, and the text encodings."""
    # ssl is large, and useless without a network.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    module_names = (
        module.name for module in pkgutil.iter_modules(encodings.__path__, "encodings.")
    )
    for name in (*HARMLESS_MODULES, *module_names):
        with suppress(ImportError):
            importlib.import_module(name)
    del sys.modules["ssl"]


def _load_zones() -> None:
    """Read the system's time zones, so that `zoneinfo` finds them in memory."""
    zones: dict[str, bytes] = {}
    for root in reversed(zoneinfo.TZPATH):
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in _COPIED_ZONE_FOLDERS]
            for name in names:
                path = os.path.join(folder, name)
                with suppress(OSError), open(path, "rb") as file:
                    data = file.read()
                    if data.startswith(_ZONE_FILE_START):
                        zones[os.path.relpath(path, root)] = data

    def load_tzdata(key: str) -> BinaryIO:
        if key not in zones:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zones[key])

    finder: Any = _common
    finder.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(zones)


def _close_imports() -> None:
    """Allow only loaded, built-in and frozen modules to be imported."""
    sys.path[:] = []
    sys.path_hooks[:] = []
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, _RefusingFinder()]


class _RefusingFinder:
    """The last finder, which explains why a module is missing."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> NoReturn:
        raise ModuleNotFoundError(
            f"No module named {name!r} in this sandbox: it has the harmless modules of the standard library only",
            name=name,
        )


def _hide_machine() -> None:
    """Hide folder, environment, interpreter and machine, and add `help` and `exit`, as site.py would."""
    os.chdir("/")
    os.environ.clear()
    sys.executable = ""
    sys.argv = [""]
    machine: Any = platform
    machine._uname_cache = platform.uname_result("Linux", "", "", "", "")
    builtins.help = _sitebuiltins._Helper()
    builtins.exit = builtins.quit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
