"""What a model is told of the kernel's environment: the installed packages, from the names of their
metadata, and the files in the working directory. Nothing is imported or opened."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from itertools import islice
from typing import Any

_METADATA = re.compile(r"([A-Za-z0-9][\w.]*)-([0-9][\w.!+]*)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_MAX_SCANNED = 20_000
"""Entries of a folder that are read; more are only counted up to here."""


def installed_packages(names: list[str]) -> dict[str, str]:
    """Return the versions of those packages that can be imported, by name."""
    versions: dict[str, str] = {}
    paths = list(sys.path) if type(sys.path) is list else []
    for path in paths:
        if type(path) is str:
            for name, version in _packages_in(path):
                versions.setdefault(name, version)
    return {name: versions[name] for name in names if name in versions}


def _packages_in(path: str) -> list[tuple[str, str]]:
    try:
        entries = os.listdir(path or ".")
    except (OSError, ValueError):  # a zip file, a folder that is gone, or no path
        return []
    matches = (_METADATA.fullmatch(entry) for entry in entries if entry.endswith("-info"))
    return [(match[1].lower().replace("_", "-"), match[2]) for match in matches if match]


def list_folder(limit: int) -> dict[str, Any]:
    """Return the first entries of the working directory by name, without hidden ones, and how many
    there are. sizes: in bytes; None for folders."""
    names: list[str] = []
    with suppress(OSError), os.scandir(".") as entries:
        first = islice(entries, _MAX_SCANNED)
        names = sorted(entry.name for entry in first if not entry.name.startswith("."))
    return {
        "entries": [{"name": _printable(name), "size": _size(name)} for name in names[:limit]],
        "total": len(names),
    }


def _size(name: str) -> int | None:
    try:
        return None if os.path.isdir(name) else os.stat(name).st_size
    except OSError:  # a broken link, or a file that is gone
        return None


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
