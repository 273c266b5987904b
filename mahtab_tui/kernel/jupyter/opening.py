"""Makes a kernel of Jupyter from its address."""

from __future__ import annotations

from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.jupyter.address import Existing, Local, parse

INSTALL = "Kernels of Jupyter need its client libraries: install mahtab-tui[jupyter]."


def jupyter_kernel(text: str, token: str, cwd: str, startup: str) -> Kernel:
    """Make the kernel that an address names. token: for a server whose address names none. startup:
    see `JupyterKernel`. Raises `KernelError`."""
    address = parse(text, token)
    try:
        from mahtab_tui.kernel.jupyter.kernel import JupyterKernel

        if isinstance(address, Local):
            from mahtab_tui.kernel.jupyter.local import LocalWire

            return JupyterKernel(LocalWire(address, cwd), startup)
        if isinstance(address, Existing):
            from mahtab_tui.kernel.jupyter.local import ExistingWire

            return JupyterKernel(ExistingWire(address))
        from mahtab_tui.kernel.jupyter.server import ServerWire

        return JupyterKernel(ServerWire(address), startup)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("mahtab_tui"):
            raise
        raise KernelError(INSTALL) from None
