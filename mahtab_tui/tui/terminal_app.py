"""What every application of ours has that takes over a terminal: the gate to it, keys that cannot break it, and a report when it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from textual.app import App, ScreenError
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.crash import Crash, kept
from mahtab_tui.tui.gate import TextOnly
from mahtab_tui.tui.typed_ahead import TypedAheadDriver

T = TypeVar("T")


class TerminalApp(App[T]):
    """Draws text only, reads keys by `TypedAheadDriver`, and keeps the traceback of an error that ends it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.crash: Crash | None = None
        """The error that has ended it."""
        self._text_only = TextOnly()

    def mask(self, text: str) -> str:
        """A text without what no report may hold."""
        return text

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TypedAheadDriver if driver is LinuxDriver else driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._text_only]

    def notify(self, message: str, *, title: str = "", **kwargs: Any) -> None:
        super().notify(plain(message), title=plain(title), **kwargs)

    def _handle_exception(self, error: Exception) -> None:
        if self._exit and isinstance(getattr(error, "error", error), NoMatches | ScreenError):  # also one that a `WorkerFailed` is about
            return  # while it is left its parts go, and what still came to one finds the others gone
        if self.crash is None:
            self.crash = kept(error, self.mask)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Nothing is printed yet: Textual would print the values of variables, and keys may be among them."""
        self._close_messages_no_wait()
