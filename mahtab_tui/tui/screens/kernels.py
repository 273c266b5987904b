"""A picker of kernels: here, with another interpreter, elsewhere, or one that waits; the session
goes on with the chosen one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError, KernelInfo
from mahtab_tui.kernel.environments import found_environments, found_kernelspecs
from mahtab_tui.tui.screens.dialog import ask
from mahtab_tui.tui.screens.listing import Listing, ListScreen

if TYPE_CHECKING:
    from mahtab_tui.tui.commands.context import CommandContext

_KERNEL_WIDTH = 34
"""Columns of a kernel's name."""


class KernelChoice(NamedTuple):
    """A kernel to go on with."""

    kind: str
    """"here", "python" (an interpreter), "address" or "session" (whose kernel waits)."""
    name: str
    """The interpreter, the address or the session's id."""
    about: str


class KernelPicker(ListScreen[KernelChoice | None, KernelChoice]):
    """Returns a kernel, or None after Escape. Any address can be typed."""

    def __init__(self, present: KernelChoice, find: Callable[[], Sequence[KernelChoice]]) -> None:
        """present: the kernel of now. find: returns the others; waits."""
        super().__init__()
        self.listing = Listing(self, "Kernel", "Enter switches · or type ssh://host · Esc cancels")
        self._present = present
        self._find = find
        self._found: Sequence[KernelChoice] = (present,)

    def on_mount(self) -> None:
        self.listing.count("looking…")
        threading.Thread(
            target=lambda: self.call_later(self._show, self._find()), name="kernels", daemon=True
        ).start()

    def _show(self, found: Sequence[KernelChoice]) -> None:
        self._found = [self._present, *(each for each in found if each[:2] != self._present[:2])]
        self.listing.count("")
        self.listing.fill()

    def rows(self, typed: str) -> Sequence[KernelChoice]:
        words = typed.lower().split()
        found = [
            each
            for each in self._found
            if all(word in f"{each.name} {each.about}".lower() for word in words)
        ]
        if typed and not any(each.name == typed for each in self._found):
            found.append(KernelChoice("address", typed, "as typed"))
        return found

    def line(self, row: KernelChoice, width: int) -> Content:
        mark = ("● ", "$moon") if row == self._present else "  "
        return Content.assemble(
            mark,
            f"{plain(one_line(row.name)):<{_KERNEL_WIDTH}} ",
            (plain(one_line(row.about)), "$muted"),
        )

    def describe(self, row: KernelChoice | None) -> Content:
        return Content("" if row is None else plain(row.about))

    def take(self) -> None:
        row = self.listing.chosen
        if row is None:
            return
        if row == self._present:
            self.listing.say("This kernel is in use.")
        else:
            self.dismiss(row)


def choose_kernel(work: CommandContext, address: str) -> None:
    """Go on with the kernel at an address; without one, let the user choose."""
    from mahtab_tui.session.kernel_factory import check_address

    def chosen(choice: KernelChoice) -> None:
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
    ask(work.app, KernelPicker(_present(info), lambda: _others(info, recent)), chosen)


def _present(info: KernelInfo) -> KernelChoice:
    version = f"Python {info.python}" if info.python else str(info.state)
    return (
        KernelChoice("address", info.place, version)
        if info.place
        else KernelChoice("here", "here", f"{version}, {info.executable}")
    )


def _others(info: KernelInfo, recent: tuple[str, ...]) -> list[KernelChoice]:
    from mahtab_tui.kernel.detached.waiting import waiting_kernels
    from mahtab_tui.session.detached_kernels import waiting_elsewhere

    found = [KernelChoice("here", "here", "this machine")]
    if not info.place:
        found += [
            KernelChoice("python", each.path, "an environment of this machine")
            for each in found_environments(Path(info.cwd), info.executable)
        ]
    waits = [each for each in waiting_kernels() if not each.has_host]
    found += [
        KernelChoice(
            "session",
            each.session,
            f"{f'runs cell {each.cell}' if each.cell else 'idle'}: opens its session",
        )
        for each in waits
    ]
    found += [
        KernelChoice("session", each.session, f"on {each.station.label}: opens its session")
        for each in waiting_elsewhere()
    ]
    if find_spec("jupyter_client") is not None:
        found += [
            KernelChoice("address", f"jupyter:{name}", "a Jupyter kernel of this machine")
            for name in found_kernelspecs()
        ]
    return found + [KernelChoice("address", address, "used before") for address in recent]
