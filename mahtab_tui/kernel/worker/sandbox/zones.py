"""Reads all time zones before the sandbox is locked down, since `zoneinfo` opens their files only when they are needed."""

from __future__ import annotations

import io
import os
import zoneinfo
from contextlib import suppress
from typing import Any, BinaryIO
from zoneinfo import _common

_MAGIC = b"TZif"


def load() -> None:
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
