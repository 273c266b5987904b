"""The points to which a session can be rewound."""

from __future__ import annotations

from mahtab_tui.bus.records import Namespace, UserReplIn
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.session.rewind_points import RewindPoints


def test_points_that_were_handed_out_do_not_change() -> None:
    """Another thread may look at them while cells run."""
    points = RewindPoints()
    points.fold(UserReplIn("a = 1", cell=1))
    earlier = points.all()[0]
    change = Change("a", "added", Variable("a", "int", "1", "data"))
    points.fold(Namespace(cell=1, changes=(change,)))
    assert earlier.variables == {}
    assert points.all()[0].variables == {"a": "+"}
