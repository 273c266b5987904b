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


def test_author_and_changes_of_a_cell_are_known_right_after_a_resume() -> None:
    change = Change("a", "added", Variable("a", "int", "1", "data"))
    past = [UserReplIn("a = 1", cell=1), Namespace(cell=1, changes=(change,))]
    assert RewindPoints(past).has_changes(1)
    points = RewindPoints(past)
    author = points.author_of(1)
    assert author
    assert author == points.all()[0].author
