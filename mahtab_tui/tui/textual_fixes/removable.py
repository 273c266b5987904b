"""Widgets that are taken away while something for them is still on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.events import Event, InputEvent, Mount, Resize, Timer
from textual.widget import Widget


class Removable(Widget):
    """Once it is to be taken away it begins and draws nothing any more: of what it is composed of, nothing may ever have come."""

    @property
    def leaves(self) -> bool:
        """Whether it is about to be taken away, by itself or with the whole application."""
        return self._pruning or self._closing or self.app._exit

    async def on_event(self, event: Event) -> None:
        if not (self.leaves and isinstance(event, Mount | Resize | Timer | InputEvent)):
            await super().on_event(event)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """As every widget does it, unless it leaves before."""

        def call() -> Any:
            return None if self.leaves else callback(*args, **kwargs)

        return super().call_after_refresh(call)
