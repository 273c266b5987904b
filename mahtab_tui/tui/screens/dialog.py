"""The base of all screens that cover the panes."""

from __future__ import annotations

from typing import ClassVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType

from mahtab_tui.tui.textual_fixes.removable import removable


@removable
class Dialog(ModalScreen[ScreenResultType]):
    """A screen over the others.

    A dialog is answered once: `dismiss` ignores later keys of the same burst, so that they cannot close the screen below.
    """

    asks: ClassVar[bool] = True
    """Whether it waits for an answer, so that no command opens anything over it."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done

    def action_leave(self) -> None:
        """Close without an answer."""
        self.dismiss(None)
