"""The first screen, and lines that are offered: what to install, which other Python there is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.base import KernelInfo
from mahtab_tui.kernel.environments import Found, found_environments
from mahtab_tui.tui.offers import Offer, missing_module, offer_for, welcome_of
from mahtab_tui.tui.panes.editor import EditorPane
from mahtab_tui.tui.panes.transcript import TranscriptPane

if TYPE_CHECKING:
    from mahtab_tui.session import Session

KEY = "Alt+I"


class OfferActions(App[int]):
    """Looks for what could be offered on threads: folders may be slow."""

    session: Session
    offer: Offer | None = None
    """The newest one."""
    module_lacked = ""
    """What the newest failed import wanted."""

    def greet(self) -> None:
        """Say on an empty screen what this is, and, once the kernel is ready, which Python it has."""
        self._say_greeting()
        self.session.ready.add_done_callback(self._greet_kernel)

    def fold_offers(self, records: Sequence[Record]) -> None:
        """Offer what a cell has lacked."""
        if module := missing_module(records):
            self.module_lacked = module
            threading.Thread(target=self._look_for, args=(module,), name="offer", daemon=True).start()

    def action_take_offer(self) -> None:
        """Put the newest offered line into the input; entering it is the person's."""
        editor = self.screen_stack[0].query_one(EditorPane)
        if self.offer is None:
            self.notify(
                "There is nothing to offer. After a failed import this key puts the line that installs the package into the input.", markup=False
            )
        elif not editor.is_empty:
            self.notify(f"The input holds something: clear it, then {KEY} puts {self.offer.line} there.", severity="warning", markup=False)
        else:
            editor.mode, editor.text = self.offer.mode, self.offer.line
            editor.focus()

    def _greet_kernel(self, ready: Future[bool]) -> None:
        threading.Thread(target=self._look_around, args=(ready.result(),), name="welcome", daemon=True).start()

    def _look_around(self, pandas: bool) -> None:
        info = self.session.kernel.info()
        runs, offer = welcome_of(info.python, info.executable, self._environments(info), pandas=pandas)
        self._from_thread(lambda: self._say_greeting(runs, offer))

    def _look_for(self, module: str) -> None:
        info = self.session.kernel.info()
        offer = offer_for(module, self._environments(info))
        self._from_thread(lambda: self._offer(offer) if module == self.module_lacked else None)

    @staticmethod
    def _environments(info: KernelInfo) -> list[Found]:
        """Those that the kernel could go to; one in the caller's own process cannot."""
        return [] if info.pid == os.getpid() else found_environments(Path(info.cwd), info.executable)

    def _from_thread(self, then: Callable[[], None]) -> None:
        if self.is_running:
            self.call_from_thread(then)

    def _offer(self, offer: Offer) -> None:
        self.offer = offer
        self.session.notice(one_line(f"{offer.why}. {KEY} puts {offer.line} into the input."))

    def _say_greeting(self, runs: str = "", offer: Offer | None = None) -> None:
        self.offer = offer or self.offer
        lines = [
            ("◐", "One Python namespace, shared by you and a language model."),
            ("`", "at the start of the line turns from Python to asking, and back."),
            ("F1", "shows all keys."),
            ("Data", "mahtab-tui data.csv, mahtab-tui FOLDER. Here: %cd FOLDER"),
        ]
        if self.session.model == "demo":
            lines.append(("Model", "demo, by rules only. /model in Ask shows how to get a real one."))
        if runs:
            lines.append(("Python", one_line(f"{runs}{f'. {KEY}: {offer.line}' if offer else ''}")))
        self.screen_stack[0].query_one(TranscriptPane).greeting = tuple(lines)
