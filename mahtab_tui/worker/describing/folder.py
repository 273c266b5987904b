"""What a model is told about the kernel's environment: the installed packages, by the names of
their metadata, and the files in the working directory. Nothing is imported or opened."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from itertools import islice
from typing import Any

_METADATA_NAME = re.compile(r"([A-Za-z0-9][\w.]*)-([0-9][\w.!+]*)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_MAX_ENTRIES = 20_000
"""At most this many entries of a folder are read and counted."""


def installed_packages(names: list[str]) -> dict[str, str]:
    """Return the versions of those packages that can be imported, by name."""
    versions: dict[str, str] = {}
    # The user's code may have put anything into `sys.path`.
    paths = list(sys.path) if type(sys.path) is list else []
    for path in paths:
        if type(path) is not str:
            continue
        # The first of several versions is the one that is imported.
        for name, version in _list_packages(path):
            versions.setdefault(name, version)
    return {name: versions[name] for name in names if name in versions}


def _list_packages(path: str) -> list[tuple[str, str]]:
    """Return the names and versions of the packages in a folder."""
    try:
        entries = os.listdir(path or ".")
    except (OSError, ValueError):  # a zip file, a folder that is gone, or no path
        return []
    matches = (_METADATA_NAME.fullmatch(entry) for entry in entries if entry.endswith("-info"))
    return [(match[1].lower().replace("_", "-"), match[2]) for match in matches if match]


def list_folder(limit: int) -> dict[str, Any]:
    """Return the first entries of the working directory by name, without hidden ones, and how many
    there are. The sizes are in bytes; None for folders."""
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
