"""What a session is built on: its kernel, its store and its lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mahtab_tui.bus.store_handler import Store
    from mahtab_tui.kernel.base import Kernel
    from mahtab_tui.store.session_lock import SessionLock

MakeKernel = Callable[[str], "Kernel"]
"""Creates a kernel at an address; empty for this machine. Raises `KernelError`."""


class SessionBackend(NamedTuple):
    """Kernel, store and lock of a session."""

    kernel: Kernel
    store: Store | None = None
    """None if nothing is saved."""
    claim: SessionLock | None = None
    """Keeps other programs from writing the session; None if nothing is saved."""
    make_kernel: MakeKernel | None = None
    """None if the session must keep its kernel."""

    def release(self) -> None:
        """Let other programs write the session."""
        if self.claim is not None:
            self.claim.release()
