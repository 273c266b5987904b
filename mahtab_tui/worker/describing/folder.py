"""What a model is told about the kernel's environment: installed packages, and the working directory.

Only the names in folders are read. Nothing is imported or opened.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from itertools import islice
from typing import Any

_METADATA_NAME = re.compile(r"([A-Za-z0-9][\w.]*)-([0-9][\w.!+]*)(?:-py[\d.]+)?\.(?:dist|egg)-info")
"""Name and version in the name of a package's metadata, such as ``scikit_learn-1.5.2.dist-info`` or
``six-1.16.0-py3.9.egg-info``."""
_MAX_ENTRIES = 20_000
"""At most this many entries of a folder are read and counted."""


def installed_packages(names: list[str]) -> dict[str, str]:
    """Return the versions of those packages that can be imported, by name.

    Args:
        names: Names of packages as on PyPI, in lower case and with hyphens.
    """
    versions: dict[str, str] = {}
    # The user's code may have put anything into `sys.path`.
    folders = list(sys.path) if type(sys.path) is list else []
    for folder in folders:
        if type(folder) is not str:
            continue
        # The first of several versions is the one that is imported.
        for name, version in _list_packages(folder):
            versions.setdefault(name, version)
    return {name: versions[name] for name in names if name in versions}


def _list_packages(folder: str) -> list[tuple[str, str]]:
    """Return the names and versions of the packages in a folder of `sys.path`."""
    try:
        entries = os.listdir(folder or ".")
    except (OSError, ValueError):  # a zip file, a folder that is gone, or no path
        return []
    matches = (_METADATA_NAME.fullmatch(entry) for entry in entries if entry.endswith("-info"))
    return [(match[1].lower().replace("_", "-"), match[2]) for match in matches if match]


def list_folder(limit: int) -> dict[str, Any]:
    """Describe the working directory, without hidden files.

    Args:
        limit: How many entries are described.

    Returns:
        The first `entries` in the order of their names, each with its `name` and its `size` in bytes
        (None for folders), and their number in `total`.
    """
    names: list[str] = []
    with suppress(OSError), os.scandir(".") as entries:
        first_entries = islice(entries, _MAX_ENTRIES)
        names = sorted(entry.name for entry in first_entries if not entry.name.startswith("."))
    return {
        "entries": [{"name": _printable(name), "size": _size(name)} for name in names[:limit]],
        "total": len(names),
    }


def _size(name: str) -> int | None:
    try:
        if os.path.isdir(name):
            return None
        return os.stat(name).st_size
    except OSError:  # a broken link, or a file that is gone
        return None


def _printable(name: str) -> str:
    """Return a name without surrogates, which stand for bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")
