"""A picker of kernels: here, with another interpreter, elsewhere, or one that waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.screens.listing import Listing, ListScreen

_NAME = 34
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
        self.listing = Listing(self, "Kernel", "Enter goes on there · or type ssh://host · Esc cancels")
        self._present = present
        self._find = find
        self._found: Sequence[KernelChoice] = (present,)

    def on_mount(self) -> None:
        self.listing.count("looking…")
        threading.Thread(target=self._look, name="kernels", daemon=True).start()

    def _look(self) -> None:
        self.call_later(self._show, self._find())

    def _show(self, found: Sequence[KernelChoice]) -> None:
        self._found = [self._present, *(each for each in found if each[:2] != self._present[:2])]
        self.listing.count("")
        self.listing.fill()

    def rows(self, typed: str) -> Sequence[KernelChoice]:
        words = typed.lower().split()
        found = [each for each in self._found if all(word in f"{each.name} {each.about}".lower() for word in words)]
        if typed and not any(each.name == typed for each in self._found):
            found.append(KernelChoice("address", typed, "as typed"))
        return found

    def line(self, row: KernelChoice, width: int) -> Content:
        mark = ("● ", "$moon") if row == self._present else "  "
        return Content.assemble(mark, f"{plain(one_line(row.name)):<{_NAME}} ", (plain(one_line(row.about)), "$muted"))

    def describe(self, row: KernelChoice | None) -> Content:
        return Content("" if row is None else plain(row.about))

    def take(self) -> None:
        row = self.listing.chosen
        if row is None:
            return
        if row == self._present:
            self.listing.say("This kernel runs now.")
        else:
            self.dismiss(row)
