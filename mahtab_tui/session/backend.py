"""The kernel, store and lock that a session builds on."""

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
    """None: nothing is kept."""
    claim: SessionLock | None = None
    """The right to write the session in the store; None if it needs none."""
    make_kernel: MakeKernel | None = None
    """Creates a kernel at another place; None if this one cannot be left."""

    def release(self) -> None:
        """Give up the right to write the session."""
        if self.claim is not None:
            self.claim.release()
