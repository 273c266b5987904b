"""Workarounds for Textual's option list and command palette."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.errors import NoWidget
from textual.events import Click, Event, InputEvent, Mount, Resize, Timer
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList

from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.theme import get_palette


class Options(OptionList):
    """Ignores clicks on a removed option that is still drawn; Textual would fail to look it up."""

    async def _on_click(self, event: Click) -> None:
        option = event.style.meta.get("option")
        if option is not None and option >= self.option_count:
            event.prevent_default()

    def render_line(self, y: int) -> Strip:
        """Draw muted text of the row at the cursor in the row's colour, because grey is unreadable
        on its background."""
        strip = super().render_line(y)
        lines, at = self._lines, self.scroll_offset.y + y
        if not 0 <= at < len(lines) or lines[at][0] != self.highlighted:
            return strip
        muted = get_palette(self.app).muted.color
        plain = Style(color=self.get_component_rich_style("option-list--option-highlighted").color)
        quiet = (style is not None and style.color == muted for _, style, _ in strip)
        return Strip(
            [
                Segment(text, (style or Style.null()) + plain) if is_quiet else Segment(text, style)
                for (text, style, _), is_quiet in zip(strip, quiet, strict=True)
            ],
            strip.cell_length,
        )


class SafeCommandPalette(CommandPalette):
    """Closes only once, and ignores keys and clicks that arrive afterwards."""

    asks: ClassVar[bool] = True
    """See `Dialog.asks`."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done

    def _on_click(self, event: Click) -> None:  # type: ignore[override]
        event.prevent_default()  # Textual's own handler is called below
        with suppress(NoWidget):  # the click is outside a screen that just became smaller
            super()._on_click(event)

    def _action_command_list(self, action: str) -> None:
        if action.startswith("page") and not self.query_one(CommandList).size:
            return  # Textual raises for a list that has no size
        super()._action_command_list(action)

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()

    async def _watch__show_busy(self) -> None:
        if self.query(CommandList):
            await super()._watch__show_busy()


W = TypeVar("W", bound=Widget)


def ignores_removed(widget_class: type[W]) -> type[W]:
    """Make a widget class ignore events and refreshes while its instances are being removed.

    Textual still mounts, resizes and ticks such a widget, although its children may be gone, or may
    never have been mounted.
    """
    on_event, call_after_refresh = widget_class.on_event, widget_class.call_after_refresh

    async def guarded_on_event(self: W, event: Event) -> None:
        if not (is_being_removed(self) and isinstance(event, Mount | Resize | Timer | InputEvent)):
            await on_event(self, event)

    def guarded_call_after_refresh(
        self: W, callback: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        def call() -> Any:
            return None if is_being_removed(self) else callback(*args, **kwargs)

        return call_after_refresh(self, call)

    widget_class.on_event = guarded_on_event  # type: ignore[method-assign, assignment]
    widget_class.call_after_refresh = guarded_call_after_refresh  # type: ignore[method-assign, assignment]
    return widget_class
