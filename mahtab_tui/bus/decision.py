"""The user's decision about code, before it runs or afterwards."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Decision(NamedTuple):
    """The user's decision about a code block.

    before it runs  ``run``, ``skip``, ``stop``; ``all``: run this one, and everything from now on
    without asking. not asked       ``refuse``: the code may not run. ``review``: it runs, and the
    user decides afterwards.
    afterwards      ``keep``, ``undo``, ``stop``; ``all``: keep this, and run everything from now on
    without asking.
    """

    action: Literal["run", "skip", "all", "stop", "refuse", "review", "keep", "undo"]
    code: str | None = None
    """Edited code to run instead."""
    reason: str = ""
    """Why it was skipped, refused or undone, for the model."""
