"""The base class of all screens over the panes, and their box."""

from __future__ import annotations

from typing import ClassVar

from textual.await_complete import AwaitComplete
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.textual_fixes import ignores_removed


@ignores_removed
class Dialog(ModalScreen[ScreenResultType]):
    """Answered only once: later keys of the same burst cannot close the screen below."""

    asks: ClassVar[bool] = True
    """Whether no command may open anything on top of it."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        nothing: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return nothing

    def action_leave(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


def dialog_box(title: str, classes: str) -> Vertical:
    """Return the box of a dialog, with a title in its border."""
    box = Vertical(classes=f"dialog {classes}")
    # As `Content`, because Textual would read markup in a string.
    box.border_title = Content(one_line(title))
    return box
