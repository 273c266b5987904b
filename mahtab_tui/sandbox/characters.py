"""Lone surrogates in what hostile code sends: JSON can carry them, files and databases cannot."""

from __future__ import annotations

import json
from typing import Any

from mahtab_tui.kernel.worker.frames import Frame


def without_surrogates(frame: Frame) -> Frame:
    """Return the frame with each lone surrogate replaced by a question mark."""
    if not _has_surrogates(frame):
        return frame
    repaired: Frame = json.loads(json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace"))
    return repaired


def _has_surrogates(frame: Frame) -> bool:
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
