"""Chooses the kind of sandbox for this system."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from mahtab_tui.sandbox.base import SandboxError, Sandboxes


def open_sandboxes() -> Sandboxes:
    """Open the sandboxes of this system. Call it in the event loop that will use them. Raises
    `SandboxError`."""
    lacking = missing()
    if not lacking:
        from mahtab_tui.sandbox.process import ProcessSandboxes

        return ProcessSandboxes()
    if find_spec("pydantic_monty"):
        from mahtab_tui.sandbox.monty import MontySandboxes

        return MontySandboxes()
    raise SandboxError(
        f"A search runs a model's code in a sandbox, and this system cannot lock a process down: {lacking}. Install an interpreter that can be"
        " used instead: pip install pydantic-monty"
    )


def missing() -> str:
    """Say what this system lacks for a process under Landlock and seccomp; empty if nothing."""
    if sys.platform != "linux":
        return f"{sys.platform} has no Landlock and no seccomp"
    from mahtab_tui.kernel.worker.sandbox import lockdown

    return lockdown.missing()
