"""A screen over the others."""

from __future__ import annotations

from typing import ClassVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType

from mahtab_tui.tui.textual_fixes.removable import Removable


class Dialog(ModalScreen[ScreenResultType], Removable):
    """It is answered once: further keys of the same bunch find it gone, and must not close what is under it."""

    asks: ClassVar[bool] = True
    """Whether it waits for an answer, so that no command opens anything over it."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done
