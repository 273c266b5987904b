"""The displays of a running cell: pictures, tables and other values that are more than text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.kernel.values import Mime

MAX_DISPLAY_CHARS = 100_000_000
"""Characters of rich display to keep per cell."""
_VALUE_KEY = re.compile(r"[0-9a-f]{16}")
_DISPLAY_NAME = re.compile(r"[\w.-]{1,100}")


class CellDisplays:
    """The displays of a cell, in order, as far as it has not displayed too much."""

    def __init__(self) -> None:
        self._displays: list[DisplayRecord] = []
        self._free_chars = MAX_DISPLAY_CHARS

    def all(self) -> tuple[DisplayRecord, ...]:
        """Return all displays."""
        return tuple(self._displays)

    def read(self, frame: Mapping[str, Any]) -> DisplayRecord | None:
        """Return the display that a kernel has sent, which is not added yet.

        Args:
            frame: What the kernel sent, with fields of any type.

        Returns:
            None if its form is unknown, or the cell has displayed too much.
        """
        mime = frame.get("mime")
        data = frame.get("data")
        if not isinstance(mime, str) or mime not in get_args(Mime):
            return None
        if not isinstance(data, str):
            return None
        self._free_chars -= len(data)
        if self._free_chars < 0:
            return None

        value_key = str(frame.get("value"))
        if not _VALUE_KEY.fullmatch(value_key):
            value_key = ""
        name = frame.get("name")
        if not isinstance(name, str) or not _DISPLAY_NAME.fullmatch(name):
            name = ""
        text = str(frame.get("text"))
        return DisplayRecord(text, mime=mime, data=data, value=value_key, name=name)

    def add(self, display: DisplayRecord) -> None:
        """Add a display."""
        self._displays.append(display)

    def replace(self, display: DisplayRecord) -> bool:
        """Put a display in the place of the one with its name; False if the cell has none."""
        names = [earlier_display.name for earlier_display in self._displays]
        if not display.name or display.name not in names:
            return False
        self._displays[names.index(display.name)] = display
        return True

    def clear(self) -> None:
        """Remove all displays."""
        self._displays.clear()
        self._free_chars = MAX_DISPLAY_CHARS
