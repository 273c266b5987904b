"""Which sandbox there is on this system."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from mahtab_tui.sandbox.base import SandboxError, Sandboxes


def open_sandboxes() -> Sandboxes:
    """The sandboxes of this system. Call it in the event loop that they are for. Raises `SandboxError`."""
    lacking = missing()
    if not lacking:
        from mahtab_tui.sandbox.process import ProcessSandboxes

        return ProcessSandboxes()
    if find_spec("pydantic_monty"):
        from mahtab_tui.sandbox.monty import MontySandboxes

        return MontySandboxes()
    raise SandboxError(
        f"A search runs a model's code in a sandbox, and this system cannot close a process off: {lacking}. Install the interpreter that takes"
        " its place: pip install pydantic-monty"
    )


def missing() -> str:
    """What a process under Landlock and seccomp lacks here; empty where it can be."""
    if sys.platform != "linux":
        return f"{sys.platform} has no Landlock and no seccomp"
    from mahtab_tui.kernel.worker.sandbox import lockdown

    return lockdown.missing()
