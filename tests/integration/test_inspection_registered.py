"""Types that an environment teaches the inspector, as the manual shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mahtab_tui.manual import page
from tests.integration.inspection import Looking, looking, named

SHAPES = """
class Polygon:
    def __init__(self, *corners): self.corners = corners
    def perimeter(self): return 12.0
class Square(Polygon): pass
class Broken: pass
"""
INI = "[mahtab_tui.inspectors]\nshapes.Polygon = shapes_inspector:polygon\nshapes.Broken = shapes_inspector:broken\n"


def example() -> str:
    """The manual's example, as code."""
    matched = re.search(
        r"```python\n# shapes_inspector\.py\n(.*?)```", page("inspector").text, re.DOTALL
    )
    assert matched is not None
    return matched[1]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looking]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "shapes.py").write_text(SHAPES)
    (folder / "shapes_inspector.py").write_text(
        example() + "\n\ndef broken(thing):\n    raise ValueError('no')\n"
    )
    info = folder / "shapes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(INI)
    with looking() as found:
        found.run(
            f"import sys; sys.path.append({str(folder)!r})\nimport shapes\np = shapes.Square((0, 0), (3, 0), (3, 4))\nb = shapes.Broken()"
        )
        yield found


def test_object_of_a_registered_class_uses_its_inspector(shapes: Looking) -> None:
    opened = shapes.look.open(named("p"))
    assert [(shown.title, shown.opened.views[0]) for shown in opened.shown] == [
        ("Corners", "table"),
        ("Words", "text"),
    ]
    corners = opened.shown[0]
    assert [heading.name for heading in shapes.look.headings(corners.opened.path, range(2))] == [
        "x",
        "y",
    ]
    assert (
        shapes.look.text(opened.shown[1].opened.path, 0, 100).text
        == "A polygon with 3 corners, 12.0 around."
    )
    assert opened.views[0] == "tree"


def test_failing_inspector_is_reported_and_the_object_still_opens(
    shapes: Looking,
) -> None:
    opened = shapes.look.open(named("b"))
    assert opened.problem == "Its inspector raised ValueError: no"
    assert opened.shown == ()
    assert opened.views[0] == "tree"


def test_objects_of_other_classes_have_no_inspector(shapes: Looking) -> None:
    shapes.run("class Polygon: pass\nPolygon.__module__ = 'shapes'\nfalse = Polygon()")
    opened = shapes.look.open(named("false"))
    assert (opened.shown, opened.problem) == ((), "")
