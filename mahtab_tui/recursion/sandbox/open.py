"""Which sandbox there is on this system."""

from __future__ import annotations

import sys

from mahtab_tui.recursion.sandbox.base import SandboxError, Sandboxes


def open_sandboxes() -> Sandboxes:
    """The sandboxes of this system. Call it in the event loop that they are for. Raises `SandboxError`."""
    if sys.platform != "linux":
        raise SandboxError(f"A search runs a model's code in a sandbox, and there is none for {sys.platform} yet: use Linux.")
    from mahtab_tui.kernel.worker.sandbox import lockdown
    from mahtab_tui.recursion.sandbox.process import ProcessSandboxes

    missing = lockdown.missing()
    if missing:
        raise SandboxError(f"A search runs a model's code in a sandbox, and this system cannot close one: {missing}.")
    return ProcessSandboxes()
