"""Modules that code in a sandbox can import, and time zones: loaded beforehand, since a sandbox
cannot open files."""

from __future__ import annotations

import encodings
import importlib
import io
import os
import pkgutil
import sys
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from types import ModuleType
from typing import Any, BinaryIO, NoReturn
from zoneinfo import _common

MODULES = (
    "__future__ abc argparse array ast asyncio base64 binascii bisect bz2 calendar cmath codecs collections.abc colorsys concurrent.futures.thread"
    " configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis email.message email.parser email.policy"
    " email.utils enum errno fnmatch fractions functools gc getopt gettext glob graphlib gzip hashlib heapq hmac html.entities html.parser http"
    " inspect io ipaddress itertools json keyword linecache locale logging lzma math mimetypes numbers operator os pathlib pickle pkgutil"
    " platform plistlib pprint queue quopri random re reprlib sched secrets select selectors shlex shutil signal socket sqlite3 stat statistics string"
    " stringprep struct subprocess symtable tempfile textwrap threading time timeit token tokenize tomllib traceback tracemalloc types typing"
    " unicodedata urllib.parse uuid warnings weakref xml.dom.minidom xml.etree.ElementTree xml.sax zipfile zlib zoneinfo"
    # Imported by the others when they are first used.
    " _pydatetime _pydecimal _pylong _strptime _zoneinfo asyncio.taskgroups asyncio.timeouts asyncio.unix_events compression.zstd"
    " concurrent.interpreters encodings.idna getpass importlib.metadata importlib.resources json.tool multiprocessing.context"
    " opcode pydoc xml.etree.cElementTree zipfile._path _colorize _pyrepl"
).split()


def preload() -> None:
    """Load the modules that this version of Python has, and the text encodings."""
    # ssl is large, and useless without a network.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    for name in [
        *MODULES,
        *(module.name for module in pkgutil.iter_modules(encodings.__path__, "encodings.")),
    ]:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    del sys.modules["ssl"]


def close_imports() -> None:
    """Allow only loaded, built-in and frozen modules to be imported from now on; others fail with
    an explanation."""
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


_MAGIC = b"TZif"


def load_zones() -> None:
    """Read the system's time zones, and make `zoneinfo` find them in memory."""
    zones: dict[str, bytes] = {}
    for root in reversed(zoneinfo.TZPATH):
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in ("posix", "right")]
            for name in names:
                path = os.path.join(folder, name)
                with suppress(OSError), open(path, "rb") as file:
                    data = file.read()
                    if data.startswith(_MAGIC):
                        zones[os.path.relpath(path, root)] = data

    def load_tzdata(key: str) -> BinaryIO:
        if key not in zones:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zones[key])

    finder: Any = _common
    finder.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(zones)
