"""Pictures of each of the inspector's views."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from mahtab_tui.tui.app import MahtabApp
from tests.tui.inspecting import look, reads

SMALL, MIDDLE, LARGE = (80, 24), (120, 36), (200, 50)
FRAME = """
import pandas as pd
df = pd.DataFrame({
    "day": pd.date_range("2026-03-01", periods=500, freq="h"),
    "shop": [n * 7919 % 13 for n in range(500)],
    "revenue": [None if n % 50 == 7 else (n * 7919 % 1000) ** 2 / 250 for n in range(500)],
    "city": [("Bonn", "Ulm", "Aachen", None)[n % 4] for n in range(500)],
    "[bold]": [n % 3 == 0 for n in range(500)],
})
"""
CUBE = "import numpy as np; cube = np.add.outer(np.arange(3.0), np.add.outer(np.sin(np.arange(60) / 6), np.cos(np.arange(80) / 9)))"
WAVE = "import numpy as np; wave = np.sin(np.arange(10_000) / 700)"
TREE = """
conf = {"name": "mahtab", "list": [1, 2.5, None, b"x"], "nested": {"a": (1, "two"), "[/b]": {3}}, 7: range(9)}
conf["self"] = conf
"""
TEXT = 'import json; text = json.dumps({"days": [{"day": "2026-03-29", "revenue": 112.0, "ok": False, "note": None}] * 4}, indent=2)'
SOURCE = '''
def far(days: list, limit: int = 3) -> list:
    """Days far from the median."""
    # Far is more than so many deviations.
    return [day for day in days if abs(day.z) > limit]
'''
PICTURE = """
import numpy as np
rgb = np.zeros((60, 100, 3), dtype="uint8")
rgb[:, :, 0] = np.arange(100) * 2
rgb[:, :, 2] = np.arange(60)[:, None] * 4
"""

VIEWS = {
    "table": (FRAME, "df", SMALL, (), ("row 1 of 500", "2026-03-21 19:00, mean")),
    "table-sorted": (FRAME, "df", LARGE, ("right", "right", "s", "s"), ("revenue ▼", "mean")),
    "array": (CUBE, "cube", MIDDLE, ("full_stop",), ("[ 1, :, : ]", "row 1 of 60", "± ")),
    "heat": (CUBE, "cube", SMALL, ("tab",), ("heat map",)),
    "plot": (WAVE, "wave", MIDDLE, ("tab",), ("values by position",)),
    "tree": (TREE, "conf", SMALL, ("down", "down", "right", "down", "right"), ("'two'",)),
    "text": (TEXT, "text", SMALL, ("slash", *"2026", "enter"), ("json", "/ 2026")),
    "source": (SOURCE, "far", SMALL, (), ("deviations", "line 2", "·  python")),
    "picture": (PICTURE, "rgb", SMALL, ("3",), ("100 × 60 pixels", "▀▀")),
    "repr": (
        "class Day:\n    def __repr__(self): return 'Day(29)'\nday = Day()",
        "day",
        SMALL,
        ("3",),
        ("Day(29)", "7 characters"),
    ),
}


@pytest.mark.parametrize("view", VIEWS)
def test_snapshot_of_each_view(
    snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp], view: str
) -> None:
    code, name, size, keys, wanted = VIEWS[view]

    async def run(pilot: Pilot[int]) -> None:
        await look(pilot, code, name)
        await pilot.press(*keys)
        await reads(pilot, *wanted)
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=run)
