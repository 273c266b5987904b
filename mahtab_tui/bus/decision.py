"""The answer to an approval."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Decision(NamedTuple):
    """What the user decides about a code block."""

    action: Literal["run", "skip", "all", "stop", "refuse"]
    """``all``: run this one, and everything from now on without asking. ``refuse``: the code may not run, and the user was not asked."""
    code: str | None = None
    """Edited code to run instead."""
    reason: str = ""
    """Why it was skipped or refused, for the model."""
