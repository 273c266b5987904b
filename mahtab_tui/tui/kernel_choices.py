"""The kernels to which a session can switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.detached import detached_kernels
from mahtab_tui.kernel.environments import find_environments, find_kernelspecs
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.session.background_kernels import remote_detached_kernels


class KernelChoice(NamedTuple):
    """A kernel to switch to."""

    kind: str
    """"here", "python" (an interpreter), "address", or "session" (its waiting kernel)."""
    name: str
    about: str


def current_kernel(info: KernelInfo) -> KernelChoice:
    """Return the present kernel as a choice."""
    version = f"Python {info.python}" if info.python else str(info.state)
    if info.host:
        return KernelChoice("address", info.host, version)
    return KernelChoice("here", "here", f"{version}, {info.executable}")


def other_kernels(info: KernelInfo, recent: Sequence[str]) -> list[KernelChoice]:
    """Return the kernels to switch to. Waits for other machines.

    Args:
        info: The present kernel.
        recent: Addresses that were used before.
    """
    return list(_find_kernels(info, recent))


def _find_kernels(info: KernelInfo, recent: Sequence[str]) -> Iterator[KernelChoice]:
    """Yield the kernels of this machine, those that wait elsewhere, and addresses used before."""
    yield KernelChoice("here", "here", "this machine")
    if not info.host:
        for environment in find_environments(Path(info.cwd), info.executable):
            yield KernelChoice("python", environment.path, "an environment of this machine")
    for local in detached_kernels():
        if not local.has_host:
            state = f"runs cell {local.cell}" if local.cell else "idle"
            yield KernelChoice("session", local.session, f"{state}: opens its session")
    for remote in remote_detached_kernels():
        about = f"on {remote.station.label}: opens its session"
        yield KernelChoice("session", remote.session, about)
    if find_spec("jupyter_client") is not None:
        for name in find_kernelspecs():
            yield KernelChoice("address", f"jupyter:{name}", "a Jupyter kernel of this machine")
    for address in recent:
        yield KernelChoice("address", address, "used before")
