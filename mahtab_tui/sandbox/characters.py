"""Half characters (lone surrogates) in what hostile code sends: JSON carries them, files and databases do not."""

from __future__ import annotations

import json
from typing import Any

from mahtab_tui.kernel.worker.frames import Frame


def whole_characters(frame: Frame) -> Frame:
    """The frame, with a question mark in the place of each half character."""
    if not _has_halves(frame):
        return frame
    repaired: Frame = json.loads(json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace"))
    return repaired


def _has_halves(frame: Frame) -> bool:
    left: list[Any] = [frame]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.keys()
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return True
    return False
