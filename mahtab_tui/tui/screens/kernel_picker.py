"""The list of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.tui.kernel_choices import KernelChoice, current_kernel, other_kernels
from mahtab_tui.tui.screens.listing import CURRENT_MARK, NO_MARK, ListScreen, matches_words
from mahtab_tui.tui.workers import Fetcher

_KERNEL_WIDTH = 34


class KernelPicker(ListScreen[KernelChoice | None, KernelChoice]):
    """Lists kernels, and takes an address."""

    heading_text = "Kernel"
    hint = "Enter switches · or type ssh://host · Esc cancels"

    def __init__(self, info: KernelInfo, recent: Sequence[str]) -> None:
        """
        Args:
            info: Of the present kernel.
            recent: Addresses that were used before.
        """
        super().__init__()
        self._info = info
        self._recent = recent
        self._current = current_kernel(info)
        self._choices: Sequence[KernelChoice] = (self._current,)

    def on_mount(self) -> None:
        self.show_count("looking…")
        find = partial(other_kernels, self._info, self._recent)
        Fetcher(self).run("kernels", find, self._show, self._show_problem)

    def _show(self, choices: Iterable[KernelChoice]) -> None:
        current = self._current
        others = [
            choice
            for choice in choices
            if (choice.kind, choice.name) != (current.kind, current.name)
        ]
        self._choices = [current, *others]
        self.show_count("")
        self.fill()

    def _show_problem(self, sentence: str) -> None:
        """Say that other kernels could not be found."""
        self.show_count("")
        self.show_status(f"The list is not complete. {sentence}")

    def find_rows(self, typed: str) -> Sequence[KernelChoice]:
        matches = [
            choice
            for choice in self._choices
            if matches_words(typed, f"{choice.name} {choice.about}")
        ]
        if typed and all(choice.name != typed for choice in self._choices):
            matches.append(KernelChoice("address", typed, "as typed"))
        return matches

    def line(self, row: KernelChoice, width: int) -> Content:
        return Content.assemble(
            CURRENT_MARK if row == self._current else NO_MARK,
            f"{plain(one_line(row.name)):<{_KERNEL_WIDTH}} ",
            (plain(one_line(row.about)), "$muted"),
        )

    def describe(self, row: KernelChoice | None) -> Content:
        return Content("" if row is None else plain(row.about))

    def choose(self, row: KernelChoice) -> None:
        if row == self._current:
            self.show_status("This kernel is in use.")
        else:
            self.dismiss(row)
