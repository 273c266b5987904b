"""What an undo has restored, in words."""

from __future__ import annotations

from mahtab_tui.bus.values import FileRestoration, NotRestored
from mahtab_tui.kernel.restorations import describe_restoration
from mahtab_tui.kernel.values import Restoration


def test_what_was_not_restored_ends_before_the_files_that_were() -> None:
    restoration = Restoration(
        (),
        (
            NotRestored("", "Changes inside objects stay: the checkpoint has ended."),
            NotRestored("sh -c ls", "this program was started"),
        ),
        exact=False,
        files=(FileRestoration("a.csv", "restore", ""),),
    )
    assert describe_restoration(restoration, "before cell 2 ran") == (
        "All but the following is as it was before cell 2 ran. Not restored: Changes inside objects"
        " stay: the checkpoint has ended; sh -c ls: this program was started."
        " Files: `a.csv` restored."
    )
