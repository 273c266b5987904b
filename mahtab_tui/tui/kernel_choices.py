"""Finds the kernels among which the user chooses, and goes on with one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.environments import found_environments, found_kernelspecs

if TYPE_CHECKING:
    from mahtab_tui.kernel.base import KernelInfo
    from mahtab_tui.tui.commands.workspace import Workspace
    from mahtab_tui.tui.screens.kernels import KernelChoice


def choose_kernel(work: Workspace, address: str) -> None:
    """Go on with the kernel at an address; without one, let the user choose."""
    from mahtab_tui.session.beginning import check_address
    from mahtab_tui.tui.screens.kernels import KernelChoice, KernelPicker

    def chosen(choice: KernelChoice | None) -> None:
        if choice is None:
            return
        if choice.kind == "python":
            work.session.kernel_control.activate(choice.name)
        elif choice.kind == "session":
            work.leaving.go_to(choice.name, back="/kernel")
        elif choice.kind == "here":
            work.session.kernel_control.move("")
        else:
            try:
                check_address(choice.name)
            except KernelError as error:
                work.tell(str(error), "error")
                return
            work.session.kernel_control.move(choice.name)
            work.choices.remember_kernel(choice.name)

    if address:
        chosen(KernelChoice("here" if address == "here" else "address", address, ""))
        return
    info, recent = work.session.kernel.info(), work.choices.kernels
    work.app.push_screen(KernelPicker(_present(info), lambda: _others(info, recent)), chosen)


def _present(info: KernelInfo) -> KernelChoice:
    from mahtab_tui.tui.screens.kernels import KernelChoice

    version = f"Python {info.python}" if info.python else str(info.state)
    return KernelChoice("address", info.place, version) if info.place else KernelChoice("here", "here", f"{version}, {info.executable}")


def _others(info: KernelInfo, recent: tuple[str, ...]) -> list[KernelChoice]:
    from mahtab_tui.kernel.held.waiting import waiting_kernels
    from mahtab_tui.session.waiting import waiting_elsewhere
    from mahtab_tui.tui.screens.kernels import KernelChoice

    found = [KernelChoice("here", "here", "this machine")]
    if not info.place:
        found += [KernelChoice("python", each.path, "an environment of this machine") for each in found_environments(Path(info.cwd), info.executable)]
    waits = [each for each in waiting_kernels() if not each.has_host]
    found += [
        KernelChoice("session", each.session, f"waits, {f'cell {each.cell} runs' if each.cell else 'idle'}: its session opens") for each in waits
    ]
    found += [KernelChoice("session", each.session, f"waits on {each.station.label}: its session opens") for each in waiting_elsewhere()]
    if find_spec("jupyter_client") is not None:
        found += [KernelChoice("address", f"jupyter:{name}", "a Jupyter kernel of this machine") for name in found_kernelspecs()]
    return found + [KernelChoice("address", address, "used before") for address in recent]
