"""The base of all screens that cover the panes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from mahtab_tui.tui.textual_fixes.removable import removable

Answer = TypeVar("Answer")


@removable
class Dialog(ModalScreen[ScreenResultType]):
    """A screen over the others.

    A dialog is answered once: `dismiss` ignores later keys of the same burst, so that they cannot
    close the screen below.
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


def ask(app: App[Any], dialog: Dialog[Answer | None], then: Callable[[Answer], object]) -> None:
    """Show a dialog, and call `then` with its answer, if the user gives one."""

    def answered(answer: Answer | None) -> None:
        if answer is not None:
            then(answer)

    app.push_screen(dialog, answered)


class TextDialog(Dialog[None]):
    """A heading over a text that scrolls; commands may open other screens over it."""

    asks = False
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "leave", "Close")]

    def __init__(self, heading: str, text: str = "", *, id: str) -> None:
        """id: of the text."""
        super().__init__()
        self.heading = Static(heading, classes="quiet", markup=False)
        self.text = Static(text, id=id, markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield self.heading
            with VerticalScroll():
                yield self.text
